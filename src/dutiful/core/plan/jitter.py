"""When a tick fires: its own instant, moved by a hash so that every node and restart agrees."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from dutiful.core.cadence import Every, counts_from_completion, last_tick, next_tick

if TYPE_CHECKING:
    from dutiful.core.cadence import Cadence, Instant
    from dutiful.core.schedule import Schedule


def fire_time(schedule: Schedule, tick: Instant, ended_at: Instant | None = None) -> Instant:
    """Return the instant at which `tick` fires.

    It stays within half the way to the neighbouring ticks, so that ticks fire in their own order. The first
    tick of a period counted from completion has no jitter: nothing has ended yet (`ended_at` is None), and
    such a schedule is to run at once.
    """
    jitter = schedule.policy.jitter
    if not jitter or (ended_at is None and counts_from_completion(schedule.cadence)):
        return tick
    early, late = jitter if schedule.policy.jitter_early else 0, jitter
    before, after = _neighbours(schedule.cadence, tick, 2 * jitter + 2)
    if before is not None:
        early = min(early, (tick - before - 1) // 2)
    if after is not None:
        late = min(late, (after - tick - 1) // 2)
    return tick - early + _uniform(schedule.id, tick) % (early + late + 1)


def _neighbours(cadence: Cadence, tick: Instant, reach: int) -> tuple[Instant | None, Instant | None]:
    """Return the ticks next to this one; the earlier one only if it is within reach."""
    if isinstance(cadence, Every):
        return tick - cadence.period, tick + cadence.period
    return last_tick(cadence, tick - reach, tick - 1), next_tick(cadence, tick)


def _uniform(schedule_id: str, tick: Instant) -> int:
    return int.from_bytes(hashlib.sha256(f"jitter:{schedule_id}:{tick}".encode()).digest()[:8])
