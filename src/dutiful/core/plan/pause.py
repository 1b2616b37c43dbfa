"""The end of a pause that has an end: the schedule is resumed as a user would resume it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.changes import Changes, Note, Put
from dutiful.core.errors import DutifulError
from dutiful.core.plan.edit import edited

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.schedule import Schedule
    from dutiful.core.snapshot import Snapshot


def paused_until(schedule: Schedule, until: Instant | None) -> Schedule:
    """Return the schedule, paused until this instant, or until a user resumes it."""
    return schedule._replace(paused=True, pause_until=until)


def resumed(schedule: Schedule) -> Schedule:
    """Return the schedule, not paused."""
    return schedule._replace(paused=False, pause_until=None)


def pause_has_ended(schedule: Schedule, now: Instant) -> bool:
    """Return whether the schedule is stored as paused although its pause has ended."""
    return schedule.pause_until is not None and schedule.pause_until <= now


def end_of_pause(due: Snapshot, now: Instant) -> Changes | None:
    """Return the changes that resume a schedule whose pause has ended; None where it has not.

    The changes are dated one millisecond before the end of the pause, however late they are made: earlier
    ticks were paused, and the tick at the end of the pause and later ones are owed.
    """
    until = due.schedule.pause_until
    if until is None or until > now:
        return None
    schedule = resumed(due.schedule)
    try:
        changes = edited(due, schedule, until - 1)
    except (DutifulError, ArithmeticError, LookupError, TypeError, ValueError):
        # A schedule that cannot be computed stays quarantined: the planner finds the same error.
        changes = Changes([Put(schedule, due.state, now, due.version)])
    return changes._replace(notes=[(schedule.id, Note(until))])
