"""File 000, "Scheduler Identifier", with the ruling on standbys: one instance works, the others wait."""

from __future__ import annotations

import pytest
from tests.spec.world import play


@pytest.fixture
def url(durable_url):
    return durable_url


def test_standby_waits_writes_nothing_and_returns(url):
    async def story(world):
        first, second = world.scheduler(), world.scheduler()
        await first.initialize([world.task("mine")])
        await second.initialize([world.task("theirs")])
        await world.clock.advance(120)
        return [due.schedule.id for due in await first._store.every()]

    world = play(story, store=url)
    assert world.answer == ["mine"]
    assert world.ran == ["10:00 mine", "10:01 mine", "10:02 mine"]
    assert world.names().count("SchedulerStandby") == 1
    assert world.names().count("SchedulerInitializationCompleted") == 1


def test_standby_validates_at_once(url):
    async def story(world):
        first, second = world.scheduler(), world.scheduler()
        await first.initialize([world.task()])
        with pytest.raises(Exception, match="Invalid cron expression"):
            second.initialize([world.task(cron="@daily")])

    play(story, store=url)


@pytest.mark.parametrize("end", ["stop", "crash"])
def test_standby_takes_over_with_its_own_registrations(end, url):
    async def story(world):
        first, second = world.scheduler(), world.scheduler()
        await first.initialize([world.task("job"), world.task("old")])
        await second.initialize([world.task("job"), world.task("new")])
        await world.clock.advance(90)
        await (first.stop() if end == "stop" else world.crash(first))
        await world.clock.advance(60)
        return [due.schedule.id for due in await second._store.every()]

    world = play(story, store=url)
    assert world.answer == ["job", "new"]
    # `new` is registered at 10:01:31, within a minute that it matches.
    assert [line for line in world.ran if "new" in line] == ["10:01:31 new", "10:02 new"]
    assert [line for line in world.ran if "job" in line] == ["10:00 job", "10:01 job", "10:02 job"]
    assert world.names().count("PollingStarted") == 2


def test_standby_restarts_the_orphans_of_the_dead_leader(url):
    async def story(world):
        first, second = world.scheduler(), world.scheduler()
        task = world.task(cron="0 10 * * *", does=world.sleeping(600))
        await first.initialize([task])
        await second.initialize([task])
        await world.clock.advance(30)
        await world.crash(first)
        await world.clock.advance(30)

    assert play(story, store=url).ran == ["10:00 job", "10:00:31 job"]


def test_standby_can_be_stopped_and_has_not_polled(url):
    async def story(world):
        first, second = world.scheduler(), world.scheduler()
        await first.initialize([world.task()])
        await second.initialize([world.task()])
        await second.stop()
        await world.clock.advance(60)
        return [event["name"] for event in world.events if event["call"] == 1]

    world = play(story, store=url)
    assert world.ran == ["10:00 job", "10:01 job"]
    assert world.answer == [
        "SchedulerInitializationStarted",
        "SchedulerStandby",
        "SchedulerStopRequested",
        "SchedulerStopped",
    ]


def test_standby_is_active_for_a_second_initialize(url):
    async def story(world):
        first, second = world.scheduler(), world.scheduler()
        await first.initialize([world.task()])
        await second.initialize([world.task()])
        with pytest.raises(Exception, match="already running"):
            second.initialize([world.task()])

    play(story, store=url)


def test_namespaces_do_not_see_each_other(url):
    async def story(world):
        first, second = world.scheduler(namespace="one"), world.scheduler(namespace="two")
        await first.initialize([world.task("a")])
        await second.initialize([world.task("b")])
        await world.clock.advance(60)
        return [[due.schedule.id for due in await each._store.every()] for each in (first, second)]

    # The monitor follows one namespace.
    world = play(story, store=url, monitored=False)
    assert world.answer == [["a"], ["b"]]
    assert sorted(world.ran) == ["10:00 a", "10:00 b", "10:01 a", "10:01 b"]
