"""The next phase of a run after each outcome of an attempt."""

from __future__ import annotations

import traceback
from dataclasses import replace

import pytest
from tests.core.plan.planner_notation import MINUTE, at, run

from dutiful.core.plan.outcome import (
    RETRY_AFTER_MAX,
    Accepted,
    Failed,
    NoWork,
    Refused,
    Succeeded,
    Unanswered,
    Unreached,
    checked,
    ended_state,
    raised,
    settle,
    wake_after,
)
from dutiful.core.policy import OnOrphan, Policy, Reason, Retry
from dutiful.core.run import NEXT_PHASES, Phase, Status
from dutiful.core.schedule import State

LATER = at("10:07")
TASK, LAUNCH = Policy(retry=Retry(MINUTE, limit=1)), Policy(launch_retry=Retry(MINUTE, limit=1))

ENDS = [
    (Succeeded("fine"), Status.SUCCESS, None, "fine"),
    (Succeeded(), Status.SUCCESS, None, None),
    (Failed("boom"), Status.FAILED, Reason.TASK_FAILED, "boom"),
    (NoWork("empty"), Status.SKIPPED, Reason.NO_WORK, "empty"),
    (Refused(Reason.LAUNCH_REFUSED, "no"), Status.FAILED, Reason.LAUNCH_REFUSED, "no"),
    (Refused(Reason.UNKNOWN_WORKFLOW), Status.FAILED, Reason.UNKNOWN_WORKFLOW, None),
    (Unreached("down"), Status.FAILED, Reason.LAUNCH_FAILED, "down"),
    (Unanswered("late"), Status.FAILED, Reason.LAUNCH_FAILED, "late"),
]


@pytest.mark.parametrize("kind", [Succeeded, NoWork, Failed])
def test_a_long_text_is_kept_by_its_ends(kind):
    kept = settle(run("10:00", Phase.LAUNCHED), kind("a" * 5_000 + "z"), Policy(), LATER).detail
    assert (len(kept), kept[:999] == "a" * 999, kept[-1], "…" in kept) == (2000, True, "z", True)


@pytest.mark.parametrize(("outcome", "status", "reason", "detail"), ENDS)
def test_without_retries_every_answer_ends_the_run(outcome, status, reason, detail):
    failures = int(isinstance(outcome, Failed))
    ended = run("10:00", Phase.ENDED, status=status, reason=reason, detail=detail, ended_at=LATER)
    ended = ended._replace(task_failures=failures)
    expected = ended._replace(attempt=1, started_at=at("10:00"))
    assert settle(run("10:00"), outcome, Policy(), LATER) == expected


LONG = "x" * 500_000 + "y" * 500_000


@pytest.mark.parametrize(
    "outcome", [Failed(LONG), Unreached(LONG), Unanswered(LONG), Refused(Reason.LAUNCH_REFUSED, LONG)]
)
@pytest.mark.parametrize("policy", [Policy(), TASK, Policy(on_orphan=OnOrphan.GIVE_UP)])
def test_both_ends_of_a_long_failure_are_kept(outcome, policy):
    assert settle(run("10:00"), outcome, policy, LATER).detail == "x" * 999 + "…" + "y" * 1000


def test_a_failure_of_2000_characters_is_kept_whole():
    assert settle(run("10:00"), Failed("x" * 2000), Policy(), LATER).detail == "x" * 2000


class UnspeakableError(Exception):
    def __str__(self):
        raise ValueError("not even this")


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (SystemExit(3), "SystemExit: 3"),
        (TimeoutError(), "TimeoutError"),
        (UnspeakableError(), "UnspeakableError, which cannot be shown"),
    ],
)
def test_what_a_task_raised_is_its_failure_and_is_handed_on(error, detail):
    assert raised(error) == Failed(detail, error)


def test_the_trace_of_what_was_raised_begins_where_it_was_called():
    def task():
        raise ValueError("boom")

    try:
        task()
    except ValueError as error:
        failed = raised(error)
    assert [frame.name for frame in traceback.extract_tb(failed.error.__traceback__)] == ["task"]


def test_an_accepted_run_is_still_in_flight():
    accepted = settle(run("10:00"), Accepted("r-1"), Policy(), LATER)
    assert accepted == run("10:00", Phase.ACCEPTED, status=Status.ENQUEUED, run_id="r-1")


def test_a_launch_that_is_accepted_in_the_end_keeps_no_word_of_the_tries_before():
    policy = Policy(launch_retry=Retry(1000, 3))
    waiting = settle(run("10:00"), Unreached("no broker"), policy, LATER)
    assert (waiting.reason, waiting.detail) == (Reason.LAUNCH_FAILED, "no broker")
    accepted = settle(waiting.to(Phase.LAUNCHED), Accepted("r-1"), policy, LATER)
    assert (accepted.reason, accepted.detail, accepted.ended_at) == (None, None, None)


def test_a_report_ends_an_accepted_run():
    accepted = run("10:00", Phase.ACCEPTED)
    assert settle(accepted, Succeeded(), Policy(), LATER).phase is Phase.ENDED


# Outcome, retry setting, whether it is tried again.
AGAIN = [
    (Failed(), TASK, True),
    (Failed(), LAUNCH, False),
    (Unreached(), TASK, False),
    (Unreached(), LAUNCH, True),
    (Unanswered(), TASK, False),
    (Unanswered(), LAUNCH, True),
    (Refused(Reason.LAUNCH_REFUSED), LAUNCH, False),
    (NoWork(), TASK, False),
    (Succeeded(), TASK, False),
]


@pytest.mark.parametrize(("outcome", "policy", "again"), AGAIN)
def test_only_its_own_kind_of_failure_is_tried_again(outcome, policy, again):
    became = settle(run("10:00"), outcome, policy, LATER)
    assert (became.phase is Phase.RETRY) is again
    assert became.fire_at == (LATER + MINUTE if again else at("10:00"))


@pytest.mark.parametrize(
    ("limit", "attempt", "phase"),
    [
        (None, 99, Phase.RETRY),
        (0, 1, Phase.ENDED),
        (1, 1, Phase.RETRY),
        (1, 2, Phase.ENDED),
        (3, 3, Phase.RETRY),
        (3, 4, Phase.ENDED),
    ],
)
def test_a_failure_is_tried_again_up_to_the_limit(limit, attempt, phase):
    policy = Policy(retry=Retry(MINUTE, limit), launch_retry=Retry(MINUTE, limit))
    failed = run("10:00", attempt=attempt, task_failures=attempt - 1)
    assert settle(failed, Failed(), policy, LATER).phase is phase
    assert settle(run("10:00", attempt=attempt), Unreached(), policy, LATER).phase is phase


def test_failures_of_the_task_and_of_the_launch_are_counted_apart():
    policy = Policy(retry=Retry(MINUTE, 1), launch_retry=Retry(MINUTE, 2))
    found, seen = run("10:00"), []
    for outcome in (Unreached(), Failed(), Unreached(), Unreached()):
        became = settle(found, outcome, policy, LATER)
        seen.append((became.phase.value, became.task_failures))
        found = found._replace(attempt=found.attempt + 1, task_failures=became.task_failures)
    assert seen == [("retry", 0), ("retry", 1), ("retry", 1), ("ended", 1)]


@pytest.mark.parametrize(("attempt", "minutes"), [(1, 1), (2, 3), (3, 9), (4, 27)])
def test_each_delay_is_longer_by_the_backoff(attempt, minutes):
    policy = Policy(retry=Retry(MINUTE, backoff=3))
    failed = run("10:00", attempt=attempt, task_failures=attempt - 1)
    assert settle(failed, Failed("boom"), policy, LATER) == run(
        "10:00",
        Phase.RETRY,
        attempt=attempt,
        reason=Reason.TASK_FAILED,
        detail="boom",
        fire_at=LATER + minutes * MINUTE,
        ended_at=LATER,
        task_failures=attempt,
    )


def test_a_launch_at_most_once_is_not_sent_again_when_it_may_have_arrived():
    careful = replace(LAUNCH, on_orphan=OnOrphan.GIVE_UP)
    unknown = settle(run("10:00"), Unanswered(), careful, LATER)
    assert (unknown.phase, unknown.reason) == (Phase.ENDED, Reason.OUTCOME_UNKNOWN)
    assert settle(run("10:00"), Unreached(), careful, LATER).phase is Phase.RETRY


def test_a_success_after_a_retry_has_no_reason_left():
    again = run("10:00", reason=Reason.TASK_FAILED, attempt=2)
    assert settle(again, Succeeded(), TASK, LATER).reason is None


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in NEXT_PHASES[Phase.ENDED]])
def test_an_ended_run_stays_ended(phase):
    with pytest.raises(AssertionError):
        run("10:00", Phase.ENDED).to(phase)


@pytest.mark.parametrize("kind", [Unreached, Unanswered])
@pytest.mark.parametrize(
    ("asked", "waited"), [(0, 1000), (500, 1000), (30_000, 30_000), (10**12, RETRY_AFTER_MAX)]
)
def test_a_launch_is_not_tried_again_before_the_executor_asks_for_it(kind, asked, waited):
    policy = Policy(launch_retry=Retry(delay=1000, limit=3, backoff=2))
    became = settle(run("10:00"), kind("busy", asked), policy, LATER)
    assert (became.phase, became.fire_at - LATER) == (Phase.RETRY, waited)


def test_a_wish_for_a_later_attempt_does_not_add_attempts():
    ended = settle(run("10:00"), Unanswered("busy", 5000), Policy(), LATER)
    assert (ended.phase, ended.ended_at) == (Phase.ENDED, LATER)


STATE = State(5, 3, attempted_at=4, succeeded_at=1, failed_at=2, ended_at=2)


@pytest.mark.parametrize(
    ("status", "phase", "changes"),
    [
        (Status.SUCCESS, Phase.ENDED, {"succeeded_at": 9, "ended_at": 9}),
        (Status.FAILED, Phase.ENDED, {"failed_at": 9, "ended_at": 9}),
        (Status.ENQUEUED, Phase.RETRY, {"failed_at": 9, "ended_at": 9}),
        (Status.SKIPPED, Phase.ENDED, {"ended_at": 9}),
    ],
)
def test_the_end_of_a_run_is_stamped_on_its_schedule(status, phase, changes):
    ended = run("10:00", phase, status=status, ended_at=9)
    assert ended_state(STATE, ended) == STATE._replace(**changes)


@pytest.mark.parametrize(
    ("wake_at", "idle_wake_at", "retried", "expected"),
    [
        (5, None, False, 5),
        (5, 8, False, 8),
        (None, None, False, None),
        (None, None, True, 6),
        (5, None, True, 5),
        (5, 8, True, 6),
    ],
)
def test_after_a_run_its_schedule_is_looked_at_when_idle_or_for_the_retry(
    wake_at, idle_wake_at, retried, expected
):
    ended = run("10:00", Phase.RETRY if retried else Phase.ENDED, fire_at=6)
    assert wake_after(wake_at, idle_wake_at, ended) == expected


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Succeeded(), Succeeded()),
        (Succeeded(5), Succeeded("5")),
        (Failed(ValueError("boom")), Failed("boom")),
        (Failed(UnspeakableError()), Failed("UnspeakableError, which cannot be shown")),
        (Accepted(7), Accepted("7")),
        (Refused(Reason.TASK_FAILED, 5), Refused(Reason.TASK_FAILED, "5")),
        (Refused("no"), Failed("the answer was Refused(reason='no', detail=None)")),
        (Unreached(None, 1.5), Failed("the answer was Unreached(detail=None, retry_after=1.5)")),
        (None, Failed("the answer was None")),
    ],
)
def test_an_outcome_that_no_store_could_record_is_made_recordable(answer, outcome):
    assert checked(answer) == outcome
