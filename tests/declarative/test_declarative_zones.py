"""A week of virtual time around a change of clocks, in five zones, against a walk over every minute."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.oracles import EPOCH, epoch, ticks

from dutiful import Scheduler
from dutiful.testing import VirtualClock

CRONS = [
    "0,10,20,30,40,50 * * * *",
    "* 1-3 * * 0",
    "0 0 * * *",
    "30 0 * * *",
    "30 1 * * *",
    "0,15,45 2 * * *",
    "30 2 * * *",
    "0 3 * * *",
    "59 23 * * *",
    "0 12 30 12 *",
    "0 6 1,30 * 5",
]
# Zone -> the instants of its changes, in UTC, and by how many minutes clocks moved.
CHANGES = {
    "America/New_York": [("2026-03-08T07:00", 60), ("2026-11-01T06:00", -60)],
    "Europe/Kyiv": [("2026-03-29T01:00", 60), ("2026-10-25T01:00", -60)],
    # By half an hour.
    "Australia/Lord_Howe": [("2026-10-03T15:30", 30), ("2026-04-04T15:00", -30)],
    # Back for Ramadan, and forward again after it.
    "Africa/Casablanca": [("2026-03-22T02:00", 60), ("2026-02-15T02:00", -60)],
    # On 30 December 2011 there was no such day.
    "Pacific/Apia": [("2011-09-24T14:00", 60), ("2011-04-02T14:00", -60), ("2011-12-30T10:00", 24 * 60)],
}
CASES = [(zone, *change) for zone, changes in CHANGES.items() for change in changes]


def started(zone, begin, days):
    """Return the epoch seconds at which each task was started."""
    starts = defaultdict(list)

    async def story():
        clock = VirtualClock(EPOCH + timedelta(seconds=begin), zone)

        def task(text):
            async def callback():
                starts[text].append((clock.now() - EPOCH) // timedelta(seconds=1))

            return text, text, callback, 60

        scheduler = Scheduler("memory:", clock=clock)
        await scheduler.initialize([task(text) for text in CRONS])
        await clock.advance(timedelta(days=days))
        await scheduler.stop()

    asyncio.run(story())
    return starts


@pytest.mark.parametrize(("zone", "change", "minutes"), CASES)
def test_a_week_around_a_change_of_clocks_is_what_every_minute_says(zone, change, minutes):
    at = datetime.fromisoformat(change).replace(tzinfo=UTC)
    moved = (at.astimezone(ZoneInfo(zone)).utcoffset()) - (
        (at - timedelta(minutes=1)).astimezone(ZoneInfo(zone)).utcoffset()
    )
    assert moved == timedelta(minutes=minutes), "the change is not where this test looks for it"
    begin = epoch(*(at - timedelta(days=3, hours=12)).timetuple()[:5])
    end = begin + 7 * 86_400
    expected = {text: ticks(text, ZoneInfo(zone), begin, end + 1) for text in CRONS}
    assert started(zone, begin, 7) == {text: instants for text, instants in expected.items() if instants}
    assert sum(map(len, expected.values())) > 1000
