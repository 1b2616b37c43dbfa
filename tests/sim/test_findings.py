"""What the campaigns found and nobody has mended yet: each test says what is wrong, and fails for now."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.core.planner_notation import HOUR, MINUTE, at, schedule
from tests.sim.rig import Rig
from tests.spec.world import play

from dutiful.core.cadence import Once
from dutiful.core.cron import Cron
from dutiful.core.outcome import Failed
from dutiful.core.policy import OnOrphan, Overlap, Policy, Retry
from dutiful.core.schedule import Schedule, Task
from dutiful.engine import Settings


async def hang(_):
    await asyncio.Event().wait()


async def advance(rig, **by):
    await rig.time.advance(timedelta(**by).total_seconds())


@pytest.mark.xfail(
    strict=True,
    reason="Draft._insert: a tick that comes again takes the place of its own open run in the draft, so"
    " that the timeout of that run wakes nobody",
)
def test_a_run_in_flight_is_still_given_up_when_its_tick_comes_again():
    policy = Policy(overlap=Overlap.QUEUE, run_timeout=48 * HOUR)
    monthly = replace(schedule(), cadence=Cron.parse("0 12 5 * *"), policy=policy)

    async def scenario():
        async with Rig(monthly, behave=hang) as rig:
            await advance(rig, hours=3)
            await rig.time.jump(-30 * 3600)
            await advance(rig, days=10)
            return await rig.rows()

    assert asyncio.run(scenario()) == ["12:00 FAILED lost_run"]


@pytest.mark.xfail(
    strict=True,
    reason="planner: an orphan that finds no room in the engine is then expired in the same decision, so"
    " whether it is run again depends on what else is due",
)
def test_an_orphan_without_room_is_run_again_however_long_nobody_was_there():
    policy = Policy(on_orphan=OnOrphan.RELAUNCH, run_timeout=2 * MINUTE, retry=Retry(10 * MINUTE))
    orphan = Schedule("orphan", Task("task"), Once(at("10:02")), policy)
    failed = replace(orphan, id="failed", cadence=Once(at("10:01")))

    async def behave(launch):
        return await hang(launch) if launch.run.schedule_id == "orphan" else Failed()

    async def scenario():
        async with Rig(orphan, failed, behave=behave, settings=Settings(in_flight_max=1)) as rig:
            await advance(rig, minutes=3)
            await rig.crash()
            await advance(rig, hours=1)
            rig.boot()
            await advance(rig, minutes=1)
            return [attempt for _, schedule_id, _, attempt in rig.calls.noted if schedule_id == "orphan"]

    assert asyncio.run(scenario()) == [1, 2]


@pytest.mark.xfail(
    strict=True,
    reason="store.rearm takes a retry that waits for more than a day for the trace of a clock that was"
    " ahead, and every new leader calls it: the retry is made at once",
)
def test_a_retry_after_days_waits_through_a_restart():
    async def story(world):
        task = world.task("job", "0 9 1 * *", world.failing(), delay=2 * 24 * 3600)
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(3600)
        await world.restart(scheduler, task)

    assert play(story, "2026-01-01T08:30:00", monitored=False).ran == ["09:00 job"]
