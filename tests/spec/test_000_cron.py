"""File 000, "Cron Language Specification" and the cron part of "Error Model", sentence by sentence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dutiful import Cron
from dutiful.errors import CronCalculationError, DutifulError, FieldParseError, InvalidCronExpressionError

NEW_YORK = ZoneInfo("America/New_York")
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def refusal(text):
    with pytest.raises(InvalidCronExpressionError) as caught:
        Cron.parse(text)
    return caught.value


def days(text, since, until):
    """Return the days of [since, until) on which `text` is due."""
    return sorted({tick.date().isoformat() for tick in Cron.parse(text).between(since, until)})


@pytest.mark.parametrize(
    "text",
    [
        "0 0 * * *",
        "  0 0 * * *",
        "0 0 * * *  ",
        "\t0\t0\t*\t*\t*\t",
        "\t0 0 * * *",
        "0 0 * * *\t",
        "0 0 *\t * *",
        "0 \t 0 * * *",
        "0,1,2 0 * * *",
        "0-5,10,20-30 * * * *",
        "007 0 * * *",
        "5-5 * * * *",
        "5,5,5 * * * *",
    ],
)
def test_formal_grammar_accepts(text):
    assert str(Cron.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("*,5 * * * *", "minute"),
        ("5,* * * * *", "minute"),
        ("** * * * *", "minute"),
        (", * * * *", "minute"),
        ("5, * * * *", "minute"),
        (",5 * * * *", "minute"),
        ("5,,6 * * * *", "minute"),
        ("5- * * * *", "minute"),
        ("-5 * * * *", "minute"),
        ("1-2-3 * * * *", "minute"),
        ("*-5 * * * *", "minute"),
        ("0\n0\n*\n*\n*", "expression"),
        ("0\u00a00 * * * *", "minute"),
        ("0 0 * * *\n", "weekday"),
    ],
)
def test_formal_grammar_leaves_no_other_way_to_write(text, field):
    assert refusal(text).field == field


@pytest.mark.parametrize(
    ("field", "position", "low", "high"),
    [("minute", 0, 0, 59), ("hour", 1, 0, 23), ("day", 2, 1, 31), ("month", 3, 1, 12), ("weekday", 4, 0, 6)],
)
def test_field_ranges(field, position, low, high):
    def text(value):
        parts = ["*"] * 5
        parts[position] = str(value)
        return " ".join(parts)

    for value in range(low, high + 1):
        assert str(Cron.parse(text(value))) == text(value)
    assert Cron.parse(text(f"{low}-{high}")).fields == Cron.parse(text("*")).fields
    for value in {low - 1, high + 1} - {-1}:
        assert refusal(text(value)).field == field


@pytest.mark.parametrize(
    ("text", "weekday"),
    [(f"0 0 * * {n}", name) for n, name in enumerate(("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"))],
)
def test_field_ranges_count_weekdays_from_sunday(text, weekday):
    assert f"{Cron.parse(text).next(NEW_YEAR):%a}" == weekday


VALIDATION_RULES = {
    "1 exactly 5 fields": [
        ("", "expression"),
        ("   ", "expression"),
        ("0 0 * *", "expression"),
        ("0 0 * * * *", "expression"),
        ("* * *", "expression"),
    ],
    "2 step syntax": [
        ("*/15 * * * *", "minute"),
        ("0 */2 * * *", "hour"),
        ("0 0 1-31/2 * *", "day"),
        ("0 0 * 1/3 *", "month"),
        ("0 0 * * */2", "weekday"),
    ],
    "3 named values": [
        ("0 0 * jan *", "month"),
        ("0 0 * JAN *", "month"),
        ("0 0 * * mon", "weekday"),
        ("0 0 * * sunday", "weekday"),
        ("0 0 * * mon-fri", "weekday"),
    ],
    "4 macro expressions": [
        ("@daily", "expression"),
        ("@hourly", "expression"),
        ("@reboot", "expression"),
        ("@fortnightly", "expression"),
        (" @daily ", "expression"),
    ],
    "5 Quartz tokens": [
        ("0 0 ? * *", "day"),
        ("0 0 * * ?", "weekday"),
        ("0 0 L * *", "day"),
        ("0 0 15W * *", "day"),
        ("0 0 LW * *", "day"),
        ("0 0 * * 5L", "weekday"),
        ("0 0 * * 1#2", "weekday"),
    ],
    "6 weekday 7": [
        ("0 0 * * 7", "weekday"),
        ("0 0 * * 07", "weekday"),
        ("0 0 * * 5-7", "weekday"),
        ("0 0 * * 1,7", "weekday"),
    ],
    "7 wrap-around ranges": [
        ("50-10 * * * *", "minute"),
        ("0 22-2 * * *", "hour"),
        ("0 0 28-3 * *", "day"),
        ("0 0 * 11-2 *", "month"),
        ("0 0 * * 5-1", "weekday"),
    ],
    "8 values out of range": [
        ("60 * * * *", "minute"),
        ("0 24 * * *", "hour"),
        ("0 0 0 * *", "day"),
        ("0 0 32 * *", "day"),
        ("0 0 * 0 *", "month"),
        ("0 0 * 13 *", "month"),
        ("0 0 * * 8", "weekday"),
        ("0-60 * * * *", "minute"),
        ("100 * * * *", "minute"),
    ],
    "9 numbers that are not decimal": [
        ("1e1 * * * *", "minute"),
        ("0x10 * * * *", "minute"),
        ("0 0o7 * * *", "hour"),
        ("0 0b1 * * *", "hour"),
        ("+5 * * * *", "minute"),
        ("-5 * * * *", "minute"),
        ("0 0 1.5 * *", "day"),
        ("1_0 * * * *", "minute"),
        ("٣ * * * *", "minute"),
        ("５ * * * *", "minute"),
        ("² * * * *", "minute"),
    ],
}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        pytest.param(text, field, id=f"{rule}: {text}")
        for rule, cases in VALIDATION_RULES.items()
        for text, field in cases
    ],
)
def test_validation_rules(text, field):
    error = refusal(text)
    assert error.field == field
    assert error.details == {"expression": text, "field": field, "reason": error.reason}


def test_validation_rules_blame_the_leftmost_bad_field():
    fields = ["60", "24", "32", "13", "7"]
    names = ["minute", "hour", "day", "month", "weekday"]
    for count, name in enumerate(names):
        assert refusal(" ".join(["*"] * count + fields[count:])).field == name


DECEMBER = [f"2025-12-{day:02}" for day in range(1, 32)]
TRUTH_TABLE = [
    ("* and *: every day", "0 0 * * *", DECEMBER),
    ("* and restricted: the weekday only", "0 0 * * 1", DECEMBER[::7]),
    ("restricted and *: the day only", "0 0 15 * *", ["2025-12-15"]),
    (
        "both restricted: either",
        "0 0 1,16 * 2",
        ["2025-12-01", "2025-12-02", "2025-12-09", "2025-12-16", "2025-12-23", "2025-12-30"],
    ),
    ("1-31 is restricted, though it names every day", "0 0 1-31 * 1", DECEMBER),
    ("0-6 is restricted, though it names every weekday", "0 0 15 * 0-6", DECEMBER),
]


@pytest.mark.parametrize(
    ("text", "expected"), [row[1:] for row in TRUTH_TABLE], ids=[row[0] for row in TRUTH_TABLE]
)
def test_day_of_month_and_day_of_week_semantics(text, expected):
    assert days(text, datetime(2025, 12, 1, tzinfo=UTC), NEW_YEAR) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 * * *", ["Fri 2026-01-02 00:00", "Sat 2026-01-03 00:00", "Sun 2026-01-04 00:00"]),
        ("15 3 * * 1-5", ["Thu 2026-01-01 03:15", "Fri 2026-01-02 03:15", "Mon 2026-01-05 03:15"]),
        ("0,30 * * * *", ["Thu 2026-01-01 00:30", "Thu 2026-01-01 01:00", "Thu 2026-01-01 01:30"]),
        ("0 12 14 2 *", ["Sat 2026-02-14 12:00", "Sun 2027-02-14 12:00", "Mon 2028-02-14 12:00"]),
    ],
)
def test_examples_of_valid_expressions(text, expected):
    cron, at, found = Cron.parse(text), NEW_YEAR, []
    for _ in expected:
        at = cron.next(at)
        found.append(f"{at:%a %Y-%m-%d %H:%M}")
    assert found == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "*/15 * * * *",
            'minute field has the step "*/15", which POSIX cron lacks; list the values instead: "0,15,30,45"',
        ),
        ("0 0 * * mon", 'weekday field has the name "mon", which POSIX cron lacks; use 1'),
        ("@daily", "expression field has the macro '@daily', which POSIX cron lacks; write '0 0 * * *'"),
        ("0 0 ? * *", 'day field has the Quartz token "?"; use "*"'),
    ],
)
def test_examples_of_invalid_expressions(text, message):
    assert str(refusal(text)) == f'Invalid cron expression "{text}": {message}'


def test_time_semantics_a_minute_that_does_not_exist_is_skipped():
    cron = Cron.parse("30 2 * * *", timezone=NEW_YORK)
    eve = datetime(2026, 3, 7, 2, 30, tzinfo=NEW_YORK)
    assert cron.next(eve) == datetime(2026, 3, 9, 2, 30, tzinfo=NEW_YORK)
    assert cron.previous(datetime(2026, 3, 8, 12, tzinfo=NEW_YORK)) == eve


def test_time_semantics_a_minute_that_occurs_twice_is_due_twice():
    cron = Cron.parse("30 1 * * *", timezone=NEW_YORK)
    day = datetime(2026, 11, 1, tzinfo=NEW_YORK)
    found = [tick.isoformat() for tick in cron.between(day, day + timedelta(days=1))]
    assert found == ["2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00"]


@pytest.mark.parametrize("month", [3, 11])
def test_time_semantics_scheduling_goes_on_after_a_transition(month):
    cron = Cron.parse("0 12 * * *", timezone=NEW_YORK)
    at, found = datetime(2026, month, 1, tzinfo=NEW_YORK), []
    for _ in range(10):
        at = cron.next(at)
        found.append(at.isoformat()[:19])
    assert found == [f"2026-{month:02}-{day:02}T12:00:00" for day in range(1, 11)]


def test_error_model_invalid_cron_expression():
    error = refusal("0 25 * * *")
    assert isinstance(error, DutifulError)
    assert str(error) == 'Invalid cron expression "0 25 * * *": hour field must be 0-23, not 25'
    assert error.details == {"expression": "0 25 * * *", "field": "hour", "reason": "must be 0-23, not 25"}
    assert (error.expression, error.field, error.reason) == tuple(error.details.values())


def test_error_model_field_parse_error():
    field = refusal("0 1,25 * * *").__context__
    assert isinstance(field, FieldParseError)
    assert isinstance(field, DutifulError)
    assert str(field) == "must be 0-23, not 25"
    assert field.details == {"fieldValue": "1,25", "fieldName": "hour"}


def test_error_model_cron_calculation_error():
    cron = Cron.parse("0 0 1 1 *")
    with pytest.raises(CronCalculationError) as caught:
        cron.next(datetime(9999, 1, 1, tzinfo=UTC))
    cause = caught.value.details["cause"]
    assert isinstance(caught.value, DutifulError)
    assert str(caught.value) == f"Failed to calculate next occurrence: {cause}"
    assert str(cause) == "no occurrence within the years 1 to 9999"
    assert caught.value.__cause__ is cause
    assert caught.value.details == {
        "expression": "0 0 1 1 *",
        "currentTime": "9999-01-01T00:00:00+00:00",
        "cause": cause,
    }
