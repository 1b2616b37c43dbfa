"""When a schedule is due: next, last and number of ticks agree with each other and with a plain walk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutiful.core.cadence import Every, Once, OnDemand, count_ticks, last_tick, next_tick
from dutiful.core.cron.cron import Cron

MONDAY = 1_767_571_200_000
CRONS = [
    Cron.parse("* * * * *"),
    Cron.parse("30 1,2 * * *", timezone="America/New_York", gap="run_after"),
    Cron.parse("*/7 * * * * *", dialect="seconds", timezone="Australia/Lord_Howe", fold="last"),
]


def walk(cadence, after, until):
    ticks = []
    while (tick := next_tick(cadence, after)) is not None and tick <= until:
        ticks.append(tick)
        after = tick
    return ticks


NEXT = [
    (Once(500), 499, 500),
    (Once(500), 500, None),
    (OnDemand(), 0, None),
    (Every(60), 100, 160),
    (Every(60, "start"), 100, 160),
    (CRONS[0], MONDAY - 1, MONDAY),
    (CRONS[0], MONDAY, MONDAY + 60_000),
    (CRONS[0], MONDAY + 999, MONDAY + 60_000),
]


@pytest.mark.parametrize(("cadence", "after", "expected"), NEXT)
def test_the_next_tick_is_strictly_after(cadence, after, expected):
    assert next_tick(cadence, after) == expected


@pytest.mark.parametrize(
    ("anchor", "ended_at", "expected"),
    [
        ("completion", None, 160),
        ("completion", 90, 160),
        ("completion", 130, 190),
        ("start", 130, 160),
    ],
)
def test_only_a_period_from_completion_cares_when_a_run_ended(anchor, ended_at, expected):
    assert next_tick(Every(60, anchor), 100, ended_at) == expected


@pytest.mark.parametrize(
    ("until", "last", "count"), [(159, None, 0), (160, 160, 1), (219, 160, 1), (220, 220, 2), (340, 340, 4)]
)
def test_a_strict_period_has_a_tick_at_each_beat(until, last, count):
    assert last_tick(Every(60, "start"), 100, until) == last
    assert count_ticks(Every(60, "start"), 100, until) == count


@pytest.mark.parametrize("until", [159, 160, 10_000])
def test_a_period_from_completion_has_one_tick_at_a_time(until):
    assert last_tick(Every(60), 100, until) == (160 if until >= 160 else None)
    assert count_ticks(Every(60), 100, until) == int(until >= 160)


@pytest.mark.parametrize("cadence", [Once(500), OnDemand()])
def test_one_instant_counts_once_and_a_demand_never(cadence):
    assert count_ticks(cadence, 0, 1000) == int(cadence == Once(500))
    assert count_ticks(cadence, 500, 1000) == 0
    assert last_tick(cadence, 0, 499) is None


@pytest.mark.parametrize("text", ["* * * * *", "0 0 29 2 *"])
def test_a_cron_has_no_tick_beyond_the_years_that_exist(text):
    end_of_time, cron = 253_402_300_799_000, Cron.parse(text)
    assert next_tick(cron, end_of_time) is None
    assert last_tick(cron, -(10**18), -(10**17)) is None


@given(
    st.sampled_from([*CRONS, Every(7_000, "start"), Every(90_000, "start"), Once(MONDAY + 5), OnDemand()]),
    st.integers(MONDAY, MONDAY + 300 * 86_400_000),
    st.integers(0, 600_000),
)
def test_last_and_count_are_what_a_walk_finds(cadence, after, length):
    ticks = walk(cadence, after, after + length)
    assert last_tick(cadence, after, after + length) == (ticks[-1] if ticks else None)
    assert count_ticks(cadence, after, after + length) == len(ticks)
