"""Edits: which ticks a new or replaced schedule owes, and what happens to older ticks.

An edit governs the ticks after it. It never makes a past tick due, and never drops a tick that is owed. To
pause or resume a schedule is an edit, also where a pause ends by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.cadence import Every, last_tick
from dutiful.core.changes import Changes, Note, Put
from dutiful.core.errors import DutifulError
from dutiful.core.plan.draft import Draft
from dutiful.core.plan.jitter import first_wake
from dutiful.core.plan.planner import hold_owed_ticks
from dutiful.core.policy import Reason
from dutiful.core.run import Phase, Run
from dutiful.core.schedule import State
from dutiful.core.snapshot import Limits

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.policy import Policy
    from dutiful.core.schedule import Schedule
    from dutiful.core.snapshot import Snapshot


def arm(schedule: Schedule, now: Instant) -> Put:
    """Return a new schedule that owes nothing before `now`; a period runs at once."""
    state = State(cursor=_fresh_cursor(schedule, now))
    return Put(schedule, state, first_wake(schedule, state), 0)


def upserted(known: Snapshot | None, schedule: Schedule, now: Instant) -> Changes:
    """Return the changes that store a schedule, new or in place of the stored one, from `now` on."""
    return Changes([arm(schedule, now)]) if known is None else edited(known, schedule, now)


def edited(due: Snapshot, schedule: Schedule, now: Instant) -> Changes:
    """Return the changes that replace the stored schedule by `schedule`, from `now` on."""
    state, rows = due.state, list[Run]()
    if schedule != due.schedule:
        moved = _moves_ticks(due, schedule)
        state, rows = _account(due, schedule, now, moved)
        cursor = _edited_cursor(due.schedule, schedule, state.cursor, now, moved)
        state = state._replace(cursor=cursor, skipped=None if moved else state.skipped)
    # An edit lifts a quarantine: the new cadence may be computable.
    state = state._replace(quarantine=None)
    has_runs = due.runs or any(row.phase is not Phase.ENDED for row in rows)
    wake_at = now if has_runs else first_wake(schedule, state)
    return Changes([Put(schedule, state, wake_at, due.version)], rows=rows)


def accounted(due: Snapshot, now: Instant) -> Changes | None:
    """Return the changes that record the passed ticks of a schedule that may not run; None if there are none.

    A paused schedule records its skipped ticks now and then, and a schedule that has reached its limit is
    never woken, so the cursor of either may be behind `now`.
    """
    draft = Draft(due, now, Limits(), {})
    last, reason = draft.last_due(now), _why_not_owed(draft)
    if last is None or reason is None or draft.from_completion:
        return None
    draft.skip_through(last, reason)
    move = draft.move()
    put = Put(due.schedule, move.state, move.wake_at, due.version)
    return Changes([put], rows=[*move.inserts, *move.changes])


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


def _fresh_cursor(schedule: Schedule, now: Instant) -> Instant:
    return now - schedule.cadence.period if isinstance(schedule.cadence, Every) else now


def _moves_ticks(due: Snapshot, new: Schedule) -> bool:
    """Return whether the edit gives the schedule other ticks than it has now."""
    draft = Draft(due, 0, Limits(), {})
    # After the limit is reached, the one tick of a period counted from completion no longer exists.
    ended = draft.from_completion and draft.limit_reached()
    return ended or (new.cadence, new.window) != (due.schedule.cadence, due.schedule.window)


def _account(due: Snapshot, new: Schedule, now: Instant, moved: bool) -> tuple[State, list[Run]]:
    """Return the new state and the rows for passed ticks whose treatment the edit would otherwise change."""
    draft = Draft(due, now, Limits(), {})
    try:
        reason, last = _why_not_owed(draft), _last_passed(draft, now, moved)
        if last is not None and reason is not None:
            draft.skip_through(last, reason)
        elif last is not None and (moved or _catches_up_otherwise(due.schedule.policy, new.policy)):
            hold_owed_ticks(draft, last)
        move = draft.move()
    except (DutifulError, ArithmeticError, LookupError, TypeError, ValueError):
        # A schedule that cannot be computed is quarantined, and has no ticks to account for.
        return due.state, []
    return move.state, [*move.inserts, *move.changes]


def _catches_up_otherwise(old: Policy, new: Policy) -> bool:
    """Return whether the new policy treats passed ticks differently from the old policy."""
    return (old.catch_up, old.grace, old.catch_up_cap) != (new.catch_up, new.grace, new.catch_up_cap)


def _why_not_owed(draft: Draft) -> Reason | None:
    """Return why the passed ticks of a schedule do not run; None where they are owed."""
    if draft.state.quarantine is not None:
        return Reason.QUARANTINED
    if draft.schedule.paused:
        return Reason.PAUSED
    return Reason.LIMIT_REACHED if draft.limit_reached() else None


def _last_passed(draft: Draft, now: Instant, moved: bool) -> Instant | None:
    """Return the last passed tick that has to be decided under the old schedule."""
    waits = draft.waits_for_run() and (draft.from_completion or not (moved or draft.schedule.paused))
    if waits or (draft.from_completion and not moved):
        # A tick that waits for a run in flight keeps waiting. A period counted from completion has one tick
        # at a time, which stays due.
        return None
    last, end = draft.last_due(now), draft.schedule.window.end
    if not moved:
        return last
    # A tick that jitter delays past this edit still belongs to the old schedule.
    nominal = last_tick(draft.cadence, draft.cursor, now if end is None else min(now, end), draft.ended_at)
    return max((tick for tick in (last, nominal) if tick is not None), default=None)


def _edited_cursor(old: Schedule, new: Schedule, cursor: Instant, now: Instant, moved: bool) -> Instant:
    """Return the cursor of an edited schedule; it owes no more before `now` than a new schedule."""
    cadence = new.cadence
    if not moved:
        return cursor
    if isinstance(cadence, Every) and cadence.anchor == "completion":
        return max(cursor, _fresh_cursor(new, now))
    if isinstance(cadence, Every) and cadence == old.cadence:
        # The unchanged period keeps its phase: continue from its last tick.
        return last_tick(cadence, cursor, now) or cursor
    return max(cursor, _fresh_cursor(new, now))
