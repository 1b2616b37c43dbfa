"""Traces that break exactly one axiom: the monitor names it, and where."""

from __future__ import annotations

import pytest
from tests.monitor.monitor_notation import broken, instant, trace

from dutiful.monitor import check

BEGUN = "09:30 IS hourly\n09:30 IEs hourly\n"
RAN = BEGUN + "10:00 RS a\n10:00:10 REs a\n"
FAILED = BEGUN + "10:00 RS a\n10:00:10 REf a\n"

BROKEN = {
    "S1 before its minute": (BEGUN + "09:59:59 RS a", [("S1", 2)]),
    "S1 again in its minute": (RAN + "10:00:30 RS a", [("S1", 4)]),
    "S1 a make-up run": (
        RAN + "10:01 SS\n10:01 SE\n13:20 IS hourly\n13:20 IEs hourly\n13:20 RS a\n13:20 REs a\n13:21 RS a",
        [("S1", 10)],
    ),
    "S1 before its retry": (FAILED + "10:01:39 RS a", [("S1", 4)]),
    "S1 a retry that a success has cleared": (
        FAILED + "10:01:40 RS a\n10:01:41 REs a\n10:03:20 RS a",
        [("S1", 6)],
    ),
    "S1 while it runs": (BEGUN + "10:00 RS a\n11:00 RS a", [("S1", 3)]),
    "S1 not registered": (BEGUN + "10:00 RS a\n10:00 REs a\n10:00 RS b", [("S1", 4)]),
    "S1 not registered, and its end is no other fault": (
        BEGUN + "10:00 RS a\n10:00 REs a\n10:00 RS b\n10:00 REs b",
        [("S1", 4)],
    ),
    "S1 while it runs, and both ends are no other fault": (
        BEGUN + "10:00 RS a\n10:00:10 RS a\n10:00:20 REs a\n10:00:30 REs a",
        [("S1", 3)],
    ),
    "S1 and S3: a run of no registered task is waited for too": (
        BEGUN + "10:00 RS a\n10:00 REs a\n10:00 RS b\n10:01 SS\n10:01 SE",
        [("S1", 4), ("S3", 6)],
    ),
    "S3, and its end after another list is no other fault": (
        BEGUN + "10:00 RS a\n10:01 SS\n10:01 SE\n10:02 IS other\n10:02 IEs other\n10:02 REs a",
        [("S3", 4)],
    ),
    "EA7 a second end": (BEGUN + "10:00 RS a\n10:00:01 REs a\n10:00:02 REs a", [("EA7", 4)]),
    "EA7 cancelled though nothing was": (RAN + "10:01 REc a", [("EA7", 4)]),
    "S1 a second start for one request": (
        RAN + "10:10 RR a\n10:10 RS a\n10:11 REs a\n10:12 RS a",
        [("S1", 7)],
    ),
    "S1 before any initialize": ("10:00 RS a", [("S1", 0)]),
    "S1 after a stop was requested": (BEGUN + "10:00 SS\n10:00 RS a", [("S1", 3)]),
    "S1 after a crash": (BEGUN + "10:00 Crash\n10:00 RS a", [("S1", 3)]),
    "S1 after a stop during initialize": (
        "10:00 IS hourly\n10:00 SS\n10:00 IEs hourly\n10:00 RS a",
        [("S1", 3)],
    ),
    "S1 what lies before a first registration": (
        "10:01 IS hourly\n10:01 IEs hourly\n10:01 RS a",
        [("S1", 2)],
    ),
    "S1 an orphan twice": (
        BEGUN
        + "10:00 RS a\n10:01 Crash\n10:02 IS hourly\n10:02 IEs hourly\n10:02 RS a\n10:03 REs a\n10:03 RS a",
        [("S1", 8)],
    ),
    "S2 twice in one hour": (RAN + "10:00:30 RS a\n10:00:31 REs a", [("S1", 4), ("S2", 5)]),
    "S2 a retry after a success": (
        FAILED + "10:01:40 RS a\n10:01:41 REs a\n10:05 RS a\n10:06 REs a",
        [("S1", 6), ("S2", 7)],
    ),
    "S2 across a restart": (
        RAN + "10:01 SS\n10:01 SE\n10:02 IS hourly\n10:02 IEs hourly\n10:02 RS a\n10:02 REs a",
        [("S1", 8), ("S2", 9)],
    ),
    "S3 one runs": (BEGUN + "10:00 RS a\n10:01 SS\n10:01 SE", [("S3", 4)]),
    "S3 one of two runs": (
        "10:00 IS two\n10:00 IEs two\n10:00 RS a\n10:00 RS b\n10:00 REs a\n10:00 SS\n10:00 SE",
        [("S3", 6)],
    ),
    "S3 the second of two stops": (
        BEGUN + "10:00 RS a\n10:00 SS #1\n10:00 SS #2\n10:01 SE #1\n10:02 REs a\n10:02 SE #2",
        [("S3", 5)],
    ),
    "S4 a name twice": ("10:00 IS twice\n10:00 IEs twice", [("S4", 1)]),
    "S4 a bad cron": ("10:00 IS cron\n10:00 IEs cron", [("S4", 1)]),
    "S4 a negative delay": ("10:00 IS delay\n10:00 IEs delay", [("S4", 1)]),
    "S4 no name": ("10:00 IS nameless\n10:00 IEs nameless", [("S4", 1)]),
    "S5 at first": ("10:00 IS hourly\n10:00 IEf hourly", [("S5", 1)]),
    "S5 after a stop": (BEGUN + "09:40 SS\n09:40 SE\n09:41 IS two\n09:41 IEf two", [("S5", 5)]),
    "S5 after a crash": (BEGUN + "09:40 Crash\n09:41 IS two\n09:41 IEf two", [("S5", 4)]),
    "S5 after one that failed rightly": (
        "10:00 IS twice\n10:00 IEf twice\n10:01 IS empty\n10:01 IEf empty",
        [("S5", 3)],
    ),
    "S6 while running": (BEGUN + "09:40 IS hourly\n09:40 IEs hourly", [("S6", 3)]),
    "S6 both of two at once": (
        "09:30 IS hourly #1\n09:30 IS two #2\n09:30 IEs hourly #1\n09:30 IEs two #2",
        [("S6", 3)],
    ),
    "S6 before the stop has ended": (
        BEGUN + "09:40 SS #1\n09:40 IS hourly #2\n09:40 IEs hourly #2\n09:40 SE #1",
        [("S6", 4)],
    ),
    "EA2 a start while frozen": (BEGUN + "09:50 Frozen\n10:00 RS a", [("EA2", 3)]),
    "EA2 an end while frozen": (BEGUN + "10:00 RS a\n10:00 Frozen\n10:01 REs a", [("EA2", 4)]),
    "EA2 a call while frozen": (BEGUN + "09:40 Frozen\n09:50 SS", [("EA2", 3)]),
    "EA3 a start in the past": (BEGUN + "10:00 RS a\n09:59 REs a", [("EA3", 3)]),
    "EA3 an end in the past": ("10:01 IS hourly\n10:00:59 IEs hourly", [("EA3", 1)]),
    "EA3 a millisecond": ("10:01:00.500 SS\n10:01:00.499 SE", [("EA3", 1)]),
    "EA7 an end without a start": (BEGUN + "10:00 REs a", [("EA7", 2)]),
    "EA7 an end twice": (RAN + "10:00:11 REf a", [("EA7", 4)]),
    "EA7 an end after a crash": (BEGUN + "10:00 RS a\n10:01 Crash\n10:02 REs a", [("EA7", 4)]),
    "EA7 an end of somebody": (BEGUN + "10:00 RS a\n10:00 REs b", [("EA7", 3)]),
    "EA7 an initialize that never began": ("10:00 IEs hourly\n10:00 RS a", [("EA7", 0)]),
    "EA7 an initialize of another call": (
        "10:01 IS hourly #1\n10:01 IEs hourly #2\n10:01 IEf hourly #1",
        [("EA7", 1), ("S5", 2)],
    ),
    "EA7 a stop that never began": (BEGUN + "09:40 SE", [("EA7", 2)]),
    "EA7 a stop after a crash": (BEGUN + "09:40 SS\n09:41 Crash\n09:42 SE", [("EA7", 4)]),
}


@pytest.mark.parametrize(("text", "expected"), BROKEN.values(), ids=BROKEN)
def test_a_broken_trace_is_caught_by_name_and_place(text, expected):
    assert broken(text) == expected


NEVER = {
    "L1 a minute": (BEGUN, "10:01:01", "L1"),
    "L1 a retry": (FAILED, "10:02:41", "L1"),
    "L1 a first start": ("10:00:10 IS hourly\n10:00:10 IEs hourly", "10:01:11", "L1"),
    "L1 after a restart": (RAN + "10:01 SS\n10:01 SE\n12:10 IS hourly\n12:10 IEs hourly", "12:11:01", "L1"),
    "L1 an orphan": (
        BEGUN + "10:00 RS a\n10:01 Crash\n10:02 IS hourly\n10:02 IEs hourly",
        "10:03:01",
        "L1",
    ),
    "L1 what fell due during a run": (BEGUN + "10:00 RS a\n11:20 REs a", "11:21:01", "L1"),
    "L1 the second of two": ("10:00 IS two\n10:00 IEs two\n10:00 RS a\n10:00 REs a", "10:01:01", "L1"),
    "L2 at first": ("10:00 IS hourly", "10:01:01", "L2"),
    "L2 a refusal": (BEGUN + "09:30 IS hourly", "09:31:01", "L2"),
    "L2 one of two": ("10:01 IS two #1\n10:01 IS two #2\n10:01 IEs two #1", "10:02:01", "L2"),
    "L3 nothing runs": (BEGUN + "09:40 SS", "09:41:01", "L3"),
    "L3 since the run has ended": (BEGUN + "10:00 RS a\n10:01 SS\n10:30 REs a", "10:31:01", "L3"),
    "L3 nothing was initialized": ("10:00 SS", "10:01:01", "L3"),
    "L3 one of two": (BEGUN + "09:40 SS #1\n09:40 SS #2\n09:40 SE #1", "09:41:01", "L3"),
}


@pytest.mark.parametrize(("text", "end", "axiom"), NEVER.values(), ids=NEVER)
def test_what_never_came_is_caught_when_its_time_is_over(text, end, axiom):
    assert broken(text, end) == [(axiom, None)]


@pytest.mark.parametrize(("text", "end", "axiom"), NEVER.values(), ids=NEVER)
def test_what_never_came_is_not_missed_before(text, end, axiom):
    assert axiom
    assert broken(text, f"{end[:-1]}0") == []


@pytest.mark.parametrize(("text", "end", "axiom"), NEVER.values(), ids=NEVER)
def test_what_came_too_late_is_caught_too(text, end, axiom):
    assert broken(f"{text.rstrip()}\n{end} Due", None) == [(axiom, None)]


@pytest.mark.parametrize(("text", "end", "axiom"), NEVER.values(), ids=NEVER)
def test_a_longer_lag_excuses_it(text, end, axiom):
    assert axiom
    assert broken(text, end, lag=120) == []


FROZEN = [
    BEGUN + "09:59 Frozen\n10:30 Unfrozen",
    BEGUN + "10:00:30 Frozen\n11:30 Unfrozen",
    "10:00 IS hourly\n10:00 Frozen\n10:30 Unfrozen",
    BEGUN + "09:40 SS\n09:40 Frozen\n10:30 Unfrozen",
]


@pytest.mark.parametrize("text", FROZEN)
def test_time_that_was_not_granted_is_not_counted(text):
    last = text.splitlines()[-1].split()[0]
    assert broken(text, f"{last}:29") == []


def test_a_crash_excuses_what_was_owed():
    assert broken(BEGUN + "10:00 Crash", "23:00") == []
    assert broken("10:00 IS hourly\n10:00 Crash", "23:00") == []
    assert broken(BEGUN + "09:40 SS\n09:40 Crash", "23:00") == []


def test_the_bound_grows_with_very_many_tasks():
    lists = {"many": [(f"t{n}", "0 10 * * *", 1) for n in range(20_000)]}
    events = trace("09:59 IS many\n09:59 IEs many")
    assert check(events, registrations=lists, end=instant("10:01:59")) == []
    assert len(check(events, registrations=lists, end=instant("10:02:01"))) == 20_000


LIMITED = {"all": [("a", "0 * * * *", 60, {"retry_limit": 2, "retry_backoff": 3})]}
TRIED = "10:00 RS a|10:00:10 REf a|10:01:10 RS a|10:01:20 REf a|10:04:20 RS a|10:04:30 REf a"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TRIED, []),
        (TRIED + "|11:00 RS a|11:00:10 REf a|11:01:10 RS a", []),
        (TRIED + "|10:13:30 RS a", [("S1", 8)]),
        (TRIED.replace("10:04:20 RS", "10:04:19 RS"), [("S1", 6)]),
        ("10:00 RS a|10:00:10 REf a|10:10 SS", [("L1", None)]),
    ],
)
def test_a_limit_and_a_backoff_decide_which_retries_are_owed(text, expected):
    begun = "09:30 IS all|09:30 IEs all|"
    found = check(trace((begun + text).replace("|", "\n")), registrations=LIMITED)
    assert [(violation.axiom, violation.position) for violation in found] == expected
