"""Time zones as stretches of constant offset, with the gap and fold rules as data.

Instants are epoch seconds. A *wall* is the same count of seconds read off a local clock:
wall = instant + offset. Between two changes of offset walls and instants advance together, so all
calendar work is done on walls and only the ends of a stretch need care:

- a *gap*: the offset grew, and the walls in between never happened (`skip` them, or `run_after`:
  one tick at the first instant after the gap stands for all of them);
- a *fold*: the offset shrank, and the walls in between happen twice (`both`, `first` or `last`).
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from dutiful.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

Gap = Literal["skip", "run_after"]
Fold = Literal["both", "first", "last"]

DAY_SECONDS = 86_400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_ISO_ADVICE = "write ISO 8601, such as 2026-03-08, 2026-03-08T01:30 or 2026-03-08T06:30Z"
# Every offset is below 24 h, so within these bounds a conversion cannot leave datetime's years.
_PROBE_MIN = (datetime(1, 1, 2, tzinfo=UTC) - EPOCH) // _SECOND
_PROBE_MAX = (datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // _SECOND
# No fold is wider than this: the two offsets lie less than a day on either side of UTC.
_FOLD_MAX = 2 * DAY_SECONDS
# Offsets are discovered in blocks of 2**27 s (4.25 years), so a far instant costs one block.
_BLOCK_BITS = 27
# zoneinfo does not publish its transitions; they are found by probing. The shortest stretch in the
# tz database lasts four days (tests/core/test_zone.py reads the database itself to make sure).
_PROBE_STEP = 2 * DAY_SECONDS


def epoch_ms(at: datetime) -> int:
    """Return an aware datetime as epoch milliseconds, rounded down."""
    since = at - EPOCH
    return (since.days * DAY_SECONDS + since.seconds) * 1000 + since.microseconds // 1000


def from_epoch_ms(instant: int) -> datetime:
    """Return epoch milliseconds as a datetime in UTC."""
    return EPOCH + timedelta(milliseconds=instant)


def rfc_3339(instant: datetime) -> str:
    """Return an instant as RFC 3339: in UTC with Z, else with its offset."""
    return instant.isoformat().replace("+00:00", "Z")


def read_instant(argument: str, text: str, local: tzinfo | None = UTC) -> datetime:
    """Return the instant that a person wrote; without an offset it is a wall time of the zone `local`.

    Raises InvalidArgumentError for any other text, and without `local` for one that has no offset.
    """
    try:
        at = datetime.fromisoformat(text)
        aware = at if at.tzinfo is not None else at.replace(tzinfo=local)
        # Later calculations are in UTC.
        aware.astimezone(UTC)
    except ValueError:
        raise InvalidArgumentError(argument, text, _ISO_ADVICE) from None
    except OverflowError:
        raise InvalidArgumentError(argument, text, "lies outside the years 1 to 9999 in UTC") from None
    if aware.tzinfo is None:
        raise InvalidArgumentError(argument, text, "has no UTC offset; add Z or +00:00")
    return aware


class Stretch(NamedTuple):
    """Instants in [start, end) share `offset`. A tick belongs to it iff low <= wall < high."""

    start: int
    end: int
    offset: int
    low: int
    high: int


class Zone:
    """A tzinfo whose offset changes can be listed. Get one from `zone()`, which shares them."""

    __slots__ = ("_offsets", "fixed_offset", "name", "tzinfo")

    def __init__(self, tz: tzinfo) -> None:
        self.tzinfo = tz
        self.name: str = getattr(tz, "key", None) or str(tz)
        self._offsets: dict[int, list[tuple[int, int]]] = {}
        # Probe every tzinfo, also those with changing offsets, so that one without offsets is refused at
        # once.
        offset = self.offset(0)
        self.fixed_offset = offset if isinstance(tz, timezone) else None

    def __repr__(self) -> str:
        return f"Zone({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Zone) and self.tzinfo == other.tzinfo

    def __hash__(self) -> int:
        try:
            return hash(self.tzinfo)
        except TypeError:
            # Some tzinfo classes, such as dateutil's, are unhashable and compare by rules; equal rules have
            # equal offsets.
            return hash(self.offset(0))

    def offset(self, instant: int) -> int:
        """Return the offset from UTC in force at `instant`, in seconds."""
        probe = EPOCH + timedelta(seconds=min(max(instant, _PROBE_MIN), _PROBE_MAX))
        try:
            offset = probe.astimezone(self.tzinfo).utcoffset()
        except (ValueError, NotImplementedError):
            offset = None
        if offset is None:
            raise InvalidArgumentError("timezone", self.name, "this tzinfo gives no UTC offset")
        return offset // _SECOND

    def instants(self, wall: int) -> tuple[int, ...]:
        """Return the instants at which local clocks show `wall`: none, one or two."""
        candidates = {offset: wall - offset for offset in self._offsets_around(wall)}
        return tuple(sorted(t for offset, t in candidates.items() if self.offset(t) == offset))

    def changes(self, since: int, until: int) -> Iterator[tuple[int, int, int]]:
        """Yield (instant, offset before, offset after) for each change in [since, until)."""
        for block in range(since >> _BLOCK_BITS, (until - 1 >> _BLOCK_BITS) + 1):
            begin, end = max(since, block << _BLOCK_BITS), min(until, (block + 1) << _BLOCK_BITS)
            for (_, before), (start, offset) in pairwise(self.offsets(block)):
                if begin <= start < end:
                    yield start, before, offset

    def offsets(self, block: int) -> list[tuple[int, int]]:
        """Return [(start, offset), …] of the stretches of one block and of two days around it."""
        found = self._offsets.get(block)
        if found is None:
            found = self._offsets[block] = self._discover(block)
        return found

    def _offsets_around(self, wall: int) -> set[int]:
        return {self.offset(t) for t in range(wall - 2 * DAY_SECONDS, wall + 3 * DAY_SECONDS, DAY_SECONDS)}

    def _discover(self, block: int) -> list[tuple[int, int]]:
        start, end = (block << _BLOCK_BITS) - _FOLD_MAX, ((block + 1) << _BLOCK_BITS) + _FOLD_MAX
        found = [(start, self.offset(start))]
        probes = [*range(start, end, _PROBE_STEP), end - 1]
        for early, late in pairwise(probes):
            offset = self.offset(late)
            if offset != found[-1][1]:
                found.append((self._change_between(early, late), offset))
        return found

    def _change_between(self, early: int, late: int) -> int:
        """Return the first instant in (early, late] at which the offset is that of `late`."""
        offset = self.offset(late)
        while late - early > 1:
            middle = (early + late) // 2
            if self.offset(middle) == offset:
                late = middle
            else:
                early = middle
        return late


class Timeline:
    """A zone under one gap and one fold rule: the stretches in which a wall is a tick."""

    __slots__ = ("_blocks", "_fold", "_gap", "zone")

    def __init__(self, zone: Zone, gap: Gap, fold: Fold) -> None:
        self.zone, self._gap, self._fold = zone, gap, fold
        self._blocks: dict[int, tuple[list[int], list[tuple[int, int, int, int, int]]]] = {}

    def at(self, instant: int) -> tuple[int, int, int, int, int]:
        """Return the stretch that contains `instant`, as a plain tuple: every search step calls this."""
        block = instant >> _BLOCK_BITS
        try:
            starts, stretches = self._blocks[block]
        except KeyError:
            stretches = [(s.start, s.end, s.offset, s.low, s.high) for s in self._stretches(block)]
            starts = [start for start, *_ in stretches]
            self._blocks[block] = starts, stretches
        return stretches[bisect_right(starts, instant) - 1]

    def _stretches(self, block: int) -> list[Stretch]:
        start, end = block << _BLOCK_BITS, (block + 1) << _BLOCK_BITS
        known = self.zone.offsets(block)
        known = [known[0], *known, (end + _FOLD_MAX, known[-1][1])]
        stretches = [
            self._stretch(before, since, offset, until, after)
            for (_, before), (since, offset), (until, after) in zip(known, known[1:], known[2:], strict=False)
        ]
        return [
            _clipped(stretch, start, end)
            for stretch in stretches
            if stretch.start < end and stretch.end > start
        ]

    def _stretch(self, before: int, start: int, offset: int, end: int, after: int) -> Stretch:
        low, high = start + offset, end + offset
        if (before < offset and self._gap == "run_after") or (before > offset and self._fold == "first"):
            low = start + before
        if after < offset and self._fold == "last":
            high = end + after
        return Stretch(start, end, offset, low, high)


def _clipped(stretch: Stretch, begin: int, stop: int) -> Stretch:
    """Return the part of the stretch inside [begin, stop); a fold may reach across either edge."""
    start, end, offset, low, high = stretch
    if start < begin:
        start, low = begin, max(low, begin + offset)
    if end > stop:
        end, high = stop, min(high, stop + offset)
    return Stretch(start, end, offset, low, high)


def timeline(timezone: str | tzinfo, gap: Gap, fold: Fold) -> Timeline:
    """Return the shared timeline of a zone under these rules; the zone is given as to `zone()`."""
    try:
        return _timeline(timezone, gap, fold)
    except TypeError:
        # A tzinfo that cannot be hashed cannot be shared either.
        pass
    return _timeline.__wrapped__(timezone, gap, fold)


@lru_cache(maxsize=1024)
def _timeline(timezone: str | tzinfo, gap: Gap, fold: Fold) -> Timeline:
    return Timeline(zone(timezone), gap, fold)


def zone(timezone: str | tzinfo) -> Zone:
    """Return the shared Zone of an IANA name or a tzinfo, or raise InvalidArgumentError."""
    if isinstance(timezone, tzinfo):
        try:
            return _zone(timezone)
        except TypeError:
            # A tzinfo that cannot be hashed cannot be shared either.
            return Zone(timezone)
    if not isinstance(timezone, str):
        raise InvalidArgumentError(
            "timezone", timezone, "write an IANA name such as 'Europe/Berlin', or a tzinfo"
        )
    return _zone(UTC if timezone == "UTC" else _load(timezone))


@lru_cache(maxsize=1024)
def _zone(tz: tzinfo) -> Zone:
    # ZoneInfo("UTC") and datetime's UTC have the same ticks, so both spellings share one Zone.
    return _zone(UTC) if isinstance(tz, ZoneInfo) and tz.key == "UTC" else Zone(tz)


# Names of civil time zones only: "right/…" counts leap seconds.
_NAME = re.compile(r"(?!right/|posix/|localtime$|posixrules$)[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")


def _load(name: str) -> tzinfo:
    try:
        if len(name) <= 64 and _NAME.fullmatch(name):
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        pass
    known = [known for known in available_timezones() if _NAME.fullmatch(known)]
    near = difflib.get_close_matches(name[:64], known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "write an IANA name such as 'Europe/Berlin'"
    raise InvalidArgumentError("timezone", name, f"is not in the time zone database; {hint}")
