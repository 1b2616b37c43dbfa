"""Recovery after a clock that was ahead has been set back: state and open runs return to the present.

Ticks between now and the old cursor come again. Rows of ticks that were already decided stay as they are, and
those ticks get no second row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.cadence import Cadence, Every, count_ticks, next_tick
from dutiful.core.run import IN_FLIGHT, Phase, Run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dutiful.core.cadence import Instant
    from dutiful.core.schedule import Schedule, State
    from dutiful.core.snapshot import Snapshot


class Rearmed(NamedTuple):
    """A schedule's state and its open runs, moved back to the present; the runs keep their order."""

    state: State
    runs: list[Run]


def rearmed(due: Snapshot, now: Instant, beyond: int) -> Rearmed | None:
    """Return the schedule as it continues from `now`; None unless it was more than `beyond` ms ahead.

    The rows of the schedule stay, so a tick that has run does not run again. Only instants read from a clock
    count as ahead: a retry may well be planned for the day after tomorrow.
    """
    said = [due.state.cursor, due.state.ended_at or 0, *map(_said_at, due.runs)]
    if max(said) <= now + beyond:
        return None
    return Rearmed(_state(due, now, beyond), [_run(run, now) for run in due.runs])


def _said_at(run: Run) -> Instant:
    """Return the latest instant in the row of an open run that was read from a clock."""
    if run.phase is Phase.RETRY:
        return run.ended_at or 0
    # A queued or delayed run has a fire time near the clock that set it; a retry may be far ahead of it.
    return (run.started_at or 0) if run.phase in IN_FLIGHT else run.fire_at


def _state(due: Snapshot, now: Instant, beyond: int) -> State:
    state = due.state
    if state.cursor > now + beyond:
        # Pruned ticks stay decided: no row is left that could show whether they ran.
        cursor, decided = max(now, due.pruned_until), max(state.cursor, state.decided_until)
        state = state._replace(cursor=cursor, skipped=None, decided_until=decided)
    return state._replace(
        attempted_at=_not_after(now, state.attempted_at),
        succeeded_at=_not_after(now, state.succeeded_at),
        failed_at=_not_after(now, state.failed_at),
        ended_at=_not_after(now, state.ended_at),
    )


def _run(run: Run, now: Instant) -> Run:
    ahead = max(0, _said_at(run) - now)
    return run._replace(
        fire_at=run.fire_at - ahead,
        started_at=None if run.started_at is None else run.started_at - ahead,
        ended_at=None if run.ended_at is None else run.ended_at - ahead,
    )


def _not_after(now: Instant, instant: Instant | None) -> Instant | None:
    return None if instant is None else min(instant, now)


def may_repeat(schedule: Schedule, state: State) -> bool:
    """Return whether ticks after the cursor may already have rows; a period gets new ticks instead."""
    again = state.decided_until > state.cursor
    return again and schedule.policy.ledger and not isinstance(schedule.cadence, Every)


def recorded(
    cadence: Cadence, rows: Iterable[Run], after: Instant, last: Instant
) -> list[tuple[Instant, Instant]]:
    """Return the first and last tick of each row that covers a tick in (after, last], oldest first."""
    spans = [_span(cadence, row) for row in rows if row.kind == "schedule"]
    return sorted(span for span in spans if span is not None and span[1] > after and span[0] <= last)


def past_recorded(due: Snapshot) -> State:
    """Return the state as if the ticks that come again, and that have rows, had been passed already."""
    cursor = due.state.cursor
    for first, last in recorded(due.schedule.cadence, due.repeated, cursor, due.state.decided_until):
        tick = next_tick(due.schedule.cadence, cursor)
        if tick is not None and tick < first:
            break
        cursor = max(cursor, last)
    return due.state._replace(cursor=cursor)


def _span(cadence: Cadence, row: Run) -> tuple[Instant, Instant] | None:
    """Return the ticks that a row covers; for a range recorded under another cadence, only its first tick."""
    if not _is_tick(cadence, row.run_at):
        return None
    until = row.run_until or row.run_at
    fits = _is_tick(cadence, until) and count_ticks(cadence, row.run_at - 1, until) == row.ticks
    return row.run_at, until if fits else row.run_at


def _is_tick(cadence: Cadence, at: Instant) -> bool:
    return count_ticks(cadence, at - 1, at) == 1
