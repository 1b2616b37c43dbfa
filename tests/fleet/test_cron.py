"""Cron expressions at the fleet's door: its zone, its daylight saving, and every refusal in its words."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from dutiful.errors import InvalidCronExpressionError
from dutiful.fleet import (
    CronParseError,
    calculate_next_cron_trigger,
    is_valid_cron_expression,
    parse_cron_expression,
)
from dutiful.fleet.next_trigger import when_it_runs
from dutiful.fleet.types import AgentSchedule

BERLIN = ZoneInfo("Europe/Berlin")
KNOWN = "(known: @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly)"
REFUSALS = [
    ("60 * * * *", "minute", "minute must be 0-59"),
    ("0 25 * * *", "hour", "hour must be 0-23"),
    ("0 0 32 * *", "day-of-month", "day-of-month must be 1-31"),
    ("0 0 0 * *", "day-of-month", "day-of-month must be 1-31"),
    ("0 0 1 13 *", "month", "month must be 1-12"),
    ("0 0 * * 8", "day-of-week", "day-of-week must be 0-7"),
    ("0 0 1-32 * *", "day-of-month", "day-of-month must be 1-31"),
    ("*/0 * * * *", "minute", 'minute has the invalid step value "0"; write a number from 1 to 59'),
    ("* */x * * *", "hour", 'hour has the invalid step value "x"; write a number from 1 to 23'),
    ("0 0 * foo *", "month", 'month has "foo", which is no number from 1 to 12 and no name'),
    ("1,, * * * *", "minute", "minute has an empty list item; remove the extra comma"),
    ("* * *", None, "expected 5 fields, got 3"),
    ("0 0 9 * * *", None, "expected 5 fields, got 6"),
    ("invalid", None, "expected 5 fields, got 1"),
    ("0 0 30 2 *", None, "has a date that cannot exist: no month given has a day 30"),
]


@pytest.mark.parametrize(("text", "field", "reason"), REFUSALS)
def test_a_bad_expression_is_refused_naming_the_field(text, field, reason):
    with pytest.raises(CronParseError) as caught:
        parse_cron_expression(text)
    assert str(caught.value).startswith(f'Invalid cron expression "{text}" - {reason}')
    assert (caught.value.expression, caught.value.field) == (text, field)
    assert caught.value.details == {"expression": text, "field": field}
    assert isinstance(caught.value.__cause__, InvalidCronExpressionError)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "Cron expression cannot be empty"),
        (" \t", "Cron expression cannot be empty"),
        ("@never", f'Unknown cron shorthand "@never" {KNOWN}'),
        ("@reboot", f'Unknown cron shorthand "@reboot" {KNOWN}'),
        ("@", f'Unknown cron shorthand "@" {KNOWN}'),
        ("@daily 5", f'Unknown cron shorthand "@daily 5" {KNOWN}'),
        (5, 'Invalid cron expression "5" - must be a string'),
        (None, 'Invalid cron expression "None" - must be a string'),
    ],
)
def test_what_is_no_expression_at_all_is_refused(text, told):
    with pytest.raises(CronParseError) as caught:
        parse_cron_expression(text)
    assert (str(caught.value), caught.value.expression, caught.value.field) == (told, text, None)
    assert not is_valid_cron_expression(text)


@pytest.mark.parametrize("text", ["@DAILY", " @daily ", "0 0 * * *", "0\t0 * * *", "0 0 * * sun-sat"])
def test_many_ways_to_say_every_midnight(text):
    after = datetime(2025, 1, 15, 8, tzinfo=BERLIN)
    assert calculate_next_cron_trigger(text, after, BERLIN) == datetime(2025, 1, 16, tzinfo=BERLIN)


def test_the_host_decides_on_the_zone(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    after = datetime(2025, 1, 15, 0, 0, tzinfo=UTC)
    assert calculate_next_cron_trigger("0 9 * * *", after) == datetime(2025, 1, 16, 0, 0, tzinfo=UTC)
    assert calculate_next_cron_trigger("1 9 * * *", after) == datetime(2025, 1, 15, 0, 1, tzinfo=UTC)


def test_a_zone_may_be_named():
    after = datetime(2025, 1, 15, 0, 0, tzinfo=UTC)
    told = calculate_next_cron_trigger("0 9 * * *", after, timezone="America/New_York")
    assert told == datetime(2025, 1, 15, 14, 0, tzinfo=UTC)


def test_a_daily_job_runs_once_on_the_days_the_clock_changes():
    def times(start, end):
        found, at = [], start
        while (at := calculate_next_cron_trigger("30 2 * * *", at, BERLIN)) < end:
            found.append(f"{at:%d %H:%M %z}")
        return found

    spring = times(datetime(2025, 3, 29, 12, tzinfo=BERLIN), datetime(2025, 4, 1, tzinfo=BERLIN))
    assert spring == ["30 03:00 +0200", "31 02:30 +0200"]
    autumn = times(datetime(2025, 10, 25, 12, tzinfo=BERLIN), datetime(2025, 10, 28, tzinfo=BERLIN))
    assert autumn == ["26 02:30 +0200", "27 02:30 +0100"]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (AgentSchedule("interval", interval="5m"), "every 5 min from completion"),
        (AgentSchedule("interval", interval="60m"), "every hour from completion"),
        (AgentSchedule("interval", interval="0m"), "0m"),
        (AgentSchedule("cron", expression="0 9 * * 1-5"), "At 09:00, Monday to Friday, in Berlin"),
        (AgentSchedule("cron", expression="@daily", timezone="UTC"), "At 00:00, every day, UTC"),
        (AgentSchedule("cron", expression="61 * * * *"), "61 * * * *"),
        (AgentSchedule("webhook"), "on a webhook or by hand"),
        (AgentSchedule("chat"), "by hand or over HTTP"),
    ],
)
def test_when_a_schedule_runs_is_said_in_words(written, said):
    assert when_it_runs(written, BERLIN) == said
