"""The virtual clock in several event loops, one after the other, and in loops of other makers."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from dutiful import Scheduler
from dutiful.testing import VirtualClock

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def run(loop, story):
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(story)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("store", ["memory:", "sqlite:"])
def test_a_restart_on_one_clock_may_be_a_second_event_loop(loop, store, tmp_path):
    clock, ran = VirtualClock("2026-01-01T10:00:00"), []

    async def work():
        ran.append(f"{clock.now():%H:%M}")

    async def life(minutes, stops):
        scheduler = Scheduler(store if store == "memory:" else f"sqlite:{tmp_path / 'state.db'}", clock=clock)
        await scheduler.initialize([("job", "* * * * *", work, 60)])
        await clock.advance(minutes * 60)
        if stops:
            await scheduler.stop()

    # The first life is left running, with its timers, as by a crash.
    run(loop, life(2, stops=store == "sqlite:"))
    run(loop, life(1, stops=True))
    again = ["10:02", "10:03"] if store == "memory:" else ["10:03"]
    assert ran == ["10:00", "10:01", "10:02", *again]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("turns", [0, 1, 150, 3000])
def test_a_callback_may_give_way_as_often_as_it_likes_within_one_instant(loop, turns):
    clock, seen = VirtualClock("2026-01-01T10:00:00"), []

    async def work():
        for _ in range(turns):
            await asyncio.sleep(0)
        seen.append(f"{clock.now():%H:%M:%S}")
        await clock.sleep(10)
        seen.append(f"{clock.now():%H:%M:%S}")

    async def story():
        scheduler = Scheduler("memory:", clock=clock)
        await scheduler.initialize([("job", "* * * * *", work, 60)])
        await clock.advance(90)
        await scheduler.stop()

    run(loop, story())
    assert seen == ["10:00:00", "10:00:10", "10:01:00", "10:01:10"]
