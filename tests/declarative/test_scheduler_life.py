"""Lives that end in an unusual way: cancelled, left behind, stopped from elsewhere."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from contextlib import closing
from datetime import timedelta

import pytest
from tests.spec.world import play

from dutiful import Scheduler, task
from dutiful.errors import NamespaceOwnedError, StopSchedulerError
from dutiful.service import ScheduleInput, Service, settings_from
from dutiful.testing import VirtualClock

START = "2026-01-01T10:00:00+00:00"


async def nothing():
    pass


@pytest.fixture
def url(tmp_path):
    return f"sqlite:{tmp_path / 'state.db'}"


def test_a_callback_that_ends_at_once_is_not_in_flight_under_an_eager_task_factory():
    if not hasattr(asyncio, "eager_task_factory"):
        pytest.skip("eager tasks came with Python 3.12")

    async def story(world):
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        scheduler = world.scheduler()
        await scheduler.initialize([world.task("quick"), world.task("slow", does=world.sleeping(30))])
        await world.clock.advance(90)
        await asyncio.wait_for(scheduler.stop(), 5)

    world = play(story)
    assert world.ran == ["10:00 quick", "10:00 slow", "10:01 quick", "10:01 slow"]
    assert world.names()[-1] == "SchedulerStopped"


def test_a_task_that_stops_its_scheduler_in_its_first_step_does_not_wait_for_itself():
    async def story(world):
        if hasattr(asyncio, "eager_task_factory"):
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(does=scheduler.stop)])
        await world.clock.advance(120)

    world = play(story)
    assert world.ran == ["10:00 job"]
    assert world.names()[-1] == "SchedulerStopped"


def test_an_initialize_that_is_cancelled_before_its_first_step_can_be_repeated():
    async def story(world):
        scheduler = world.scheduler()
        initializing = scheduler.initialize([world.task()])
        initializing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await initializing
        await scheduler.initialize([world.task()])
        await world.clock.advance(0)
        await scheduler.stop()

    world = play(story, monitored=False)
    assert world.ran == ["10:00 job"]
    assert world.names()[:3] == [
        "SchedulerInitializationStarted",
        "SchedulerInitializationFailed",
        "SchedulerInitializationStarted",
    ]


@pytest.mark.parametrize("how", ["asyncio.run", "a loop closed by hand"])
def test_a_scheduler_that_was_never_stopped_leaves_its_file_to_the_next_one(url, how):
    def live(story):
        if how == "asyncio.run":
            return asyncio.run(story())
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(story())
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()

    async def forgetful():
        await Scheduler(url, clock=VirtualClock(START)).initialize([("job", "* * * * *", nothing, 60)])

    names = []

    async def next_one():
        scheduler = Scheduler(url, clock=VirtualClock(START), observer=lambda event: names.append(event.name))
        await scheduler.initialize([("job", "* * * * *", nothing, 60)])
        await scheduler.stop()

    live(forgetful)
    live(next_one)
    assert "SchedulerStandby" not in names
    assert "SchedulerInitializationCompleted" in names


@pytest.mark.parametrize("how", ["asyncio.run", "a loop closed at once"])
@pytest.mark.parametrize("store", ["memory:", "sqlite:"])
def test_a_scheduler_whose_loop_was_closed_is_stopped_and_may_be_initialized_again(tmp_path, store, how):
    names, ran = [], []

    async def work():
        ran.append(1)

    url = store if store == "memory:" else f"sqlite:{tmp_path / 'state.db'}"
    clock = VirtualClock(START)
    scheduler = Scheduler(url, clock=clock, observer=lambda event: names.append(event.name))

    async def forgetful():
        await scheduler.initialize([("job", "* * * * *", work, 60)])
        await clock.advance(0)

    async def again():
        await scheduler.stop()
        await scheduler.initialize([("job", "* * * * *", work, 60)])
        await clock.advance(60)
        await scheduler.stop()

    if how == "asyncio.run":
        asyncio.run(forgetful())
    else:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(forgetful())
        loop.close()
    asyncio.run(again())
    assert (ran, names[-1]) == ([1, 1], "SchedulerStopped")
    assert "SchedulerStandby" not in names


def test_no_thread_is_left_behind_by_a_scheduler_that_was_never_stopped(url, tmp_path):
    async def forgetful():
        await Scheduler(url, clock=VirtualClock(START)).initialize([("job", "* * * * *", nothing, 60)])

    asyncio.run(forgetful())
    own = [thread for thread in threading.enumerate() if str(tmp_path) in thread.name]
    for thread in own:
        thread.join(30)
    assert not [thread for thread in own if thread.is_alive()]


def test_a_standby_is_a_warning_that_names_the_leader(url, caplog):
    async def story(world):
        first, second = world.scheduler(), world.scheduler()
        await first.initialize([world.task()])
        await second.initialize([world.task()])

    with caplog.at_level(logging.WARNING, "dutiful"):
        world = play(story, store=url)
    [standby] = [event for event in world.events if event["name"] == "SchedulerStandby"]
    assert standby["leaderPid"] == os.getpid()
    assert "leadsSince" in standby
    assert f"leaderPid={os.getpid()}" in caplog.text


def test_a_stop_that_cannot_record_a_run_says_which(url, tmp_path):
    async def story(world):
        scheduler = world.scheduler()
        scheduler._store._file._busy_timeout = 0.05
        await scheduler.initialize([world.task(does=world.sleeping(10))])
        await world.clock.advance(0)
        stopping = asyncio.create_task(scheduler.stop())
        await asyncio.sleep(0.01)
        locker = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
        locker.execute("BEGIN EXCLUSIVE")
        await world.clock.advance(10)
        try:
            with pytest.raises(StopSchedulerError) as caught:
                await stopping
        finally:
            locker.close()
        return caught.value.details["cause"].details["tasks"], str(caught.value)

    world = play(story, store=url, monitored=False)
    tasks, text = world.answer
    assert tasks == ["job"]
    assert "'job'" in text
    assert world.names()[-1] == "SchedulerStopped"


def test_an_engine_that_is_cancelled_from_outside_is_reported_and_still_drained():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(does=world.sleeping(30))])
        await world.clock.advance(0)
        [engine] = [task for task in asyncio.all_tasks() if task.get_name() == "dutiful-engine"]
        engine.cancel()
        stopping = asyncio.create_task(scheduler.stop())
        await world.clock.advance(30)
        await stopping

    world = play(story)
    names = world.names()
    assert "EngineStopped" in names
    assert (
        names.index("EngineStopped") < names.index("TaskRunCompleted job") < names.index("SchedulerStopped")
    )


def test_an_observer_that_raises_a_cancellation_does_not_end_the_engine():
    def cancels(event):
        if event.name == "TaskRunStarted":
            raise asyncio.CancelledError

    ran = []

    async def callback():
        ran.append(1)

    async def story():
        clock = VirtualClock(START)
        scheduler = Scheduler("memory:", clock=clock, observer=cancels)
        await scheduler.initialize([("job", "* * * * *", callback, 60)])
        await clock.advance(150)
        await scheduler.stop()

    asyncio.run(story())
    assert len(ran) == 3


def test_a_stop_ends_a_run_at_its_timeout():
    async def story(world):
        scheduler = world.scheduler()
        *_, callback, _ = world.task(does=world.sleeping(3600))
        await scheduler.initialize([task("job", "* * * * *", callback, 600, timeout=90)])
        await world.clock.advance(30)
        stopping = asyncio.create_task(scheduler.stop())
        await world.clock.advance(59)
        waiting = not stopping.done()
        await world.clock.advance(1)
        world.told = waiting, stopping.done()
        await stopping

    world = play(story)
    assert world.told == (True, True)
    assert world.ran == ["10:00 job"]
    [failed] = [event for event in world.events if event["name"] == "TaskRunFailed"]
    assert failed["error"] == "timed out after 90 s"


def test_a_stop_by_a_detached_task_waits_for_what_runs():
    async def story(world):
        scheduler, detached = world.scheduler(), []

        async def stop_later():
            await world.clock.sleep(5)
            await scheduler.stop()
            detached.append(world.time())

        async def spawn():
            detached.append(asyncio.create_task(stop_later()))

        await scheduler.initialize(
            [world.task("spawner", does=spawn), world.task("slow", does=world.sleeping(30))]
        )
        await world.clock.advance(60)
        return detached[1]

    assert play(story).answer == "10:00:30"


def test_a_log_handler_that_raises_does_not_cut_a_stop_short():
    class Broken(logging.Handler):
        def emit(self, record):
            raise OSError(f"no space left for {record.name}")

    handler = Broken()
    logger = logging.getLogger("dutiful")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:

        async def story(world):
            scheduler = world.scheduler()
            await scheduler.initialize([world.task(does=world.sleeping(30))])
            await world.clock.advance(0)
            stopping = asyncio.create_task(scheduler.stop())
            await world.clock.advance(29)
            waiting = not stopping.done()
            await world.clock.advance(1)
            await stopping
            return waiting

        assert play(story).answer
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def test_a_stop_whose_own_task_is_cancelled_stops_all_the_same():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(does=world.sleeping(30))])
        await world.clock.advance(0)
        stopping = asyncio.create_task(scheduler.stop())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        [own] = [task for task in asyncio.all_tasks() if task.get_name() == "dutiful-stop"]
        own.cancel()
        await world.clock.advance(29)
        waiting = not stopping.done()
        await world.clock.advance(1)
        await stopping
        return waiting

    world = play(story)
    assert world.answer
    assert world.names()[-1] == "SchedulerStopped"


def test_a_stop_from_another_loop_is_refused_and_changes_nothing():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task()])
        elsewhere = []

        def stop():
            try:
                asyncio.run(scheduler.stop())
            except StopSchedulerError as error:
                elsewhere.append(str(error))

        await asyncio.to_thread(stop)
        await world.clock.advance(60)
        await scheduler.stop()
        return elsewhere

    world = play(story)
    assert world.answer == [
        "Failed to stop scheduler: stop() must be called in the event loop that called initialize()"
    ]
    assert world.ran == ["10:00 job", "10:01 job"]


def test_a_namespace_of_the_service_is_refused_to_the_library_and_kept(tmp_path):
    path = tmp_path / "state.db"

    async def serve():
        settings = settings_from({"DUTIFUL_STORE": f"sqlite:{path}", "DUTIFUL_NAMESPACE": "shared"})
        service = await Service(settings, VirtualClock(START)).start()
        await service.stop()

    async def schedule():
        scheduler = Scheduler(f"sqlite:{path}", namespace="shared", clock=VirtualClock(START))
        await scheduler.initialize([("hello", "* * * * *", nothing, 60)])

    asyncio.run(serve())
    with pytest.raises(NamespaceOwnedError, match="belongs to the service: name another namespace"):
        asyncio.run(schedule())
    asyncio.run(serve())


def dump(path):
    """Return the content of a database file as statements."""
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


@pytest.mark.parametrize("worker", [True, False])
def test_a_namespace_of_the_library_is_refused_to_the_service_and_kept(tmp_path, worker):
    path, clock, ran = tmp_path / "state.db", VirtualClock(START), []

    async def hello():
        ran.append(f"{clock.now():%H:%M}")

    async def schedule():
        scheduler = Scheduler(f"sqlite:{path}", namespace="shared", clock=clock)
        await scheduler.initialize([("hello", "* * * * *", hello, 60)])
        await clock.advance(60)
        await scheduler.stop()

    async def serve():
        settings = settings_from({"DUTIFUL_STORE": f"sqlite:{path}", "DUTIFUL_NAMESPACE": "shared"})
        service = Service(settings, clock, worker=worker)
        try:
            await service.start()
        finally:
            await service.stop()

    asyncio.run(schedule())
    before = dump(path)
    with pytest.raises(NamespaceOwnedError) as refusal:
        asyncio.run(serve())
    assert str(refusal.value) == (
        f"The namespace 'shared' of {path} belongs to the library: "
        "name another namespace, or another file; nothing was changed"
    )
    assert dump(path) == before
    asyncio.run(schedule())
    assert ran == ["10:00", "10:01", "10:02"]


def test_the_library_and_the_service_may_share_a_file_by_default(tmp_path):
    url, clock, ran = f"sqlite:{tmp_path / 'state.db'}", VirtualClock(START), []

    async def hello():
        ran.append(f"{clock.now():%H:%M}")

    async def both():
        service = await Service(settings_from({"DUTIFUL_STORE": url}), clock).start()
        await service.registrar.upsert_schedule(ScheduleInput("w", 1, "ada", "0 0 1 1 *", "nightly"))
        scheduler = Scheduler(url, clock=clock)
        await scheduler.initialize([("hello", "* * * * *", hello, 60)])
        await clock.advance(60)
        await scheduler.stop()
        page = await service.registrar.list_schedules()
        await service.stop()
        return [view.schedule_id for view in page.items]

    assert asyncio.run(both()) == ["nightly"]
    assert ran == ["10:00", "10:01"]


def test_an_observer_that_fails_a_test_ends_nothing():
    class Verdict(BaseException):
        """What a test framework raises, past every `except Exception`."""

    def observer(event):
        if event.name == "TaskRunStarted":
            raise Verdict

    async def story():
        clock, ran = VirtualClock(START), []

        async def work():
            ran.append(f"{clock.now():%H:%M}")

        scheduler = Scheduler("memory:", clock=clock, observer=observer)
        await scheduler.initialize([("job", "* * * * *", work, 60)])
        await clock.advance(120)
        await scheduler.stop()
        return ran

    assert asyncio.run(story()) == ["10:00", "10:01", "10:02"]


def test_a_task_under_test_may_sleep_for_a_timedelta():
    async def story():
        clock = VirtualClock(START)
        sleeping = asyncio.create_task(clock.sleep(timedelta(minutes=20)))
        await clock.advance(1199)
        waiting = not sleeping.done()
        await clock.advance(1)
        return waiting, sleeping.done()

    assert asyncio.run(story()) == (True, True)
