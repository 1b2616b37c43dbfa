"""The monitor accepts what the theory accepts, whatever form the trace has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.monitor.monitor_notation import LISTS, broken, trace

from dutiful import InvalidArgumentError, task
from dutiful.monitor import Violation, check, from_events

ACCEPTABLE = {
    "a person asked for a run, and it failed": """
        09:30 IS hourly
        09:30 IEs hourly
        10:00 RS a
        10:00:01 REs a
        10:10 RR a
        10:10 RS a
        10:10:05 REf a
        10:11:35 RS a
        10:11:40 REs a""",
    "a cancelled run owes no retry": """
        09:30 IS hourly
        09:30 IEs hourly
        10:00 RS a
        10:00:10 REc a
        10:50 SS
        10:50 SE""",
    "a cancelled retry is owed no more": """
        09:30 IS hourly
        09:30 IEs hourly
        10:00 RS a
        10:00:10 REf a
        10:00:20 REc a
        10:50 SS
        10:50 SE""",
    "file 003, trace 1: normal operation": """
        09:59:30 IS minutely
        09:59:30 IEs minutely
        09:59:30 RS a
        09:59:30 REs a
        10:00 RS a
        10:00:01 REf a
        10:01 RS a
        10:01:01 REs a""",
    "file 003, trace 2: stop and restart": """
        10:00:30 IS other
        10:00:30 IEs other
        10:00:30 RS b
        10:00:30 REs b
        10:01 SS
        10:01 SE
        10:30 IS other
        10:30 IEs other
        11:00 RS b
        11:00:01 REs b""",
    "file 003, trace 3: crash and restart": """
        09:30 IS hourly
        09:30 IEs hourly
        10:00 RS a
        10:00:01 Crash
        10:59:30 IS hourly
        10:59:30 IEs hourly
        11:00 RS a
        11:00:01 REs a""",
    "an orphan restarts at once": """
        09:30 IS hourly
        09:30 IEs hourly
        10:00 RS a
        10:00:01 Crash
        10:05 IS hourly
        10:05 IEs hourly
        10:05 RS a
        10:05:01 REs a""",
    "a retry, exactly at its instant": """
        09:30 IS hourly
        09:30 IEs hourly
        10:00 RS a
        10:00:10 REf a
        10:01:40 RS a
        10:01:41 REs a""",
    "a run that outlasts its next minute is followed by one more": """
        09:30 IS hourly
        09:30 IEs hourly
        10:00 RS a
        11:30 REs a
        11:30 RS a
        11:31 REs a""",
    "one run after a long downtime": """
        09:30 IS hourly
        09:30 IEs hourly
        10:00 RS a
        10:01 REs a
        10:02 SS
        10:02 SE
        18:20 IS hourly
        18:20 IEs hourly
        18:20 RS a
        18:21 REs a""",
    "two tasks that are due at the first start": """
        10:00:20 IS two
        10:00:20 IEs two
        10:00:20 RS b
        10:00:20 RS a
        10:00:21 REs a
        10:00:22 REs b""",
    "a second initialize is refused while one is active": """
        10:01 IS two #1
        10:01 IS two #2
        10:01 IEf two #2
        10:01 IEs two #1
        10:02 IS two #3
        10:02 IEf two #3
        10:03 SS #4
        10:03 IS two #5
        10:03 IEf two #5
        10:03 SE #4""",
    "two stops that overlap": """
        10:01 IS two
        10:01 IEs two
        10:02 SS #1
        10:02 SS #2
        10:02 SE #2
        10:02 SE #1""",
    "a stop during initialize": """
        10:00 IS hourly #1
        10:00 SS #2
        10:00 IEs hourly #1
        10:00 SE #2""",
    "a stop of nothing": """
        10:00 SS
        10:00 SE""",
    "a task that was removed and registered again is new": """
        10:00:10 IS hourly
        10:00:10 IEs hourly
        10:00:10 RS a
        10:00:11 REf a
        10:00:12 SS
        10:00:12 SE
        10:00:13 IS other
        10:00:13 IEs other
        10:00:13 RS b
        10:00:13 REs b
        10:00:14 SS
        10:00:14 SE
        10:00:15 IS hourly
        10:00:15 IEs hourly
        10:00:15 RS a
        10:00:16 REf a""",
    "a retry from under the old cron succeeds under the new one": """
        09:30 IS minutely
        09:30 IEs minutely
        09:30 RS a
        09:30 REs a
        09:31 RS a
        09:31:01 REf a
        09:31:02 SS
        09:31:02 SE
        09:31:03 IS hourly
        09:31:03 IEs hourly
        09:32:31 RS a
        09:32:32 REs a""",
    "a task that is registered again is not held to its old deadlines": """
        10:59 IS hourly
        10:59 IEs hourly
        11:00 RS a
        11:00 REs a
        11:01 SS
        11:01 SE
        11:01 IS other
        11:01 IEs other
        11:01 SS
        11:01 SE
        11:02 IS hourly
        11:02 IEs hourly
        12:00 RS a
        12:00:05 REs a
        12:05 SS
        12:05 SE""",
    "an invalid list is refused": """
        10:00 IS twice
        10:00 IEf twice
        10:00 IS delay
        10:00 IEf delay""",
    "time that was not granted": """
        10:01 IS hourly
        10:01 IEs hourly
        10:59 Frozen
        12:30 Unfrozen
        12:30:10 RS a
        12:30:11 REs a""",
}


@pytest.mark.parametrize("text", ACCEPTABLE.values(), ids=ACCEPTABLE)
def test_an_acceptable_trace_is_accepted(text):
    assert broken(text) == []


def test_pulses_and_unknown_events_are_passed_over():
    text = ACCEPTABLE["file 003, trace 1: normal operation"].replace("10:00 RS a", "10:00 Due a\n10:00 RS a")
    assert broken(text) == []


@pytest.mark.parametrize("form", ["text", "datetime", "seconds"])
def test_an_instant_is_a_text_a_datetime_or_epoch_seconds(form):
    events = trace("10:30 IS hourly\n10:30 IEs hourly\n10:31 RS a")
    for event in events:
        at = datetime.fromisoformat(event["at"])
        event["at"] = {"text": event["at"], "datetime": at, "seconds": at.timestamp()}[form]
    assert [violation.axiom for violation in check(events, registrations=LISTS)] == ["S1"]


def test_a_violation_says_what_happened_to_whom():
    (found,) = check(trace("10:30 IS hourly\n10:30 IEs hourly\n10:31 RS a"), registrations=LISTS)
    assert found == Violation("S1", 2, "a started without being due")


def test_the_zone_decides_what_is_due():
    text = "09:30 IS nine\n09:30 IEs nine\n10:00 RS a"
    lists = {"nine": [("a", "0 19 * * *", timedelta(seconds=1))]}
    assert check(trace(text), registrations=lists, timezone="Asia/Tokyo") == []
    assert [found.axiom for found in check(trace(text), registrations=lists)] == ["S1"]


# From the events of a scheduler


def told(*names, call=None):
    at = datetime(2026, 1, 1, 10, tzinfo=UTC).isoformat()
    return [{"name": n, "at": at, "task": None, "call": call} for n in names]


def test_events_of_a_scheduler_become_steps_of_the_model():
    events = told(
        "SchedulerInitializationStarted",
        "TaskDifference",
        "SchedulerInitializationCompleted",
        "PollingStarted",
        "TaskRunStarted",
        "TaskRunFailed",
        "TaskRetryPreempted",
        "TaskRunStarted",
        "TaskRunCompleted",
        "TaskRetryStarted",
        "SchedulerStopRequested",
        "SchedulerStopped",
        "Crash",
    )
    steps = [step["name"] for step in from_events(events, ["R"])]
    assert steps == [
        "InitStart",
        "InitSuccess",
        "RunStart",
        "RunFailure",
        "RunStart",
        "RunSuccess",
        "RunStart",
        "StopStart",
        "StopEnd",
        "Crash",
    ]


def test_each_initialize_is_given_its_own_list_and_the_last_one_is_used_again():
    events = told(*["SchedulerInitializationStarted", "SchedulerInitializationFailed"] * 3)
    assert [step["list"] for step in from_events(events, ["R", "Q"])] == ["R", "R", "Q", "Q", "Q", "Q"]


def test_a_standby_enters_the_trace_when_it_takes_over():
    standby = told("SchedulerInitializationStarted", "SchedulerStandby", call=2)
    takeover = told("SchedulerInitializationCompleted", call=2)
    leader = told("SchedulerInitializationStarted", "SchedulerInitializationCompleted", call=1)
    end = told("SchedulerStopRequested", "SchedulerStopped", call=1)
    steps = from_events([*leader, *standby, *end, *takeover], ["R", "Q"])
    assert [(step["name"], step["call"], step["list"]) for step in steps] == [
        ("InitStart", 1, "R"),
        ("InitSuccess", 1, "R"),
        ("StopStart", 1, None),
        ("StopEnd", 1, None),
        ("InitStart", 2, "Q"),
        ("InitSuccess", 2, "Q"),
    ]


def test_a_standby_that_is_stopped_leaves_no_trace():
    names = [
        "SchedulerInitializationStarted",
        "SchedulerStandby",
        "SchedulerStopRequested",
        "SchedulerStopped",
    ]
    assert from_events(told(*names, call=2), ["R"]) == []


def test_the_lists_of_the_schedulers_are_taken_as_they_are():
    async def work():
        pass

    lists = {
        "plain": [("a", "0 * * * *", work, timedelta(seconds=90))],
        "options": [task("a", "0 * * * *", work, 90, retry_limit=0)],
    }
    events = """
        09:30 IS {0}
        09:30 IEs {0}
        10:00 RS a
        10:00:10 REf a
        10:50 SS
        10:50 SE"""
    found = {name: check(trace(events.format(name)), registrations=lists) for name in lists}
    owed = Violation("L1", None, "a was owed a start by 2026-01-01T10:02:40+00:00")
    assert found == {"plain": [owed], "options": []}


@pytest.mark.parametrize("at", ["2026-01-01T10:00", datetime.fromisoformat("2026-01-01")])
def test_an_instant_without_an_offset_is_refused(at):
    with pytest.raises(InvalidArgumentError, match=r"has no UTC offset; add Z or \+00:00"):
        check([{"name": "Crash", "at": at}], registrations={})
