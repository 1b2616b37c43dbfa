"""The next time of an interval: from completion, never in the past, a little later by a hash."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutiful.errors import IntervalParseError, InvalidArgumentError
from dutiful.fleet import calculate_next_trigger, is_schedule_due, parse_interval
from dutiful.runtime.clock import SystemClock

NOW = datetime(2025, 1, 19, 12, 0, tzinfo=UTC)
NAIVE = NOW.replace(tzinfo=None)
HOUR = timedelta(hours=1)
instants = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
intervals = st.timedeltas(timedelta(seconds=1), timedelta(days=400))


def test_the_first_time_is_now():
    assert calculate_next_trigger(None, "5m", now=NOW) == NOW


def test_an_interval_may_be_a_timedelta():
    assert calculate_next_trigger(NOW, timedelta(minutes=5), now=NOW) == NOW + timedelta(minutes=5)


def test_without_a_time_given_the_clock_is_asked():
    before = SystemClock().now()
    assert before <= calculate_next_trigger(None, "5m") <= SystemClock().now()
    assert is_schedule_due(before)
    assert not is_schedule_due(before + HOUR)


def test_a_schedule_is_due_from_its_very_instant():
    assert is_schedule_due(NOW, now=NOW)
    assert not is_schedule_due(NOW + timedelta(microseconds=1), now=NOW)


def test_a_time_in_another_zone_is_the_same_instant():
    berlin = NOW.astimezone(datetime.fromisoformat("2025-01-19T13:00+01:00").tzinfo)
    assert calculate_next_trigger(berlin, "1h", 5, now=NOW) == calculate_next_trigger(NOW, "1h", 5, now=NOW)


def test_an_interval_beyond_the_years_never_comes():
    assert calculate_next_trigger(NOW, "999999999d", now=NOW) == datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize("jitter", [-1, 10.5, 100, float("nan")])
def test_a_jitter_outside_its_bounds_is_refused(jitter):
    with pytest.raises(InvalidArgumentError, match="must be from 0 to 10"):
        calculate_next_trigger(NOW, "1h", jitter, now=NOW)


@pytest.mark.parametrize(
    ("argument", "calculate"),
    [
        ("last_completed_at", lambda: calculate_next_trigger(NAIVE, "1h", now=NOW)),
        ("now", lambda: calculate_next_trigger(NOW, "1h", now=NAIVE)),
        ("now", lambda: calculate_next_trigger(None, "1h", now=NAIVE)),
        ("next_trigger", lambda: is_schedule_due(NAIVE, now=NOW)),
        ("now", lambda: is_schedule_due(NOW, now=NAIVE)),
    ],
)
def test_a_naive_time_is_refused(argument, calculate):
    with pytest.raises(InvalidArgumentError, match=f"^Invalid {argument} .* must have a time zone"):
        calculate()


def test_an_interval_that_cannot_be_read_is_refused():
    with pytest.raises(IntervalParseError) as caught:
        calculate_next_trigger(NOW, "5x", now=NOW)
    assert caught.value.input == "5x"


@given(instants, intervals, st.floats(0, 10), instants, st.text())
def test_the_next_time_is_within_the_jitter_and_never_past(last, interval, percent, now, key):
    due = calculate_next_trigger(last, interval, percent, now, key)
    earliest, latest = last + interval, last + interval + interval * (percent / 100)
    assert max(earliest, now) <= due <= max(latest, now)
    assert due == calculate_next_trigger(last, interval, percent, now, key)


@given(st.integers(1, 10**6), st.sampled_from("smhd"))
def test_what_is_written_is_what_is_meant(number, unit):
    seconds = {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit]
    assert parse_interval(f"{number}{unit}") == timedelta(seconds=number * seconds)


def test_schedules_that_ended_together_spread_out():
    due = [calculate_next_trigger(NOW, HOUR, 10, NOW, f"agent/{n}") - NOW - HOUR for n in range(1000)]
    tenths = [sum(36 * n <= d.total_seconds() < 36 * (n + 1) for d in due) for n in range(10)]
    assert sum(tenths) == 1000
    assert min(tenths) > 60
