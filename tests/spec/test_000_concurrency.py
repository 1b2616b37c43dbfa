"""File 000, "Concurrency & Reentrancy": parallel tasks, overlapping calls, and what a stop waits for."""

from __future__ import annotations

import asyncio

import pytest
from tests.spec.world import play

from dutiful.errors import SchedulerAlreadyActiveError, StopSchedulerError, StoreError


def test_concurrency_tasks_execute_concurrently():
    async def story(world):
        meeting = asyncio.Barrier(3)
        await world.scheduler().initialize([world.task(f"t{n}", does=meeting.wait) for n in range(3)])
        await world.clock.advance(0)

    assert len(play(story).names(prefix="TaskRunCompleted")) == 3


def test_concurrency_one_task_executes_serially():
    running, most = 0, 0

    async def story(world):
        async def work():
            nonlocal running, most
            running += 1
            most = max(most, running)
            await world.clock.sleep(150)
            running -= 1

        await world.scheduler().initialize([world.task(does=work)])
        await world.clock.advance(900)

    world = play(story)
    assert most == 1
    assert world.ran == [
        f"{t} job" for t in ("10:00", "10:02:30", "10:05", "10:07:30", "10:10", "10:12:30")
    ] + ["10:15 job"]


def test_concurrency_only_the_first_of_concurrent_initializes_proceeds():
    async def story(world):
        scheduler = world.scheduler()
        begun = scheduler.initialize([world.task("first")])
        for name in ("second", "third"):
            with pytest.raises(SchedulerAlreadyActiveError, match="already initializing"):
                scheduler.initialize([world.task(name)])
        await begun
        await world.clock.advance(0)

    assert play(story).ran == ["10:00 first"]


def test_concurrency_gathered_initializes_raise_for_all_but_one():
    async def story(world):
        async def initialize(scheduler):
            await scheduler.initialize([world.task()])

        scheduler = world.scheduler()
        return await asyncio.gather(*(initialize(scheduler) for _ in range(5)), return_exceptions=True)

    answers = play(story).answer
    assert answers[0] is None
    assert [type(answer) for answer in answers[1:]] == [SchedulerAlreadyActiveError] * 4


def test_concurrency_many_stops_return_together_and_stop_once():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(does=world.sleeping(30))])
        await world.clock.advance(0)
        stops = [asyncio.ensure_future(scheduler.stop()) for _ in range(5)]
        await world.clock.advance(29)
        early = [stop.done() for stop in stops]
        await world.clock.advance(1)
        return early, [stop.done() for stop in stops]

    world = play(story)
    assert world.answer == ([False] * 5, [True] * 5)
    assert len(world.names(prefix="SchedulerStop")) == 2


def test_concurrency_a_stop_that_is_given_up_goes_on_for_the_others():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(does=world.sleeping(30))])
        await world.clock.advance(0)
        hasty, patient = (asyncio.ensure_future(scheduler.stop()) for _ in range(2))
        await asyncio.sleep(0)
        hasty.cancel()
        await world.clock.advance(30)
        return hasty.cancelled(), patient.done() and patient.exception()

    assert play(story).answer == (True, None)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_concurrency_stop_during_initialize_starts_nothing_and_the_run_stays_owed(kind, tmp_path):
    async def story(world):
        scheduler = world.scheduler()
        task = world.task(cron="0 10 * * *")
        begun = scheduler.initialize([task])
        stopping = asyncio.ensure_future(scheduler.stop())
        await asyncio.gather(begun, stopping)
        await world.clock.advance(600)
        assert world.ran == []
        await scheduler.initialize([task])
        await world.clock.advance(0)

    url = "memory:" if kind == "memory" else f"sqlite:{tmp_path / 'state.db'}"
    world = play(story, store=url)
    assert world.ran == ["10:10 job"]
    assert world.names()[:5] == [
        "SchedulerInitializationStarted",
        "SchedulerStopRequested",
        "TaskDifference job",
        "SchedulerInitializationCompleted",
        "SchedulerStopped",
    ]


def test_concurrency_stop_waits_for_an_initialize_in_progress(tmp_path):
    async def story(world):
        scheduler = world.scheduler()
        begun = scheduler.initialize([world.task()])
        await scheduler.stop()
        return begun.done()

    assert play(story, store=f"sqlite:{tmp_path / 'state.db'}").answer


def test_concurrency_stop_during_an_initialize_that_fails_returns_too(tmp_path):
    async def story(world):
        scheduler = world.scheduler()
        begun = scheduler.initialize([world.task()])
        await scheduler.stop()
        with pytest.raises(StoreError):
            await begun
        (tmp_path / "new").mkdir()
        await scheduler.initialize([world.task()])
        await world.clock.advance(0)

    # The theory does not know storage that fails.
    world = play(story, store=f"sqlite:{tmp_path / 'new' / 'state.db'}", monitored=False)
    assert world.ran == ["10:00 job"]


@pytest.mark.parametrize("pauses", range(12))
def test_concurrency_no_run_is_told_to_start_after_a_stop_is(pauses, tmp_path):
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task()])
        for _ in range(pauses):
            await asyncio.sleep(0.0003)
        await scheduler.stop()

    # The monitor is the judge: the poll may be anywhere when the stop comes.
    play(story, store=f"sqlite:{tmp_path / 'state.db'}")


def test_concurrency_a_task_may_stop_its_own_scheduler():
    async def story(world):
        scheduler = world.scheduler()

        async def work():
            await scheduler.stop()
            await world.clock.sleep(10)

        await scheduler.initialize([world.task(does=work)])
        await world.clock.advance(600)
        await scheduler.stop()

    world = play(story)
    assert world.ran == ["10:00 job"]
    assert world.names()[-3:] == ["TaskRunCompleted job", "PollingStopped", "SchedulerStopped"]


def test_concurrency_a_task_may_stop_its_scheduler_twice_or_after_others_did():
    async def story(world):
        scheduler = world.scheduler()

        async def work():
            await world.clock.sleep(10)
            await scheduler.stop()
            await world.clock.sleep(10)
            await scheduler.stop()

        await scheduler.initialize([world.task(does=work)])
        await world.clock.advance(0)
        stopping = asyncio.ensure_future(scheduler.stop())
        await world.clock.advance(20)
        return stopping.done()

    world = play(story)
    assert world.answer
    assert world.names()[-1] == "SchedulerStopped"


def test_concurrency_a_task_may_not_initialize_its_own_scheduler():
    async def story(world):
        scheduler = world.scheduler()

        async def work():
            await scheduler.initialize([])

        await scheduler.initialize([world.task(does=work)])
        await world.clock.advance(0)
        return world.events[-1]

    told = play(story).answer
    assert (told["name"], told["error"].partition(":")[0]) == ("TaskRunFailed", "SchedulerAlreadyActiveError")


def test_concurrency_failures_do_not_affect_other_running_tasks():
    async def story(world):
        bad, good = world.task("bad", does=world.failing()), world.task("good", does=world.sleeping(30))
        await world.scheduler().initialize([bad, good])
        await world.clock.advance(150)

    ran = play(story).ran
    assert [line for line in ran if "good" in line] == ["10:00 good", "10:01 good", "10:02 good"]


@pytest.mark.parametrize(
    "raised", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()]
)
def test_concurrency_whatever_a_callback_raises_is_a_failed_run(raised):
    async def story(world):
        async def work():
            raise raised

        await world.scheduler().initialize([world.task(does=work), world.task("other")])
        await world.clock.advance(60)

    world = play(story)
    assert world.ran == ["10:00 job", "10:00 other", "10:01 job", "10:01 other"]
    assert len(world.names(prefix="TaskRunFailed job")) == 2


def test_concurrency_polling_is_cleaned_up_when_tasks_fail_during_the_stop():
    async def story(world):
        async def fail_late():
            await world.clock.sleep(5)
            raise SystemExit

        scheduler = world.scheduler()
        await scheduler.initialize([world.task(does=fail_late)])
        await world.clock.advance(0)
        stopping = asyncio.ensure_future(scheduler.stop())
        await world.clock.advance(5)
        await stopping
        return len(asyncio.all_tasks())

    world = play(story)
    assert world.answer == 1
    assert world.names()[-2:] == ["PollingStopped", "SchedulerStopped"]


def test_concurrency_a_store_that_cannot_be_closed_fails_the_stop_and_all_else_is_cleaned_up():
    async def story(world):
        async def refuse():
            raise OSError("disk gone")

        scheduler = world.scheduler()
        await scheduler.initialize([world.task()])
        world.memory.close, close = refuse, world.memory.close
        with pytest.raises(StopSchedulerError, match="Failed to stop scheduler: disk gone") as caught:
            await scheduler.stop()
        world.memory.close = close
        assert len(asyncio.all_tasks()) == 1
        return caught.value

    world = play(story)
    error = world.answer
    assert error.details["cause"] is error.__cause__
    assert world.names()[-2:] == ["PollingStopped", "SchedulerStopped"]
