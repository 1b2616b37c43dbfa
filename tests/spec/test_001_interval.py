"""File 001, "Interval Parsing" and "Next Trigger Calculation": every example and every row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dutiful.errors import DutifulError
from dutiful.fleet import (
    IntervalParseError,
    SchedulerError,
    calculate_next_trigger,
    is_schedule_due,
    parse_interval,
)

NOW = datetime(2025, 1, 19, 10, 0, tzinfo=UTC)
MINUTES = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("1d", 86_400_000)]
)
def test_interval_parsing_converts_human_readable_durations(text, milliseconds):
    assert parse_interval(text) == timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", 'Missing time unit. Expected format: "{number}{unit}"'),
        ("5.5m", "Decimal values are not supported"),
        ("0m", "Zero interval is not allowed"),
        ("-5m", "Negative intervals are not allowed"),
        ("5x", 'Invalid time unit "x". Valid units are: s, m, h, d'),
    ],
)
def test_interval_error_messages_are_those_of_the_table(text, message):
    with pytest.raises(IntervalParseError) as caught:
        parse_interval(text)
    assert (str(caught.value), caught.value.input) == (message, text)


@pytest.mark.parametrize("text", ["", " ", "m", "5 m", "1h30m", "5M", "-5", "m5", "５m"])
def test_interval_validation_wants_a_positive_integer_and_a_unit(text):
    with pytest.raises(IntervalParseError):
        parse_interval(text)


def test_interval_parse_error_is_a_scheduler_error_with_the_original_string():
    assert issubclass(IntervalParseError, SchedulerError)
    assert issubclass(SchedulerError, DutifulError)
    with pytest.raises(SchedulerError) as caught:
        parse_interval(" 5x ")
    assert caught.value.input == " 5x "
    assert caught.value.details == {"input": " 5x "}


def test_next_trigger_first_run_triggers_immediately():
    assert calculate_next_trigger(None, "5m", now=NOW) == NOW


def test_next_trigger_adds_the_interval_to_the_last_completion():
    last = datetime.fromisoformat("2025-01-19T10:00:00Z")
    assert calculate_next_trigger(last, "5m", now=NOW) == datetime.fromisoformat("2025-01-19T10:05:00Z")


def test_next_trigger_with_jitter_adds_up_to_that_much_of_the_interval():
    hour = timedelta(hours=1)
    found = {calculate_next_trigger(NOW, "1h", 5, NOW, f"agent/{n}") - NOW for n in range(200)}
    assert all(hour <= wait <= hour * 1.05 for wait in found)
    assert len(found) == 200


@pytest.mark.parametrize("percent", [0, 10])
def test_next_trigger_jitter_is_from_0_to_10_percent(percent):
    wait = calculate_next_trigger(NOW, "1h", percent, now=NOW) - NOW
    assert timedelta(hours=1) <= wait <= timedelta(hours=1) * (1 + percent / 100)


def test_clock_skew_a_result_in_the_past_means_now():
    assert calculate_next_trigger(NOW - timedelta(hours=2), "5m", now=NOW) == NOW


def test_interval_schedules_an_agent_that_takes_10_minutes_runs_every_15():
    started = NOW
    completed = started + 10 * MINUTES
    assert calculate_next_trigger(completed, "5m", now=completed) == started + 15 * MINUTES


def test_schedule_checking_a_schedule_is_due_when_its_time_has_come():
    checks = [NOW - MINUTES, NOW, NOW + MINUTES]
    assert [is_schedule_due(at, now=NOW) for at in checks] == [True, True, False]
