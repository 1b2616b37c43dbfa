"""The engine's life: start, stop, stand by, take over, and a wall clock that does not behave."""

from __future__ import annotations

import asyncio

import pytest
from tests.core.plan.planner_notation import MINUTE, at, schedule
from tests.sim.rig import Rig

from dutiful.core.cadence import Every, Once
from dutiful.core.cron.cron import Cron
from dutiful.core.event import ClockStepped, LeadershipChanged, RunLaunched, TicksSkipped
from dutiful.core.plan.outcome import Succeeded
from dutiful.core.policy import CatchUp, OnOrphan, Overlap
from dutiful.core.run import Phase, Status
from dutiful.runtime.engine import Settings
from dutiful.runtime.in_flight import Drained


def lasting(seconds):
    """Return a rig's behaviour: every run takes so long."""

    async def work(_):
        await work.rig.time.sleep(seconds)
        return Succeeded()

    return work


def rig_with(behave, *schedules, **settings):
    behave.rig = Rig(*schedules, behave=behave, **settings)
    return behave.rig


def test_with_nothing_planned_no_pass_is_made_until_a_wake():
    async def story():
        async with Rig() as rig:
            await rig.time.advance(60)
            began = rig.engine.passed_at
            await rig.time.advance(86_400)
            idle = rig.engine.passed_at == began
            rig.engine.wake()
            await rig.time.advance(0)
            return idle, rig.engine.passed_at == rig.time.epoch_ms()

    assert asyncio.run(story()) == (True, True)


def test_stop_waits_for_the_runs_in_flight_and_records_them():
    async def story():
        async with rig_with(lasting(100), schedule()) as rig:
            await rig.time.advance(70)
            stopping = asyncio.create_task(rig.engine.stop())
            await rig.time.advance(80)
            waited = not stopping.done()
            await rig.time.advance(20)
            return waited, await stopping, await rig.rows(), rig.calls.noted

    waited, left, rows, noted = asyncio.run(story())
    assert (waited, left) == (True, Drained([], [], None))
    assert rows == ["10:01 SUCCESS"]
    assert noted == [("10:01", "s", "10:01", 1)]


def test_stop_within_a_time_leaves_and_says_how_many_are_left():
    async def story():
        async with rig_with(lasting(1000), schedule(id_="a"), schedule(id_="b")) as rig:
            await rig.time.advance(60)
            stopping = asyncio.create_task(rig.engine.stop(within=30))
            await rig.time.advance(30)
            return len((await stopping).in_flight), await rig.rows("a")

    assert asyncio.run(story()) == (2, ["10:01 STARTED"])


def test_after_stop_nothing_is_launched():
    async def story():
        async with Rig(schedule()) as rig:
            await rig.time.advance(30)
            await rig.engine.stop()
            await rig.time.advance(600)
            return rig.calls.noted, await rig.rows()

    assert asyncio.run(story()) == ([], [])


def test_stop_before_the_first_pass_and_stop_again_return_at_once():
    async def story():
        async with Rig(schedule()) as rig:
            return [await rig.engine.stop(), await rig.engine.stop()]

    assert asyncio.run(story()) == [Drained([], [], None)] * 2


def test_a_schedule_that_is_put_in_fires_without_waiting_for_the_next_pass():
    async def story():
        async with Rig() as rig:
            await rig.time.advance(3000)
            await rig.declare(schedule(Every(MINUTE)))
            rig.engine.wake()
            await rig.time.advance(0)
            return rig.calls.noted

    assert asyncio.run(story()) == [("10:50", "s", "10:50", 1)]


STEPS = [
    ("none", 600, ["10:01-10:10 SKIPPED missed", "10:11 SUCCESS"]),
    ("latest", 600, ["10:01-10:09 SKIPPED coalesced", "10:10 SUCCESS", "10:11 SUCCESS"]),
    ("fire_immediately", 150, ["10:01 SUCCESS", "10:02 SUCCESS", "10:03 SUCCESS"]),
]


@pytest.mark.parametrize(("catch_up", "step", "rows"), STEPS)
def test_a_clock_set_forward_or_a_suspend_is_downtime(catch_up, step, rows):
    async def story():
        declared = schedule(catch_up=CatchUp(catch_up), overlap=Overlap.ALLOW, grace=30_000)
        async with Rig(declared) as rig:
            await rig.time.advance(59)
            await rig.time.jump(step - 1)
            await rig.time.advance(3)
            return await rig.rows(), [event.by for event in rig.told(ClockStepped)]

    assert asyncio.run(story()) == (rows, [(step - 1) * 1000])


def test_a_clock_set_back_fires_nothing_twice_and_goes_on_where_it_was():
    async def story():
        async with Rig(schedule()) as rig:
            await rig.time.advance(310)
            await rig.time.jump(-600)
            await rig.time.advance(600)
            before = len(rig.calls.noted)
            await rig.time.advance(60)
            return before, rig.calls.noted[-1], await rig.rows()

    before, last, rows = asyncio.run(story())
    assert (before, last) == (5, ("10:06", "s", "10:06", 1))
    assert rows == [f"10:0{minute} SUCCESS" for minute in range(1, 7)]


def test_a_clock_set_back_by_days_goes_on_from_there_and_refires_nothing():
    async def story():
        async with Rig(schedule(Cron.parse("0 * * * *"))) as rig:
            await rig.time.advance(30 * 3600)
            await rig.time.jump(-28 * 3600)
            await rig.time.advance(30 * 3600)
            return await rig.rows(), len(rig.calls.noted)

    rows, launches = asyncio.run(story())
    assert (len(rows), launches) == (32, 32)


def test_a_failing_observer_is_counted_and_stops_nothing():
    def broken(_):
        raise RuntimeError

    async def story():
        async with Rig(schedule(), observer=broken) as rig:
            await rig.time.advance(60)
            return await rig.rows(), rig.engine.counts["observer_errors"]

    assert asyncio.run(story()) == (["10:01 SUCCESS"], 3)


def test_more_due_than_a_batch_all_fire_at_the_same_instant():
    async def story():
        many = [schedule(id_=f"s{n:02}") for n in range(25)]
        async with Rig(*many, settings=Settings(batch=10)) as rig:
            await rig.time.advance(60)
            return rig.calls.noted

    noted = asyncio.run(story())
    assert sorted(noted) == [("10:01", f"s{n:02}", "10:01", 1) for n in range(25)]


def test_no_more_runs_are_in_flight_than_allowed():
    async def story():
        many = [schedule(id_=f"s{n}", grace=10 * MINUTE) for n in range(5)]
        async with rig_with(lasting(10), *many, settings=Settings(in_flight_max=2)) as rig:
            await rig.time.advance(119)
            return rig.calls.noted

    noted = asyncio.run(story())
    assert [instant for instant, *_ in noted] == ["10:01", "10:01", "10:01:10", "10:01:10", "10:01:20"]


@pytest.mark.parametrize("catch_up", [CatchUp.NONE, CatchUp.LATEST])
@pytest.mark.parametrize("cap", [1, 100])
def test_ticks_that_wait_longer_than_their_grace_for_a_full_engine_are_not_missed(catch_up, cap):
    async def story():
        waiting = {"grace": MINUTE, "catch_up": catch_up, "catch_up_cap": cap}
        many = [schedule(Once(at("10:01")), id_=f"s{n}", **waiting) for n in range(9)]
        async with rig_with(lasting(50), *many, settings=Settings(in_flight_max=2)) as rig:
            await rig.time.advance(600)
            rows = [row for each in many for row in await rig.store.ledger(each.id, None, 10)]
            return rig.calls.noted, [row.status for row in rows]

    noted, statuses = asyncio.run(story())
    began = ["10:01", "10:01:50", "10:02:40", "10:03:30", "10:04:20"]
    assert [instant for instant, *_ in noted] == [at for at in began for _ in range(2)][:9]
    assert statuses == [Status.SUCCESS] * 9


def test_no_more_runs_are_in_flight_than_allowed_when_one_schedule_has_many():
    async def story():
        late = schedule(overlap=Overlap.ALLOW, catch_up=CatchUp.FIRE_IMMEDIATELY)
        async with rig_with(lasting(1000), late, settings=Settings(in_flight_max=2)) as rig:
            await rig.time.jump(600)
            return len(rig.calls.noted)

    assert asyncio.run(story()) <= 2


def test_runs_that_hang_do_not_fill_the_engine_for_ever():
    async def story():
        many = [schedule(Once(at("10:01")), id_=f"s{n}", run_timeout=MINUTE) for n in range(3)]
        async with rig_with(lasting(1e6), *many, settings=Settings(in_flight_max=2)) as rig:
            await rig.time.advance(600)
            return len(rig.calls.noted)

    assert asyncio.run(story()) == 3


def test_a_second_instance_stands_by_and_takes_over():
    async def story():
        async with Rig(schedule()) as rig:
            await rig.time.advance(60)
            first = rig.engine
            rig.boot()
            await rig.time.advance(60)
            await first.stop()
            await rig.store.close()
            await rig.time.advance(60)
            return rig.calls.noted, [event.epoch for event in rig.told(LeadershipChanged)]

    noted, epochs = asyncio.run(story())
    assert [instant for instant, *_ in noted] == ["10:01", "10:02", "10:03"]
    assert epochs == [1, 2]


ADOPTIONS = [
    ("restart", 2, "10:01 SUCCESS"),
    ("relaunch", 2, "10:01 SUCCESS"),
    ("wait", 1, "10:01 FAILED interrupted"),
    ("give_up", 1, "10:01 FAILED outcome_unknown"),
]


@pytest.mark.parametrize(("on_orphan", "launches", "row"), ADOPTIONS)
def test_a_run_in_flight_at_a_crash_is_adopted_as_its_policy_says(on_orphan, launches, row):
    async def story():
        declared = schedule(Once(at("10:01")), on_orphan=OnOrphan(on_orphan))
        async with rig_with(lasting(50), declared) as rig:
            await rig.time.advance(70)
            await rig.crash()
            rig.boot()
            await rig.time.advance(100)
            return [attempt for *_, attempt in rig.calls.noted], await rig.rows()

    assert asyncio.run(story()) == ([*range(1, launches + 1)], [row])


def test_waiting_runs_survive_a_crash():
    async def story():
        declared = schedule(overlap=Overlap.QUEUE, on_orphan=OnOrphan.GIVE_UP)
        async with rig_with(lasting(200), declared) as rig:
            await rig.time.advance(200)
            await rig.crash()
            rig.boot()
            await rig.time.advance(1)
            return await rig.rows(), (await rig.store.get("s")).runs[0].phase

    rows, phase = asyncio.run(story())
    assert rows == ["10:01 FAILED outcome_unknown", "10:02 STARTED", "10:03 ENQUEUED"]
    assert phase is Phase.LAUNCHED


def test_lateness_is_reported():
    async def story():
        async with Rig(schedule()) as rig:
            await rig.time.jump(75.5)
            return [(event.at, event.late) for event in rig.told(RunLaunched)]

    assert asyncio.run(story()) == [(at("10:01:15.5"), 15_500)]


def test_skips_are_reported_as_they_grow():
    async def story():
        async def hang(_):
            await rig.time.sleep(1000)
            return Succeeded()

        async with Rig(schedule(), behave=hang) as rig:
            await rig.time.advance(240)
            return [event.run.ticks for event in rig.told(TicksSkipped)]

    assert asyncio.run(story()) == [1, 2, 3]
