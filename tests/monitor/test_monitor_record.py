"""The observer that writes a trace: what it writes, and that the monitor can read it."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta, timezone

import pytest
from click.testing import CliRunner

from dutiful import InvalidArgumentError, Scheduler
from dutiful.cli.main import cli
from dutiful.monitor import TraceFile
from dutiful.testing import VirtualClock


async def nothing():
    pass


TASKS = [("job", "* * * * *", nothing, timedelta(minutes=1)), ("rare", "0 0 1 1 *", nothing, 2.5)]


def live(path, start="2026-01-05T09:00:00", seconds=60, crash=False, tasks=TASKS, zone="Europe/Kyiv"):
    """Let a scheduler live for a while, recorded."""

    async def story():
        clock = VirtualClock(start, zone)
        trace = TraceFile(path, tasks, zone)
        scheduler = Scheduler(f"sqlite:{path}.db", clock=clock, observer=trace)
        await scheduler.initialize(tasks)
        await clock.advance(seconds)
        if crash:
            trace.close()
            scheduler._host.abandon()
            await scheduler._store.close()
        else:
            await scheduler.stop()
            trace.close()

    asyncio.run(story())


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def monitor(path):
    return CliRunner().invoke(cli, ["monitor", str(path), "--lag", "1"]).output


def test_a_trace_begins_with_the_registrations_and_the_zone(tmp_path):
    live(tmp_path / "trace")
    header, *events = lines(tmp_path / "trace")
    (name,) = header["registrations"]
    registrations = {name: [["job", "* * * * *", 60.0], ["rare", "0 0 1 1 *", 2.5]]}
    assert header == {"registrations": registrations, "timezone": "Europe/Kyiv", "dialect": "posix"}
    assert {(event["list"], event["call"]) for event in events} == {(name, name)}
    assert events[0]["at"] == "2026-01-05T09:00:00+02:00"
    assert monitor(tmp_path / "trace") == f"ok: {len(events)} events break no axiom\n"


def test_lives_follow_each_other_in_one_file_each_with_its_own_list(tmp_path):
    live(tmp_path / "trace")
    live(tmp_path / "trace", "2026-01-05T10:30:00", tasks=TASKS[:1])
    content = lines(tmp_path / "trace")
    lists = [list_ for line in content for list_ in line.get("registrations", {}).values()]
    assert list(map(len, lists)) == [2, 1]
    assert "Crash" not in [line.get("name") for line in content]
    assert monitor(tmp_path / "trace").startswith("ok: ")


def test_a_life_that_was_cut_short_ends_with_a_crash_when_the_next_begins(tmp_path):
    path = tmp_path / "trace"
    live(path, crash=True)
    last = lines(path)[-1]
    with path.open("ab") as file:
        file.write(b'{"name": "TaskRunSta')
    live(path, "2026-01-05T10:30:00")
    names = [line.get("name") for line in lines(path)]
    crash = lines(path)[names.index("Crash")]
    assert crash == {"name": "Crash", "at": last["at"], "task": None}
    assert monitor(path).startswith("ok: ")


@pytest.mark.parametrize("torn", [False, True], ids=["whole", "torn"])
def test_a_trace_that_ends_with_a_long_list_is_continued(tmp_path, torn):
    path = tmp_path / "trace"
    many = [(f"job-{n}", "0 0 1 1 *", nothing, 60) for n in range(5000)]
    live(path)
    before = lines(path)
    TraceFile(path, many, "Europe/Kyiv").close()
    if torn:
        path.write_bytes(path.read_bytes()[:-1])
    live(path, "2026-01-05T10:30:00")
    lists = [list_ for line in lines(path) for list_ in line.get("registrations", {}).values()]
    assert (lines(path)[: len(before)], list(map(len, lists))) == (before, [2, 2] if torn else [2, 5000, 2])
    assert monitor(path).startswith("ok: ")


def test_the_monitor_sees_what_a_recorded_scheduler_left_out(tmp_path):
    path = tmp_path / "trace"
    live(path, seconds=180)
    kept = [line for line in lines(path) if "09:02" not in line.get("at", "")]
    path.write_text("\n".join(map(json.dumps, kept)) + "\n")
    assert "job was owed a start by 2026-01-05T07:02:01+00:00" in monitor(path)


def test_a_file_that_is_no_trace_is_left_as_it_is(tmp_path):
    path = tmp_path / "notes"
    path.write_text("my notes, without a newline")
    with pytest.raises(InvalidArgumentError, match="is there and is no trace"):
        TraceFile(path, TASKS)
    assert path.read_text() == "my notes, without a newline"


@pytest.mark.parametrize("zone", [timezone(timedelta(hours=5, minutes=30)), "Mars/Phobos"])
def test_a_zone_without_a_name_cannot_be_written_down(tmp_path, zone):
    with pytest.raises(InvalidArgumentError, match="timezone"):
        TraceFile(tmp_path / "trace", TASKS, zone)
    assert not (tmp_path / "trace").exists()


def test_a_later_header_with_another_zone_is_refused(tmp_path):
    live(tmp_path / "trace")
    live(tmp_path / "trace", "2026-01-06T09:00:00", zone="UTC")
    assert "'UTC': is another timezone than that of line 1" in monitor(tmp_path / "trace")
