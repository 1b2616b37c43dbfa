"""The load of a year: the same numbers as counting every day of every cron."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

from dutiful.core.cadence import count_ticks
from dutiful.core.cron.cron import Cron
from dutiful.core.policy import Policy
from dutiful.core.schedule import ALWAYS, Alike, Window
from dutiful.service.load import DAY, days_load, firing, forecast, outage

MINUTE, HOUR = 60_000, 3_600_000
SINCE = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp()) * 1000
TEXTS = [
    "30 2 * * *",
    "*/5 * * * *",
    "0 0 1 * *",
    "15 23 * * 1-5",
    "0 9 29 2 *",
    "30 1 13 * 5",
    "0 */7 * 6 0",
]
ZONES = ["UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Kiritimati", "America/Sao_Paulo",
         "Africa/Casablanca", "Asia/Kolkata"]  # fmt: skip


def one_by_one(crons, days):
    found = {}
    for cron, number in crons:
        for day in range(SINCE, SINCE + days * DAY, DAY):
            found[day] = found.get(day, 0) + number * count_ticks(cron, day - 1000, day + DAY - 1000)
    return {day: ticks for day, ticks in found.items() if ticks}


@pytest.mark.parametrize("zone", ZONES)
def test_each_day_has_the_ticks_that_counting_it_finds(zone):
    crons = [(Cron.parse(text, "standard", zone, dst="vixie"), 3 + n) for n, text in enumerate(TEXTS)]
    crons += [(Cron.parse("0 2 * * *", "standard", zone, calendar=["2026-12-25", "05-01"]), 1)]
    crons += [(Cron.parse("30 2 * * *", "standard", zone, "run_after", "first"), 1)]
    assert days_load(crons, SINCE, SINCE + 365 * DAY) == one_by_one(crons, 365)


def berlin(number=2, window=ALWAYS):
    crons = [Cron.parse(text, "standard", "Europe/Berlin", dst="vixie") for text in TEXTS]
    return [Alike(cron, Policy(), window, number, f"job-{place}") for place, cron in enumerate(crons)]


def test_a_forecast_by_days_is_counted_that_way():
    crons = [(each.cadence, 2) for each in berlin()]
    assert forecast(berlin(), SINCE, SINCE + 40 * DAY, DAY) == one_by_one(crons, 40)


def within(window, since, until):
    """Return the ticks of `berlin()` in [since, until) and in the window, one by one."""
    found = []
    for each in berlin():
        at = since // 1000 - 1
        while (at := each.cadence.upcoming_epoch(at)) * 1000 < until:
            found += [at * 1000] * each.number * (window.start <= at * 1000 <= window.end)
    return found


@pytest.mark.parametrize("width", [DAY, HOUR, 10 * MINUTE])
@pytest.mark.parametrize(
    "window",
    [
        Window(SINCE + 2 * DAY + 90 * MINUTE, SINCE + 8 * DAY + 5 * MINUTE),
        Window(SINCE - DAY, SINCE + 3 * DAY - 1),
        Window(SINCE - 9 * DAY, SINCE - 1),
        Window(SINCE + 10 * DAY, SINCE + 20 * DAY),
    ],
)
def test_no_tick_is_counted_before_or_after_the_window_of_its_schedule(window, width):
    until = SINCE + 10 * DAY
    alike, ticks = berlin(window=window), within(window, SINCE, until)
    assert forecast(alike, SINCE, until, width) == Counter(at - (at - SINCE) % width for at in ticks)
    assert sum(each.ticks for each in firing(alike, SINCE, until)) == len(ticks)
    found = outage(alike, SINCE, until - 1)
    assert (found.ticks, found.run + found.missed) == (len(ticks), len(ticks))
