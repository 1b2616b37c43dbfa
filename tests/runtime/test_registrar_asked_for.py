"""Runs that users ask for, and questions: many at once, of the far past and future, of pruned time."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.core.plan.planner_notation import HOUR, SECOND, at, clock, schedule
from tests.runtime.registrar_notation import explained, registrar, slow_rig, utc
from tests.sim.rig import Rig

from dutiful.core.cron.cron import Cron
from dutiful.core.errors import InvalidArgumentError
from dutiful.core.policy import Overlap
from dutiful.runtime.ports import Retention

HOURLY = Cron.parse("0 * * * *")


def keys(count):
    return [f"{n:064x}" for n in range(count)]


def test_each_of_many_runs_asked_for_while_the_clock_stands_still_is_made():
    async def story():
        async with Rig(schedule(HOURLY)) as rig:
            await rig.time.advance(90)
            asked = [await registrar(rig).trigger("s", key) for key in keys(1100)]
            await rig.time.advance(2)
            return {run.run_at for run in asked}, len(rig.calls.noted)

    instants, calls = asyncio.run(story())
    assert (len(instants), calls) == (1100, 1100)


def test_a_run_that_was_asked_for_under_a_known_key_is_not_made_twice():
    async def story():
        async with Rig(schedule(HOURLY)) as rig:
            first = await registrar(rig).trigger("s", keys(1)[0], '{"day":1}')
            await rig.time.advance(1)
            again = await registrar(rig).trigger("s", keys(1)[0], '{"day":2}')
            await rig.time.advance(1)
            return first, again, len(rig.calls.noted)

    first, again, calls = asyncio.run(story())
    assert (first.run_at, first.input, calls) == (again.run_at, again.input, 1)


def test_runs_asked_for_at_once_need_one_write_each():
    class Counting:
        def __init__(self, store):
            self.store, self.calls = store, []

        def __getattr__(self, name):
            self.calls.append(name)
            return getattr(self.store, name)

    async def story():
        async with Rig(schedule(HOURLY)) as rig:
            store = Counting(rig.store)
            desk = registrar(rig)
            desk._store = store
            await asyncio.gather(*(desk.trigger("s", key) for key in keys(50)))
            return store.calls

    calls = asyncio.run(story())
    assert {name: calls.count(name) for name in set(calls)} == {"get": 50, "request": 50}


def test_a_tick_is_explained_by_its_row_however_many_runs_were_asked_for_in_its_minute():
    async def story():
        async with Rig(schedule(HOURLY)) as rig:
            await rig.time.advance(3601)
            for key in keys(150):
                await registrar(rig).trigger("s", key)
            await rig.time.advance(1)
            return await explained(rig, "11:00")

    assert asyncio.run(story()).code == "SUCCESS"


def test_a_backfill_of_a_paused_schedule_has_the_ticks_up_to_now():
    async def story():
        async with Rig(schedule(Cron.parse("*/10 * * * * *", "seconds"))) as rig:
            await registrar(rig).pause("s", True)
            # A paused schedule is looked at once in a minute, so its last ticks are not yet recorded.
            await rig.time.advance(2 * 60 + 33)
            done = await registrar(rig).backfill("s", at("10:01:40"), at("10:02:40"), Overlap.ALLOW)
            await rig.time.advance(1)
            return done.accepted, [tick for _, _, tick, _ in rig.calls.noted]

    ticks = ["10:01:40", "10:01:50", "10:02", "10:02:10", "10:02:20", "10:02:30"]
    assert asyncio.run(story()) == (6, ticks)


def test_a_backfill_that_begins_in_the_future_is_refused():
    async def story():
        async with Rig(schedule()) as rig:
            await registrar(rig).backfill("s", at("10:01"), at("10:03"))

    with pytest.raises(InvalidArgumentError, match="lies in the future"):
        asyncio.run(story())


@pytest.mark.parametrize(("force", "expected"), [(False, (0, 0, 4)), (True, (4, 0, 0))])
def test_ticks_whose_rows_were_pruned_are_unknown_and_run_by_force(force, expected):
    async def story():
        async with Rig(schedule(HOURLY)) as rig:
            await rig.time.advance(10 * 3600)
            await rig.store.prune(at("20:00"), Retention(age=2 * HOUR))
            done = await registrar(rig).backfill("s", at("11:00"), at("15:00"), force=force)
            return done.accepted, done.already_recorded, done.unknown

    assert asyncio.run(story()) == expected


def test_runs_of_a_backfill_and_by_hand_are_not_pruned():
    async def story():
        async with Rig(schedule(HOURLY)) as rig:
            await rig.time.advance(3 * 3600 + 1)
            await registrar(rig).backfill("s", at("08:00"), at("10:00"))
            await registrar(rig).trigger("s", keys(1)[0])
            await rig.time.advance(3600)
            await rig.store.prune(at("15:00"), Retention(age=0, rows=0))
            return await rig.rows()

    assert asyncio.run(story()) == ["08:00 SUCCESS", "09:00 SUCCESS", "13:00:01 SUCCESS"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [({"retention_rows": 2}, ["13:00", "14:00"]), ({"retention_age": 3 * HOUR}, ["12:00", "13:00", "14:00"])],
)
def test_a_schedule_may_have_a_retention_of_its_own(policy, expected):
    async def story():
        async with Rig(schedule(HOURLY, **policy)) as rig:
            await rig.time.advance(4 * 3600 + 1)
            await rig.store.prune(at("14:30"), Retention())
            return [row.split()[0] for row in await rig.rows()]

    assert asyncio.run(story()) == expected


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.CANCEL_OTHER])
def test_a_backfill_accepts_only_the_ticks_that_can_run(overlap):
    async def story():
        async with slow_rig(10, schedule(HOURLY)) as rig:
            done = await registrar(rig).backfill("s", at("08:00"), at("10:00"), overlap)
            await rig.time.advance(60)
            return done.accepted, done.overlapping, len(rig.calls.noted)

    assert asyncio.run(story()) == (1, 1, 1)


# Each question has a bounded cost. The bound is in seconds of CPU, with room for a slow machine.
BOUND = 0.5


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Pacific/Chatham", "Africa/Casablanca", "UTC"])
def test_the_next_thousand_leap_days_end_at_the_horizon(zone):
    async def story():
        async with Rig(schedule(Cron.parse("0 0 29 2 *", timezone=zone))) as rig:
            began = time.process_time()
            found = await registrar(rig).preview("s", 1000)
            return len(found), time.process_time() - began

    found, took = asyncio.run(story())
    assert found == 12
    assert took < BOUND


def test_an_explanation_of_the_far_future_is_refused_and_of_the_near_one_is_quick():
    far = utc("10:00").replace(year=9990)
    near = utc("10:00").replace(year=2075)

    async def story():
        daily = schedule(Cron.parse("30 1 * * *", timezone="Europe/Berlin"), max_runs=10**9)
        async with Rig(daily) as rig:
            with pytest.raises(InvalidArgumentError, match="more than 50 years ahead"):
                await explained(rig, far)
            began = time.process_time()
            await explained(rig, near)
            return time.process_time() - began

    assert asyncio.run(story()) < BOUND


def test_a_backfill_of_more_than_ten_years_is_refused():
    async def story():
        async with Rig(schedule(Cron.parse("0 0 29 2 *"))) as rig:
            await registrar(rig).backfill("s", -62_135_596_800_000, at("10:00"))

    with pytest.raises(InvalidArgumentError, match="at most ten years"):
        asyncio.run(story())


# The ticks are at 10:02 and 10:04; each fires up to 50 s before or after its time.
@pytest.mark.parametrize(("seconds", "at_once"), [(0, 0), (65, 0), (110, 9), (119, 14), (120, 0)])
def test_the_next_tick_is_the_one_that_is_launched_next_whatever_its_jitter(seconds, at_once):
    cadence = Cron.parse("*/2 * * * *", "standard")
    declared = [schedule(cadence, f"id{n}", jitter=50 * SECOND) for n in range(24)]

    async def story():
        async with Rig() as rig:
            await rig.time.advance(seconds)
            for each in declared:
                await registrar(rig).upsert(each)
            # Nothing is launched between the question and the next launch.
            await rig.crash()
            promised = {each.id: await registrar(rig).preview(each.id, 1) for each in declared}
            rig.boot()
            await rig.time.advance(5 * 60)
            return promised, rig.calls.noted

    promised, noted = asyncio.run(story())
    launched = {id_: [when] for when, id_, _, _ in reversed(noted)}
    assert {id_: [clock(when) for when in found] for id_, found in promised.items()} == launched
    assert list(promised.values()).count([at("10:00") + seconds * SECOND]) == at_once
