"""The days that match, against a plain walk over dates."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from datetime import date, timedelta

import pytest

from dutiful.core.cron.days import BLOCK_BITS, BLOCK_MASK, FIRST_DAY, LAST_DAY, Days, matching_days
from dutiful.core.cron.dialect import span

EPOCH = date(1970, 1, 1)
TEXTS = {
    "every day": (span(1, 31), span(1, 12), span(0, 6), False),
    "mondays": (span(1, 31), span(1, 12), 1 << 1, False),
    "weekends in summer": (span(1, 31), span(6, 8), 1 << 0 | 1 << 6, False),
    "the first": (1 << 1, span(1, 12), span(0, 6), False),
    "the last days": (span(29, 31), span(1, 12), span(0, 6), False),
    "leap days": (1 << 29, 1 << 2, span(0, 6), False),
    "new year and Fridays in January": (1 << 1, 1 << 1, 1 << 5, True),
    "30 February or a Sunday": (1 << 30, 1 << 2, 1 << 0, True),
}
EDGES = [FIRST_DAY, -(1 << 16), -1, 0, 20_000, LAST_DAY - 800]


def walked(spec, low, high):
    """Return the matching days of [low, high), by looking at each date."""
    day_bits, month_bits, weekday_bits, either = spec
    found = []
    for day in range(max(low, FIRST_DAY), min(high, LAST_DAY + 1)):
        at = EPOCH + timedelta(days=day)
        in_day, in_weekday = day_bits >> at.day & 1, weekday_bits >> at.isoweekday() % 7 & 1
        if month_bits >> at.month & 1 and (in_day or in_weekday if either else in_day and in_weekday):
            found.append(day)
    return found


@pytest.mark.parametrize("spec", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("low", EDGES)
def test_a_window_holds_the_matching_days(spec, low):
    for length in (1, 7, 31, 366, 800):
        for start in (low - 400, low, low + 13):
            days = walked(spec, start, start + length)
            assert matching_days(*spec).window(start, start + length) == sum(1 << day - start for day in days)
            assert matching_days(*spec).count(start, start + length) == len(days)


@pytest.mark.parametrize("spec", TEXTS.values(), ids=TEXTS.keys())
def test_a_long_count_is_the_number_of_days(spec):
    assert Days(*spec).count(-9000, 20_000) == len(walked(spec, -9000, 20_000))
    assert Days(*spec).count(5, 5) == Days(*spec).count(5, 4) == 0


@pytest.mark.parametrize("spec", TEXTS.values(), ids=TEXTS.keys())
def test_the_nearest_day_lies_in_the_direction_of_the_search(spec):
    days, known, rng = Days(*spec), walked(spec, -4000, 4000), random.Random(64)
    for day in (rng.randint(-400, 400) for _ in range(100)):
        assert days.nearest(day, 1) == min(found for found in known if found >= day)
        assert days.nearest(day, -1) == max(found for found in known if found <= day)
        for table, step in ((days.ahead, 1), (days.back, -1)):
            distance = table[day >> BLOCK_BITS][day & BLOCK_MASK]
            assert day + distance == days.nearest(day, step)


def test_the_nearest_leap_day_is_found_from_every_day_of_twelve_years():
    days, leap_days = Days(*TEXTS["leap days"]), walked(TEXTS["leap days"], 45_000, 52_000)
    for day in range(46_500, 51_000):
        assert days.nearest(day, 1) == leap_days[bisect_left(leap_days, day)]
        assert days.nearest(day, -1) == leap_days[bisect_right(leap_days, day) - 1]


@pytest.mark.parametrize("spec", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("beyond", [1, 63, 64, 1000, 10**9])
def test_beyond_the_calendar_there_is_only_the_way_back(spec, beyond):
    days = Days(*spec)
    first, last = (
        walked(spec, FIRST_DAY, FIRST_DAY + 3000)[0],
        walked(spec, LAST_DAY - 3000, LAST_DAY + 1)[-1],
    )
    before, after = FIRST_DAY - beyond, LAST_DAY + beyond
    assert (days.nearest(before, 1), days.nearest(after, -1)) == (first, last)
    assert (days.nearest(before, -1), days.nearest(after, 1)) == (None, None)
    assert days.ahead[before >> BLOCK_BITS][before & BLOCK_MASK] == first - before
    assert days.back[after >> BLOCK_BITS][after & BLOCK_MASK] == last - after
    assert days.ahead[after >> BLOCK_BITS][after & BLOCK_MASK] is None
    assert days.back[before >> BLOCK_BITS][before & BLOCK_MASK] is None


def test_equal_fields_share_their_days():
    assert matching_days(*TEXTS["mondays"]) is matching_days(*TEXTS["mondays"])


def test_the_tables_of_a_long_walk_are_forgotten():
    days = Days(*TEXTS["every day"])
    for block in range(5000):
        assert days.ahead[block] == [0] * (1 << BLOCK_BITS)
    assert len(days.ahead) <= 1024
