"""Runs that are asked for: each takes one place, and gives it back, whatever happens around it."""

from __future__ import annotations

import asyncio

import pytest
from tests.fleet.rig import FleetRig, agent, every

from dutiful.fleet import ConcurrencyLimitError, FleetScheduler

HOOK = {"type": "webhook"}


def test_a_triggered_schedule_that_is_removed_before_the_pass_gives_its_place_back(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent("a", 1, x=HOOK, y=HOOK)) as rig:
            await rig.fleet.trigger("a", "x")
            rig.fleet.set_agents([agent("a", 1, y=HOOK)])
            await rig.clock.advance(10)
            return rig.fleet._declared.view.taken("a")

    assert asyncio.run(story()) == 0


def test_a_trigger_that_outlived_its_process_takes_a_place_like_any_other(tmp_path):
    async def first():
        rig = FleetRig(tmp_path, agent("a", 1, x=HOOK, y=HOOK))
        await rig.fleet.start(rig.agents)
        await rig.clock.advance(0)
        await rig.fleet.trigger("a", "x")
        rig.fleet._loop.cancel()
        await rig.fleet._host.close()

    async def second():
        fleet = agent("a", 1, x=HOOK, y=HOOK)
        async with FleetRig(tmp_path, fleet, lasts=50, start="2026-03-02T08:59:59+00:00") as rig:
            await rig.clock.advance(2)
            assert rig.fleet.get_running_job_count("a") == 1
            with pytest.raises(ConcurrencyLimitError):
                await rig.fleet.trigger("a", "y")

    asyncio.run(first())
    asyncio.run(second())


def test_a_trigger_is_never_overtaken_by_a_pass(tmp_path):
    async def story():
        fleet = FleetScheduler(state_dir=tmp_path, check_interval=0.001)
        schedules = {f"s{n}": every("1s") for n in range(5)}
        await fleet.start([agent("a", 10_000, **schedules, hook=HOOK)])
        for _ in range(300):
            await fleet.trigger("a", "hook")
            await asyncio.sleep(0.001)
        await fleet.stop()

    asyncio.run(story())


def test_triggers_of_one_moment_are_that_many_runs(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent("a", 5, x=HOOK)) as rig:
            await asyncio.gather(*(rig.fleet.trigger("a", "x") for _ in range(3)))
            await rig.clock.advance(3)
            return len(rig.triggered)

    assert asyncio.run(story()) == 3


def test_triggers_one_after_the_other_within_one_millisecond_are_that_many_runs(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent("a", 5, x=HOOK)) as rig:
            for _ in range(3):
                await rig.fleet.trigger("a", "x")
            await rig.clock.advance(3)
            return len(rig.triggered), rig.fleet._declared.view.taken("a")

    assert asyncio.run(story()) == (3, 0)
