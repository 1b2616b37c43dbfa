"""The planner: (schedules, their state, now) -> a plan. A pure function, without clock and store.

For each schedule of a batch, `plan` returns one Move: which runs to launch, hold, skip or end, up to which
tick the schedule is then decided, and when to look at it again. The engine commits the moves as they are.
Read `decide_in_steps` first; the order of its steps is the meaning of the policies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, assert_never

from dutiful.core.errors import DutifulError
from dutiful.core.plan.draft import Draft, gives_way
from dutiful.core.plan.fast_path import single_tick_move
from dutiful.core.plan.jitter import fire_time, first_wake
from dutiful.core.plan.outcome import timed_out
from dutiful.core.policy import CatchUp, OnOrphan, Overlap, Reason
from dutiful.core.run import CANCEL_ASKED, IN_FLIGHT, OPEN, Phase, Run, Status
from dutiful.core.snapshot import Limits, Move, Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dutiful.core.cadence import Instant


# How many times an edit continues past the cap of a pass, before it records the remaining ticks as capped.
_HELD_ROUNDS = 10


class Batch(NamedTuple):
    """The planner's input: the due schedules, and the number of runs in flight per capacity group."""

    due: Sequence[Snapshot]
    used: Mapping[str, int]


def plan(batch: Batch, now: Instant, limits: Limits) -> list[Move]:
    """Return one move per schedule; a schedule that cannot be computed is quarantined without the others."""
    used, limits = dict(batch.used), limits._replace(stored=batch.used)
    return [_decide_or_quarantine(due, now, limits, used) for due in in_turn(batch.due)]


def in_turn(due: Sequence[Snapshot]) -> Sequence[Snapshot]:
    """Return the schedules in the order in which they get slots: the longest waiting first.

    A store wakes all schedules that wait for a slot at once, so their wake times do not show who waited
    longest. Manual runs come before ticks.
    """
    if len(due) == 1 or not any(each.blocked or each.runs for each in due):
        return due
    return sorted(due, key=_waits_since)


def _waits_since(due: Snapshot) -> float:
    waiting = [run.fire_at for run in due.runs if run.phase not in IN_FLIGHT]
    if not (waiting or due.blocked):
        return float("inf")
    if any(run.kind == "manual" and run.phase is Phase.DELAYED for run in due.runs):
        return -1
    try:
        tick = first_wake(due.schedule, due.state)
    except (DutifulError, ArithmeticError, LookupError, TypeError, ValueError):
        # `decide` will raise the same error, and quarantine the schedule.
        return 0
    return min(waiting if tick is None else [*waiting, tick], default=0)


def _decide_or_quarantine(due: Snapshot, now: Instant, limits: Limits, used: dict[str, int]) -> Move:
    if due.state.quarantine is not None:
        return Move(due, due.state, due.schedule.pause_until)
    try:
        return decide(due, now, limits, used)
    except (DutifulError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        quarantined = due.state._replace(quarantine=f"{type(error).__name__}: {error}")
        return Move(due, quarantined, due.schedule.pause_until)


def decide(due: Snapshot, now: Instant, limits: Limits, used: dict[str, int]) -> Move:
    """Return the move of one schedule, and update `used` for the next one."""
    return single_tick_move(due, now, limits) or decide_in_steps(due, now, limits, used)


def decide_in_steps(due: Snapshot, now: Instant, limits: Limits, used: dict[str, int]) -> Move:
    """Return the move of one schedule by the full sequence of steps."""
    draft = Draft(due, now, limits, used)
    if due.runs:
        end_cancelled_runs(draft)
        adopt_orphans(draft)
        if expire_lost_runs(draft):
            # Leave the retry, or the next tick, to the next pass, so that each failed attempt is recorded.
            draft.unfinished = True
            return draft.move()
        resume_waiting_runs(draft)
    take_ticks(draft)
    if due.runs:
        resume_backfill(draft)
        retry_failed_runs(draft)
    return draft.move()


def end_cancelled_runs(draft: Draft) -> None:
    """End the open runs that a user asked to cancel, also waiting ones; none of them is retried."""
    for run in draft.runs(*OPEN):
        if run.reason is CANCEL_ASKED:
            if run.phase in IN_FLIGHT:
                draft.cancels.append(run)
                draft.failed_at = draft.now
            draft.end(run, Status.FAILED, Reason.INTERRUPTED)


def adopt_orphans(draft: Draft) -> None:
    """Settle the runs that were in flight under an earlier epoch."""
    for run in draft.runs(*IN_FLIGHT):
        if run.epoch < draft.limits.epoch:
            _adopt(draft, run)


def _adopt(draft: Draft, run: Run) -> None:
    accepted = run.phase is Phase.ACCEPTED
    match draft.policy.on_orphan:
        case OnOrphan.RESTART:
            draft.launch_waiting(run)
            _serve_what_was_missed(draft)
        case OnOrphan.WAIT:
            # The next tick counts from the start of the interrupted run, as if it had ended then.
            draft.end(run, Status.FAILED, Reason.INTERRUPTED, ended_at=run.started_at)
        case OnOrphan.RELAUNCH if not accepted:
            draft.launch_waiting(run)
        case OnOrphan.GIVE_UP if not accepted:
            draft.end(run, Status.FAILED, Reason.OUTCOME_UNKNOWN)
        case OnOrphan.RELAUNCH | OnOrphan.GIVE_UP:
            pass  # The executor that accepted the run reports its end, or the timeout ends the run.
        case _:
            assert_never(draft.policy.on_orphan)


def _serve_what_was_missed(draft: Draft) -> None:
    """Skip the ticks that fell due since the orphan started: the restarted run replaces them."""
    last = draft.last_due(draft.now)
    if draft.launched and last is not None:
        draft.skip_through(last, Reason.COALESCED)


def expire_lost_runs(draft: Draft) -> bool:
    """End the runs in flight that outlived the timeout; otherwise `skip` could block a schedule for ever.

    Return whether one of them waits for a retry now.
    """
    retried = False
    for run in draft.runs(*IN_FLIGHT):
        expires_at = draft.expires_at(run)
        if expires_at is not None and expires_at <= draft.now:
            draft.cancels.append(run)
            if _runs_here(run) and draft.policy.retry is not None:
                became = timed_out(run, draft.policy, draft.now)
                draft.fail(became)
                retried = retried or became.phase is Phase.RETRY
            else:
                draft.end(run, Status.FAILED, Reason.LOST_RUN)
    return retried


def _runs_here(run: Run) -> bool:
    """Return whether the task of a run works in this process, so that cancelling the run stops the task."""
    return run.phase is Phase.LAUNCHED and run.status is Status.STARTED


def resume_waiting_runs(draft: Draft) -> None:
    """Launch waiting runs whose time or turn has come; overlap is judged now, not at their tick."""
    for run in draft.runs(Phase.QUEUED):
        if not draft.busy() and not draft.schedule.paused:
            draft.launch_waiting(run)
    for run in draft.runs(Phase.DELAYED):
        may_go = run.kind == "manual" or not draft.schedule.paused
        if run.fire_at <= draft.now and run.backfill is None and may_go:
            _resume_delayed(draft, run, draft.policy.overlap)


def resume_backfill(draft: Draft) -> None:
    """Launch due backfill runs, also while the schedule is paused, after the ticks of this pass."""
    for run in draft.runs(Phase.DELAYED):
        if run.fire_at <= draft.now and run.backfill is not None:
            _resume_delayed(draft, run, run.backfill)


def _resume_delayed(draft: Draft, run: Run, overlap: Overlap) -> None:
    queue = len(draft.runs(Phase.QUEUED))
    if run.kind == "manual" and overlap is Overlap.BUFFER_ONE and draft.busy():
        # `buffer_one` never runs two at a time: the end of the run in flight wakes this run.
        draft.blocked = True
    elif run.kind == "manual" or overlap is Overlap.ALLOW or not (draft.busy() or queue):
        draft.launch_waiting(run)
    elif overlap is Overlap.SKIP:
        draft.end(run, Status.SKIPPED, Reason.OVERLAP)
    elif overlap is Overlap.CANCEL_OTHER:
        _cancel_other_runs(draft)
        draft.launch_waiting(run)
    elif run.backfill is not None:
        pass  # The backfill run stays DELAYED, so that live ticks pass it in the queue.
    elif overlap is Overlap.QUEUE and queue >= draft.policy.queue_limit:
        draft.end(run, Status.SKIPPED, Reason.QUEUE_FULL)
    else:
        draft.change(run.to(Phase.QUEUED, updated_at=run.noted(draft.now)))


def hold_owed_ticks(draft: Draft, last: Instant) -> None:
    """Decide every tick up to `last` by the schedule's own catch-up, and hold those that may run.

    An edit that changes the ticks of a schedule does this first, so that it drops no tick that is owed.
    """
    draft.holds = True
    if draft.waits_for_run():
        # The newest tick would have run after the one in flight (`buffer_one`).
        draft.skip_before(last, Reason.REPLACED)
        offer(draft, last)
        return
    for _ in range(_HELD_ROUNDS):
        draft.unfinished = False
        _decide_ticks(draft, last)
        if not draft.unfinished:
            return
    draft.skip_through(last, Reason.CATCHUP_CAP)


def take_ticks(draft: Draft) -> None:
    """Decide every tick that has fallen due since the cursor."""
    last = draft.last_due(draft.now)
    if last is None:
        return
    if draft.schedule.paused and draft.from_completion:
        # A period counted from completion has one due tick; it stays due, and runs after the pause.
        return
    if draft.schedule.paused:
        draft.skip_through(last, Reason.PAUSED)
    elif draft.waits_for_run():
        draft.blocked = True
    else:
        _decide_ticks(draft, last)


def _decide_ticks(draft: Draft, last: Instant) -> None:
    _take_buffered(draft)
    _take_kept(draft, last)
    _catch_up(draft, last)
    _take_live(draft, last)


def _take_buffered(draft: Draft) -> None:
    """Reduce the ticks that fell due during the run that just ended to the newest one (`buffer_one`)."""
    if draft.policy.catch_up is CatchUp.LATEST and draft.grace() == 0:
        # Catch-up will reduce all due ticks to one run anyway, including ticks after the run's end.
        return
    if draft.policy.overlap is Overlap.BUFFER_ONE and draft.ended_at is not None:
        newest = draft.last_due(min(draft.ended_at, draft.now))
        if newest is not None:
            draft.skip_before(newest, Reason.REPLACED)
            offer(draft, newest)


def _take_kept(draft: Draft, last: Instant) -> None:
    """Offer the newest tick that waited for room; the ticks before it are skipped."""
    waited = draft.was_blocked and draft.policy.capacity is not None
    if waited and not draft.blocked and draft.cursor < last:
        draft.skip_before(last, Reason.AT_CAPACITY)
        offer(draft, last)


def _catch_up(draft: Draft, last: Instant) -> None:
    """Settle the ticks that are older than the grace; later ticks are on time."""
    # A period counted from completion has one tick at a time; a late one runs now, once.
    if draft.blocked or draft.from_completion:
        return
    missed = draft.last_due(draft.now - draft.grace() - 1)
    if missed is None:
        return
    match draft.policy.catch_up:
        case CatchUp.NONE:
            draft.skip_through(missed, Reason.MISSED)
        case CatchUp.LATEST if missed < last:
            draft.skip_through(missed, Reason.COALESCED)
        case CatchUp.LATEST:
            draft.skip_before(last, Reason.COALESCED)
        case CatchUp.FIRE_IMMEDIATELY if draft.policy.overlap is Overlap.CANCEL_OTHER:
            draft.skip_before(last, Reason.REPLACED)
        case CatchUp.FIRE_IMMEDIATELY | CatchUp.SPREAD:
            ticks = draft.newest(missed)
            draft.skip_before(ticks[0], Reason.CATCHUP_CAP)
            if draft.policy.catch_up is CatchUp.SPREAD:
                _spread(draft, ticks)
            else:
                _offer_in_turn(draft, ticks)
        case _:
            assert_never(draft.policy.catch_up)


def _spread(draft: Draft, ticks: list[Instant]) -> None:
    allowed = ticks[: draft.runs_left()]
    pace = draft.limits.lookahead // (len(allowed) + 1)
    for n, tick in enumerate(allowed, 1):
        draft.hold(tick, Phase.DELAYED, draft.now + n * pace)
    if len(allowed) < len(ticks):
        draft.skip_through(ticks[-1], Reason.LIMIT_REACHED)


def _offer_in_turn(draft: Draft, ticks: list[Instant]) -> None:
    for tick in ticks:
        if not (draft.blocked or draft.unfinished):
            offer(draft, tick)


def _take_live(draft: Draft, last: Instant) -> None:
    """Offer the ticks that are on time, oldest first; ticks beyond the cap wait for the next pass."""
    if draft.policy.overlap is Overlap.CANCEL_OTHER and draft.cursor < last:
        # Each of several runs would only cancel the one before it, so launch the newest alone.
        draft.skip_before(last, Reason.REPLACED)
    for _ in range(draft.catch_up_cap()):
        if draft.blocked or draft.unfinished or draft.cursor >= last:
            return
        tick = draft.next_tick()
        assert tick is not None
        offer(draft, tick)
    draft.unfinished = draft.unfinished or (draft.cursor < last and not draft.blocked)


def offer(draft: Draft, tick: Instant) -> None:
    """Decide one tick by the limit of runs, the overlap policy and the capacity."""
    overlap, busy = draft.policy.overlap, draft.busy()
    if draft.limit_reached():
        draft.skip_through(tick, Reason.LIMIT_REACHED)
    elif draft.holds:
        # Overlap is judged when the engine launches the held run, not during the edit.
        draft.hold(tick, Phase.DELAYED, fire_time(draft.schedule, tick))
    elif busy and overlap is Overlap.SKIP:
        draft.skip_through(tick, Reason.OVERLAP)
    elif overlap is Overlap.QUEUE and (busy or draft.runs(Phase.QUEUED)):
        _enqueue(draft, tick)
    elif busy and overlap is Overlap.BUFFER_ONE:
        draft.blocked = True
    else:
        if busy and overlap is Overlap.CANCEL_OTHER:
            _cancel_other_runs(draft)
        _launch_where_room(draft, tick)


def _launch_where_room(draft: Draft, tick: Instant) -> None:
    if draft.engine_is_full():
        _wait_for_the_engine(draft, tick)
    elif draft.at_capacity():
        _wait_for_room(draft)
    else:
        draft.launch(tick)


def _wait_for_the_engine(draft: Draft, tick: Instant) -> None:
    """Keep a tick due that the engine cannot launch now; record it before it would count as missed.

    Most waits end within the grace, and cost no write. A tick that was on time must not be dropped because
    the engine was full, so it becomes a waiting run when half of its grace has passed.
    """
    if 2 * (draft.now - tick) >= draft.grace():
        draft.hold(tick, Phase.DELAYED, fire_time(draft.schedule, tick))
    draft.unfinished = True


def _enqueue(draft: Draft, tick: Instant) -> None:
    if len(draft.runs(Phase.QUEUED)) < draft.policy.queue_limit:
        draft.hold(tick, Phase.QUEUED, fire_time(draft.schedule, tick))
    else:
        draft.skip_through(tick, Reason.QUEUE_FULL)


def _wait_for_room(draft: Draft) -> None:
    """Keep the newest due tick until its group has room; skip the ticks before it."""
    newest = draft.last_due(draft.now)
    if newest is not None:
        draft.skip_before(newest, Reason.AT_CAPACITY)
    draft.wait_for_room()


def _cancel_other_runs(draft: Draft) -> None:
    for run in draft.runs(*IN_FLIGHT, Phase.RETRY):
        if run.phase is not Phase.RETRY:
            draft.cancels.append(run)
        draft.end(run, Status.FAILED, Reason.INTERRUPTED)


def retry_failed_runs(draft: Draft) -> None:
    """Retry failed runs; a tick that was launched in this move ends the wait for a task's retry."""
    for run in draft.runs(Phase.RETRY):
        if gives_way(run) and draft.launched:
            draft.end(run, Status.FAILED, Reason.TASK_FAILED)
        elif run.fire_at <= draft.now and gives_way(run) and draft.busy():
            draft.blocked = True
        elif run.fire_at <= draft.now:
            draft.launch_waiting(run)
