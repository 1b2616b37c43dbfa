"""A schedule that is stored, new or in place of another: which ticks it owes, and what becomes of older ones.

An edit owns the ticks after it. It never makes a past tick due, and never drops one that is owed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.cadence import Every, last_tick
from dutiful.core.errors import DutifulError
from dutiful.core.plan.draft import Draft
from dutiful.core.plan.fire_times import first_wake
from dutiful.core.plan.planner import hold_owed_ticks
from dutiful.core.plan.reconcile import Changes, Put
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
    """Return the changes that store a schedule, new or in place of what is there, from `now` on."""
    return Changes([arm(schedule, now)]) if known is None else edited(known, schedule, now)


def edited(due: Snapshot, schedule: Schedule, now: Instant) -> Changes:
    """Return the changes that put `schedule` in place of what is stored, from `now` on."""
    state, rows = due.state, list[Run]()
    if schedule != due.schedule:
        moved = _moves_ticks(due, schedule)
        state, rows = _account(due, schedule, now, moved)
        cursor = _edited_cursor(due.schedule, schedule, state.cursor, now, moved)
        state = state._replace(cursor=cursor, skipped=None if moved else state.skipped)
    # Editing is also how a quarantined schedule gets another chance.
    state = state._replace(quarantine=None)
    has_runs = due.runs or any(row.phase is not Phase.ENDED for row in rows)
    wake_at = now if has_runs else first_wake(schedule, state)
    return Changes([Put(schedule, state, wake_at, due.version)], rows=rows)


def accounted(due: Snapshot, now: Instant) -> Changes | None:
    """Return the changes that write down the passed ticks of a schedule that may not run; None for none.

    A paused schedule writes its ticks down in lots, and one that has reached its limit is not looked at.
    """
    draft = Draft(due, now, Limits(), {})
    last, reason = draft.last_due(now), _why_not_owed(draft)
    if last is None or reason is None or draft.from_completion:
        return None
    draft.skip_through(last, reason)
    move = draft.move()
    put = Put(due.schedule, move.state, move.wake_at, due.version)
    return Changes([put], rows=[*move.inserts, *move.changes])


def _fresh_cursor(schedule: Schedule, now: Instant) -> Instant:
    return now - schedule.cadence.period if isinstance(schedule.cadence, Every) else now


def _moves_ticks(due: Snapshot, new: Schedule) -> bool:
    """Return whether the edit gives the schedule other ticks than it has now."""
    draft = Draft(due, 0, Limits(), {})
    # The one tick of a period counted from completion is none once the limit is reached.
    ended = draft.from_completion and draft.limit_reached()
    return ended or (new.cadence, new.window) != (due.schedule.cadence, due.schedule.window)


def _account(due: Snapshot, new: Schedule, now: Instant, moved: bool) -> tuple[State, list[Run]]:
    """Return the state after, and the rows for, the passed ticks that the edit would otherwise change."""
    draft = Draft(due, now, Limits(), {})
    try:
        reason, last = _why_not_owed(draft), _last_passed(draft, now, moved)
        if last is not None and reason is not None:
            draft.skip_through(last, reason)
        elif last is not None and (moved or _catches_up_otherwise(due.schedule.policy, new.policy)):
            hold_owed_ticks(draft, last)
        move = draft.move()
    except (DutifulError, ArithmeticError, LookupError, TypeError, ValueError):
        # A schedule that cannot be computed is quarantined for it: it has no ticks to account for.
        return due.state, []
    return move.state, [*move.inserts, *move.changes]


def _catches_up_otherwise(old: Policy, new: Policy) -> bool:
    """Return whether passed ticks would be judged otherwise than under the policy under which they passed."""
    return (old.catch_up, old.grace, old.catch_up_cap) != (new.catch_up, new.grace, new.catch_up_cap)


def _why_not_owed(draft: Draft) -> Reason | None:
    """Return why the passed ticks of a schedule do not run; None where they are owed."""
    if draft.state.quarantine is not None:
        return Reason.QUARANTINED
    if draft.schedule.paused:
        return Reason.PAUSED
    return Reason.LIMIT_REACHED if draft.limit_reached() else None


def _last_passed(draft: Draft, now: Instant, moved: bool) -> Instant | None:
    """Return the last tick that the old schedule still has to account for."""
    waits = draft.waits_for_run() and (draft.from_completion or not (moved or draft.schedule.paused))
    if waits or (draft.from_completion and not moved):
        # A tick that waits for a run in flight goes on waiting for it. A period counted from completion has
        # one tick at a time, which stays due.
        return None
    last, end = draft.last_due(now), draft.schedule.window.end
    if not moved:
        return last
    # A tick that jitter holds back beyond this edit is not left to the new schedule either.
    nominal = last_tick(draft.cadence, draft.cursor, now if end is None else min(now, end), draft.ended_at)
    return max((tick for tick in (last, nominal) if tick is not None), default=None)


def _edited_cursor(old: Schedule, new: Schedule, cursor: Instant, now: Instant, moved: bool) -> Instant:
    """Return from where an edited schedule goes on; it owes no more before `now` than a new one."""
    cadence = new.cadence
    if not moved:
        return cursor
    if isinstance(cadence, Every) and cadence.anchor == "completion":
        return max(cursor, _fresh_cursor(new, now))
    if isinstance(cadence, Every) and cadence == old.cadence:
        # It keeps its beat.
        return last_tick(cadence, cursor, now) or cursor
    return max(cursor, _fresh_cursor(new, now))
