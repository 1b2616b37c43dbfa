"""Events of the scheduler: as log records, and for an observer, which may be broken."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.spec.world import play

from dutiful import Scheduler
from dutiful.core import event as happened
from dutiful.core.policy import Reason
from dutiful.core.run import Phase, Run, Status
from dutiful.declarative.observe import SchedulerEvent, log, translate
from dutiful.testing import VirtualClock

AT = 1_767_261_600_000
RUN = Run("job", AT, "schedule", Status.STARTED, Phase.LAUNCHED, AT, None, 1)
TEN = datetime(2026, 1, 1, 10, tzinfo=UTC)
ENDED = RUN._replace(phase=Phase.ENDED)
CANCELLED = ENDED._replace(status=Status.FAILED, reason=Reason.INTERRUPTED)

TOLD = [
    (happened.RunLaunched(AT, RUN, 0), "TaskRunStarted", "job", {}),
    (happened.RunLaunched(AT, RUN, 0, Phase.LAUNCHED), "TaskRunStarted", "job", {}),
    (happened.RunLaunched(AT, RUN, 0, Phase.RETRY), "TaskRetryStarted", "job", {}),
    (happened.RunSettled(AT, ENDED._replace(status=Status.SUCCESS)), "TaskRunCompleted", "job", {}),
    (
        happened.RunSettled(AT, RUN._replace(status=Status.ENQUEUED, phase=Phase.RETRY, detail="E: x")),
        "TaskRunFailed",
        "job",
        {"error": "E: x"},
    ),
    (
        happened.RunEndedByPlan(AT, ENDED._replace(status=Status.FAILED, reason=Reason.TASK_FAILED)),
        "TaskRetryPreempted",
        "job",
        {},
    ),
    (happened.RunEndedByPlan(AT, CANCELLED), "TaskRunCancelled", "job", {}),
    (
        happened.RunEndedByPlan(AT, CANCELLED._replace(kind="manual", attempt=0)),
        "TaskRunCancelled",
        "job",
        {"trigger": "manual"},
    ),
    (happened.ClockStepped(AT, -5000), "ClockStepped", None, {"byMs": -5000}),
    (happened.ScheduleQuarantined(AT, "job", "why"), "ScheduleQuarantined", "job", {"error": "why"}),
    (happened.PassFailed(AT, "why"), "PassFailed", None, {"error": "why"}),
    (happened.LoopBlocked(AT, "job", 2.5), "LoopBlocked", "job", {"seconds": 2.5}),
]


@pytest.mark.parametrize(("event", "name", "task", "details"), TOLD)
def test_what_the_engine_tells_gets_the_names_of_the_scheduler(event, name, task, details):
    assert translate(event) == SchedulerEvent(name, TEN, task, details)


@pytest.mark.parametrize(
    "event",
    [happened.TicksSkipped(AT, ENDED), happened.RunHeld(AT, RUN), happened.LeadershipChanged(AT, 1)],
)
def test_what_has_no_name_in_the_scheduler_is_not_reported(event):
    assert translate(event) is None


def test_an_event_is_frozen_and_can_be_plain_values():
    event = SchedulerEvent("TaskRunFailed", TEN, "job", {"error": "x"})
    with pytest.raises(FrozenInstanceError):
        event.name = "other"
    plain = {"name": "TaskRunFailed", "at": "2026-01-01T10:00:00+00:00", "task": "job", "error": "x"}
    assert event.as_dict() == plain


@pytest.mark.parametrize(
    ("name", "level"),
    [("TaskRunStarted", "INFO"), ("TaskRunFailed", "WARNING"), ("SchedulerInitializationFailed", "WARNING")],
)
def test_an_event_is_one_structured_log_record(caplog, name, level):
    event = SchedulerEvent(name, TEN, "job", {"error": "x y"})
    with caplog.at_level(logging.INFO, "dutiful"):
        log(event)
    (record,) = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == ("dutiful", level, f"{name} job error=x y")
    assert record.event == event.as_dict()


def test_an_error_of_several_lines_is_one_line_of_the_log_and_whole_in_the_record(caplog):
    event = SchedulerEvent("TaskRunFailed", TEN, "job", {"error": "no\nTaskRunCompleted forged"})
    with caplog.at_level(logging.INFO, "dutiful"):
        log(event)
    (record,) = caplog.records
    assert record.getMessage() == r"TaskRunFailed job error=no\nTaskRunCompleted forged"
    assert record.event == event.as_dict()


def test_the_log_and_the_observer_get_the_same_events(caplog):
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(does=world.failing(1), delay=30)])
        await world.clock.advance(60)
        await scheduler.stop()

    with caplog.at_level(logging.INFO, "dutiful"):
        world = play(story)
    logged = [record.event for record in caplog.records if record.name == "dutiful"]
    assert logged == [{key: value for key, value in event.items() if key != "call"} for event in world.events]


def test_the_log_of_a_failed_run_has_the_trace_of_its_callback(caplog):
    async def story():
        clock = VirtualClock("2026-01-01T10:00:00")

        async def callback():
            raise ValueError("boom")

        scheduler = Scheduler("memory:", clock=clock, observer=events.append)
        await scheduler.initialize([("job", "* * * * *", callback, 3600)])
        await clock.advance(30)
        await scheduler.stop()

    events = []
    with caplog.at_level(logging.WARNING, "dutiful"):
        asyncio.run(story())
    (record,) = caplog.records
    assert record.getMessage() == "TaskRunFailed job error=ValueError: boom"
    trace = logging.Formatter().formatException(record.exc_info)
    assert trace.splitlines()[-3:] == [
        f'  File "{__file__}", line {story.__code__.co_firstlineno + 4}, in callback',
        '    raise ValueError("boom")',
        "ValueError: boom",
    ]
    (failed,) = [event for event in events if event.name == "TaskRunFailed"]
    assert failed.exception is record.exc_info[1]
    assert failed.as_dict() == record.event


def test_a_library_that_nobody_configured_is_silent(capsys):
    log(SchedulerEvent("TaskRunFailed", TEN))
    assert capsys.readouterr() == ("", "")


def run_with(observer):
    ran = []

    async def story():
        clock = VirtualClock("2026-01-01T10:00:00")

        async def callback():
            ran.append(f"{clock.now():%H:%M}")

        scheduler = Scheduler("memory:", clock=clock, observer=observer)
        await scheduler.initialize([("job", "* * * * *", callback, 60)])
        await clock.advance(120)
        await scheduler.stop()

    asyncio.run(story())
    return ran


def break_down(_):
    raise ValueError("broken observer")


@pytest.mark.parametrize("observer", [None, break_down, lambda: None, print, dict.fromkeys])
def test_an_observer_that_is_broken_or_absent_changes_nothing(observer, capsys):
    assert run_with(observer) == ["10:00", "10:01", "10:02"]
    capsys.readouterr()


def test_instants_are_reported_in_the_zone_of_the_scheduler():
    async def story(world):
        await world.scheduler().initialize([world.task()])
        await world.clock.advance(0)
        return {event["at"] for event in world.events}

    assert play(story, timezone="Asia/Tokyo").answer == {"2026-01-01T10:00:00+09:00"}


def test_every_event_is_documented():
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs/reference/events-scheduler.md").read_text(encoding="utf-8")
    source = "".join(
        (root / f"src/dutiful/declarative/{name}.py").read_text(encoding="utf-8")
        for name in ("scheduler", "observe")
    )
    names = set(re.findall(r'"((?:Scheduler|Polling|Task|Clock|Schedule|Pass|Loop)[A-Z]\w+)"', source))
    assert len(names) > 15
    assert sorted(name for name in names if f"| `{name}` |" not in page) == []
