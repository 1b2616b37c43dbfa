"""Jitter moves a tick by a hash: bounded, in order, the same everywhere, and never past a neighbour."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.plan.planner_notation import HOUR, MINUTE, at, clock, decided, schedule

from dutiful.core.cadence import Every, Once, next_tick
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.jitter import fire_time

CADENCES = [
    Cron.parse("* * * * *"),
    Cron.parse("0,1,30 * * * *", timezone="America/New_York"),
    Cron.parse("*/5 * * * * *", dialect="seconds"),
    Every(90_000, "start"),
    Every(1, "start"),
]


def ticks(cadence, after, count=40):
    found = []
    for _ in range(count):
        after = next_tick(cadence, after)
        found.append(after)
    return found


def test_without_jitter_a_tick_fires_at_its_own_instant():
    assert fire_time(schedule(), at("10:01")) == at("10:01")


@pytest.mark.parametrize("early", [True, False])
@given(cadence=st.sampled_from(CADENCES), jitter=st.integers(1, HOUR), start=st.integers(0, 86_400_000))
def test_ticks_fire_in_their_own_order_and_near_their_instant(early, cadence, jitter, start):
    declared = schedule(cadence, jitter=jitter, jitter_early=early)
    pairs = [(tick, fire_time(declared, tick)) for tick in ticks(cadence, at("00:00") + start)]
    assert all(tick - jitter * early <= fires <= tick + jitter for tick, fires in pairs)
    assert all(one[1] < other[1] for one, other in pairwise(pairs))
    assert all(one[1] < other[0] and one[0] < other[1] for one, other in pairwise(pairs))


def test_the_fire_time_depends_on_the_tick_and_the_schedule_alone():
    here, there = schedule(jitter=20_000), schedule(jitter=20_000, id_="other")
    minutes = [at(f"10:{minute:02}") for minute in range(60)]
    moved = [fire_time(here, minute) - minute for minute in minutes]
    assert moved == [fire_time(here, minute) - minute for minute in minutes]
    assert moved != [fire_time(there, minute) - minute for minute in minutes]
    assert len(set(moved)) > 50
    assert min(moved) < -10_000 < 10_000 < max(moved)


def test_a_lone_tick_has_the_whole_range():
    fires = {fire_time(schedule(Once(at("10:00")), jitter=1, id_=str(n)), at("10:00")) for n in range(50)}
    assert fires == {at("10:00") - 1, at("10:00"), at("10:00") + 1}


def decided_at(declared, now, cursor):
    return decided(declared, clock(now), clock(cursor))


@pytest.mark.parametrize("minute", [10, 20, 30, 40, 50])
def test_a_tick_is_decided_at_its_fire_time_and_not_before(minute):
    declared = schedule(Every(10 * MINUTE, "start"), jitter=3 * MINUTE)
    tick = at(f"10:{minute}")
    fires = fire_time(declared, tick)
    waiting = decided_at(declared, fires - 1, tick - 10 * MINUTE)
    assert (list(waiting.inserts), waiting.wake_at) == ([], fires)
    (row,) = decided_at(declared, fires, tick - 10 * MINUTE).inserts
    assert (row.run_at, row.fire_at, row.started_at) == (tick, fires, fires)


def test_lateness_is_counted_from_the_fire_time():
    declared = schedule(Every(HOUR, "start"), jitter=20 * MINUTE, jitter_early=False)
    fires = fire_time(declared, at("11:00"))
    assert fires > at("11:01")
    (on_time,) = decided_at(declared, fires + MINUTE, at("10:00")).inserts
    (missed,) = decided_at(declared, fires + MINUTE + 1, at("10:00")).inserts
    assert (on_time.reason, missed.reason) == (None, "missed")


def test_a_period_from_completion_fires_at_most_half_of_it_early():
    for number in range(100):
        declared = schedule(Every(MINUTE), jitter=HOUR, id_=f"s{number}")
        assert at("10:00:30") < fire_time(declared, at("10:01")) < at("10:01:30")
