"""Occurrences of cron fields: one search with a direction, first over walls, then over instants.

Nothing here gives up: `dialect` refuses dates that cannot exist, a year has only fourteen shapes
(leap or not, by the weekday it starts on), and the longest wait, for 29 February, is eight years.

These functions carry every next-run computation of every schedule, so they work on plain ints and
shared tables (`make bench`, section "cron"): the times of a day and the days of a year are listed
once per distinct spelling, and a step is two bisections.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import isleap, monthrange
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING

from dutiful.core.dialect import values
from dutiful.core.zone import DAY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dutiful.core.dialect import Fields
    from dutiful.core.zone import Stretch, Timeline

    Find = Callable[[int, bool], int]

# From a day number (0 is 1970-01-01) to the count of date.fromordinal.
_ORDINAL_OF_EPOCH = date(1970, 1, 1).toordinal()
_from_ordinal = date.fromordinal
_INSTANT_MIN = (date.min.toordinal() - _ORDINAL_OF_EPOCH) * DAY_SECONDS
_INSTANT_MAX = (date.max.toordinal() - _ORDINAL_OF_EPOCH + 1) * DAY_SECONDS - 1
_MINUTE_STARTS = tuple(range(0, DAY_SECONDS, 60))


class OutOfYearsError(Exception):
    """The search ran past the years that a datetime can hold."""

    def __str__(self) -> str:
        return f"no occurrence within the years {date.min.year} to {date.max.year}"


class Occurrences:
    """The instants at which fields match on a timeline."""

    __slots__ = ("_calendar", "_find", "_fixed_offset", "_known", "_timeline")

    def __init__(self, fields: Fields, timeline: Timeline) -> None:
        self._calendar = Calendar(fields)
        self._find = self._calendar.find
        self._timeline = timeline
        self._fixed_offset = timeline.zone.fixed_offset
        # For since <= instant < until the next occurrence is `until`: every schedule with this
        # cadence shares the answer. One tuple, so that threads never see half of it.
        self._known = (0, 0)

    def next(self, instant: int) -> int:
        """Return the first occurrence strictly after `instant`."""
        since, until = self._known
        if since <= instant < until:
            return until
        until = _held(self._search(instant, True))
        self._known = instant, until
        return until

    def previous(self, instant: int) -> int:
        """Return the last occurrence at or before `instant`."""
        return _held(self._search(instant, False))

    def count(self, since: int, until: int) -> int:
        """Return how many occurrences lie in (since, until], in steps of years, not of occurrences."""
        total, begin = 0, since + 1
        while begin <= until:
            start, end, offset, low, high = self._timeline.at(begin)
            if begin == start and low < start + offset:
                # A gap with anything in it is one tick, at `start`, unless that matches by itself.
                moved = self._calendar.count(low, start + offset) > 0
                total += moved and self._find(start + offset, False) != start + offset
            low, high = max(low, begin + offset), min(high, until + 1 + offset)
            total += self._calendar.count(low, high) if low < high else 0
            begin = end
        return total

    def _search(self, instant: int, forward: bool) -> int:
        if self._fixed_offset is not None:
            return self._find(instant + self._fixed_offset, forward) - self._fixed_offset
        stretch = self._timeline.at(instant)
        start, _, offset, low, high = stretch
        wall = max(instant + offset, low - 1) if forward else min(instant + offset, high - 1)
        while not low <= (found := self._find(wall, forward)) < high:
            stretch = self._leave(stretch, wall, found, forward)
            start, _, offset, low, high = stretch
            wall = (low if forward else high) - 1
        # Only a wall inside a gap (`run_after`) lies before its stretch begins.
        return max(found - offset, start)

    def _leave(self, stretch: Stretch, wall: int, found: int, forward: bool) -> Stretch:
        """Return the next stretch that may hold an occurrence, given that `found` is the next wall.

        A year of changes is passed over in one step where no wall on the way can be one that was
        already behind `wall`: offsets are below a day, so a day's distance from the edge proves it.
        """
        if forward:
            near = found - 2 * DAY_SECONDS
            skip = wall < stretch.end - DAY_SECONDS and near > stretch.end
            return self._timeline.at(near if skip else stretch.end)
        near = found + 2 * DAY_SECONDS
        skip = wall > stretch.start + DAY_SECONDS and near < stretch.start
        return self._timeline.at(near if skip else stretch.start - 1)


class Calendar:
    """The walls that match the fields: the first after a wall, or the last at or before it."""

    __slots__ = ("_seconds", "_times", "_years", "find")

    def __init__(self, fields: Fields) -> None:
        self._years = _years(fields.day, fields.month, fields.weekday, fields.either_day)
        self._times = _times(fields.minute, fields.hour)
        self._seconds = values(fields.second)
        self.find: Find = self._find_minute if self._seconds == [0] else self._find_second

    def count(self, low: int, high: int) -> int:
        """Return how many walls in [low, high) match."""
        first, last = _year_of(low), _year_of(high)
        minutes = sum(len(self._years[year][1]) for year in range(first, last)) * len(self._times)
        return minutes * len(self._seconds) + self._rank(last, high) - self._rank(first, low)

    def _rank(self, year: int, wall: int) -> int:
        """Return how many walls of the year before `wall` match."""
        new_year, days = self._years[year]
        day = wall // DAY_SECONDS - new_year
        rank = bisect_left(days, day)
        minutes, second = rank * len(self._times), 0
        if rank < len(days) and days[rank] == day:
            minute = wall % DAY_SECONDS // 60 * 60
            before = bisect_left(self._times, minute)
            minutes += before
            if before < len(self._times) and self._times[before] == minute:
                second = bisect_left(self._seconds, wall % 60)
        return minutes * len(self._seconds) + second

    def _find_second(self, wall: int, forward: bool) -> int:
        minute, second = wall - wall % 60, wall % 60
        index = bisect_right(self._seconds, second) - (not forward)
        if 0 <= index < len(self._seconds) and self._find_minute(minute - forward, forward) == minute:
            return minute + self._seconds[index]
        if forward:
            return self._find_minute(minute, True) + self._seconds[0]
        return self._find_minute(minute - 1, False) + self._seconds[-1]

    def _find_minute(self, wall: int, forward: bool) -> int:
        day = wall // DAY_SECONDS
        try:
            year = _from_ordinal(day + _ORDINAL_OF_EPOCH).year
        except (ValueError, OverflowError):
            return self._find_from_outside(wall, forward)
        new_year, days = self._years[year]
        rank = bisect_right(days, day - new_year)
        today = rank > 0 and days[rank - 1] == day - new_year
        times = self._times
        if today:
            index = bisect_right(times, wall % DAY_SECONDS) - (not forward)
            if 0 <= index < len(times):
                return day * DAY_SECONDS + times[index]
        if forward:
            day = new_year + days[rank] if rank < len(days) else self._years.beyond(year, 1)
            return day * DAY_SECONDS + times[0]
        rank -= 1 + today
        day = new_year + days[rank] if rank >= 0 else self._years.beyond(year, -1)
        return day * DAY_SECONDS + times[-1]

    def _find_from_outside(self, wall: int, forward: bool) -> int:
        """Return the first or the last wall of all: local clocks run ahead of UTC, or behind it."""
        if forward != (wall < 0):
            raise OutOfYearsError
        if forward:
            return self._years.beyond(date.min.year - 1, 1) * DAY_SECONDS + self._times[0]
        return self._years.beyond(date.max.year + 1, -1) * DAY_SECONDS + self._times[-1]


class Years(dict[int, tuple[int, list[int]]]):
    """Year -> (day number of 1 January, the matching days of that year counted from it).

    Filled as years are asked for; the lists are shared by years of the same shape.
    """

    __slots__ = ("_day", "_either", "_month", "_shapes", "_weekday")

    def __init__(self, day: int, month: int, weekday: int, either: bool) -> None:
        super().__init__()
        self._day, self._month, self._weekday, self._either = day, month, weekday, either
        self._shapes: dict[tuple[bool, int], list[int]] = {}

    def __missing__(self, year: int) -> tuple[int, list[int]]:
        first = date(year, 1, 1)
        shape = isleap(year), first.isoweekday() % 7
        if shape not in self._shapes:
            self._shapes[shape] = self._list(*shape)
        self[year] = first.toordinal() - _ORDINAL_OF_EPOCH, self._shapes[shape]
        return self[year]

    def beyond(self, year: int, step: int) -> int:
        """Return the day number of the first match in a later year, or the last in an earlier one."""
        while date.min.year <= (year := year + step) <= date.max.year:
            new_year, days = self[year]
            if days:
                return new_year + days[0 if step > 0 else -1]
        raise OutOfYearsError

    def _list(self, leap: bool, first_weekday: int) -> list[int]:
        lengths = [monthrange(2000 if leap else 2001, month)[1] for month in range(1, 13)]
        dates = [(month, day) for month, length in enumerate(lengths, 1) for day in range(1, length + 1)]
        return [
            n for n, (month, day) in enumerate(dates) if self._matches(month, day, (first_weekday + n) % 7)
        ]

    def _matches(self, month: int, day: int, weekday: int) -> bool:
        in_day, in_weekday = self._day >> day & 1, self._weekday >> weekday & 1
        in_either = in_day | in_weekday if self._either else in_day & in_weekday
        return bool(in_either & self._month >> month)


def _held(instant: int) -> int:
    """Return an instant that a datetime in UTC can hold, or raise OutOfYearsError."""
    if _INSTANT_MIN <= instant <= _INSTANT_MAX:
        return instant
    raise OutOfYearsError


def _year_of(wall: int) -> int:
    try:
        return date.fromordinal(wall // DAY_SECONDS + _ORDINAL_OF_EPOCH).year
    except (ValueError, OverflowError):
        raise OutOfYearsError from None


@lru_cache(maxsize=4096)
def _years(day: int, month: int, weekday: int, either: bool) -> Years:
    return Years(day, month, weekday, either)


@lru_cache(maxsize=4096)
def _times(minute: int, hour: int) -> list[int]:
    """Return the matching minutes of a day as seconds since midnight."""
    minutes = values(minute)
    return [_MINUTE_STARTS[h * 60 + m] for h in values(hour) for m in minutes]
