"""The days on which a cron does not run, whatever its text says: dates, ranges, and days of every year."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from datetime import date
from operator import itemgetter

from dutiful.core.errors import InvalidArgumentError

_ORDINAL_OF_EPOCH = date(1970, 1, 1).toordinal()
_ENTRIES_MAX = 1000
_LAST = itemgetter(1)
_DATE = r"(\d{4}-\d\d-\d\d)"
_ENTRY = re.compile(rf"{_DATE}(?:/{_DATE})?|(\d\d)-(\d\d)", re.ASCII)
_ADVICE = "write a date such as 2026-12-25, a range such as 2026-12-24/2027-01-01, or 12-25 for every year"


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Days without ticks."""

    # First and last day numbers since 1970-01-01, in order, with days between any two ranges.
    ranges: tuple[tuple[int, int], ...]
    # The days of every year as bit sets counted from 1 January: of a common year, and of a leap year.
    yearly: tuple[int, int]

    def window(self, low: int, high: int) -> int:
        """Return the days in [low, high) that a range excludes, as a bit set counted from `low`."""
        bits = 0
        for place in range(bisect_left(self.ranges, low, key=_LAST), len(self.ranges)):
            first, last = self.ranges[place]
            if first >= high:
                break
            bits |= (1 << min(last + 1, high) - low) - (1 << max(first, low) - low)
        return bits

    def outside(self, day: int, step: int) -> int:
        """Return `day`, or the first day after it (`step` 1) or before it (-1) that no range excludes."""
        place = bisect_left(self.ranges, day, key=_LAST)
        if place == len(self.ranges) or self.ranges[place][0] > day:
            return day
        first, last = self.ranges[place]
        return last + 1 if step > 0 else first - 1


def exclusions(texts: tuple[object, ...]) -> Exclusions:
    """Return the days that these texts mean, or raise InvalidArgumentError."""
    if len(texts) > _ENTRIES_MAX:
        raise InvalidArgumentError("calendar", f"{len(texts)} entries", f"write at most {_ENTRIES_MAX}")
    ranges, yearly = list[tuple[int, int]](), set[tuple[int, int]]()
    for text in texts:
        found = _ENTRY.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise InvalidArgumentError("calendar", text, _ADVICE)
        first, last, month, day = found.groups()
        if month is not None:
            yearly.add(_yearly(found[0], int(month), int(day)))
        else:
            ranges.append(_range(found[0], first, last or first))
    common, leap = (_of_year(year, yearly) for year in (2001, 2000))
    return Exclusions(_merged(ranges), (common, leap))


def _merged(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the same days in as few ranges as possible, in order."""
    merged = list[tuple[int, int]]()
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return tuple(merged)


def _of_year(year: int, yearly: set[tuple[int, int]]) -> int:
    """Return these days of a year as a bit set; a year may have no 29 February."""
    first = date(year, 1, 1).toordinal() - _ORDINAL_OF_EPOCH
    days = (_in_year(year, *day) for day in yearly)
    return sum(1 << day - first for day in days if day is not None)


def _range(text: str, first: str, last: str) -> tuple[int, int]:
    try:
        begin, end = (date.fromisoformat(each).toordinal() - _ORDINAL_OF_EPOCH for each in (first, last))
    except ValueError as error:
        raise InvalidArgumentError("calendar", text, f"{_ADVICE}: {error}") from None
    if end < begin:
        raise InvalidArgumentError("calendar", text, "the range ends before it begins")
    return begin, end


def _yearly(text: str, month: int, day: int) -> tuple[int, int]:
    # 2000 is a leap year, so every legal month and day exists in it.
    if _in_year(2000, month, day) is None:
        raise InvalidArgumentError("calendar", text, _ADVICE)
    return month, day


def _in_year(year: int, month: int, day: int) -> int | None:
    try:
        return date(year, month, day).toordinal() - _ORDINAL_OF_EPOCH
    except ValueError:
        return None
