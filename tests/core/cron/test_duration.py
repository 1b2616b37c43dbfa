"""Durations as people write them, and the order in which what is wrong with them is told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dutiful.core.cron.duration import format_duration, parse_duration
from dutiful.errors import IntervalParseError, InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("1s", timedelta(seconds=1)),
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("1h", timedelta(hours=1)),
        ("1d", timedelta(days=1)),
        ("90m", timedelta(hours=1, minutes=30)),
        ("005m", timedelta(minutes=5)),
        (" 5m ", timedelta(minutes=5)),
        ("999999999d", timedelta(days=999_999_999)),
        ("86399999999999s", timedelta(days=999_999_999, seconds=86_399)),
    ],
)
def test_a_number_and_a_unit_are_a_duration(text, duration):
    assert parse_duration(text) == duration


EMPTY = "Interval cannot be empty"
DIGITS_ONLY = 'Missing time unit. Expected format: "{number}{unit}"'
LETTERS_ONLY = "Missing numeric value"
DECIMAL = "Decimal values are not supported"
SHAPE = 'Invalid interval format. Expected "{number}{unit}", e.g. "5m"'
NEGATIVE = "Negative intervals are not allowed"
ZERO = "Zero interval is not allowed"
TOO_LONG = "Invalid interval format: too long"
BEYOND = "Invalid interval format: longer than a datetime can hold"


def unit(text):
    return f'Invalid time unit "{text}". Valid units are: s, m, h, d'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", EMPTY),
        ("  \t", EMPTY),
        ("5", DIGITS_ONLY),
        ("0", DIGITS_ONLY),
        ("m", LETTERS_ONLY),
        ("abc", LETTERS_ONLY),
        ("5.5m", DECIMAL),
        (".5m", DECIMAL),
        ("5.m", DECIMAL),
        ("5.5", DECIMAL),
        ("-5.5m", DECIMAL),
        ("0.0x", DECIMAL),
        ("5 m", SHAPE),
        ("m5", SHAPE),
        ("5m5", SHAPE),
        ("1h30m", SHAPE),
        ("+5m", SHAPE),
        ("--5m", SHAPE),
        ("-5", SHAPE),
        ("1_0m", SHAPE),
        ("٣m", SHAPE),
        ("５m", SHAPE),
        ("5µ", SHAPE),
        ("-5m", NEGATIVE),
        ("-0m", NEGATIVE),
        ("-5x", NEGATIVE),
        ("0m", ZERO),
        ("000s", ZERO),
        ("0x", ZERO),
        ("5x", unit("x")),
        ("5M", unit("M")),
        ("5ms", unit("ms")),
        ("5min", unit("min")),
        ("1000000000d", BEYOND),
        ("86400000000000s", BEYOND),
        ("9" * 31 + "d", BEYOND),
        ("9" * 32 + "d", TOO_LONG),
        ("9" * 1_000_000 + "d", TOO_LONG),
        (None, "Interval must be a string, not NoneType"),
        (5, "Interval must be a string, not int"),
        (timedelta(1), "Interval must be a string, not timedelta"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_the_first_thing_wrong_with_a_duration_is_reported(text, reason):
    with pytest.raises(IntervalParseError) as caught:
        parse_duration(text)
    assert (str(caught.value), caught.value.input) == (reason, text)
    assert caught.value.details == {"input": text}


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(seconds=1), "1s"),
        (timedelta(seconds=60), "1m"),
        (timedelta(seconds=61), "61s"),
        (timedelta(minutes=90), "90m"),
        (timedelta(hours=1), "1h"),
        (timedelta(hours=24), "1d"),
        (timedelta(hours=36), "36h"),
        (timedelta(days=999_999_999, seconds=86_399), "86399999999999s"),
    ],
)
def test_a_duration_is_written_in_its_largest_whole_unit_and_read_back(duration, text):
    assert format_duration(duration) == text
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "duration", [timedelta(0), timedelta(seconds=-1), timedelta(milliseconds=1), timedelta(seconds=1.5)]
)
def test_a_duration_without_whole_seconds_is_refused(duration):
    with pytest.raises(InvalidArgumentError) as caught:
        format_duration(duration)
    assert caught.value.details == {
        "argument": "duration",
        "value": str(duration),
        "reason": "must be whole seconds, at least one",
    }
