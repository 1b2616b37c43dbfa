"""Starts beyond the real-time bounds R1 and R2 are told: an event, a warning in the log, and a metric."""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from threading import Thread

import pytest
from tests.spec.world import play

from dutiful.declarative.observe import EventCounts, SchedulerEvent

TEN = datetime(2026, 1, 1, 10, tzinfo=UTC)


def break_down(scheduler, times):
    """Let the store refuse so many commits; a pass that fails is tried again after a second."""
    commit, left = scheduler._store.commit, times

    async def refuse(*arguments):
        nonlocal left
        left -= 1
        if left >= 0:
            raise OSError("the disk is away")
        return await commit(*arguments)

    scheduler._store.commit = refuse


def late_starts(world):
    return [(event["task"], event["lateMs"]) for event in world.events if event["name"] == "TaskStartLate"]


@pytest.mark.parametrize(
    ("tasks", "seconds", "late"), [(1, 61, [61_000]), (1, 60, []), (2500, 75, []), (2500, 76, [76_000])]
)
def test_r1_the_bound_is_a_minute_and_six_milliseconds_for_each_task(tasks, seconds, late, caplog):
    async def story(world):
        scheduler = world.scheduler()
        others = [world.task(f"t{n}", "0 0 1 1 *") for n in range(tasks - 1)]
        await scheduler.initialize([world.task(cron="5 10 * * *"), *others])
        break_down(scheduler, seconds)
        await world.clock.advance(600)

    with caplog.at_level(logging.WARNING, "dutiful"):
        world = play(story, lag=120)
    assert late_starts(world) == [("job", ms) for ms in late]
    warnings = [record.getMessage() for record in caplog.records if "Late" in record.getMessage()]
    assert warnings == [f"TaskStartLate job lateMs={ms}" for ms in late]


def test_r2_a_restart_after_a_crash_that_comes_late_is_reported(caplog):
    async def story(world):
        task = world.task(cron="0 10 * * *", does=world.sleeping(600))
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(10)
        await world.crash(scheduler)
        await world.clock.advance(3600)
        fresh = world.scheduler()
        break_down(fresh, 100)
        await fresh.initialize([task])
        await world.clock.advance(200)

    with caplog.at_level(logging.WARNING, "dutiful"):
        world = play(story, lag=120)
    # The time that nobody was there is not counted: only what the scheduler itself was slow.
    assert world.ran == ["10:00 job", "11:01:50 job"]
    assert late_starts(world) == [("job", 100_000)]
    assert "TaskStartLate job lateMs=100000" in caplog.messages


def told(counts, *events):
    for name, details in events:
        counts(SchedulerEvent(name, TEN, "job", details))
    return counts


def test_a_metric_has_how_often_and_how_late():
    late = [("TaskStartLate", {"lateMs": ms}) for ms in (61_500, 90_000, 75_000)]
    counts = told(EventCounts(), ("TaskRunStarted", {}), *late)
    assert counts.counts == {"TaskRunStarted": 1, "TaskStartLate": 3}
    assert (counts.late_seconds_sum, counts.late_seconds_max) == (226.5, 90.0)
    assert counts.text() == (
        "# TYPE dutiful_events_total counter\n"
        'dutiful_events_total{event="TaskRunStarted"} 1\n'
        'dutiful_events_total{event="TaskStartLate"} 3\n'
        "# TYPE dutiful_start_late_seconds_sum counter\n"
        "dutiful_start_late_seconds_sum 226.5\n"
        "# TYPE dutiful_start_late_seconds_max gauge\n"
        "dutiful_start_late_seconds_max 90\n"
    )


def test_a_metric_of_nothing_is_zero_and_every_line_has_its_form():
    line = re.compile(r"# TYPE \w+ (counter|gauge)|\w+(\{event=\"\w+\"\})? [\d.e+]+")
    for counts in (EventCounts(), told(EventCounts(), ("TaskStartLate", {"lateMs": 10**12}))):
        assert all(map(line.fullmatch, counts.text().splitlines()))
    assert EventCounts().text().count("\n") == 5


def test_events_of_many_threads_are_counted():
    counts = EventCounts()
    threads = [Thread(target=told, args=(counts, *[("LoopBlocked", {})] * 2000)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts.counts == {"LoopBlocked": 8000}
