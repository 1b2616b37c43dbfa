"""The common case in one step: one cron tick is due, it may run, and no other run is open.

Nearly every move of a busy scheduler is of this kind, so it bypasses the planner's steps (`make bench`, items
3a and 4a). A property test in tests/core/plan/test_fast_path.py shows that the results are equal.
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING

from dutiful.core.cron.cron import Cron
from dutiful.core.errors import CronCalculationError
from dutiful.core.policy import CatchUp, Policy
from dutiful.core.run import Run
from dutiful.core.schedule import State
from dutiful.core.snapshot import Limits, Move, Snapshot

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant

# A named tuple's own constructor takes twice as long.
_new = tuple.__new__
# Under these policies a single due tick runs, however late it is.
_RUNS_LATE = frozenset({CatchUp.LATEST, CatchUp.FIRE_IMMEDIATELY})
# Fields of a policy that cannot hold back a single tick of an idle schedule, or that this file reads. With
# another value in any other field, also in one that is added later, the planner's steps decide.
HARMLESS = (
    *("overlap", "catch_up", "grace", "catch_up_cap", "jitter_early", "retry", "launch_retry", "on_orphan"),
    *("run_timeout", "queue_limit", "ledger", "retention_age", "retention_rows"),
    *("start_within", "finish_within", "succeed_every"),
)
_deciding = attrgetter(*(each.name for each in fields(Policy) if each.name not in HARMLESS))
_UNDECIDED = _deciding(Policy())


def single_tick_move(due: Snapshot, now: Instant, limits: Limits) -> Move | None:
    """Return the move that launches the only due tick; None where the planner's steps are needed."""
    schedule, state, runs, *_ = due
    cadence, policy, window = schedule.cadence, schedule.policy, schedule.window
    if runs or due.repeated or schedule.paused or type(cadence) is not Cron or limits.room is not None:
        return None
    if _deciding(policy) != _UNDECIDED or not window.start is window.end is None:
        return None
    try:
        tick = cadence.upcoming_epoch(state.cursor // 1000) * 1000
        following = cadence.upcoming_epoch(tick // 1000) * 1000
    except CronCalculationError:
        return None
    if not tick <= now < following or (tick < now - policy.grace and policy.catch_up not in _RUNS_LATE):
        return None
    noted = now if policy.ledger else None
    run = Run.launched(schedule.id, tick, tick, now, limits.epoch, limits.launch_status, noted)
    # Launching ends any growing range of skipped ticks; a quarantined schedule never gets here.
    after = _new(State, (tick, state.runs_started + 1, now, *state[3:6], None, None, *state[8:]))
    wake_at, idle_wake_at = _wakes(policy, now, following)
    return _new(Move, (due, after, wake_at, idle_wake_at, False, [run], (), ()))


def _wakes(policy: Policy, now: Instant, following: Instant) -> tuple[Instant, Instant | None]:
    """Return when to look again: at the next tick, or before it at the timeout of the run."""
    if policy.run_timeout is None or now + policy.run_timeout >= following:
        return following, None
    return now + policy.run_timeout, following
