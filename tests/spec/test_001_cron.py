"""File 001, "Cron Schedules" and "Cron Expression Parsing": every example and every row."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dutiful.errors import DutifulError
from dutiful.fleet import (
    CronParseError,
    FleetManagerError,
    SchedulerError,
    calculate_next_cron_trigger,
    is_valid_cron_expression,
    parse_cron_expression,
)

ZONE = ZoneInfo("Europe/Berlin")


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=ZONE)


def upcoming(expression, after, count):
    found = []
    for _ in range(count):
        after = calculate_next_cron_trigger(expression, after, timezone=ZONE)
        found.append(after)
    return found


def test_cron_schedules_nine_on_weekdays():
    friday = at("2025-01-17T08:00:00")
    assert upcoming("0 9 * * 1-5", friday, 2) == [at("2025-01-17T09:00:00"), at("2025-01-20T09:00:00")]


@pytest.mark.parametrize(
    ("shorthand", "equivalent", "first"),
    [
        ("@hourly", "0 * * * *", "2025-01-15T09:00:00"),
        ("@daily", "0 0 * * *", "2025-01-16T00:00:00"),
        ("@weekly", "0 0 * * 0", "2025-01-19T00:00:00"),
        ("@monthly", "0 0 1 * *", "2025-02-01T00:00:00"),
        ("@yearly", "0 0 1 1 *", "2026-01-01T00:00:00"),
    ],
)
def test_cron_shorthands_are_those_of_the_table(shorthand, equivalent, first):
    after = at("2025-01-15T08:00:00")
    assert upcoming(shorthand, after, 5) == upcoming(equivalent, after, 5)
    assert upcoming(shorthand, after, 1) == [at(first)]


def test_cron_six_fields_are_not_supported():
    with pytest.raises(CronParseError, match=r"expected 5 fields, got 6$"):
        parse_cron_expression("0 0 9 * * *")


def test_cron_the_system_timezone_is_used(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    after = at("2025-07-15T08:00:00")
    assert calculate_next_cron_trigger("0 9 * * *", after) == at("2025-07-15T09:00:00")
    assert str(parse_cron_expression("0 9 * * 1-5").zone.tzinfo) == "Europe/Berlin"


def test_cron_nothing_is_caught_up_with():
    after_a_long_weekend = at("2025-01-20T12:34:56")
    assert upcoming("0 9 * * *", after_a_long_weekend, 1) == [at("2025-01-21T09:00:00")]


def test_cron_parsing_validates_without_raising():
    assert is_valid_cron_expression("0 9 * * 1-5")
    assert not is_valid_cron_expression("invalid")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("0 25 * * *", 'Invalid cron expression "0 25 * * *" - hour must be 0-23'),
        ("* * *", 'Invalid cron expression "* * *" - expected 5 fields, got 3'),
    ],
)
def test_cron_parsing_errors_have_context(expression, message):
    with pytest.raises(CronParseError) as caught:
        parse_cron_expression(expression)
    assert str(caught.value) == message
    assert caught.value.expression == expression
    with pytest.raises(CronParseError):
        calculate_next_cron_trigger(expression, at("2025-01-15T08:00:00"))


def test_cron_parse_error_belongs_to_both_families():
    assert issubclass(CronParseError, FleetManagerError)
    assert issubclass(CronParseError, SchedulerError)
    assert issubclass(FleetManagerError, DutifulError)


def test_next_cron_trigger_is_today_before_the_time_and_tomorrow_at_the_time():
    today, tomorrow = at("2025-01-15T09:00:00"), at("2025-01-16T09:00:00")
    assert calculate_next_cron_trigger("0 9 * * *", at("2025-01-15T08:00:00"), timezone=ZONE) == today
    assert calculate_next_cron_trigger("0 9 * * *", at("2025-01-15T09:00:00"), timezone=ZONE) == tomorrow
    just_before = at("2025-01-15T09:00:00") - timedelta(microseconds=1)
    assert calculate_next_cron_trigger("0 9 * * *", just_before, timezone=ZONE) == today
