"""Long waits, the ends of the calendar, and the odd offsets of the nineteenth century."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from traceback import format_exception
from zoneinfo import ZoneInfo

import pytest

from dutiful import Cron, CronCalculationError

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "after", "following"),
    [
        ("0 0 29 2 *", (2026, 1, 1), (2028, 2, 29)),
        ("0 0 29 2 *", (2028, 2, 29), (2032, 2, 29)),
        ("0 0 29 2 *", (2096, 2, 29), (2104, 2, 29)),
        ("0 0 29 2 *", (1896, 2, 29), (1904, 2, 29)),
        ("0 0 29 2 *", (1996, 2, 29), (2000, 2, 29)),
        ("59 23 31 12 *", (2025, 12, 31, 23, 58), (2025, 12, 31, 23, 59)),
        ("0 0 1 1 *", (2025, 12, 31, 23, 59), (2026, 1, 1)),
        ("0 0 31 * *", (2026, 1, 31), (2026, 3, 31)),
        ("0 0 30 1,2 *", (2026, 1, 30), (2027, 1, 30)),
        ("0 0 30 2 1", (2026, 2, 1), (2026, 2, 2)),
        ("0 0 30 2 1", (2026, 2, 23), (2027, 2, 1)),
        ("0 0 29 2 0", (2096, 2, 28), (2096, 2, 29)),
    ],
)
def test_next_and_previous_reach_over_the_years(text, after, following):
    cron = Cron.parse(text)
    assert cron.next(utc(*after)) == utc(*following)
    earlier = utc(*following) - timedelta(microseconds=1)
    assert cron.previous(earlier) == cron.previous(utc(*after))
    assert cron.previous(utc(*following)) == utc(*following)


def test_leap_days_of_four_hundred_years():
    found = list(Cron.parse("0 0 29 2 *").between(utc(1900, 1, 1), utc(2300, 1, 1)))
    years = [year for year in range(1900, 2300) if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)]
    assert found == [utc(year, 2, 29) for year in years]


def test_a_walk_of_three_centuries_forgets_nothing_on_the_way_out_and_back():
    cron = Cron.parse("0 0 1 * *")
    firsts = [utc(year, month, 1) for year in range(1900, 2200) for month in range(1, 13)]
    assert list(cron.between(firsts[0], utc(2200, 1, 1))) == firsts
    backwards, at = [], utc(2200, 1, 1)
    while (at := cron.previous(at - timedelta(microseconds=1))) >= firsts[0]:
        backwards.append(at)
    assert backwards[::-1] == firsts


def failure(ask, *args):
    with pytest.raises(CronCalculationError) as caught:
        ask(*args)
    error = caught.value
    assert str(error) == "Failed to calculate next occurrence: no occurrence within the years 1 to 9999"
    assert error.__cause__ is error.details["cause"]
    assert "During handling" not in "".join(format_exception(error))
    return {key: value for key, value in error.details.items() if key != "cause"}


def test_there_is_nothing_after_the_last_minute_and_before_the_first():
    cron = Cron.parse("* * * * *")
    last_minute, first_minute = utc(9999, 12, 31, 23, 59), utc(1, 1, 1)
    assert cron.next(last_minute - timedelta(seconds=1)) == last_minute
    assert cron.previous(LAST) == last_minute
    assert failure(cron.next, last_minute) == {
        "expression": "* * * * *",
        "currentTime": "9999-12-31T23:59:00+00:00",
    }
    assert cron.previous(first_minute) == first_minute
    yearly = Cron.parse("0 0 31 12 *")
    assert failure(yearly.previous, first_minute) == {
        "expression": "0 0 31 12 *",
        "currentTime": "0001-01-01T00:00:00+00:00",
    }


@pytest.mark.parametrize("seconds", [10**12, 10**30])
def test_an_epoch_second_that_no_datetime_holds_is_named_as_a_number(seconds):
    cron = Cron.parse("0 0 * * *", timezone="Europe/Berlin")
    assert failure(cron.next_epoch, seconds) == {"expression": "0 0 * * *", "currentTime": str(seconds)}
    assert failure(cron.previous_epoch, -seconds) == {"expression": "0 0 * * *", "currentTime": str(-seconds)}


@pytest.mark.parametrize("dialect", ["posix", "seconds"])
@pytest.mark.parametrize(
    ("zone", "first", "last"),
    [
        ("UTC", "0001-01-01T00:00:00+00:00", "9999-12-31T23:59:00+00:00"),
        ("America/New_York", "0001-01-01T00:00:00-04:56:02", "9999-12-31T18:59:00-05:00"),
        ("Asia/Tokyo", "0001-01-01T09:19:00+09:18:59", "9999-12-31T23:59:00+09:00"),
        ("Pacific/Kiritimati", "0001-01-01T00:00:00-10:29:20", "9999-12-31T23:59:00+14:00"),
    ],
)
def test_the_first_and_the_last_tick_of_the_calendar_are_found(zone, first, last, dialect):
    cron = Cron.parse("* * * * *" if dialect == "posix" else "0 * * * * *", dialect, zone)
    assert next(cron.between(FIRST, LAST)).isoformat() == first
    assert cron.previous(LAST).isoformat() == last
    assert failure(cron.next, cron.previous(LAST))["expression"] == cron.text


@pytest.mark.parametrize(
    ("zone", "first"),
    [
        ("UTC", "0001-01-01T00:00:00+00:00"),
        ("America/New_York", "0001-01-01T00:00:00-04:56:02"),
        ("Asia/Tokyo", "0001-01-01T09:18:59+09:18:59"),
    ],
)
def test_every_second_from_the_beginning_is_found(zone, first):
    cron = Cron.parse("* * * * * *", "seconds", zone)
    assert next(cron.between(FIRST, LAST)).isoformat() == first


def test_every_second_up_to_the_end_is_found():
    cron = Cron.parse("* * * * * *", "seconds", "Asia/Tokyo")
    assert cron.previous(LAST).isoformat() == "9999-12-31T23:59:59+09:00"
    assert cron.next(utc(9999, 12, 31, 14, 59, 58)).isoformat() == "9999-12-31T23:59:59+09:00"
    assert failure(cron.next, utc(9999, 12, 31, 14, 59, 59)) == {
        "expression": "* * * * * *",
        "currentTime": "9999-12-31T14:59:59+00:00",
    }


def test_between_ends_with_the_calendar():
    cron = Cron.parse("0 * * * *", timezone="America/New_York")
    found = list(cron.between(utc(9999, 12, 31, 20), LAST))
    assert [tick.isoformat() for tick in found] == [
        f"9999-12-31T{hour}:00:00-05:00" for hour in range(15, 19)
    ]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_matches_answers_up_to_the_ends_of_the_calendar(zone):
    cron = Cron.parse("0 0 1 1 *", timezone=zone)
    assert cron.matches(FIRST) is (zone == "UTC")
    assert cron.matches(LAST) is False


@pytest.mark.parametrize(
    ("zone", "year", "tick"),
    [
        ("America/New_York", 1850, "1850-01-01T09:00:00-04:56:02"),
        ("Asia/Kolkata", 1850, "1850-01-01T09:00:00+05:53:28"),
        ("Africa/Monrovia", 1960, "1960-01-01T09:00:00-00:44:30"),
    ],
)
def test_offsets_with_seconds_keep_the_local_time_whole(zone, year, tick):
    cron = Cron.parse("0 9 1 1 *", timezone=zone)
    found = cron.next(utc(year, 1, 1) - timedelta(days=2))
    assert found.isoformat() == tick
    assert cron.previous(found) == found
    assert cron.matches(found + timedelta(seconds=59))
    assert not cron.matches(found + timedelta(seconds=60))
    assert not cron.matches(found - timedelta(seconds=1))


@pytest.mark.parametrize(
    ("gap", "clocks"),
    [("skip", ["23:59:00", "00:45:00", "00:46:00"]), ("run_after", ["23:59:00", "00:44:30", "00:45:00"])],
)
def test_a_gap_that_ends_within_a_minute(gap, clocks):
    cron = Cron.parse("* * * * *", timezone="Africa/Monrovia", gap=gap)
    change = utc(1972, 1, 7, 0, 44, 30)
    found = list(cron.between(change - timedelta(seconds=60), change + timedelta(seconds=91)))
    assert [f"{tick:%H:%M:%S}" for tick in found][:3] == clocks
    assert found[0].tzinfo is ZoneInfo("Africa/Monrovia")


@pytest.mark.parametrize(
    ("fold", "offsets"),
    [("both", ["+15:02:19", "-08:57:41"]), ("first", ["+15:02:19"]), ("last", ["-08:57:41"])],
)
def test_the_day_that_alaska_lived_twice(fold, offsets):
    cron = Cron.parse("0 12 * * *", timezone="America/Juneau", fold=fold)
    found = [tick.isoformat() for tick in cron.between(utc(1867, 10, 16), utc(1867, 10, 21))]
    assert found == [
        "1867-10-17T12:00:00+15:02:19",
        "1867-10-18T12:00:00+15:02:19",
        *(f"1867-10-19T12:00:00{offset}" for offset in offsets),
        "1867-10-20T12:00:00-08:57:41",
    ]
