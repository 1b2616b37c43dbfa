"""What each dialect reads, as whole sets of values; what is refused is in test_refusals.py."""

from __future__ import annotations

import pytest

from dutiful import Cron, InvalidCronExpressionError
from dutiful.core.cron.dialect import DIALECTS, span, values

MINUTES, HOURS, DAYS = range(60), range(24), range(1, 32)
MONTHS, WEEKDAYS = range(1, 13), range(7)


def read(text, dialect):
    """Return the values of (second, minute, hour, day, month, weekday)."""
    fields = Cron.parse(text, dialect).fields
    bits = (fields.second, fields.minute, fields.hour, fields.day, fields.month, fields.weekday)
    return tuple(values(each) for each in bits)


def expected(second=(0,), minute=MINUTES, hour=HOURS, day=DAYS, month=MONTHS, weekday=WEEKDAYS):
    return tuple([*each] for each in (second, minute, hour, day, month, weekday))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("* * * * *", expected()),
        ("0 0 1 1 0", expected(minute=[0], hour=[0], day=[1], month=[1], weekday=[0])),
        ("59 23 31 12 6", expected(minute=[59], hour=[23], day=[31], month=[12], weekday=[6])),
        ("5,10,7 * * * *", expected(minute=[5, 7, 10])),
        ("5,5-7,6 * * * *", expected(minute=[5, 6, 7])),
        ("10-12,20,58-59 * * * *", expected(minute=[10, 11, 12, 20, 58, 59])),
        ("5-5 * * * *", expected(minute=[5])),
        ("0-59 0-23 1-31 1-12 0-6", expected()),
        ("00 01 002 0000003 04", expected(minute=[0], hour=[1], day=[2], month=[3], weekday=[4])),
        ("000000-00000007 * * * *", expected(minute=range(8))),
        (f"{'0' * 200}7 * * * *", expected(minute=[7])),
        ("\t1 2 3 4 5", expected(minute=[1], hour=[2], day=[3], month=[4], weekday=[5])),
        ("1 2 3 4 5\t", expected(minute=[1], hour=[2], day=[3], month=[4], weekday=[5])),
        ("\t 1 \t 2\t3 4   5 \t", expected(minute=[1], hour=[2], day=[3], month=[4], weekday=[5])),
    ],
)
def test_every_dialect_reads_numbers_lists_and_ranges(dialect, text, fields):
    assert read(text, dialect) == fields


@pytest.mark.parametrize("dialect", ["standard", "seconds"])
@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("*/15 * * * *", expected(minute=[0, 15, 30, 45])),
        ("*/7 * * * *", expected(minute=range(0, 60, 7))),
        ("*/1 * * * *", expected()),
        ("*/59 * * * *", expected(minute=[0, 59])),
        ("*/60 * * * *", expected(minute=[0])),
        ("*/99 * * * *", expected(minute=[0])),
        ("*/0015 * * * *", expected(minute=[0, 15, 30, 45])),
        ("10-30/10 * * * *", expected(minute=[10, 20, 30])),
        ("10-29/10 * * * *", expected(minute=[10, 20])),
        ("5/20 * * * *", expected(minute=[5, 25, 45])),
        ("59/2 * * * *", expected(minute=[59])),
        ("*,5 * * * *", expected()),
        ("*/30,5 * * * *", expected(minute=[0, 5, 30])),
        ("* */6 * * *", expected(hour=[0, 6, 12, 18])),
        ("* * */10 * *", expected(day=[1, 11, 21, 31])),
        ("* * 10/10 * *", expected(day=[10, 20, 30])),
        ("* * * */3 *", expected(month=[1, 4, 7, 10])),
        ("* * * * */2", expected(weekday=[0, 2, 4, 6])),
        ("* * * * 1/2", expected(weekday=[1, 3, 5])),
    ],
)
def test_the_extended_dialects_read_steps(dialect, text, fields):
    assert read(text, dialect) == fields


@pytest.mark.parametrize("dialect", ["standard", "seconds"])
@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("* * * jan *", expected(month=[1])),
        ("* * * JAN,dEc *", expected(month=[1, 12])),
        ("* * * mar-may *", expected(month=[3, 4, 5])),
        ("* * * jan-6/2 *", expected(month=[1, 3, 5])),
        ("* * * jan/6 *", expected(month=[1, 7])),
        ("* * * * sun", expected(weekday=[0])),
        ("* * * * mon-fri", expected(weekday=range(1, 6))),
        ("* * * * MON,Wed,fri", expected(weekday=[1, 3, 5])),
        ("* * * * sun-tue", expected(weekday=[0, 1, 2])),
        ("* * * * sun/3", expected(weekday=[0, 3, 6])),
    ],
)
def test_the_extended_dialects_read_names(dialect, text, fields):
    assert read(text, dialect) == fields


@pytest.mark.parametrize("dialect", ["standard", "seconds"])
@pytest.mark.parametrize(
    ("weekday", "chosen"),
    [
        ("7", [0]),
        ("07", [0]),
        ("0,7", [0]),
        ("6-7", [0, 6]),
        ("5-7", [0, 5, 6]),
        ("1-7", range(7)),
        ("0-7", range(7)),
        ("7-7", [0]),
        ("mon-7", range(7)),
        ("1-7/2", [0, 1, 3, 5]),
        ("5-7/2", [0, 5]),
        ("0-7/7", [0]),
        ("3-7/4", [0, 3]),
        ("7/2", [0]),
        ("7/7", [0]),
    ],
)
def test_the_extended_dialects_read_seven_as_sunday(dialect, weekday, chosen):
    assert read(f"* * * * {weekday}", dialect) == expected(weekday=chosen)


@pytest.mark.parametrize("dialect", ["standard", "seconds"])
@pytest.mark.parametrize(
    ("macro", "text"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("@DAILY", "0 0 * * *"),
        (" \t@daily ", "0 0 * * *"),
    ],
)
def test_the_extended_dialects_read_macros(dialect, macro, text):
    assert Cron.parse(macro, dialect).fields == Cron.parse(text, dialect).fields
    assert str(Cron.parse(macro, dialect)) == macro


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("* * * * * *", expected(second=range(60))),
        ("30 * * * * *", expected(second=[30])),
        ("*/20 1 2 3 4 5", expected([0, 20, 40], [1], [2], [3], [4], [5])),
        ("5/25 * * * * *", expected(second=[5, 30, 55])),
        ("0 1 2 3 4 5", expected([0], [1], [2], [3], [4], [5])),
        ("1 2 3 4 5", expected([0], [1], [2], [3], [4], [5])),
    ],
)
def test_the_seconds_come_first_and_may_be_left_out(text, fields):
    assert read(text, "seconds") == fields


@pytest.mark.parametrize(
    ("text", "either"),
    [
        ("0 0 * * *", False),
        ("0 0 1 * *", False),
        ("0 0 * * 1", False),
        ("0 0 1 * 1", True),
        ("0 0 1-31 * 1", True),
        ("0 0 1 * 0-6", True),
        ("0 0 */2 * 1", True),
        ("0 0 */1 * 1", True),
        ("0 0 1 * */2", True),
        ("0 0 *,5 * 1", True),
    ],
)
def test_a_day_is_restricted_by_its_spelling_not_by_its_values(text, either):
    assert Cron.parse(text, "standard").fields.either_day is either


@pytest.mark.parametrize(
    ("text", "wildcard"),
    [
        ("* * * * *", True),
        ("0 * * * *", True),
        ("* 0 * * *", True),
        ("*/5 2 * * *", True),
        ("0 */2 * * *", True),
        ("*,5 2 * * *", True),
        ("0 2 * * *", False),
        ("0-59 0-23 * * *", False),
        ("0/5 2 * * *", False),
        ("@hourly", True),
        ("@daily", False),
    ],
)
def test_a_wildcard_is_a_minute_or_hour_that_begins_with_a_star(text, wildcard):
    assert Cron.parse(text, "standard").fields.wildcard is wildcard


def test_the_wildcard_is_looked_for_in_minute_and_hour_not_in_the_second():
    assert Cron.parse("* 0 2 * * *", "seconds").fields.wildcard is False
    assert Cron.parse("0 * 2 * * *", "seconds").fields.wildcard is True


LENGTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


@pytest.mark.parametrize("day", range(1, 32))
def test_a_date_is_legal_exactly_if_some_year_has_it(day):
    for month, length in enumerate(LENGTHS, 1):
        if day <= length:
            assert read(f"0 0 {day} {month} *", "posix")[3:5] == ([day], [month])
        else:
            with pytest.raises(InvalidCronExpressionError):
                Cron.parse(f"0 0 {day} {month} *")


@pytest.mark.parametrize(
    "text",
    [
        "0 0 30 1,2 *",
        "0 0 31 2,4,6,12 *",
        "0 0 29,30,31 2 *",
        "0 0 30 * *",
        "0 0 31 * *",
        "0 0 30 2 1",
        "0 0 30 2 0-6",
        "0 0 31 4,6,9,11 0",
    ],
)
def test_a_date_is_legal_if_one_month_has_it_or_a_weekday_may_match_instead(text):
    assert str(Cron.parse(text)) == text


@pytest.mark.parametrize(
    ("low", "high", "step", "members"),
    [(0, 0, 1, [0]), (0, 3, 1, [0, 1, 2, 3]), (1, 31, 10, [1, 11, 21, 31]), (5, 7, 3, [5]), (5, 4, 1, [])],
)
def test_a_span_of_bits_holds_its_values(low, high, step, members):
    assert values(span(low, high, step)) == members
