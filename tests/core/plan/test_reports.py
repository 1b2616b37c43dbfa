"""What an executor's report makes of a run: the first end wins, and nothing moves back."""

from __future__ import annotations

from itertools import product

import pytest
from tests.core.plan.planner_notation import at, run

from dutiful.core.plan.outcome import Report, hear
from dutiful.core.policy import Policy, Reason, Retry
from dutiful.core.run import Phase, Status

NOW = at("10:07")
OPEN = [
    run("10:00", Phase.LAUNCHED, status=Status.ENQUEUED, attempt=2),
    run("10:00", Phase.ACCEPTED, status=Status.ENQUEUED, attempt=2),
    run("10:00", Phase.ACCEPTED, status=Status.STARTED, attempt=2),
    run("10:00", Phase.RETRY, attempt=2, reason=Reason.LAUNCH_FAILED, ended_at=at("10:01"), detail="no"),
]
STARTED, SUCCESS, FAILED = Status.STARTED, Status.SUCCESS, Status.FAILED


@pytest.mark.parametrize(("found", "attempt"), [*product(OPEN, [None, 1, 2, 3])])
def test_the_first_end_counts_whatever_its_attempt(found, attempt):
    ended = found._replace(phase=Phase.ENDED, ended_at=NOW, detail=None, reason=None)
    assert hear(found, Report(SUCCESS, attempt), Policy(), NOW) == ended._replace(status=SUCCESS)
    assert hear(found, Report(FAILED, attempt, error="boom"), Policy(), NOW) == ended._replace(
        status=FAILED, reason=Reason.TASK_FAILED, detail="boom", task_failures=1
    )


@pytest.mark.parametrize("status", [SUCCESS, FAILED, Status.SKIPPED])
@pytest.mark.parametrize("said", [STARTED, SUCCESS, FAILED])
def test_nothing_moves_an_end(status, said):
    assert hear(run("10:00", Phase.ENDED, status=status, attempt=1), Report(said), Policy(), NOW) is None


@pytest.mark.parametrize("found", [OPEN[0], OPEN[1], OPEN[3]])
@pytest.mark.parametrize("attempt", [None, 2, 3])
def test_a_run_reported_as_started_is_accepted(found, attempt):
    assert hear(found, Report(STARTED, attempt), Policy(), NOW) == found._replace(
        phase=Phase.ACCEPTED, status=STARTED, reason=None, ended_at=None, detail=None
    )


def test_a_start_of_an_earlier_attempt_does_not_count_for_the_present_one():
    assert [hear(found, Report(STARTED, 1), Policy(), NOW) for found in OPEN] == [None] * 4


def test_a_start_is_recorded_once():
    assert hear(OPEN[2], Report(STARTED), Policy(), NOW) is None


@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.DELAYED])
@pytest.mark.parametrize("said", [STARTED, SUCCESS, FAILED])
def test_a_report_on_a_run_that_was_never_launched_is_ignored(phase, said):
    assert hear(run("10:00", phase), Report(said), Policy(), NOW) is None


def test_the_executor_names_the_run_and_a_later_silence_keeps_the_name():
    named = hear(OPEN[1], Report(STARTED, run_id="r 1"), Policy(), NOW)
    assert named.run_id == "r 1"
    assert hear(named, Report(SUCCESS), Policy(), NOW).run_id == "r 1"


def test_rows_that_stay_say_when_they_were_written():
    kept = OPEN[1]._replace(created_at=at("10:00"), updated_at=at("10:00"))
    for said in (STARTED, SUCCESS):
        became = hear(kept, Report(said), Policy(), NOW)
        assert (became.created_at, became.updated_at) == (at("10:00"), NOW)


def test_the_detail_of_a_failure_is_cut():
    assert hear(OPEN[1], Report(FAILED, error="x" * 5_000 + "y" * 5_000), Policy(), NOW).detail == (
        "x" * 999 + "…" + "y" * 1000
    )


AGAIN = Policy(retry=Retry(60_000, limit=2, backoff=3), launch_retry=Retry(1000))


@pytest.mark.parametrize("found", OPEN)
@pytest.mark.parametrize("attempt", [None, 2])
def test_a_reported_failure_is_tried_again_under_a_task_retry(found, attempt):
    became = hear(found, Report(FAILED, attempt, error="boom"), AGAIN, NOW)
    assert became == found._replace(
        phase=Phase.RETRY, status=Status.ENQUEUED, reason=Reason.TASK_FAILED, detail="boom",
        fire_at=NOW + 60_000, ended_at=NOW, task_failures=1,
    )  # fmt: skip


def test_the_last_reported_failure_ends_the_run():
    found = OPEN[1]._replace(task_failures=2)
    became = hear(found, Report(FAILED), AGAIN, NOW)
    assert (became.phase, became.task_failures) == (Phase.ENDED, 3)


@pytest.mark.parametrize("found", OPEN)
def test_a_failure_of_an_earlier_attempt_leaves_the_present_one_alone(found):
    assert hear(found, Report(FAILED, attempt=1), AGAIN, NOW) is None


def test_a_failure_is_heard_once():
    waiting = hear(OPEN[1], Report(FAILED), AGAIN, NOW)
    assert hear(waiting, Report(FAILED), AGAIN, NOW + 1) is None


def test_a_success_ends_a_run_that_waits_for_its_retry():
    waiting = hear(OPEN[1], Report(FAILED), AGAIN, NOW)
    assert hear(waiting, Report(SUCCESS), AGAIN, NOW + 1).status is SUCCESS
