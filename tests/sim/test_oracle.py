"""The oracle itself, against the minute scan and against a few dates worked out by hand."""

from __future__ import annotations

from itertools import product
from zoneinfo import ZoneInfo

import pytest
from tests import oracles
from tests.sim.oracle import cron_ticks, expand, ticks

from dutiful.core.cadence import Every, Once, OnDemand
from dutiful.core.cron.cron import Cron
from dutiful.core.schedule import Schedule, Task, Window

DAY = 86_400

TEXTS = ["* * * * *", "30 1,2 * * *", "0 0 * * *", "15,45 0-4 * * 0", "59 23 31 12 *", "0 2-3 8 * 1"]


RULES = [("skip", "both"), ("run_after", "first"), ("run_after", "last")]


@pytest.mark.parametrize("name", ["America/New_York", "Australia/Lord_Howe", "Africa/Cairo"])
def test_the_oracle_agrees_with_the_minute_scan_around_changes(name):
    zone = ZoneInfo(name)
    since, until = oracles.epoch(2024, 1, 1), oracles.epoch(2025, 1, 1)
    for change, _, _ in oracles.changes(name, zone, since, until):
        start, end = (change - DAY) // 60 * 60, (change + DAY) // 60 * 60
        observed = oracles.observe(zone, start - DAY, end + DAY)
        for text, (gap, fold) in product(TEXTS, RULES):
            cron = Cron.parse(text, timezone=name, gap=gap, fold=fold)
            found = [tick // 1000 for tick in cron_ticks(cron, start // DAY, end // DAY)]
            expected = oracles.match(observed, text).ticks(gap, fold, start, end)
            assert [tick for tick in found if start <= tick < end] == expected


@pytest.mark.parametrize(
    ("field", "bounds", "expected"),
    [
        ("*", (0, 5), {0, 1, 2, 3, 4, 5}),
        ("*/20", (0, 59), {0, 20, 40}),
        ("50/5", (0, 59), {50, 55}),
        ("1-9/4,30", (0, 59), {1, 5, 9, 30}),
        ("mon-fri", (0, 7), {1, 2, 3, 4, 5}),
        ("5-7", (0, 7), {5, 6, 7}),
        ("*", (0, 7), {0, 1, 2, 3, 4, 5, 6}),
        ("Dec", (1, 12), {12}),
    ],
)
def test_a_field_is_a_set_of_values(field, bounds, expected):
    assert expand(field, bounds) == expected


def test_every_cadence_has_its_ticks():
    def found(cadence, window=None):
        return ticks(Schedule("s", Task("t"), cadence, window=window or Window()), 1000, 5000)

    assert found(Every(1500, "start")) == [2500, 4000]
    assert found(Every(1500, "start"), Window(2501, 4000)) == [4000]
    assert found(Once(5000)) == [5000]
    assert found(Once(1000)) == []
    assert found(OnDemand()) == []
    assert found(Cron.parse("*/2 * * * * *", dialect="seconds")) == [2000, 4000]
    assert found(Cron.parse("@daily", dialect="standard")) == []
