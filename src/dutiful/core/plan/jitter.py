"""When ticks fire: the jitter, a hash on which every node agrees, and the first tick of a window."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from dutiful.core.cadence import Every, counts_from_completion, last_tick, next_tick

if TYPE_CHECKING:
    from dutiful.core.cadence import Cadence, Instant
    from dutiful.core.schedule import Schedule, State


def fire_time(schedule: Schedule, tick: Instant, ended_at: Instant | None = None) -> Instant:
    """Return the instant at which `tick` fires.

    Jitter moves a tick at most half-way to its neighbours, so that ticks fire in order. The first tick of a
    period counted from completion has no jitter: no run has ended (`ended_at` is None), and such a schedule
    runs at once.
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


def opening_cursor(schedule: Schedule, cursor: Instant, until: Instant | None = None) -> Instant:
    """Return the cursor, moved up to the window's start but not beyond `until`; a period keeps its phase."""
    start = schedule.window.start
    if start is not None and until is not None:
        start = min(start, until + 1)
    if start is None or start - 1 <= cursor:
        return cursor
    if not isinstance(schedule.cadence, Every):
        return start - 1
    period = schedule.cadence.period
    if schedule.cadence.anchor == "completion":
        return max(cursor, start - period)
    return cursor + (start - 1 - cursor) // period * period


def first_wake(schedule: Schedule, state: State) -> Instant | None:
    """Return when to look at a schedule without open runs for the first time."""
    tick = next_tick(schedule.cadence, opening_cursor(schedule, state.cursor), state.ended_at)
    end = schedule.window.end
    if tick is None or (end is not None and tick > end):
        return schedule.pause_until
    return not_after_pause(schedule, fire_time(schedule, tick, state.ended_at))


def not_after_pause(schedule: Schedule, wake_at: Instant | None) -> Instant | None:
    """Return when to look at a schedule: at `wake_at`, or before it at the end of its pause."""
    until = schedule.pause_until
    return wake_at if until is None else until if wake_at is None else min(wake_at, until)
