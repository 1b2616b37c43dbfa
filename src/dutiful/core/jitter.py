"""When a tick fires: its own instant, moved by a hash so that every node and restart agrees."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from dutiful.core.cadence import last_tick, next_tick

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.schedule import Schedule


def fire_time(schedule: Schedule, tick: Instant) -> Instant:
    """Return the instant at which `tick` fires.

    It stays within half the way to the neighbouring ticks, so that ticks fire in their own order.
    """
    jitter = schedule.policy.jitter
    if not jitter:
        return tick
    early, late = jitter if schedule.policy.jitter_early else 0, jitter
    before = last_tick(schedule.cadence, tick - 2 * jitter - 2, tick - 1) if early else None
    after = next_tick(schedule.cadence, tick)
    if before is not None:
        early = min(early, (tick - before - 1) // 2)
    if after is not None:
        late = min(late, (after - tick - 1) // 2)
    return tick - early + _uniform(schedule.id, tick) % (early + late + 1)


def _uniform(schedule_id: str, tick: Instant) -> int:
    return int.from_bytes(hashlib.sha256(f"jitter:{schedule_id}:{tick}".encode()).digest()[:8])
