"""Where a schedule begins: at its window's start, if it has one, and at its first tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.cadence import Every, next_tick
from dutiful.core.plan.jitter import fire_time

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.schedule import Schedule, State


def opening_cursor(schedule: Schedule, cursor: Instant, until: Instant | None = None) -> Instant:
    """Return the cursor, moved up to the window's start, but not beyond `until`; a period keeps its beat."""
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
    """Return when a schedule without open runs wants to be looked at."""
    tick = next_tick(schedule.cadence, opening_cursor(schedule, state.cursor), state.ended_at)
    end = schedule.window.end
    return (
        None
        if tick is None or (end is not None and tick > end)
        else fire_time(schedule, tick, state.ended_at)
    )
