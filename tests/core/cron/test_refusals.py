"""Cron texts that are refused: the field to blame, the complete reason, and how fast."""

from __future__ import annotations

from time import perf_counter
from traceback import format_exception

import pytest

from dutiful import Cron, FieldParseError, InvalidCronExpressionError
from dutiful.core.cron.dialect import legal_dialect

BLANKS = "write ASCII digits, with fields separated by spaces or tabs"
MONTHS = "jan, feb, mar, apr, may, jun, jul, aug, sep, oct, nov, dec"
WEEKDAYS = "sun, mon, tue, wed, thu, fri, sat"
MACROS = "@yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"
FIVE = "(write: minute hour day month weekday, separated by spaces or tabs)"
SIX = "(write: [second] minute hour day month weekday, separated by spaces or tabs)"
EMPTY_ITEM = "has an empty list item; remove the extra comma"
NEITHER = "which is neither a number nor a range such as"


def refusal(text, dialect):
    with pytest.raises(InvalidCronExpressionError) as caught:
        Cron.parse(text, dialect)
    return caught.value


def check(text, dialect, field, reason):
    error = refusal(text, dialect)
    assert (error.expression, error.field, error.reason) == (text, field, reason)
    assert (error.__cause__, "\n".join(format_exception(error)).count("Traceback")) == (None, 1)
    if field == "expression":
        assert error.__context__ is None
    else:
        assert isinstance(error.__context__, FieldParseError)
        assert str(error.__context__) == reason
        assert error.__context__.details["fieldName"] == field
        assert error.__context__.details["fieldValue"] in text.split(" ")


REFUSED_BY_ALL = [
    ("60 * * * *", "minute", "must be 0-59, not 60"),
    ("0060 * * * *", "minute", "must be 0-59, not 60"),
    ("100 * * * *", "minute", "must be 0-59, not 100"),
    ("0,60 * * * *", "minute", "must be 0-59, not 60"),
    ("50-60 * * * *", "minute", "must be 0-59, not 60"),
    ("* 24 * * *", "hour", "must be 0-23, not 24"),
    ("* * 0 * *", "day", "must be 1-31, not 0"),
    ("* * 00 * *", "day", "must be 1-31, not 0"),
    ("* * 32 * *", "day", "must be 1-31, not 32"),
    ("* * * 0 *", "month", "must be 1-12, not 0"),
    ("* * * 13 *", "month", "must be 1-12, not 13"),
    ("50-10 * * * *", "minute", 'has the range "50-10", which runs backwards; use "50-59,0-10"'),
    ("59-0 * * * *", "minute", 'has the range "59-0", which runs backwards; use "59,0"'),
    ("* 22-2 * * *", "hour", 'has the range "22-2", which runs backwards; use "22-23,0-2"'),
    ("* * * 12-1 *", "month", 'has the range "12-1", which runs backwards; use "12,1"'),
    ("* * * * 5-0", "weekday", 'has the range "5-0", which runs backwards; use "5-6,0"'),
    ("1, * * * *", "minute", EMPTY_ITEM),
    (",1 * * * *", "minute", EMPTY_ITEM),
    ("1,,2 * * * *", "minute", EMPTY_ITEM),
    (", * * * *", "minute", EMPTY_ITEM),
    ("5- * * * *", "minute", f'has "5-", {NEITHER} 0-59'),
    ("1-2-3 * * * *", "minute", f'has "1-2-3", {NEITHER} 0-59'),
    ("** * * * *", "minute", f'has "**", {NEITHER} 0-59'),
    ("* *-5 * * *", "hour", f'has "*-5", {NEITHER} 0-23'),
    ("? * * * *", "minute", 'has the Quartz token "?"; use "*"'),
    ("* * L * *", "day", 'has the Quartz token "L", which this dialect lacks; list the days by number'),
    ("* * 15W * *", "day", 'has the Quartz token "15W", which this dialect lacks; list the days by number'),
    ("* * LW * *", "day", 'has the Quartz token "LW", which this dialect lacks; list the days by number'),
    ("* * * * 5L", "weekday", 'has the Quartz token "5L", which this dialect lacks; list the days by number'),
    ("* * * * 1#2", "weekday", 'has the Quartz token "1#2" (nth weekday), which this dialect lacks'),
    ("0x1F * * * *", "minute", 'must be plain decimal digits, not "0x1F"'),
    ("0b1 * * * *", "minute", 'must be plain decimal digits, not "0b1"'),
    ("0o7 * * * *", "minute", 'must be plain decimal digits, not "0o7"'),
    ("1e1 * * * *", "minute", 'must be plain decimal digits, not "1e1"'),
    ("+5 * * * *", "minute", 'must be plain decimal digits without a sign, not "+5"'),
    ("-5 * * * *", "minute", 'must be plain decimal digits without a sign, not "-5"'),
    ("1,-5 * * * *", "minute", 'must be plain decimal digits without a sign, not "-5"'),
    ("1_0 * * * *", "minute", f"has the character '_'; {BLANKS}"),
    ("1.5 * * * *", "minute", f"has the character '.'; {BLANKS}"),
    ("٣ * * * *", "minute", f"has the character '\\u0663'; {BLANKS}"),
    ("５ * * * *", "minute", f"has the character '\\uff15'; {BLANKS}"),
    ("² * * * *", "minute", f"has the character '\\xb2'; {BLANKS}"),
    ("1٣ * * * *", "minute", f"has the character '\\u0663'; {BLANKS}"),
    ("1-٣ * * * *", "minute", f"has the character '\\u0663'; {BLANKS}"),
    ("* * * * ｍｏｎ", "weekday", f"has the character '\\uff4d'; {BLANKS}"),
    ("noon * * * *", "minute", 'has "noon", which is no number from 0 to 59'),
    ("* jan * * *", "hour", 'has "jan", which is no number from 0 to 23'),
    ("* * * mon *", "month", f'has "mon", which is no number from 1 to 12 and no name ({MONTHS})'),
    ("0 0 30 2 *", "expression", "has a date that cannot exist: no month given has a day 30"),
    ("0 0 31 2 *", "expression", "has a date that cannot exist: no month given has a day 31"),
    ("0 0 30,31 2 *", "expression", "has a date that cannot exist: no month given has a day 30"),
    ("0 0 31 2,4,6,9,11 *", "expression", "has a date that cannot exist: no month given has a day 31"),
    ("@fortnightly", "expression", f"has the unknown macro '@fortnightly' (known: {MACROS})"),
    ("@daily *", "expression", f"has the unknown macro '@daily' (known: {MACROS})"),
    (
        "@reboot",
        "expression",
        "has the macro '@reboot', which names no time; run such work when your program starts",
    ),
    (None, "expression", "must be a string, not NoneType"),
    (5, "expression", "must be a string, not int"),
    (b"* * * * *", "expression", "must be a string, not bytes"),
    (["*"] * 5, "expression", "must be a string, not list"),
    ("*" * 257, "expression", "is longer than 256 bytes"),
]


@pytest.mark.parametrize("dialect", ["posix", "standard", "seconds"])
@pytest.mark.parametrize(("text", "field", "reason"), REFUSED_BY_ALL, ids=lambda value: ascii(value)[:30])
def test_every_dialect_refuses(text, field, reason, dialect):
    check(text, dialect, field, reason)


@pytest.mark.parametrize(("dialect", "highest"), [("posix", 6), ("standard", 7), ("seconds", 7)])
def test_the_range_of_weekdays_in_a_refusal_is_the_one_that_the_dialect_takes(dialect, highest):
    check("* * * * 8", dialect, "weekday", f"must be 0-{highest}, not 8")
    names = "sun, mon, tue, wed, thu, fri, sat"
    reason = f'has "monday", which is no number from 0 to {highest} and no name ({names})'
    check("* * * * monday", dialect, "weekday", reason)


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        (
            "*/15 * * * *",
            "minute",
            'has the step "*/15", which POSIX cron lacks; list the values instead: "0,15,30,45"',
        ),
        (
            "* * */10 * *",
            "day",
            'has the step "*/10", which POSIX cron lacks; list the values instead: "1,11,21,31"',
        ),
        ("*/1 * * * *", "minute", 'has the step "*/1", which POSIX cron lacks; write "*"'),
        ("*/0 * * * *", "minute", 'has the step "*/0", which POSIX cron lacks; list the values instead'),
        ("x/2 * * * *", "minute", 'has the step "x/2", which POSIX cron lacks; list the values instead'),
        (
            "1-9/2 * * * *",
            "minute",
            'has the step "1-9/2", which POSIX cron lacks; list the values instead: "1,3,5,7,9"',
        ),
        (
            "7,5/15 * * * *",
            "minute",
            'has the step "5/15", which POSIX cron lacks; list the values instead: "5,7,20,35,50"',
        ),
        ("*,5 * * * *", "minute", '"*" must stand alone in its field; remove the rest of the list'),
        ("5,* * * * *", "minute", '"*" must stand alone in its field; remove the rest of the list'),
        ("* * * jan *", "month", 'has the name "jan", which POSIX cron lacks; use 1'),
        ("* * * * SUN", "weekday", 'has the name "SUN", which POSIX cron lacks; use 0'),
        ("* * * * mon-fri", "weekday", 'has the name "mon", which POSIX cron lacks; use "1-5"'),
        ("* * * * 1-FRI", "weekday", 'has the name "FRI", which POSIX cron lacks; use "1-5"'),
        ("* * * * 0,mon,wed", "weekday", 'has the name "mon", which POSIX cron lacks; use "0,1,3"'),
        ("* * * jan,foo *", "month", 'has the name "jan", which POSIX cron lacks'),
        ("* * * * fri-mon", "weekday", 'has the range "fri-mon", which runs backwards; use "5-6,0-1"'),
        ("* * * nov-feb *", "month", 'has the range "nov-feb", which runs backwards; use "11-12,1-2"'),
        ("* * * * 7", "weekday", "must be 0-6, not 7; use 0 for Sunday"),
        ("* * * * 007", "weekday", "must be 0-6, not 7; use 0 for Sunday"),
        ("* * * * 1-7", "weekday", 'must be 0-6, not 7; use "0-6"'),
        ("* * * * 5-7", "weekday", 'must be 0-6, not 7; use "0,5,6"'),
        ("@hourly", "expression", "has the macro '@hourly', which POSIX cron lacks; write '0 * * * *'"),
        ("@Daily", "expression", "has the macro '@Daily', which POSIX cron lacks; write '0 0 * * *'"),
    ],
)
def test_posix_refuses(text, field, reason):
    check(text, "posix", field, reason)


@pytest.mark.parametrize("dialect", ["standard", "seconds"])
@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("*, * * * *", "minute", EMPTY_ITEM),
        ("*/0 * * * *", "minute", 'has the invalid step value "0"; write a number from 1 to 59'),
        ("*/00 * * * *", "minute", 'has the invalid step value "00"; write a number from 1 to 59'),
        ("*/100 * * * *", "minute", 'has the invalid step value "100"; write a number from 1 to 59'),
        ("*/ * * * *", "minute", 'has the invalid step value ""; write a number from 1 to 59'),
        ("*/x * * * *", "minute", 'has the invalid step value "x"; write a number from 1 to 59'),
        ("*/-5 * * * *", "minute", 'has the invalid step value "-5"; write a number from 1 to 59'),
        ("*/2/3 * * * *", "minute", 'has the invalid step value "2/3"; write a number from 1 to 59'),
        ("*/+5 * * * *", "minute", f"has the character '+'; {BLANKS}"),
        ("*/٣ * * * *", "minute", f"has the character '\\u0663'; {BLANKS}"),
        ("60/5 * * * *", "minute", "must be 0-59, not 60"),
        ("* * * * sat-sun", "weekday", 'has the range "sat-sun", which runs backwards; use "6,0"'),
        ("* * * * 7-2", "weekday", 'has the range "7-2", which runs backwards; use "7,0-2"'),
        ("* * * * 8/2", "weekday", "must be 0-7, not 8"),
    ],
)
def test_the_extended_dialects_refuse(text, field, reason, dialect):
    check(text, dialect, field, reason)


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("0 9 * * *", "posix"),
        ("*/1 * * * *", "standard"),
        ("@daily", "standard"),
        ("30 0 9 * * *", "seconds"),
        ("60 * * * *", None),
        ("0 9 L * *", None),
    ],
)
def test_the_dialect_in_which_a_text_would_be_legal_is_known(text, dialect):
    assert legal_dialect(text) == dialect


@pytest.mark.parametrize(("text", "count"), [("", 0), (" \t ", 0), ("*", 1), ("* * * *", 4), ("* " * 7, 7)])
def test_the_number_of_fields_is_reported(text, count):
    for dialect in ("posix", "standard"):
        check(text, dialect, "expression", f"expected 5 fields, got {count} {FIVE}")
    check(text, "seconds", "expression", f"expected 5 or 6 fields, got {count} {SIX}")


def test_six_fields_are_refused_where_seconds_are_not_read():
    for dialect in ("posix", "standard"):
        check("* * * * * *", dialect, "expression", f"expected 5 fields, got 6 {FIVE}")


def test_a_text_of_256_characters_is_read_and_one_more_is_refused():
    text = "* * * * *".ljust(256)
    assert str(Cron.parse(text)) == text
    check(text + " ", "posix", "expression", "is longer than 256 bytes")


def test_a_bad_second_is_blamed_first():
    check("60 60 * * * *", "seconds", "second", "must be 0-59, not 60")


@pytest.mark.parametrize(
    "blank", ["\u00a0", "\n", "\r", "\x0b", "\x0c", "\u2003", "\u3000", "\x85", "\u200b", "\0"]
)
def test_only_the_space_and_the_tab_separate_fields(blank):
    check(f"1{blank}2 * * * *", "standard", "minute", f"has the character {blank!a}; {BLANKS}")
    assert refusal(blank.join("*****"), "standard").field == "expression"
    assert refusal(f"* * * * *{blank}", "standard").field == "weekday"
    assert refusal(f"{blank}* * * * *", "standard").field == "minute"


MEGABYTE = 1_000_000
HOSTILE = {
    "spaces": " " * MEGABYTE,
    "commas": "," * MEGABYTE,
    "digits": "9" * MEGABYTE,
    "zeros": "0" * MEGABYTE,
    "stars": "*" * MEGABYTE,
    "slashes": "*/" * (MEGABYTE // 2),
    "dashes": "1-" * (MEGABYTE // 2),
    "items": "1," * (MEGABYTE // 2),
    "fields": "* " * (MEGABYTE // 2),
    "macro": "@" + "d" * MEGABYTE,
    "letters": "a" * MEGABYTE,
    "arabic": "٣" * MEGABYTE,
    "256 spaces": " " * 256,
    "256 commas": "," * 247 + " * * * *",
    "256 digits": "9" * 247 + " * * * *",
    "256 stars": "*" * 247 + " * * * *",
    "256 dashes": "1-" * 123 + " * * * *",
    "256 slashes": "*/" * 123 + " * * * *",
    "256 letters": "a" * 247 + " * * * *",
    "256 signs": "+" * 247 + " * * * *",
    "128 items and a bad one": "1," * 120 + "60 * * * *",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_text_is_refused_in_under_a_millisecond(text):
    def seconds_to_refuse():
        begin = perf_counter()
        with pytest.raises(InvalidCronExpressionError):
            Cron.parse(text, "seconds")
        return perf_counter() - begin

    assert min(seconds_to_refuse() for _ in range(9)) < 0.001
