"""Occurrences of cron fields: one search with a direction, first over walls, then over instants.

Every search ends: `dialect` refuses dates that cannot exist, and the longest wait, for 29 February, is eight
years (longer only where a calendar excludes days).

Every next-run computation of every schedule uses these functions, so they work on plain ints and shared
tables (`make bench`, section "cron"). The times of a day and the distances between days are tabled once per
distinct spelling; a step is one look-up and at most one bisection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING

from dutiful.core.cron.days import BLOCK_BITS, BLOCK_MASK, FIRST_DAY, LAST_DAY, matching_days
from dutiful.core.cron.dialect import values
from dutiful.core.cron.zone import DAY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dutiful.core.cron.dialect import Fields
    from dutiful.core.cron.exclusions import Exclusions
    from dutiful.core.cron.zone import Timeline

    Find = Callable[[int, bool], int]

_INSTANT_MIN = FIRST_DAY * DAY_SECONDS
_INSTANT_MAX = (LAST_DAY + 1) * DAY_SECONDS - 1
_MINUTE_STARTS = tuple(range(0, DAY_SECONDS, 60))
_ON_THE_MINUTE = [0]


class OutOfYearsError(Exception):
    """The search ran past the years that a datetime can hold."""

    def __str__(self) -> str:
        return f"no occurrence within the years {date.min.year} to {date.max.year}"


class Occurrences:
    """The instants at which fields match on a timeline."""

    __slots__ = ("_calendar", "_find", "_fixed_offset", "_known", "_timeline")

    def __init__(self, fields: Fields, timeline: Timeline, excluded: Exclusions | None = None) -> None:
        self._calendar = _calendar(fields, excluded)
        self._find = self._calendar.find
        self._timeline = timeline
        self._fixed_offset = timeline.zone.fixed_offset
        # (instant, the first occurrence after it, the occurrence after that or the first again if unknown).
        self._known = (0, 0, 0)

    def next(self, instant: int) -> int:
        """Return the first occurrence strictly after `instant`."""
        return self._find(instant, True) if self._fixed_offset == 0 else self._search(instant, True)

    def shared_next(self, instant: int) -> int:
        """Return `next(instant)`, cached: schedules with the same cadence ask for the same instants."""
        since, first, second = self._known
        if since <= instant < first:
            return first
        if first <= instant < second:
            return second
        found = self.next(instant)
        # Replace the cache as one tuple, so that other threads never see half of an update.
        self._known = (since, first, found) if instant == first else (instant, found, found)
        return found

    def shared_previous(self, instant: int) -> int:
        """Return `previous(instant)`, from the cache of `shared_next` where that covers the instant."""
        _, first, second = self._known
        return first if first <= instant < second else self.previous(instant)

    def previous(self, instant: int) -> int:
        """Return the last occurrence at or before `instant`."""
        return self._find(instant, False) if self._fixed_offset == 0 else self._search(instant, False)

    def count(self, since: int, until: int) -> int:
        """Return how many occurrences lie in (since, until], counting by years instead of by occurrences."""
        return sum(
            (moved is not None) + self._calendar.count(low, high)
            for moved, low, high, _ in self._parts(since, until)
        )

    def between(self, since: int, until: int) -> list[int]:
        """Return the occurrences in (since, until]; faster than asking for one after the other."""
        found = list[int]()
        for moved, low, high, offset in self._parts(since, until):
            if moved is not None:
                found.append(moved)
            found += [wall - offset for wall in self._calendar.walls(low, high)]
        return found

    def _parts(self, since: int, until: int) -> Iterator[tuple[int | None, int, int, int]]:
        """Yield each stretch of (since, until] as (tick moved to its start or None, low, high, offset)."""
        begin, until = max(since + 1, _INSTANT_MIN), min(until, _INSTANT_MAX)
        while begin <= until:
            start, end, offset, low, high = self._timeline.at(begin)
            moved = None
            if begin == start and low < start + offset and self._calendar.count(low, start + offset):
                # All occurrences inside a gap become one tick at `start`, unless `start` matches by itself.
                moved = None if self._find(start + offset, False) == start + offset else start
            low, high = max(low, begin + offset), min(high, until + 1 + offset)
            yield moved, low, max(low, high), offset
            begin = end

    def _search(self, instant: int, forward: bool) -> int:
        if self._fixed_offset is not None:
            return _held(self._find(instant + self._fixed_offset, forward) - self._fixed_offset)
        start, end, offset, low, high = self._timeline.at(instant)
        wall = instant + offset
        if wall < low if forward else wall >= high:
            wall = (low if forward else high) - 1
        while not low <= (found := self._find(wall, forward)) < high:
            start, end, offset, low, high = self._timeline.at(_onwards(start, end, wall, found, forward))
            wall = (low if forward else high) - 1
        if found < start + offset:
            # The wall lies inside the gap before this stretch, so the rule is `run_after`.
            return _held(start)
        return _held(found - offset)


def _onwards(start: int, end: int, wall: int, found: int, forward: bool) -> int:
    """Return an instant of the next stretch that may hold an occurrence; `found` is the next wall.

    Changes of offset far from `found` are passed over in one step. This is safe where `wall` is more than a
    day from the edge of its stretch: offsets are below a day, so no wall in between can repeat one before
    `wall`.
    """
    if forward:
        near = found - 2 * DAY_SECONDS
        return near if wall < end - DAY_SECONDS and near > end else end
    near = found + 2 * DAY_SECONDS
    return near if wall > start + DAY_SECONDS and near < start else start - 1


class Calendar:
    """The walls that match the fields: the first after a wall, or the last at or before it."""

    __slots__ = ("_ahead", "_back", "_days", "_earliest", "_latest", "_seconds", "_times", "find")

    def __init__(self, fields: Fields, excluded: Exclusions | None = None) -> None:
        spec = fields.day, fields.month, fields.weekday, fields.either_day
        self._days = days = matching_days(*spec, excluded)
        self._ahead, self._back = days.ahead, days.back
        self._times = times = _times(fields.minute, fields.hour)
        self._earliest, self._latest = times[0], times[-1]
        self._seconds = _ON_THE_MINUTE if fields.second == 1 else values(fields.second)
        self.find: Find = self._find_minute if fields.second == 1 else self._find_second

    def count(self, low: int, high: int) -> int:
        """Return how many walls in [low, high) match."""
        days = self._days.count(low // DAY_SECONDS, high // DAY_SECONDS)
        return days * len(self._times) * len(self._seconds) + self._rank(high) - self._rank(low)

    def walls(self, low: int, high: int) -> list[int]:
        """Return the walls in [low, high) that match."""
        found = list[int]()
        try:
            minute = self._find_minute(low - low % 60 - 1, True)
            while minute < high:
                found += [minute + second for second in self._seconds]
                minute = self._find_minute(minute, True)
        except OutOfYearsError:
            # The years end before `high`.
            pass
        return found[bisect_left(found, low) : bisect_left(found, high)]

    def _rank(self, wall: int) -> int:
        """Return how many walls of its day before `wall` match."""
        day = wall // DAY_SECONDS
        if not self._days.count(day, day + 1):
            return 0
        minute = wall % DAY_SECONDS // 60 * 60
        before, second = bisect_left(self._times, minute), 0
        if before < len(self._times) and self._times[before] == minute:
            second = bisect_left(self._seconds, wall % 60)
        return before * len(self._seconds) + second

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
        second = wall - day * DAY_SECONDS
        if forward:
            if second >= self._latest:
                day, second = day + 1, -1
            distance = self._ahead[day >> BLOCK_BITS][day & BLOCK_MASK]
            if distance == 0:
                return day * DAY_SECONDS + self._times[bisect_right(self._times, second)]
            second = self._earliest
        else:
            if second < self._earliest:
                day, second = day - 1, DAY_SECONDS
            distance = self._back[day >> BLOCK_BITS][day & BLOCK_MASK]
            if distance == 0:
                return day * DAY_SECONDS + self._times[bisect_right(self._times, second) - 1]
            second = self._latest
        if distance is None:
            raise OutOfYearsError
        return (day + distance) * DAY_SECONDS + second


def _held(instant: int) -> int:
    """Return an instant that a datetime in UTC can hold, or raise OutOfYearsError."""
    if _INSTANT_MIN <= instant <= _INSTANT_MAX:
        return instant
    raise OutOfYearsError


@lru_cache(maxsize=4096)
def _calendar(fields: Fields, excluded: Exclusions | None) -> Calendar:
    return Calendar(fields, excluded)


@lru_cache(maxsize=4096)
def _times(minute: int, hour: int) -> list[int]:
    """Return the matching minutes of a day as seconds since midnight."""
    minutes = values(minute)
    return [_MINUTE_STARTS[h * 60 + m] for h in values(hour) for m in minutes]
