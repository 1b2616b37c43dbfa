"""The days that match day, month and weekday: which days match, how many, and how far the next match is.

Days are counted from 1970-01-01. A year has only fourteen shapes (leap or not, by the weekday it starts on),
so its matches are bit sets, made once per shape and shared by all equal fields.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from datetime import date
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dutiful.core.cron.exclusions import Exclusions

# Added to a day number, this gives the ordinal that `date.fromordinal` takes.
_ORDINAL_OF_EPOCH = date(1970, 1, 1).toordinal()
FIRST_DAY = date.min.toordinal() - _ORDINAL_OF_EPOCH
LAST_DAY = date.max.toordinal() - _ORDINAL_OF_EPOCH

_MONTH_LENGTHS = [[monthrange(year, month)[1] for month in range(1, 13)] for year in (2001, 2000)]
_FOUR_WEEKS = (1 << 28) - 1
_EVERY_SEVENTH_DAY = sum(1 << n for n in range(0, 366, 7))

# Small blocks: for a text never seen before, most of the time to its first answer is the first block.
BLOCK_BITS = 4
BLOCK_MASK = (1 << BLOCK_BITS) - 1
# Forty-five years of blocks. A full cache is cleared, so that a long walk keeps memory bounded.
_BLOCKS_MAX = 1024


class Days:
    """The matching days for one set of day, month and weekday fields, minus the excluded days.

    With `either`, a day matches when its day of the month or its weekday matches.
    """

    __slots__ = ("_excluded", "_masks", "_spec", "ahead", "back")

    def __init__(
        self, day: int, month: int, weekday: int, either: bool, excluded: Exclusions | None = None
    ) -> None:
        self._spec, self._excluded = (day, month, weekday, either), excluded
        self._masks: dict[tuple[bool, int], int] = {}
        self.ahead, self.back = Distances(self, 1), Distances(self, -1)

    def count(self, low: int, high: int) -> int:
        """Return how many days in [low, high) match."""
        return sum(self.window(day, min(day + 366, high)).bit_count() for day in range(low, high, 366))

    def nearest(self, day: int, step: int) -> int | None:
        """Return the first match at or after `day` (`step` 1) or the last at or before it (-1)."""
        day = max(day, FIRST_DAY) if step > 0 else min(day, LAST_DAY)
        while FIRST_DAY <= day <= LAST_DAY:
            if self._excluded is not None:
                # A range may cover thousands of years.
                day = self._excluded.outside(day, step)
            low = day if step > 0 else day - 365
            if bits := self.window(low, low + 366):
                return low + (bits & -bits if step > 0 else bits).bit_length() - 1
            if self._never():
                # Otherwise the search would walk through every year there is.
                return None
            day += 366 * step
        return None

    def _never(self) -> bool:
        """Return whether no year of any shape has a match."""
        return not any(self._mask(leap, weekday) for leap in (False, True) for weekday in range(7))

    def window(self, low: int, high: int) -> int:
        """Return the matching days in [low, high) as a bit set counted from `low`."""
        if low > LAST_DAY or high <= FIRST_DAY:
            return 0
        bits = 0
        for year in range(_year_of(low), _year_of(high - 1) + 1):
            first = date(year, 1, 1)
            behind = low + _ORDINAL_OF_EPOCH - first.toordinal()
            mask = self._mask(isleap(year), first.isoweekday() % 7)
            bits |= mask >> behind if behind >= 0 else mask << -behind
        if self._excluded is not None:
            bits &= ~self._excluded.window(low, high)
        return bits & (1 << high - low) - 1

    def _mask(self, leap: bool, first_weekday: int) -> int:
        mask = self._masks.get((leap, first_weekday))
        if mask is None:
            mask = _year_mask(*self._spec, leap, first_weekday)
            if self._excluded is not None:
                mask &= ~self._excluded.yearly[leap]
            self._masks[leap, first_weekday] = mask
        return mask


class Distances(dict[int, "list[int | None]"]):
    """Maps a block of days to each day's distance to the nearest match: 0 on a match, None for never."""

    __slots__ = ("_days", "_step")

    def __init__(self, days: Days, step: int) -> None:
        super().__init__()
        self._days, self._step = days, step

    def __missing__(self, block: int) -> list[int | None]:
        if len(self) >= _BLOCKS_MAX:
            self.clear()
        days = range(block << BLOCK_BITS, (block + 1) << BLOCK_BITS)
        bits = self._days.window(days.start, days.stop)
        # Walk against the direction of the search, so that each day already knows its nearest match.
        against = days[:: -self._step]
        nearest: int | None = against[0]
        if not bits >> (against[0] & BLOCK_MASK) & 1:
            nearest = self._days.nearest(against[0] + self._step, self._step)
        found: list[int | None] = []
        for day in against:
            if bits >> (day & BLOCK_MASK) & 1:
                nearest = day
            found.append(None if nearest is None else nearest - day)
        self[block] = table = found[:: -self._step]
        return table


@lru_cache(maxsize=4096)
def matching_days(
    day: int, month: int, weekday: int, either: bool, excluded: Exclusions | None = None
) -> Days:
    """Return the shared Days of these bit sets."""
    return Days(day, month, weekday, either, excluded)


def _year_of(day: int) -> int:
    return date.fromordinal(min(max(day, FIRST_DAY), LAST_DAY) + _ORDINAL_OF_EPOCH).year


def _year_mask(day: int, month: int, weekday: int, either: bool, leap: bool, first_weekday: int) -> int:
    """Return the matching days of a year of this shape as a bit set counted from 1 January."""
    firsts, in_month, late = _months(month, leap)
    # Every month has the first 28 days, so they can be copied to all months by one product.
    in_day = (day >> 1 & _FOUR_WEEKS) * firsts
    for number, days in late:
        if day >> number & 1:
            in_day |= days
    in_weekday = ((weekday << 7 | weekday) >> first_weekday & 0x7F) * _EVERY_SEVENTH_DAY
    return (in_day | in_weekday if either else in_day & in_weekday) & in_month


@lru_cache(maxsize=64)
def _months(month: int, leap: bool) -> tuple[int, int, list[tuple[int, int]]]:
    """Return the first days of these months, all their days, and their days 29, 30 and 31, as bit sets."""
    starts = accumulate(_MONTH_LENGTHS[leap], initial=0)
    spans = [
        (start, length)
        for number, (start, length) in enumerate(zip(starts, _MONTH_LENGTHS[leap], strict=False), 1)
        if month >> number & 1
    ]
    firsts = sum(1 << start for start, _ in spans)
    every = sum((1 << length) - 1 << start for start, length in spans)
    late = [
        (day, sum(1 << start + day - 1 for start, length in spans if day <= length)) for day in (29, 30, 31)
    ]
    return firsts, every, late
