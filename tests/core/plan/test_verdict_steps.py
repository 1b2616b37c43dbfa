"""The questions of a verdict: the last one listed is the one that decided."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dutiful.core.cron.cron import Cron
from dutiful.core.plan.verdict import Verdict, explain
from dutiful.core.plan.verdict_steps import GATES, Step, steps
from dutiful.core.policy import Policy, Reason
from dutiful.core.run import Phase, Run, Status
from dutiful.core.schedule import Schedule, State, Task, Window
from dutiful.core.snapshot import Snapshot

T0 = 1_700_000_040_000  # 2023-11-14T22:14:00Z
MINUTE = 60_000
AT = datetime.fromtimestamp(T0 / 1000, UTC)


def due(**more) -> Snapshot:
    schedule = Schedule("a", Task("t"), Cron.parse("* * * * *"), **more)
    return Snapshot(schedule, State(cursor=T0 + MINUTE))


def row(status: Status, reason: Reason | None = None, **more) -> Run:
    return Run("a", T0, "schedule", status, Phase.ENDED, T0, reason, 1, started_at=T0 + 12, **more)


def asked(
    what: Snapshot, run: Run | None = None, at: datetime = AT, now: int = T0 + 2 * MINUTE
) -> list[Step]:
    return steps(what, explain(what, run, at, now), now)


def test_a_run_that_succeeded_has_passed_every_question():
    assert asked(due(), row(Status.SUCCESS, ended_at=T0 + 122_012)) == [
        Step("A tick of the cron", True, "22:14 in UTC"),
        Step("In its window", True, "it has no start and no end"),
        Step("Not paused", True, "it runs"),
        Step("In time", True, "12 ms late, 60 s allowed"),
        Step("No run in the way", True, "overlap=skip"),
        Step("Room for it", True, "no limit"),
        Step("Executor took it", True, "attempt 1"),
        Step("Task succeeded", True, "after 2 min 2 s"),
    ]


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_stops_at_one_question_which_is_the_last(reason):
    verdict = Verdict(T0, True, reason, None, "")
    *before, last = steps(due(), verdict, T0 + MINUTE)
    assert last.passed is False
    assert last.fact
    assert [step.name for step in before] == [*GATES[: GATES.index(last.name)]]


def test_a_time_that_the_cron_does_not_have_stops_at_the_first_question():
    daily = due()._replace(schedule=Schedule("a", Task("t"), Cron.parse("30 2 * * *")))
    assert asked(daily) == [Step("A tick of the cron", False, "the cron has no tick at this time")]


def test_a_tick_outside_the_window_names_the_window():
    what = due(window=Window(T0 + MINUTE, None))
    assert asked(what)[-1] == Step("In its window", False, "from 2023-11-14 22:15 UTC, no end")


def test_a_check_that_the_future_decides_is_open():
    later = datetime.fromtimestamp((T0 + 5 * MINUTE) / 1000, UTC)
    assert [step.passed for step in asked(due(), at=later)] == [True, True, True, *[None] * 5]


def test_a_run_in_flight_has_not_succeeded_yet():
    run = Run("a", T0, "schedule", Status.STARTED, Phase.LAUNCHED, T0, None, 1, started_at=T0)
    assert asked(due(policy=Policy()), run)[-2:] == [
        Step("Executor took it", True, "attempt 1"),
        Step("Task succeeded", None, "it is running"),
    ]
