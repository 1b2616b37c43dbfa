"""The engine after a clock was set, mostly back by days: it goes on, and history stays as it was."""

from __future__ import annotations

import asyncio

import pytest
from tests.core.plan.planner_notation import HOUR, MINUTE, at, schedule
from tests.sim.gate import Gate
from tests.sim.rig import Rig

from dutiful.core.cadence import Every, Once
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.outcome import Accepted, Failed, Succeeded
from dutiful.core.policy import CatchUp, Overlap, Retry
from dutiful.runtime.ports import Retention
from dutiful.runtime.registrar import Registrar

DAYS = 86_400
HOURLY = Cron.parse("0 * * * *")


def test_a_cron_fires_the_ticks_that_a_wrong_clock_had_skipped():
    async def story():
        async with Rig(schedule(HOURLY)) as rig:
            await rig.time.jump(300 * DAYS)
            await rig.time.jump(-300 * DAYS)
            await rig.time.advance(3 * 3600)
            return [tick for _, _, tick, _ in rig.calls.noted if not tick.startswith("300+")]

    # The stretch that was skipped is the row of 11:00, its first tick.
    assert asyncio.run(story()) == ["12:00", "13:00"]


def test_a_period_from_completion_goes_on_from_there():
    async def story():
        async with Rig(schedule(Every(10 * MINUTE))) as rig:
            await rig.time.advance(3600)
            await rig.time.jump(-3 * DAYS)
            before = len(rig.calls.noted)
            await rig.time.advance(3600)
            return len(rig.calls.noted) - before

    assert asyncio.run(story()) >= 5


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE, Overlap.BUFFER_ONE])
def test_a_run_in_flight_still_times_out(overlap):
    async def vanish(_):
        return Accepted()

    async def story():
        async with Rig(schedule(overlap=overlap, run_timeout=HOUR), behave=vanish) as rig:
            await rig.time.advance(90)
            await rig.time.jump(-3 * DAYS)
            await rig.time.advance(2 * 3600)
            return await rig.rows()

    assert "10:01 FAILED lost_run" in asyncio.run(story())


@pytest.mark.parametrize("minutes", [10, 150])
def test_a_run_times_out_when_its_time_has_passed_also_after_a_smaller_step_back(minutes):
    async def hang(_):
        await asyncio.Event().wait()

    async def story():
        async with Rig(schedule(Once(at("10:01")), run_timeout=minutes * MINUTE), behave=hang) as rig:
            await rig.time.advance(4 * 60)
            await rig.time.jump(-3600)
            await rig.time.advance((minutes - 3) * 60 - 1)
            before = await rig.rows()
            await rig.time.advance(1)
            return [*before, *await rig.rows()]

    assert asyncio.run(story()) == ["10:01 STARTED", "10:01 FAILED lost_run"]


def test_a_run_that_ends_as_the_host_wakes_up_is_not_given_up():
    async def behave(_):
        await released.wait()
        return Succeeded()

    async def end_before_load(method, *_):
        if method == "load" and rig.time.now().minute == 24:
            released.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    released = asyncio.Event()
    once = schedule(Once(at("10:01")), run_timeout=10 * MINUTE)
    rig = Rig(once, behave=behave, through=lambda store: Gate(store, between=end_before_load))

    async def story():
        async with rig:
            await rig.time.advance(4 * 60)
            await rig.time.jump(20 * 60)
            await rig.time.advance(60)
            return await rig.rows()

    assert asyncio.run(story()) == ["10:01 SUCCESS"]


def test_a_waiting_retry_does_not_wait_for_days():
    async def fail(_):
        return Failed()

    async def story():
        declared = schedule(HOURLY, retry=Retry(10 * MINUTE, limit=3))
        async with Rig(declared, behave=fail) as rig:
            await rig.time.advance(3600 + 60)
            await rig.time.jump(-3 * DAYS)
            await rig.time.advance(1200)
            return [attempt for _, _, tick, attempt in rig.calls.noted if tick == "11:00"]

    assert asyncio.run(story())[:2] == [1, 2]


def test_a_stretch_never_replaces_a_run():
    async def story():
        async with Rig(schedule(HOURLY)) as rig:
            await rig.time.advance(30 * 3600)
            await rig.time.jump(-28 * 3600)
            registrar = Registrar(rig.store, rig.time, rig.engine.wake)
            await registrar.pause("s", paused=True)
            await rig.time.advance(10 * 3600)
            return await rig.rows()

    rows = asyncio.run(story())
    assert [row for row in rows if not row.endswith("SUCCESS")] == []
    assert len(rows) == 30


def test_a_run_in_flight_is_not_turned_into_a_skip_when_its_tick_comes_round_again():
    async def story():
        async def hang(_):
            await asyncio.Event().wait()

        async with Rig(schedule(HOURLY, run_timeout=None), behave=hang) as rig:
            await rig.time.advance(3600)
            await rig.time.jump(-2 * DAYS)
            await rig.time.advance(4 * DAYS)
            return await rig.rows()

    assert "11:00 STARTED" in asyncio.run(story())


def test_nothing_that_has_run_runs_again_even_when_it_is_pruned_meanwhile():
    async def story():
        async with Rig(schedule(HOURLY, overlap=Overlap.ALLOW, catch_up=CatchUp.FIRE_IMMEDIATELY)) as rig:
            await rig.time.advance(30 * 3600)
            await rig.store.prune(at("1+16:00"), Retention(rows=5))
            await rig.time.jump(-28 * 3600)
            await rig.time.advance(30 * 3600)
            return [tick for _, _, tick, _ in rig.calls.noted]

    noted = asyncio.run(story())
    assert len(noted) == len(set(noted))


def test_a_stretch_across_the_last_decided_tick_accounts_for_the_rest():
    async def story():
        async with Rig(schedule(HOURLY)) as rig:
            await rig.time.advance(30 * 3600)
            await rig.time.jump(-28 * 3600)
            await rig.crash()
            await rig.time.advance(33 * 3600)
            rig.boot()
            await rig.time.advance(1)
            return (await rig.rows())[30:]

    assert asyncio.run(story()) == ["1+17:00-1+20:00 SKIPPED missed", "1+21:00 SUCCESS"]


def test_a_stretch_that_comes_round_again_stays_as_long_as_it_was():
    async def story():
        async with Rig(schedule(HOURLY, paused=True)) as rig:
            await rig.time.advance(30 * 3600)
            await rig.time.jump(-29.5 * 3600)
            await rig.time.advance(3 * 3600)
            return (await rig.rows())[0]

    assert asyncio.run(story()) == "11:00-1+16:00 SKIPPED paused"


def test_an_edit_never_replaces_a_run():
    async def story():
        async with Rig(schedule(HOURLY)) as rig:
            await rig.time.advance(30 * 3600)
            await rig.time.jump(-28 * 3600)
            await rig.crash()
            await rig.time.advance(10 * 3600)
            await Registrar(rig.store, rig.time, lambda: None).pause("s", paused=True)
            return await rig.rows()

    assert [row for row in asyncio.run(story()) if not row.endswith("SUCCESS")] == []


@pytest.mark.parametrize("edit", ["upsert", "upsert_all"])
def test_an_edit_accounts_for_the_ticks_from_before_the_schedule_was_there(edit):
    edited = schedule(Cron.parse("30 * * * *"))

    async def story():
        async with Rig(schedule(HOURLY)) as rig:
            await rig.time.advance(30 * 3600)
            await rig.time.jump(-40 * 3600)
            await rig.time.advance(1)
            await rig.crash()
            await rig.time.advance(13 * 3600)
            registrar = Registrar(rig.store, rig.time, lambda: None)
            if edit == "upsert":
                await registrar.upsert(edited)
            else:
                await registrar.upsert_all(["s"], lambda *_: edited)
            return await rig.rows()

    first, *others = asyncio.run(story())
    assert first == "01:00-10:00 SKIPPED missed"
    assert [row for row in others if not row.endswith("SUCCESS")] == []
    assert len(others) == 30
