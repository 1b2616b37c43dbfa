"""The difference that an edit makes to the fire times of a schedule, counted, listed and drawn."""

from __future__ import annotations

from bisect import bisect_left
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.cron.zone import DAY_SECONDS
from dutiful.web.drawing.axis import ClockChange
from dutiful.web.drawing.matrix import Became, Year, year_pair
from dutiful.web.pages import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dutiful.core.cron.cron import Cron
    from dutiful.core.cron.zone import Zone

_YEAR = timedelta(days=365)
_HORIZONS = (_YEAR, *(timedelta(days=days) for days in (30, 7, 1)), timedelta(hours=1))
# A year of two crons with this many ticks each takes 8 ms.
_TICKS_MAX = 4_500
_ROWS = 8
_TIMES = 3
_ORDINAL_OF_EPOCH = date(1970, 1, 1).toordinal()
_SINGULAR = {"move": "moves", "go": "goes", "are new": "is new"}


class Row(NamedTuple):
    """One day: the old fire times, the new ones, the difference in words, and a change of the clock."""

    day: str
    old: str
    new: str
    change: str
    clock: str = ""


class Changes(NamedTuple):
    """The effect of an edit on the fire times `within` a time from now.

    `rows` has the first days that differ, and then the days on which clocks change. The drawings are empty
    where less than a year was compared.
    """

    within: timedelta
    before: int
    after: int
    moved: int
    added: int
    removed: int
    rows: list[Row]
    year_wide: str
    year_narrow: str

    @property
    def is_whole_year(self) -> bool:
        """Return whether the numbers are those of a year."""
        return self.within == _YEAR

    @property
    def period(self) -> str:
        """Return the time that was compared, in words: year, 30 d."""
        return "year" if self.is_whole_year else words.span(self.within.total_seconds())

    @property
    def total(self) -> int:
        """Return how many fire times change."""
        return self.moved + self.removed + self.added

    @property
    def said(self) -> str:
        """Return the numbers and the first difference in one line."""
        if not self.total:
            return "No fire time changes."
        parts = [(self.moved, "move"), (self.removed, "go"), (self.added, "are new")]
        told = [f"{count:,} {_SINGULAR[verb] if count == 1 else verb}" for count, verb in parts if count]
        period = "" if self.is_whole_year else f" in the next {self.period}"
        first = self.rows[0]
        then = f"now {first.old or 'none'}, then {first.new or 'none'}"
        return f"Fire times{period}: {', '.join(told)}. First difference on {first.day}: {then}."


def compare(old: Cron, new: Cron, now: datetime) -> Changes:
    """Return the fire times that an edit moves, adds and removes, within a year or as far as listed."""
    within = _comparable(old, new, now)
    begin = int(now.timestamp())
    end = begin + int(within.total_seconds())
    if new == old and within != _YEAR:
        count = old.count_epoch(begin, end)
        return Changes(within, count, count, 0, 0, 0, [], "", "")
    before = old.between_epoch(begin, end - 1)
    after = before if new == old else new.between_epoch(begin, end - 1)
    kept = {*before} & {*after}
    gone = _by_day([at for at in before if at not in kept], old.zone)
    come = _by_day([at for at in after if at not in kept], new.zone)
    days = _Days(old.zone, new.zone, gone, come, _by_day(before, old.zone), _clocks(old, new, now, within))
    today = now.astimezone(new.zone.tzinfo).date()
    moved = sum(min(len(gone[day]), len(come.get(day, ()))) for day in gone)
    removed, added = (sum(map(len, found.values())) - moved for found in (gone, come))
    drawn = "", ""
    if within == _YEAR:
        drawn = year_pair(Year(today, days.became(_by_day(after, new.zone)), frozenset(days.clocks)))
    counts = len(before), len(after), moved, added, removed
    return Changes(within, *counts, _rows(days, today), *drawn)


def _comparable(old: Cron, new: Cron, now: datetime) -> timedelta:
    """Return the longest of a few periods in which neither cron has too many ticks to compare."""
    begin = int(now.timestamp())
    for within in _HORIZONS:
        end = begin + int(within.total_seconds())
        if max(old.count_epoch(begin, end), new.count_epoch(begin, end)) <= _TICKS_MAX:
            return within
    return _HORIZONS[-1]


def _by_day(instants: Sequence[int], zone: Zone) -> dict[date, list[int]]:
    """Return ordered instants by their date in a zone."""
    days: dict[date, list[int]] = {}
    if not instants:
        return days
    starts = [(at, after) for at, _, after in zone.changes(instants[0] + 1, instants[-1] + 1)]
    offset, first = zone.offset(instants[0]), 0
    for start, after in [*starts, (instants[-1] + 1, 0)]:
        while first < len(instants) and instants[first] < start:
            day = (instants[first] + offset) // DAY_SECONDS
            # The instants are in order, so those of one day are found by its end, not one by one.
            last = bisect_left(instants, min(start, (day + 1) * DAY_SECONDS - offset), first)
            days.setdefault(date.fromordinal(day + _ORDINAL_OF_EPOCH), []).extend(instants[first:last])
            first = last
        offset = after
    return days


def _clocks(old: Cron, new: Cron, now: datetime, within: timedelta) -> dict[date, str]:
    """Return the days on which the clocks of either zone change, with the change in words."""
    return {
        change.at.astimezone(zone.tzinfo).date(): change.words
        for zone in (old.zone, new.zone)
        for change in ClockChange.between(zone, now, now + within)
    }


class _Days(NamedTuple):
    """The ticks that go and come by day, all old ticks by day, and the days on which clocks change."""

    old: Zone
    new: Zone
    gone: dict[date, list[int]]
    come: dict[date, list[int]]
    before: dict[date, list[int]]
    clocks: dict[date, str]

    def became(self, after: Iterable[date]) -> dict[date, Became]:
        """Return what each day becomes on which a tick is due before or after the edit."""
        days: dict[date, Became] = dict.fromkeys((*self.before, *after), "same")
        for day in {*self.gone, *self.come}:
            days[day] = "removed" if day not in self.come else "moved" if day in self.gone else "added"
        return days


def _rows(days: _Days, today: date) -> list[Row]:
    """Return the first days that differ, and then each day on which clocks change and a tick is due."""
    differ = sorted({*days.gone, *days.come})
    if not differ:
        return []
    later = [day for day in sorted(days.clocks) if day > differ[:_ROWS][-1]]
    fires = [day for day in later if day in days.before or day in days.come]
    return [_row(days, day, today) for day in (*differ[:_ROWS], *fires)]


def _row(days: _Days, day: date, today: date) -> Row:
    gone, come = days.gone.get(day, []), days.come.get(day, [])
    change = "same"
    if len(gone) == len(come) == 1:
        seconds = come[0] - gone[0]
        change = f"{'+' if seconds > 0 else '−'}{words.span(abs(seconds))}"
    elif gone or come:
        change = (
            "removed"
            if not come
            else "new"
            if not gone
            else f"{len(gone)} {'becomes' if len(gone) == 1 else 'become'} {len(come)}"
        )
    else:
        gone = come = days.before[day]
    year_said = "" if day.year == today.year else f" {day.year}"
    named = f"{day:%a} {day.day} {day:%b}{year_said}"
    return Row(named, _times(gone, days.old), _times(come, days.new), change, days.clocks.get(day, ""))


def _times(instants: Sequence[int], zone: Zone) -> str:
    """Return the first times of day of some instants."""
    shown = [words.clock(datetime.fromtimestamp(at, zone.tzinfo)) for at in instants[:_TIMES]]
    return ", ".join([*shown, "…"] if len(instants) > _TIMES else shown)
