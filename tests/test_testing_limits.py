"""What the virtual clock refuses, and how far it reaches."""

from __future__ import annotations

import asyncio
import sys
from datetime import date, timedelta

import pytest
from tests.core.plan.planner_notation import schedule
from tests.runtime.registrar_notation import slow_rig

from dutiful import Scheduler, running
from dutiful.errors import InvalidArgumentError
from dutiful.testing import VirtualClock

TEN = "2026-01-05T10:00:00+00:00"


@pytest.mark.parametrize("start", ["tomorrow", "", 0, None, date(2026, 1, 5)])
def test_a_start_that_is_no_instant_is_refused(start):
    with pytest.raises(InvalidArgumentError, match="write ISO 8601, such as 2026-01-05T09:00, or a datetime"):
        VirtualClock(start)


@pytest.mark.parametrize("seconds", [-1, -0.001, timedelta(days=-1)])
def test_time_does_not_flow_backwards(seconds):
    async def story(clock):
        await clock.advance(5)
        await clock.advance(seconds)

    clock = VirtualClock(TEN)
    with pytest.raises(InvalidArgumentError, match="time flows forwards; use jump to set the clock back"):
        asyncio.run(story(clock))
    assert (clock.now().isoformat(), clock.monotonic()) == ("2026-01-05T10:00:05+00:00", 5)


@pytest.mark.parametrize("move", [VirtualClock.advance, VirtualClock.jump])
def test_a_clock_that_is_being_moved_cannot_be_moved_by_another_task(move):
    clock, errors = VirtualClock(TEN), []

    async def work():
        try:
            await move(clock, 5)
        except RuntimeError as error:
            errors.append(str(error))

    async def story():
        async with running(Scheduler("memory:", clock=clock), [("job", "* * * * *", work, 60)]):
            await asyncio.wait_for(clock.advance(60), 30)
            await move(clock, 1)

    asyncio.run(story())
    told = "the clock is being moved already: await one advance or jump before the next"
    assert errors == [f"{told}; a callback awaits clock.sleep() instead"] * 2
    assert clock.now().isoformat() == "2026-01-05T10:01:01+00:00"


@pytest.mark.parametrize("seconds", [timedelta.max.total_seconds(), 1e18, float("inf")])
def test_a_sleep_may_be_longer_than_time_itself(seconds):
    async def story():
        clock = VirtualClock(TEN)
        await clock.advance(3600)
        never = asyncio.get_running_loop().create_future()
        tasks = [asyncio.create_task(clock.sleep(seconds)), asyncio.create_task(clock.wait(never, seconds))]
        await clock.advance(timedelta(days=365))
        return [task.done() for task in tasks]

    assert asyncio.run(story()) == [False, False]


def test_time_ends_with_the_years_of_a_datetime():
    async def story():
        clock = VirtualClock("9999-12-31T23:00:00+00:00")
        await clock.advance(3599)
        with pytest.raises(OverflowError):
            await clock.advance(1)

    asyncio.run(story())


def test_microseconds_add_up():
    async def story():
        clock = VirtualClock(TEN)
        for _ in range(1000):
            await clock.advance(0.0001)
        return clock.monotonic(), clock.now().isoformat()

    assert asyncio.run(story()) == (0.1, "2026-01-05T10:00:00.100000+00:00")


class Opaque(asyncio.SelectorEventLoop):
    """An event loop that shows its ready queue to asyncio itself only, as loops of others do."""

    def __getattribute__(self, name):
        if name == "_ready" and "asyncio" not in sys._getframe(1).f_code.co_filename:
            raise AttributeError(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, Opaque])
def test_it_works_on_an_event_loop_that_does_not_show_its_ready_queue(loop):
    async def story():
        async with slow_rig(20, schedule()) as rig:
            await rig.time.advance(150)
            return await rig.rows(), rig.calls.noted

    with asyncio.Runner(loop_factory=loop) as runner:
        rows, noted = runner.run(story())
    assert rows == ["10:01 SUCCESS", "10:02 SUCCESS"]
    assert noted == [("10:01", "s", "10:01", 1), ("10:02", "s", "10:02", 1)]
