"""The engine against the minute scan, around the changes of offset of the tz database, 2000 to 2037."""

from __future__ import annotations

import random
from bisect import bisect_right
from datetime import date, datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo, available_timezones

import pytest
from tests.oracles import DAY, EPOCH, HOUR, changes, epoch, match, observe, ticks

from dutiful import Cron

SINCE, UNTIL = epoch(2000, 1, 1), epoch(2038, 1, 1)
RULES = list(product(("skip", "run_after"), ("both", "first", "last")))
ZONES = sorted(available_timezones())

ODD_ZONES = (
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "America/Adak",
    "America/Caracas",
    "America/Havana",
    "America/New_York",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Dublin",
    "Europe/Volgograd",
    "Pacific/Apia",
    "Pacific/Auckland",
    "Pacific/Kiritimati",
)
OTHER_ZONES = sorted(random.Random(2037).sample([zone for zone in ZONES if zone not in ODD_ZONES], 24))


def texts_around(at, before, after):
    """Return posix texts that have something to lose at this change."""
    low, high = sorted((at + before, at + after))
    edges = [low - 60, low, (low + high) // 120 * 60, high - 60, high]
    walls = [EPOCH + timedelta(seconds=edge) for edge in edges]
    middle = walls[2]
    weekday = middle.isoweekday() % 7
    return [
        "* * * * *",
        "0 * * * *",
        "10,50 * * * *",
        "0 0 * * *",
        "59 23 * * *",
        *(f"{wall.minute} {wall.hour} * * *" for wall in walls),
        f"0,29-31 {middle.hour} {middle.day} {middle.month} *",
        f"15,45 0-4,21-23 * * {weekday}",
        f"{middle.minute} {middle.hour} {middle.day % 28 + 1} * {weekday}",
    ]


def walk_forwards(cron, start, end):
    found, instant = [], start - 1
    while (instant := cron.next_epoch(instant)) < end:
        found.append(instant)
    return found


def walk_backwards(cron, start, end):
    found, instant = [], end
    while (instant := cron.previous_epoch(instant - 1)) >= start:
        found.append(instant)
    return found[::-1]


def differences(zone, change):
    """Return how many answers were compared around one change, and those that differ."""
    at, before, after = change
    start, end = at - DAY, at + DAY
    observed = observe(zone, start - DAY, end + DAY)
    compared, wrong = 0, []
    for text in texts_around(*change):
        matched = match(observed, text)
        for gap, fold in RULES:
            cron = Cron.parse(text, timezone=zone, gap=gap, fold=fold)
            due = matched.ticks(gap, fold, start, end)
            answers = [
                ("forwards", walk_forwards(cron, start, end), due),
                ("backwards", walk_backwards(cron, start, end), due),
                ("between", cron.between_epoch(start - 1, end - 1), due),
                ("count", cron.count_epoch(start - 1, end - 1), len(due)),
                *jumps(cron, due, start, end, at, abs(after - before)),
                *(leaps(cron, due, start, end) if is_yearly(text) else ()),
            ]
            compared += len(answers)
            wrong += [
                (zone.key, at, text, gap, fold, *answer) for answer in answers if answer[1] != answer[2]
            ]
    return compared, wrong


def jumps(cron, due, start, end, at, width):
    """Yield (what was asked, answer, right answer) from instants that are no ticks themselves."""
    for instant in (at - width - 1, at - width, at - 1, at, at + 1, at + width - 1, at + 7 * HOUR):
        index = bisect_right(due, instant)
        later = due[index] if index < len(due) else end
        earlier = due[index - 1] if index > 0 else start - 1
        yield f"next {instant}", min(cron.next_epoch(instant), end), later
        yield f"previous {instant}", max(cron.previous_epoch(instant), start - 1), earlier


def is_yearly(text):
    _, _, day, month, weekday = text.split()
    return "*" not in (day, month) and weekday == "*"


def leaps(cron, due, start, end):
    """Yield the answers from most of a year away, with other changes of offset on the way."""
    yield "next from afar", min(cron.next_epoch(start - 300 * DAY), end), [*due, end][0]
    yield "previous from afar", max(cron.previous_epoch(end + 300 * DAY), start - 1), [start - 1, *due][-1]


def campaign(name, record_property, limit=None):
    zone = ZoneInfo(name)
    found = changes(name, zone, SINCE, UNTIL)
    if limit is not None and len(found) > limit:
        found = random.Random(name).sample(found, limit)
    results = [differences(zone, change) for change in found]
    record_property("transitions", len(found))
    record_property("comparisons", sum(compared for compared, _ in results))
    return [wrong for _, all_wrong in results for wrong in all_wrong]


@pytest.mark.soak
@pytest.mark.parametrize("name", ZONES)
def test_the_engine_agrees_with_the_scan_at_every_change_of_every_zone(name, record_property):
    assert campaign(name, record_property) == []


@pytest.mark.parametrize("name", ODD_ZONES)
def test_the_engine_agrees_with_the_scan_in_odd_zones(name, record_property):
    assert campaign(name, record_property, limit=4) == []


@pytest.mark.parametrize("name", OTHER_ZONES)
def test_the_engine_agrees_with_the_scan_in_a_sample_of_zones(name, record_property):
    assert campaign(name, record_property, limit=2) == []


def test_the_campaign_covers_gaps_and_folds_of_every_width_since_2000():
    widths = {
        after - before
        for name in ODD_ZONES
        for _, before, after in changes(name, ZoneInfo(name), SINCE, UNTIL)
    }
    assert widths >= {-3600, 3600, -1800, 1800, -7200, 7200, -10800, 10800, 86_400}


SPRING, AUTUMN = (2026, 3, 8), (2026, 11, 1)
BY_HAND = [
    ("America/New_York", SPRING, "30 2 8 * *", "skip", "both", []),
    ("America/New_York", SPRING, "30 2 8 * *", "run_after", "both", ["03:00:00-04:00"]),
    ("America/New_York", AUTUMN, "30 1 1 * *", "skip", "both", ["01:30:00-04:00", "01:30:00-05:00"]),
    ("America/New_York", AUTUMN, "30 1 1 * *", "skip", "first", ["01:30:00-04:00"]),
    ("America/New_York", AUTUMN, "30 1 1 * *", "skip", "last", ["01:30:00-05:00"]),
    ("Australia/Lord_Howe", (2026, 10, 4), "15 2 4 * *", "skip", "both", []),
    ("Australia/Lord_Howe", (2026, 10, 4), "15 2 4 * *", "run_after", "both", ["02:30:00+11:00"]),
    ("Australia/Lord_Howe", (2026, 4, 5), "45 1 5 * *", "skip", "last", ["01:45:00+10:30"]),
    ("Australia/Lord_Howe", (2026, 4, 5), "15 1 5 * *", "skip", "both", ["01:15:00+11:00"]),
    ("Antarctica/Troll", (2026, 3, 29), "30 1 29 * *", "run_after", "both", ["03:00:00+02:00"]),
    ("Asia/Tehran", (2026, 3, 22), "0 0 22 * *", "skip", "both", ["00:00:00+03:30"]),
]


@pytest.mark.parametrize(("name", "day", "text", "gap", "fold", "expected"), BY_HAND)
def test_the_engine_and_the_scan_give_what_was_worked_out_by_hand(name, day, text, gap, fold, expected):
    zone, start, end = ZoneInfo(name), epoch(*day) - DAY, epoch(*day) + 2 * DAY
    instants = [datetime.fromisoformat(f"{date(*day)}T{clock}").timestamp() for clock in expected]
    assert walk_forwards(Cron.parse(text, timezone=zone, gap=gap, fold=fold), start, end) == instants
    assert ticks(text, zone, start, end, gap, fold) == instants


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        ("skip", ["2011-12-29T12:30:00-10:00", "2011-12-31T12:30:00+14:00"]),
        (
            "run_after",
            ["2011-12-29T12:30:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T12:30:00+14:00"],
        ),
    ],
)
def test_the_day_that_apia_left_out_is_a_gap_of_a_whole_day(gap, expected):
    zone = ZoneInfo("Pacific/Apia")
    start, end = epoch(2011, 12, 29, 12), epoch(2011, 12, 31)
    instants = [datetime.fromisoformat(at).timestamp() for at in expected]
    assert walk_forwards(Cron.parse("30 12 * * *", timezone=zone, gap=gap), start, end) == instants
    assert ticks("30 12 * * *", zone, start, end, gap) == instants
