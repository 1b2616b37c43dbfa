"""`dutiful monitor`: what is wrong with a trace is printed, and is the exit code."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from tests.monitor.monitor_notation import LISTS, trace
from tests.spec.world import play

from dutiful.cli.main import cli

HEADER = {"registrations": LISTS, "timezone": "UTC"}
GOOD = trace("09:30 IS hourly\n09:30 IEs hourly\n10:00 RS a\n10:00:01 REs a")
BAD = trace("09:30 IS hourly\n09:30 IEs hourly\n09:59 RS a\n09:59 REs a")


@pytest.fixture
def run(tmp_path):
    def run(lines, *options):
        file = tmp_path / "trace.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        file.write_text("\n".join(texts) + "\n")
        done = CliRunner().invoke(cli, ["monitor", str(file), *options])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    return run


def test_a_good_trace_is_ok(run):
    assert run([HEADER, *GOOD]) == (0, "ok: 4 events break no axiom\n")


def test_an_empty_trace_is_ok(run):
    assert run([]) == (0, "ok: 0 events break no axiom\n")


def test_violations_are_a_table_and_exit_code_1(run):
    code, output = run([HEADER, *BAD])
    assert code == 1
    assert output == "axiom  line  what\nS1        4  a started without being due\n"


def test_violations_can_be_json(run):
    code, output = run([HEADER, *BAD], "--json")
    violation = {"axiom": "S1", "line": 4, "message": "a started without being due"}
    assert (code, json.loads(output)) == (1, {"events": 4, "violations": [violation]})


def test_the_end_and_the_lag_are_options(run):
    assert run([HEADER, *GOOD], "--end", "2026-01-01T11:00:30Z")[0] == 0
    assert run([HEADER, *GOOD], "--end", "2026-01-01T11:01:30Z")[0] == 1
    assert run([HEADER, *GOOD], "--end", "2026-01-01T11:01:30Z", "--lag", "300")[0] == 0


def test_the_zone_is_in_the_header(run):
    assert run([HEADER | {"timezone": "Asia/Kolkata"}, *GOOD])[0] == 1


def test_the_events_that_a_scheduler_told_are_read_too(run):
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(does=world.failing(1), delay=30)])
        await world.clock.advance(120)
        await scheduler.stop()

    events = play(story).events
    header = {"registrations": {"R": [["job", "* * * * *", 30]]}}
    assert run([header, *events]) == (0, f"ok: {len(events)} events break no axiom\n")
    code, output = run([{"registrations": {"R": [["job", "0 10 * * *", 30]]}}, *events], "--json")
    line = json.loads(output)["violations"][0]["line"]
    # The header is line 1; what broke is the start at 10:01, after a retry that had succeeded.
    assert (code, events[line - 2]["name"], events[line - 2]["at"][11:16]) == (1, "TaskRunStarted", "10:01")


def test_what_never_came_has_no_line(run):
    code, output = run([HEADER, *GOOD], "--end", "2026-01-01T11:02:00Z")
    expected = "axiom  line  what\nL1           a was owed a start by 2026-01-01T11:01:00+00:00\n"
    assert (code, output) == (1, expected)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{"], "line 1"),
        (["[]"], "is not a JSON object"),
        ([HEADER, {"at": 0}], "has no name"),
        ([HEADER, {"name": "StopStart"}], "has no time"),
        ([HEADER, {"name": "StopStart", "at": True}], "has no time"),
        ([HEADER, {"name": "StopStart", "at": "noon"}], "write ISO 8601"),
        ([HEADER, {"name": "StopStart", "at": "2026-01-01T10:00"}], "has no UTC offset"),
        *[
            ([HEADER, {"name": "StopStart", "at": at}], "line 2")
            for at in (float("nan"), float("inf"), 1e300, -1e12)
        ],
        ([HEADER, {"name": "RunStart", "at": 0}], "has no task"),
        ([HEADER, {"name": "InitStart", "at": 0, "list": "unheard"}], "not among the registrations"),
        ([HEADER, {"name": "InitStart", "at": 0}], "not among the registrations"),
        (GOOD, "not among the registrations"),
        ([{"registrations": []}], "write an object of lists"),
        ([{"registrations": {"R": [["a", "* * * * *"]]}}], "write an object of lists"),
        ([HEADER | {"timezone": "Mars/Phobos"}, *GOOD], "Mars/Phobos"),
        ([HEADER | {"timezone": 7}, *GOOD], "timezone"),
    ],
)
def test_what_cannot_be_read_is_bad_usage_and_named(run, lines, message):
    code, output = run(lines)
    assert (code, message in output) == (2, True), output


@pytest.mark.parametrize("lag", ["nan", "inf", "-1"])
def test_a_lag_that_is_no_number_of_seconds_is_refused(run, lag):
    code, output = run([HEADER, *GOOD], "--lag", lag)
    assert (code, "--lag" in output) == (2, True)


def test_a_trace_that_begins_with_a_standby_is_read(run):
    events = [
        {"name": name, "at": 0, "call": "second"}
        for name in ("SchedulerStandby", "SchedulerStopRequested", "SchedulerStopped")
    ]
    assert run([HEADER, *events]) == (0, "ok: 3 events break no axiom\n")


def test_a_file_that_is_no_text_is_bad_usage(tmp_path):
    (tmp_path / "trace").write_bytes(b"\xff\xfe\x00")
    assert CliRunner().invoke(cli, ["monitor", str(tmp_path / "trace")]).exit_code == 2
