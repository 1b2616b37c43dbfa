"""The days on which a cron does not run, whatever its text says: dates, ranges, and days of every year."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from dutiful.core.errors import InvalidArgumentError

_ORDINAL_OF_EPOCH = date(1970, 1, 1).toordinal()
_ENTRIES_MAX = 1000
_DATE = r"(\d{4}-\d\d-\d\d)"
_ENTRY = re.compile(rf"{_DATE}(?:/{_DATE})?|(\d\d)-(\d\d)", re.ASCII)
_ADVICE = "write a date such as 2026-12-25, a range such as 2026-12-24/2027-01-01, or 12-25 for every year"


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Days without ticks: ranges of day numbers since 1970-01-01, and (month, day) of every year."""

    ranges: tuple[tuple[int, int], ...]
    yearly: tuple[tuple[int, int], ...]

    def window(self, low: int, high: int) -> int:
        """Return the excluded days in [low, high) as a bit set counted from `low`."""
        bits = 0
        for first, last in (*self.ranges, *self._of_each_year(low, high)):
            begin, end = max(first, low) - low, min(last + 1, high) - low
            if begin < end:
                bits |= (1 << end) - (1 << begin)
        return bits

    def _of_each_year(self, low: int, high: int) -> list[tuple[int, int]]:
        if not self.yearly:
            return []
        years = range(_date(low).year, _date(high - 1).year + 1)
        # Years without a 29 February have no such day to exclude.
        days = [_in_year(year, *day) for year in years for day in self.yearly]
        return [(day, day) for day in days if day is not None]


def exclusions(texts: tuple[object, ...]) -> Exclusions:
    """Return the days that these texts mean, or raise InvalidArgumentError."""
    if len(texts) > _ENTRIES_MAX:
        raise InvalidArgumentError("calendar", f"{len(texts)} entries", f"write at most {_ENTRIES_MAX}")
    ranges, yearly = [], []
    for text in texts:
        found = _ENTRY.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise InvalidArgumentError("calendar", text, _ADVICE)
        first, last, month, day = found.groups()
        if month is not None:
            yearly.append(_yearly(found[0], int(month), int(day)))
        else:
            ranges.append(_range(found[0], first, last or first))
    return Exclusions(tuple(ranges), tuple(yearly))


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


def _date(day: int) -> date:
    return date.fromordinal(min(max(day + _ORDINAL_OF_EPOCH, 1), date.max.toordinal()))
