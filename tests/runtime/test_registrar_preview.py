"""The preview: the fire times it names are the ones that happen."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.plan.planner_notation import HOUR, MINUTE, SECOND, at, clock, schedule
from tests.runtime.registrar_notation import registrar, slow_rig
from tests.sim.rig import Rig

from dutiful.core.cadence import Every, Once, OnDemand
from dutiful.core.cron.cron import Cron
from dutiful.core.cron.zone import epoch_ms
from dutiful.core.policy import Overlap
from dutiful.core.schedule import Window

HOURLY = Cron.parse("0 * * * *")


def previewed(declared, count, after=0.0):
    async def story():
        async with Rig() as rig:
            await registrar(rig).upsert(declared)
            await rig.time.advance(after)
            return await registrar(rig).preview("s", count)

    return [clock(instant) for instant in asyncio.run(story())]


@pytest.mark.parametrize(
    ("declared", "after", "expected"),
    [
        (schedule(HOURLY), 0, ["11:00", "12:00", "13:00"]),
        (schedule(HOURLY), 3600, ["12:00", "13:00", "14:00"]),
        (schedule(HOURLY, window=Window(at("1+06:30"))), 60, ["1+07:00", "1+08:00", "1+09:00"]),
        (schedule(HOURLY, window=Window(at("11:00"), at("12:00"))), 60, ["11:00", "12:00"]),
        (schedule(HOURLY, window=Window(None, at("10:30"))), 60, []),
        (schedule(HOURLY, max_runs=2), 0, ["11:00", "12:00"]),
        (schedule(HOURLY, max_runs=2), 3600, ["12:00"]),
        (schedule(HOURLY, max_runs=2), 3 * 3600, []),
        (schedule(HOURLY, paused=True), 3600, ["12:00", "13:00", "14:00"]),
        (schedule(Every(20 * MINUTE, "start")), 60, ["10:20", "10:40", "11:00"]),
        (schedule(Every(20 * MINUTE, "start"), window=Window(None, at("10:40"))), 60, ["10:20", "10:40"]),
        (schedule(Every(20 * MINUTE, "start"), window=Window(at("11:10"))), 60, ["11:20", "11:40", "12:00"]),
        (schedule(Every(20 * MINUTE)), 60, ["10:20"]),
        (schedule(Every(20 * MINUTE), window=Window(at("11:10"))), 60, ["11:10"]),
        (schedule(Once(at("10:30"))), 60, ["10:30"]),
        (schedule(Once(at("10:30"))), 3600, []),
        (schedule(OnDemand()), 60, []),
    ],
)
def test_the_next_fire_times_as_far_as_they_are_known(declared, after, expected):
    assert previewed(declared, 3, after) == expected


def test_a_preview_of_none_is_empty():
    assert previewed(schedule(HOURLY), 0) == []


@pytest.mark.parametrize(
    ("after", "expected"),
    # The run that began at 10:00 ends at 10:10.
    [(5 * 60, []), (10 * 60, ["10:30"]), (25 * 60, ["10:30"])],
)
def test_a_period_counted_from_completion_knows_its_next_tick_only_once_the_run_has_ended(after, expected):
    async def story():
        async with slow_rig(600, schedule(Every(20 * MINUTE))) as rig:
            await rig.time.advance(after)
            return [clock(instant) for instant in await registrar(rig).preview("s", 3)]

    assert asyncio.run(story()) == expected


def test_an_overdue_period_counted_from_completion_is_due_now():
    async def story():
        async with Rig(schedule(Every(20 * MINUTE))) as rig:
            await rig.time.advance(0)
            await rig.crash()
            await rig.time.advance(2 * 3600)
            return await registrar(rig).preview("s", 3)

    assert asyncio.run(story()) == [at("12:00")]


def test_a_tick_that_jitter_holds_back_is_still_ahead():
    late = schedule(HOURLY, jitter=20 * MINUTE, jitter_early=False)
    first, *_ = previewed(late, 1)
    assert at("11:00") < at(first) < at("11:20")
    assert previewed(late, 1, 3601) == [first]


CADENCES = st.one_of(
    st.sampled_from(["* * * * *", "0,7,30 * * * *", "15 10-11 * * *", "5 12 * * *"]).map(Cron.parse),
    st.integers(10, 900).map(lambda seconds: Every(seconds * SECOND, "start")),
    st.integers(-60, 7200).map(lambda seconds: Once(at("10:00") + seconds * SECOND)),
)


BOUNDS = st.one_of(st.none(), st.integers(0, 3 * HOUR).map(lambda ms: at("10:00") + ms))


@settings(max_examples=60, deadline=None)
@given(
    CADENCES,
    st.sampled_from([0, 0, 3 * SECOND, 5 * MINUTE]),
    st.booleans(),
    BOUNDS,
    BOUNDS,
    st.one_of(st.none(), st.integers(1, 20)),
    st.floats(0, 3600),
)
def test_the_previewed_fire_times_are_those_that_happen(cadence, jitter, early, start, end, max_runs, after):
    declared = schedule(
        cadence, window=Window(start, end), overlap=Overlap.ALLOW,
        jitter=jitter, jitter_early=early, max_runs=max_runs,
    )  # fmt: skip

    async def story():
        async with Rig() as rig:
            await registrar(rig).upsert(declared)
            await rig.time.advance(after)
            before, preview = len(rig.calls.noted), await registrar(rig).preview("s", 20)
            until = epoch_ms(rig.time.now()) + 2 * HOUR
            await rig.time.advance(2 * 3600)
            happened = [at(instant) for instant, *_ in rig.calls.noted[before:]]
            return happened, [instant for instant in preview if instant <= until]

    happened, preview = asyncio.run(story())
    assert happened[: len(preview)] == preview
    assert len(happened) == len(preview) or len(preview) == 20
