"""Ticks that come again because the clock was set back by days: what is on record of them stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.cadence import Cadence, Every, count_ticks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dutiful.core.cadence import Instant
    from dutiful.core.run import Run
    from dutiful.core.schedule import Schedule, State


def may_repeat(schedule: Schedule, state: State) -> bool:
    """Return whether ticks after the cursor may have entries; a period has other ticks the second time."""
    again = state.decided_until > state.cursor
    return again and schedule.policy.ledger and not isinstance(schedule.cadence, Every)


def recorded(
    cadence: Cadence, rows: Iterable[Run], after: Instant, last: Instant
) -> list[tuple[Instant, Instant]]:
    """Return the first and the last tick of each row that has some in (after, last], oldest first."""
    spans = [_span(cadence, row) for row in rows if row.kind == "schedule"]
    return sorted(span for span in spans if span is not None and span[1] > after and span[0] <= last)


def _span(cadence: Cadence, row: Run) -> tuple[Instant, Instant] | None:
    """Return the ticks that a row covers; of another cadence's stretch only the one that it begins with."""
    if not _is_tick(cadence, row.run_at):
        return None
    until = row.run_until or row.run_at
    fits = _is_tick(cadence, until) and count_ticks(cadence, row.run_at - 1, until) == row.ticks
    return row.run_at, until if fits else row.run_at


def _is_tick(cadence: Cadence, at: Instant) -> bool:
    return count_ticks(cadence, at - 1, at) == 1
