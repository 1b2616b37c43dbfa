"""File 000, "Polling Lifecycle": polling is active exactly while there are tasks to poll."""

from __future__ import annotations

import asyncio

from tests.spec.world import play


def test_polling_starts_with_the_first_scheduled_task():
    async def story(world):
        scheduler = world.scheduler()
        begun = scheduler.initialize([world.task("a"), world.task("b")])
        assert world.names(prefix="Polling") == []
        await begun

    assert play(story).names(prefix="Polling") == ["PollingStarted"]


def test_polling_never_starts_without_tasks():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([])
        await world.clock.advance(600)
        await scheduler.stop()

    world = play(story)
    assert world.names() == [
        "SchedulerInitializationStarted",
        "SchedulerInitializationCompleted",
        "SchedulerStopRequested",
        "SchedulerStopped",
    ]


def test_polling_stops_when_running_tasks_have_ended():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(does=world.sleeping(20))])
        await world.clock.advance(0)
        stopping = asyncio.ensure_future(scheduler.stop())
        await world.clock.advance(19)
        assert world.names(prefix="Polling") == ["PollingStarted", "PollingStopRequested"]
        await world.clock.advance(1)
        await stopping

    assert play(story).names(prefix="Polling")[-1] == "PollingStopped"


def test_polling_stop_completes_the_current_poll(tmp_path):
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(f"t{n}") for n in range(20)])
        # The poll is waiting for the store.
        await scheduler.stop()

    world = play(story, store=f"sqlite:{tmp_path / 'state.db'}")
    # All of it or, if it had not begun, nothing.
    assert len(world.ran) in (0, 20)
    assert len(world.names(prefix="TaskRunCompleted")) == len(world.ran)


def test_polling_starts_again_with_the_next_initialize():
    async def story(world):
        scheduler = world.scheduler()
        for _ in range(2):
            await scheduler.initialize([world.task()])
            await scheduler.stop()

    assert (
        play(story).names(prefix="Polling")
        == ["PollingStarted", "PollingStopRequested", "PollingStopped"] * 2
    )


def test_polling_covers_all_minutes_without_waking_between_them():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(cron="0 12 * * *")])
        load, loads = world.memory.load, []

        async def count(*asked):
            loads.append(world.time())
            return await load(*asked)

        world.memory.load = count
        await world.clock.advance(3 * 3600)
        return loads

    world = play(story)
    assert world.ran == ["12:00 job"]
    # Once to look, once for the tick, once to settle.
    assert len(world.answer) < 10
