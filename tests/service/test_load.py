"""The load of a year: the same numbers as counting every day of every cron."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dutiful.core.cadence import count_ticks
from dutiful.core.cron.cron import Cron
from dutiful.service.load import DAY, days_load, forecast

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


def test_a_forecast_by_days_is_counted_that_way():
    crons = [(Cron.parse(text, "standard", "Europe/Berlin", dst="vixie"), 2) for text in TEXTS]
    assert forecast(crons, SINCE, SINCE + 40 * DAY, DAY) == one_by_one(crons, 40)
