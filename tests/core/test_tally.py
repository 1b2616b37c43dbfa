"""Ticks in buckets: every tick of a row is counted once, wherever its stretch lies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dutiful.core.tally import spread

instants = st.integers(0, 10**13)


@given(instants, st.integers(0, 10**9), st.integers(1, 5000), st.sampled_from([60_000, 600_000, 3_600_000]))
def test_every_tick_of_a_stretch_lies_in_one_bucket_between_its_ends(first, length, ticks, width):
    last = first + length
    buckets = dict(spread(first, last, ticks, width))
    assert sum(buckets.values()) == ticks
    assert all(first - width < at <= last and at % width == 0 for at in buckets)


@given(instants, st.integers(1, 1000))
def test_a_single_tick_lies_in_its_own_bucket(at, ticks):
    assert dict(spread(at, None, ticks, 600_000)) == {at - at % 600_000: ticks}


def test_minutes_are_spread_as_minutes():
    assert dict(spread(0, 179 * 60_000, 180, 3_600_000)) == {0: 60, 3_600_000: 60, 7_200_000: 60}
