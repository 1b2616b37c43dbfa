"""A second, naive reading of cron and of the tz database, to judge the engine by.

It shares no code with the engine and is slow on purpose: cron fields are plain sets, every UTC minute
is walked, and gaps and folds are whatever that walk observes. Only posix texts and whole-minute offsets.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import TZPATH

if TYPE_CHECKING:
    from collections.abc import Callable
    from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR, DAY = 3600, 86_400
BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def epoch(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> int:
    """Return the epoch second of a UTC time."""
    return (datetime(year, month, day, hour, minute, second, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)


def posix_sets(text: str) -> list[set[int]]:
    """Return the values of the five fields of a legal posix text."""
    sets = []
    for field, (low, high) in zip(text.split(), BOUNDS, strict=True):
        chosen: set[int] = set()
        for item in field.split(","):
            first, _, last = (f"{low}-{high}" if item == "*" else item).partition("-")
            chosen.update(range(int(first), int(last or first) + 1))
        sets.append(chosen)
    return sets


def wall_matcher(text: str) -> Callable[[datetime], bool]:
    """Return the predicate that says whether a local time matches a posix text."""
    minutes, hours, days, months, weekdays = posix_sets(text)
    day_open, weekday_open = text.split()[2] == "*", text.split()[4] == "*"

    def matches(wall: datetime) -> bool:
        if wall.minute not in minutes or wall.hour not in hours or wall.month not in months:
            return False
        in_days, in_weekdays = wall.day in days, wall.isoweekday() % 7 in weekdays
        if day_open or weekday_open:
            return in_days and in_weekdays
        return in_days or in_weekdays

    return matches


@dataclass(frozen=True)
class Observed:
    """What local clocks showed in a range of UTC minutes."""

    instants_of: dict[datetime, list[int]]
    # For each jump forwards: the first instant after it, and the local minutes that never were.
    jumps: list[tuple[int, list[datetime]]]


def observe(zone: ZoneInfo, start: int, end: int) -> Observed:
    """Walk every UTC minute of [start, end) and write down what local clocks showed."""
    assert start % 60 == 0
    assert end % 60 == 0
    utc = EPOCH + timedelta(seconds=start)
    minutes = [(start + n * 60, (utc + n * MINUTE).astimezone(zone)) for n in range((end - start) // 60)]
    shown = [(instant, local.replace(tzinfo=None, fold=0)) for instant, local in minutes]
    instants_of: dict[datetime, list[int]] = {}
    for instant, wall in shown:
        assert wall.second == 0, "the minute scan needs offsets of whole minutes"
        instants_of.setdefault(wall, []).append(instant)
    jumps = []
    for (_, early), (instant, late) in pairwise(shown):
        if late - early > MINUTE:
            missing = [early + n * MINUTE for n in range(1, (late - early) // MINUTE)]
            jumps.append((instant, missing))
    return Observed(instants_of, jumps)


@dataclass(frozen=True)
class Matched:
    """The observed local minutes that match one text, before the gap and fold rules choose."""

    shown: list[list[int]]
    jumped: list[int]

    def ticks(self, gap: str, fold: str, start: int, end: int) -> list[int]:
        """Return the instants in [start, end) at which the text is due under these rules."""
        chosen = {"both": slice(None), "first": slice(0, 1), "last": slice(-1, None)}[fold]
        due = {instant for instants in self.shown for instant in instants[chosen]}
        if gap == "run_after":
            due.update(self.jumped)
        return sorted(instant for instant in due if start <= instant < end)


def match(observed: Observed, text: str) -> Matched:
    """Return which of the observed and of the missing local minutes match a posix text."""
    matches = wall_matcher(text)
    shown = [instants for wall, instants in observed.instants_of.items() if matches(wall)]
    return Matched(shown, [instant for instant, missing in observed.jumps if any(map(matches, missing))])


def ticks(
    text: str, zone: ZoneInfo, start: int, end: int, gap: str = "skip", fold: str = "both"
) -> list[int]:
    """Return the epoch seconds in [start, end) at which `text` is due.

    The scan is two days wider than the answer, so that a fold across an edge is seen whole.
    """
    wide_start, wide_end = (start - 2 * DAY) // 60 * 60, -(-(end + 2 * DAY) // 60) * 60
    return match(observe(zone, wide_start, wide_end), text).ticks(gap, fold, start, end)


@cache
def tzif_changes(name: str) -> tuple[tuple[int, int, int], ...]:
    """Return (instant, offset before, offset after) of every change that the file of a zone lists."""
    data = _tzif_bytes(name)
    assert data[:4] == b"TZif"
    assert data[4:5] >= b"2"
    isut, isstd, leap, times, types, chars = struct.unpack(">6l", data[20:44])
    # Version 2 repeats everything in 64 bits after the 32-bit block.
    begin = 44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut
    times, types = struct.unpack(">2l", data[begin + 32 : begin + 40])
    body = begin + 44
    instants = struct.unpack_from(f">{times}q", data, body)
    indexes = struct.unpack_from(f">{times}B", data, body + times * 8)
    offsets = [struct.unpack_from(">l", data, body + times * 9 + n * 6)[0] for n in range(types)]
    befores = [offsets[0], *(offsets[index] for index in indexes)]
    changes = zip(instants, befores, (offsets[index] for index in indexes), strict=False)
    return tuple((at, before, after) for at, before, after in changes if before != after)


def _tzif_bytes(name: str) -> bytes:
    for folder in TZPATH:
        path = Path(folder, name)
        if path.is_file():
            return path.read_bytes()
    return resources.files("tzdata.zoneinfo").joinpath(name).read_bytes()


def changes(name: str, zone: ZoneInfo, since: int, until: int) -> list[tuple[int, int, int]]:
    """Return (instant, offset before, offset after) of every change in [since, until).

    Read from the file of the zone and, beyond the last change that it lists, found day by day.
    """
    listed = tzif_changes(name)
    begin = max(since, listed[-1][0] if listed else since)
    found = []
    for early in range(begin, until, DAY):
        late = min(early + DAY, until - 1)
        if _offset(zone, early) != _offset(zone, late):
            at = _bisect(zone, early, late)
            found.append((at, _offset(zone, early), _offset(zone, late)))
    return [change for change in listed if since <= change[0] < until] + found


def _bisect(zone: ZoneInfo, early: int, late: int) -> int:
    offset = _offset(zone, late)
    while late - early > 1:
        middle = (early + late) // 2
        early, late = (early, middle) if _offset(zone, middle) == offset else (middle, late)
    return late


def _offset(zone: ZoneInfo, instant: int) -> int:
    offset = (EPOCH + timedelta(seconds=instant)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)
