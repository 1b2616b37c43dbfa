"""File 000, "Scheduler Lifecycle": the five states and what leads from one to another."""

from __future__ import annotations

import asyncio

import pytest
from tests.spec.world import play

from dutiful.errors import RegistrationsNotArrayError, SchedulerAlreadyActiveError, StoreError

WHOLE_LIFE = [
    "SchedulerInitializationStarted",
    "TaskDifference job",
    "SchedulerInitializationCompleted",
    "PollingStarted",
    "SchedulerStopRequested",
    "PollingStopRequested",
    "PollingStopped",
    "SchedulerStopped",
]


def refused_state(scheduler, registrations=()):
    """Return the state that a scheduler says it is in when it is asked to initialize."""
    with pytest.raises(SchedulerAlreadyActiveError) as caught:
        scheduler.initialize(registrations)
    state = caught.value.details["currentState"]
    assert str(caught.value) == f"Cannot initialize scheduler: scheduler is already {state}"
    assert caught.value.details == {"currentState": state}
    return state


def test_lifecycle_events_of_a_whole_life_are_reported_in_order():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(cron="0 9 * * *")])
        await scheduler.stop()

    assert play(story).names() == WHOLE_LIFE


def test_lifecycle_initializing_begins_with_the_call_not_with_its_first_await():
    async def story(world):
        scheduler = world.scheduler()
        begun = scheduler.initialize([world.task()])
        state = refused_state(scheduler)
        await begun
        return state

    assert play(story).answer == "initializing"


def test_lifecycle_initialize_is_under_way_without_being_awaited():
    async def story(world):
        begun = world.scheduler().initialize([world.task()])
        await world.clock.advance(60)
        await begun

    assert play(story).ran == ["10:00 job", "10:01 job"]


def test_lifecycle_running_refuses_to_initialize():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task()])
        return refused_state(scheduler)

    assert play(story).answer == "running"


def test_lifecycle_stopping_refuses_to_initialize():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(does=world.sleeping(60))])
        await world.clock.advance(0)
        stopping = asyncio.ensure_future(scheduler.stop())
        await world.clock.advance(30)
        state = refused_state(scheduler)
        await world.clock.advance(30)
        await stopping
        return state

    assert play(story).answer == "stopping"


@pytest.mark.parametrize("registrations", [None, [()], [("job",)]])
def test_lifecycle_activity_is_looked_at_before_the_registrations(registrations):
    async def story(world):
        scheduler = world.scheduler()
        begun = scheduler.initialize([world.task(cron="0 9 * * *")])
        states = [refused_state(scheduler, registrations)]
        await begun
        return [*states, refused_state(scheduler, registrations)]

    assert play(story).answer == ["initializing", "running"]


def test_lifecycle_a_refused_initialize_tells_nothing_and_changes_nothing():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task()])
        await world.clock.advance(0)
        before = world.names()
        refused_state(scheduler, [world.task("other")])
        assert world.names() == before
        await world.clock.advance(60)

    assert play(story).ran == ["10:00 job", "10:01 job"]


def test_lifecycle_invalid_registrations_lead_back_to_uninitialized():
    async def story(world):
        scheduler = world.scheduler()
        with pytest.raises(RegistrationsNotArrayError):
            scheduler.initialize(None)
        await scheduler.initialize([world.task()])
        await world.clock.advance(0)

    world = play(story)
    assert world.names()[:3] == [
        "SchedulerInitializationStarted",
        "SchedulerInitializationFailed",
        "SchedulerInitializationStarted",
    ]
    assert world.ran == ["10:00 job"]


def test_lifecycle_a_store_that_cannot_be_opened_leads_back_to_uninitialized(tmp_path):
    async def story(world):
        scheduler = world.scheduler()
        with pytest.raises(StoreError):
            await scheduler.initialize([world.task()])
        (tmp_path / "new").mkdir()
        await scheduler.initialize([world.task()])
        await world.clock.advance(0)

    # The theory does not know storage that fails.
    world = play(story, store=f"sqlite:{tmp_path / 'new' / 'state.db'}", monitored=False)
    assert world.ran == ["10:00 job"]
    assert "SchedulerInitializationFailed" in world.names()


def test_lifecycle_stop_waits_for_running_tasks():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(does=world.sleeping(90))])
        await world.clock.advance(10)
        stopping = asyncio.ensure_future(scheduler.stop())
        await world.clock.advance(79)
        early = stopping.done()
        await world.clock.advance(1)
        return early, stopping.done()

    world = play(story)
    assert world.answer == (False, True)
    assert world.names()[-4:] == [
        "PollingStopRequested",
        "TaskRunCompleted job",
        "PollingStopped",
        "SchedulerStopped",
    ]


def test_lifecycle_nothing_starts_once_a_stop_is_requested():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task("slow", "0 10 * * *", world.sleeping(300)), world.task("job")])
        await world.clock.advance(0)
        stopping = asyncio.ensure_future(scheduler.stop())
        await world.clock.advance(600)
        await stopping

    assert sorted(play(story).ran) == ["10:00 job", "10:00 slow"]


def test_lifecycle_nothing_runs_after_a_stop():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task()])
        await world.clock.advance(0)
        await scheduler.stop()
        await world.clock.advance(3600)

    assert play(story).ran == ["10:00 job"]


def test_lifecycle_stop_of_a_scheduler_that_is_not_active_does_nothing():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.stop()
        await scheduler.initialize([world.task(cron="0 9 * * *")])
        await scheduler.stop()
        await scheduler.stop()

    assert play(story).names() == WHOLE_LIFE


def test_lifecycle_stopped_may_be_initialized_again():
    async def story(world):
        scheduler = world.scheduler()
        for _ in range(3):
            await scheduler.initialize([world.task()])
            await world.clock.advance(59)
            await scheduler.stop()
            await world.clock.advance(1)

    assert play(story).ran == ["10:00 job", "10:01 job", "10:02 job"]


def test_lifecycle_a_run_is_finished_by_the_stop_and_not_an_orphan_afterwards():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(cron="0 10 * * *", does=world.sleeping(5))])
        await world.clock.advance(1)
        stopping = asyncio.ensure_future(scheduler.stop())
        await world.clock.advance(10)
        await stopping
        await scheduler.initialize([world.task(cron="0 10 * * *")])
        await world.clock.advance(0)

    assert play(story).ran == ["10:00 job"]


def test_lifecycle_a_failure_during_the_stop_leaves_its_retry_to_the_next_life():
    async def story(world):
        async def slowly_fail():
            await world.clock.sleep(5)
            raise ValueError

        scheduler = world.scheduler()
        await scheduler.initialize([world.task(cron="0 10 * * *", does=slowly_fail, delay=60)])
        await world.clock.advance(1)
        stopping = asyncio.ensure_future(scheduler.stop())
        await world.clock.advance(300)
        await stopping
        await scheduler.initialize([world.task(cron="0 10 * * *", delay=60)])
        await world.clock.advance(0)

    world = play(story)
    assert world.ran == ["10:00 job", "10:05:01 job"]
    assert world.names(prefix="TaskRetry") == ["TaskRetryStarted job"]
