"""Days without ticks: a cron with a calendar is the same cron, less the excluded days."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.yardstick import takes_less_than

from dutiful.core.cron.cron import Cron
from dutiful.core.errors import CronCalculationError, InvalidArgumentError

BERLIN = ZoneInfo("Europe/Berlin")
START = date(2023, 12, 1)
DATES = st.dates(START, date(2025, 3, 31))
TEXTS = ("30 2 * * *", "0 9 * * 1-5", "*/20 * * * *", "0 0 29 2 *", "15 12 24-26 12 *")


def ticks(cron, first, last):
    begin = datetime(first.year, first.month, first.day, tzinfo=BERLIN)
    end = datetime(last.year, last.month, last.day, tzinfo=BERLIN)
    return list(cron.between(begin, end))


@st.composite
def calendars(draw):
    """Return the texts of a calendar and, apart from them, which dates they exclude."""
    texts, excluded = [], []
    for first in draw(st.lists(DATES, max_size=4)):
        kind = draw(st.sampled_from(["date", "range", "yearly"]))
        if kind == "date":
            texts.append(first.isoformat())
            excluded.append(lambda day, first=first: day == first)
        elif kind == "range":
            last = first + timedelta(days=draw(st.integers(0, 40)))
            texts.append(f"{first.isoformat()}/{last.isoformat()}")
            excluded.append(lambda day, first=first, last=last: first <= day <= last)
        else:
            texts.append(f"{first:%m-%d}")
            excluded.append(lambda day, first=first: (day.month, day.day) == (first.month, first.day))
    return texts, lambda day: any(rule(day) for rule in excluded)


@settings(derandomize=True, database=None, deadline=None, max_examples=150)
@given(calendars(), st.sampled_from(TEXTS), st.sampled_from(["skip", "run_after"]), DATES)
def test_a_calendar_takes_away_the_ticks_of_its_days_and_no_others(calendar, text, gap, first):
    texts, excludes = calendar
    last = first + timedelta(days=90)
    plain = Cron.parse(text, "standard", BERLIN, gap, "both")
    try:
        cron = Cron.parse(text, "standard", BERLIN, gap, "both", calendar=texts)
    except InvalidArgumentError:
        # Nothing is left, in a year with every day and in the ones around it.
        assert all(excludes(tick.date()) for tick in ticks(plain, date(2024, 1, 1), date(2025, 1, 1)))
        return
    wanted = [tick for tick in ticks(plain, first, last) if not excludes(tick.date())]
    assert ticks(cron, first, last) == wanted
    begin = datetime(first.year, first.month, first.day, tzinfo=BERLIN)
    since = int(begin.timestamp()) - 1
    assert cron.count_epoch(since, since + 80 * 86_400) == sum(
        tick.timestamp() <= since + 80 * 86_400 for tick in wanted
    )
    for tick in wanted[:20]:
        assert cron.previous(tick) == tick


def test_an_excluded_day_is_one_of_the_zone():
    cron = Cron.parse("30 0 * * *", timezone="Asia/Tokyo", calendar=["2026-12-25"])
    assert [tick.isoformat() for tick in cron.between(
        datetime(2026, 12, 23, 15, tzinfo=UTC), datetime(2026, 12, 26, 15, tzinfo=UTC)
    )] == ["2026-12-24T00:30:00+09:00", "2026-12-26T00:30:00+09:00"]  # fmt: skip


def test_crons_with_equal_calendars_are_equal_and_survive_pickling():
    cron = Cron.parse("0 9 * * *", calendar=["12-25", "2026-05-01", "12-25"])
    assert cron == Cron.parse("0 9 * * *", calendar=("2026-05-01", "12-25"))
    assert cron != Cron.parse("0 9 * * *")
    assert cron.calendar == ("12-25", "2026-05-01")
    assert pickle.loads(pickle.dumps(cron)) == cron
    assert cron.describe() == "At 09:00, but not on 12-25, 2026-05-01"


@pytest.mark.parametrize(
    ("calendar", "problem"),
    [
        (["25.12.2026"], "write a date such as 2026-12-25"),
        (["2026-02-30"], "day is out of range"),
        (["02-30"], "write a date such as 2026-12-25"),
        (["2026-12-26/2026-12-24"], "the range ends before it begins"),
        ([5], "write a date such as 2026-12-25"),
        ("2026-12-25", "write a list of days"),
        (None, "write a list of days"),
        (["2026-12-25\n"], "write a date such as 2026-12-25"),
        (["١٢-٢٥"], "write a date such as 2026-12-25"),
        (["12-25"] * 1 + [f"{year}-01-01" for year in range(1000, 2000)], "write at most 1000"),
        ([f"01-{day:02}" for day in range(1, 32)], "leaves no day on which it is due"),
    ],
)
def test_a_calendar_that_cannot_be_meant_is_refused(calendar, problem):
    with pytest.raises(InvalidArgumentError, match=problem):
        Cron.parse("0 0 * 1 *", calendar=calendar)


EVERY_DAY = [f"{date(2000, 1, 1) + timedelta(days=day):%m-%d}" for day in range(366)]


def test_a_calendar_of_every_day_is_refused_at_once():
    with takes_less_than(20), pytest.raises(InvalidArgumentError, match="leaves no day on which it is due"):
        Cron.parse("* * * * *", calendar=EVERY_DAY)


@pytest.mark.parametrize(
    "ranges",
    [
        ["2026-11-19/9999-12-31", *(f"{year}-01-01" for year in range(1000, 1999))],
        [f"{year}-01-01/9999-12-31" for year in range(2027, 3026)],
        [f"{year}-01-01/{year}-12-31" for year in range(2027, 3026)],
    ],
    ids=["one range and many days before it", "ranges that overlap", "ranges that touch"],
)
def test_the_end_of_a_calendar_of_many_years_is_found_at_once(ranges):
    with takes_less_than(20):
        cron = Cron.parse("0 0 * * *", calendar=ranges)
        end = datetime(9999, 12, 31, tzinfo=UTC)
        assert (
            cron.previous(end)
            == {
                "2026-11-19/9999-12-31": datetime(2026, 11, 18, tzinfo=UTC),
                "2027-01-01/9999-12-31": datetime(2026, 12, 31, tzinfo=UTC),
                "2027-01-01/2027-12-31": end,
            }[ranges[0]]
        )
        if cron.previous(end) != end:
            with pytest.raises(CronCalculationError):
                cron.next(datetime(2027, 1, 1, tzinfo=UTC))


def test_a_range_of_years_is_passed_over_in_both_directions():
    cron = Cron.parse("0 0 29 2 *", calendar=["1973-01-01/2096-02-29", "2096-01-01/9996-02-29"])
    first, last = datetime(1972, 2, 29, tzinfo=UTC), datetime(9996, 2, 29, tzinfo=UTC)
    assert cron.previous(last) == first
    with pytest.raises(CronCalculationError):
        cron.next(first)
