"""File 000, "Startup Semantics", with the rulings on first starts and downtime."""

from __future__ import annotations

import asyncio

import pytest
from tests.spec.world import play


def first_start(cron, start, seconds=0):
    async def story(world):
        await world.scheduler().initialize([world.task(cron=cron)])
        await world.clock.advance(seconds)

    return play(story, start).ran


@pytest.mark.parametrize("start", ["10:00", "10:00:01", "10:00:59", "10:00:59.999"])
def test_startup_first_runs_at_once_when_the_current_minute_matches(start):
    assert first_start("0 10 * * *", start) == [f"{start[:8]} job"]


@pytest.mark.parametrize("start", ["09:59:59.999", "10:01"])
def test_startup_first_runs_nothing_when_it_does_not(start):
    assert first_start("0 10 * * *", start) == []


def test_startup_first_owes_nothing_from_before():
    assert first_start("0 9 * * *", "10:00", 3600) == []


def test_startup_first_schedules_the_next_occurrence():
    assert first_start("5 * * * *", "10:00", 7200) == ["10:05 job", "11:05 job"]


def test_startup_first_runs_the_current_minute_once_and_then_the_next():
    assert first_start("* * * * *", "10:00:30", 31) == ["10:00:30 job", "10:01 job"]


def test_startup_first_of_each_task_that_is_not_stored_yet():
    async def story(world):
        old, new = world.task("old", "0 9 * * *"), world.task("new", "0 9 * * *")
        scheduler = world.scheduler()
        await scheduler.initialize([old])
        await world.restart(scheduler, old, new, after=7200)

    # Both missed 09:00, but only one was there to miss it.
    assert play(story, "08:00").ran == ["10:00 old"]


def test_startup_restart_goes_on_from_the_last_attempt():
    async def story(world):
        task = world.task(cron="0 * * * *")
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(0)
        await world.restart(scheduler, task, after=600)
        await world.clock.advance(3600)

    assert play(story).ran == ["10:00 job", "11:00 job"]


def test_startup_restart_within_the_minute_of_a_run_does_not_repeat_it():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task()])
        await world.clock.advance(10)
        await world.restart(scheduler, world.task(), after=10)

    assert play(story).ran == ["10:00 job"]


def test_startup_restart_owes_one_run_for_what_was_missed():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task()])
        await world.clock.advance(0)
        await world.restart(scheduler, world.task(), after=330)
        await world.clock.advance(30)

    assert play(story).ran == ["10:00 job", "10:05:30 job", "10:06 job"]


def test_startup_restart_in_a_matching_minute_counts_it_among_the_missed():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task()])
        await world.clock.advance(0)
        await world.restart(scheduler, world.task(), after=300)
        await world.clock.advance(59)

    assert play(story).ran == ["10:00 job", "10:05 job"]


def test_startup_restart_of_a_task_that_never_ran_owes_what_it_missed_since_it_was_registered():
    async def story(world):
        task = world.task(cron="30 10 * * *")
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(60)
        await world.restart(scheduler, task, after=3600)

    assert play(story).ran == ["11:01 job"]


def test_startup_restart_of_a_task_that_never_ran_owes_nothing_else():
    async def story(world):
        task = world.task(cron="30 10 * * *")
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.restart(scheduler, task, after=1799)

    assert play(story).ran == []


def test_startup_restart_keeps_a_pending_retry():
    async def story(world):
        task = world.task(cron="0 10 * * *", does=world.failing(1), delay=600)
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(60)
        await world.restart(scheduler, task, after=60)
        await world.clock.advance(600)

    assert play(story).ran == ["10:00 job", "10:10 job"]


def test_startup_restart_serves_a_retry_that_came_meanwhile_at_once():
    async def story(world):
        task = world.task(cron="0 10 * * *", does=world.failing(1), delay=60)
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(10)
        await world.restart(scheduler, task, after=3600)

    assert play(story).ran == ["10:00 job", "11:00:10 job"]


def test_startup_restart_with_an_overdue_retry_and_missed_minutes_owes_one_run():
    async def story(world):
        task = world.task(cron="0,5 * * * *", does=world.failing(1), delay=60)
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(10)
        await world.restart(scheduler, task, after=3000)
        await world.clock.advance(300)

    world = play(story)
    assert world.ran == ["10:00 job", "10:50:10 job"]
    assert world.names(prefix="TaskR")[-3:] == [
        "TaskRetryPreempted job",
        "TaskRunStarted job",
        "TaskRunCompleted job",
    ]


def test_startup_restart_with_an_orphan_and_missed_minutes_owes_one_run():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(does=world.sleeping(20))])
        await world.clock.advance(10)
        await world.restart(scheduler, world.task(does=world.sleeping(20)), after=3600)
        await world.clock.advance(45)

    assert play(story).ran == ["10:00 job", "11:00:10 job"]


def test_startup_restart_after_an_overrun_owes_one_run():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(does=world.sleeping(90))])
        await world.clock.advance(30)
        stopping = asyncio.ensure_future(scheduler.stop())
        await world.clock.advance(160)
        await stopping
        await scheduler.initialize([world.task()])
        await world.clock.advance(0)

    # 10:01 passed while it ran, 10:02 and 10:03 while it was stopped.
    assert play(story).ran == ["10:00 job", "10:03:10 job"]
