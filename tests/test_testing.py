"""The virtual clock that users get: it flows, it jumps, and it waits for work under way."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.core.plan.planner_notation import schedule

from dutiful.core.plan.outcome import Failed, Succeeded
from dutiful.core.run import Phase, Run, Status
from dutiful.runtime.ports import Launch
from dutiful.testing import RecordingLauncher, VirtualClock

TEN = "2026-01-05T10:00:00+00:00"


def second(clock):
    return (clock.now() - datetime.fromisoformat(TEN)).total_seconds()


async def sleepers(clock, *lengths):
    """Start a task per length; the list that is returned notes (length, when it woke)."""
    woken = []

    async def sleep(length):
        await clock.sleep(length)
        woken.append((length, second(clock)))

    tasks = [asyncio.create_task(sleep(length)) for length in lengths]
    await asyncio.sleep(0)
    return woken, tasks


def test_time_stands_still_until_it_is_told():
    async def story():
        clock = VirtualClock(TEN)
        for _ in range(100):
            await asyncio.sleep(0)
        return second(clock), clock.monotonic()

    assert asyncio.run(story()) == (0, 0)


def test_the_clock_tells_time_in_its_zone():
    clock = VirtualClock("2026-03-08T06:59:00+00:00", timezone="America/New_York")
    assert clock.now().isoformat() == "2026-03-08T01:59:00-05:00"


@pytest.mark.parametrize(
    "start", ["2026-01-05T10:00:00", datetime(2026, 1, 5, 9, tzinfo=UTC), "2026-01-05T04:00:00-05:00"]
)
def test_a_start_without_an_offset_is_in_the_clocks_zone(start):
    for zone in ("Europe/Berlin", ZoneInfo("Europe/Berlin")):
        clock = VirtualClock(start, timezone=zone)
        assert clock.now().isoformat() == "2026-01-05T10:00:00+01:00"


def test_the_clock_passes_a_change_of_offset():
    async def story():
        clock = VirtualClock("2026-03-08T06:59:00+00:00", timezone="America/New_York")
        await clock.advance(60)
        return clock.now().isoformat()

    assert asyncio.run(story()) == "2026-03-08T03:00:00-04:00"


def test_every_wake_on_the_way_happens_at_its_own_instant_and_in_order():
    async def story():
        clock = VirtualClock(TEN)
        woken, _ = await sleepers(clock, 3, 1, 2, 1, 10)
        await clock.advance(5)
        return woken, second(clock), clock.monotonic()

    assert asyncio.run(story()) == ([(1, 1), (1, 1), (2, 2), (3, 3)], 5, 5)


def test_what_a_wake_starts_happens_on_the_way_too():
    async def story():
        clock, seen = VirtualClock(TEN), []

        async def chain():
            for _ in range(4):
                await clock.sleep(1.5)
                seen.append(second(clock))

        task = asyncio.create_task(chain())
        await clock.advance(5)
        return seen, task.done()

    assert asyncio.run(story()) == ([1.5, 3, 4.5], False)


@pytest.mark.parametrize("seconds", [90, 90.0, timedelta(minutes=1.5)])
def test_a_duration_is_seconds_or_a_timedelta(seconds):
    async def story():
        clock = VirtualClock(TEN)
        await clock.advance(seconds)
        await clock.jump(seconds)
        return second(clock)

    assert asyncio.run(story()) == 180


def test_advancing_by_nothing_runs_what_can_run_now():
    async def story():
        clock, seen = VirtualClock(TEN), []

        async def steps():
            for n in range(50):
                await asyncio.sleep(0)
                seen.append(n)

        asyncio.create_task(steps())  # noqa: RUF006 - the loop of this test outlives it
        await clock.advance(0)
        return len(seen), second(clock)

    assert asyncio.run(story()) == (50, 0)


@pytest.mark.parametrize("by", [3600, -3600, timedelta(days=-2)])
def test_a_jump_moves_the_wall_clock_and_no_sleep(by):
    async def story():
        clock = VirtualClock(TEN)
        woken, _ = await sleepers(clock, 10)
        await clock.jump(by)
        jumped = second(clock), clock.monotonic(), list(woken)
        await clock.advance(10)
        return jumped, len(woken)

    seconds = by.total_seconds() if isinstance(by, timedelta) else by
    assert asyncio.run(story()) == ((seconds, 0, []), 1)


@pytest.mark.parametrize("cause", ["woken", "time", "jump"])
def test_a_wait_ends_when_woken_in_time_or_at_a_jump(cause):
    async def story():
        clock = VirtualClock(TEN)
        woken = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(clock.wait(woken, 60))
        await clock.advance(59)
        before = waiting.done()
        if cause == "woken":
            woken.set_result(None)
        await (clock.jump(-5) if cause == "jump" else clock.advance(cause == "time"))
        return before, waiting.done()

    assert asyncio.run(story()) == (False, True)


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_sleep_of_no_length_only_gives_way(seconds):
    async def story():
        clock = VirtualClock(TEN)
        await clock.sleep(seconds)
        return second(clock)

    assert asyncio.run(story()) == 0


def test_a_cancelled_sleep_is_passed_over():
    async def story():
        clock = VirtualClock(TEN)
        woken, (one, _) = await sleepers(clock, 1, 2)
        one.cancel()
        await clock.advance(3)
        return woken

    assert asyncio.run(story()) == [(2, 2)]


@pytest.mark.parametrize("move", ["advance", "jump"])
def test_time_waits_for_work_in_another_thread(move):
    async def story():
        clock, go, seen = VirtualClock(TEN), threading.Event(), []

        async def work():
            with clock.hold():
                await asyncio.to_thread(go.wait)
                seen.append(second(clock))

        task = asyncio.create_task(work())
        moving = asyncio.create_task(getattr(clock, move)(5))
        for _ in range(10):
            await asyncio.sleep(0)
        held = not moving.done()
        go.set()
        await asyncio.gather(task, moving)
        return held, seen, second(clock)

    assert asyncio.run(story()) == (True, [0], 5)


def test_holds_nest():
    async def story():
        clock = VirtualClock(TEN)
        with clock.hold():
            with clock.hold():
                moving = asyncio.create_task(clock.advance(1))
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            held = not moving.done()
        await moving
        return held, second(clock)

    assert asyncio.run(story()) == (True, 1)


def test_work_that_a_wake_hands_to_a_thread_is_done_before_time_goes_on():
    async def story():
        clock, seen = VirtualClock(TEN), []

        async def write_at(instant):
            await clock.sleep(instant)
            with clock.hold():
                await asyncio.to_thread(lambda: None)
            seen.append(second(clock))

        tasks = [asyncio.create_task(write_at(instant)) for instant in (1, 2, 3)]
        await clock.advance(10)
        await asyncio.gather(*tasks)
        return seen

    assert asyncio.run(story()) == [1, 2, 3]


def test_the_recording_launcher_remembers_and_does_as_it_is_told():
    run = Run("s", 0, "schedule", Status.STARTED, Phase.LAUNCHED, 0, attempt=1)
    launch = Launch(schedule(), run)
    well, badly = RecordingLauncher(), RecordingLauncher(lambda _: Failed("no"))
    assert asyncio.run(well.launch(launch)) == Succeeded()
    assert asyncio.run(badly.launch(launch)) == Failed("no")
    assert (well.launches, badly.launches) == ([launch], [launch])


def test_the_fixture_is_a_virtual_clock(virtual_clock):
    assert isinstance(virtual_clock, VirtualClock)
