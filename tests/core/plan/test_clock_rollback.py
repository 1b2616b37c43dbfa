"""State that a clock far ahead has written is brought back to the present; other state is left alone."""

from __future__ import annotations

import pytest
from tests.core.plan.planner_notation import HOUR, MINUTE, at, schedule

from dutiful.core.plan.clock_rollback import Rearmed, rearmed
from dutiful.core.policy import Reason
from dutiful.core.run import Phase, Run, Status
from dutiful.core.schedule import SkippedRange, State
from dutiful.core.snapshot import Snapshot

NOW, DAY = at("10:00"), 24 * HOUR
AHEAD = NOW + 3 * DAY


def run(phase, **times):
    return Run("s", AHEAD, "schedule", Status.ENQUEUED, phase, **{"fire_at": NOW, **times})


def brought_back(*runs, **state):
    return rearmed(Snapshot(schedule(), State(**{"cursor": NOW, **state}), runs, pruned_until=5), NOW, DAY)


def test_a_schedule_that_is_at_most_a_day_ahead_is_left_alone():
    assert brought_back(cursor=NOW + DAY, ended_at=NOW + DAY) is None


def test_a_cursor_far_ahead_goes_on_from_now_and_remembers_what_was_decided():
    skipped = SkippedRange(AHEAD, Reason.MISSED, 2)
    assert brought_back(cursor=AHEAD, skipped=skipped) == Rearmed(State(NOW, decided_until=AHEAD), [])


def test_pruned_ticks_stay_decided():
    due = Snapshot(schedule(), State(AHEAD), pruned_until=NOW + HOUR)
    assert rearmed(due, NOW, DAY) == Rearmed(State(NOW + HOUR, decided_until=AHEAD), [])


def test_no_time_of_its_history_lies_in_the_future():
    state = {"attempted_at": AHEAD, "succeeded_at": AHEAD, "failed_at": NOW - 1, "ended_at": AHEAD}
    assert brought_back(**state) == Rearmed(State(NOW, 0, NOW, NOW, NOW - 1, NOW), [])


@pytest.mark.parametrize("phase", [Phase.LAUNCHED, Phase.ACCEPTED])
def test_a_run_in_flight_began_now(phase):
    flying = run(phase, fire_at=AHEAD - 1, started_at=AHEAD)
    assert brought_back(flying) == Rearmed(State(NOW), [run(phase, fire_at=NOW - 1, started_at=NOW)])


@pytest.mark.parametrize("phase", [Phase.DELAYED, Phase.QUEUED])
def test_a_run_that_waits_may_go_now(phase):
    assert brought_back(run(phase, fire_at=AHEAD)) == Rearmed(State(NOW), [run(phase, fire_at=NOW)])


def test_a_retry_keeps_its_delay():
    failed = run(Phase.RETRY, started_at=AHEAD - MINUTE, ended_at=AHEAD, fire_at=AHEAD + 2 * DAY)
    back = run(Phase.RETRY, started_at=NOW - MINUTE, ended_at=NOW, fire_at=NOW + 2 * DAY)
    assert brought_back(failed) == Rearmed(State(NOW), [back])


def test_a_retry_that_is_planned_for_a_later_day_is_no_sign_of_a_wrong_clock():
    assert brought_back(run(Phase.RETRY, started_at=NOW, ended_at=NOW, fire_at=AHEAD)) is None
