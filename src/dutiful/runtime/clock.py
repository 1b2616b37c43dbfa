"""The host's clock: the only module that reads the wall clock, and the host's time zone."""

from __future__ import annotations

import os
import re
import struct
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime, timezone, tzinfo
from io import BytesIO
from typing import TYPE_CHECKING
from zoneinfo import TZPATH, ZoneInfo, ZoneInfoNotFoundError, available_timezones

if TYPE_CHECKING:
    import asyncio

    from dutiful.core.cadence import Instant


# Timers do not notice that the wall clock was set or that the host slept, so check at least this often (s).
_NAP = 1.0


# A path into a copy of the time zone database; the copies with and without leap seconds name the same zones.
_IN_DATABASE = re.compile(r".*/zoneinfo[^/]*/(?:posix/|right/)?(.+)")
# POSIX: a name and an offset, another name and maybe its offset, and the two rules.
_STANDARD = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)[+-]?\d{1,3}(?::\d{2}){0,2}"
_SUMMER = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)(?:[+-]?\d{1,3}(?::\d{2}){0,2})?"
_POSIX = re.compile(rf"{_STANDARD}(?P<summer>{_SUMMER}(?P<rules>,.+)?)?")
# The rules that C libraries assume where the text has none.
_USUAL_RULES = ",M3.2.0,M11.1.0"


def local_zone(etc: str = "/etc") -> tzinfo:
    """Return the host's zone, as C programs see it: $TZ, else localtime in `etc`, else UTC.

    A zone that has a name in the time zone database is returned under that name, also where only a
    copy of its file is found.
    """
    named = os.environ.get("TZ")
    if named is None:
        return _zone_of_file(f"{etc}/localtime", _first_word(f"{etc}/timezone")) or UTC
    named = named.removeprefix(":")
    found = _zone_of_file(named) if named.startswith("/") else _named(named) or _zone_of_rules(named)
    if found is None and named:
        # Imported here to keep the command line's start-up fast.
        import logging

        logging.getLogger("dutiful").warning("TZ=%r names no time zone; taking UTC, as C programs do", named)
    return found or UTC


def _named(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return None


def _zone_of_file(path: str, hint: str = "") -> tzinfo | None:
    inside = _IN_DATABASE.fullmatch(os.path.realpath(path))
    if inside and (found := _named(inside[1])):
        return found
    try:
        with open(path, "rb") as file:
            content = file.read()
        return _named(_name_of(content, hint)) or ZoneInfo.from_file(BytesIO(content))
    except (ValueError, OSError):
        return None


def _name_of(content: bytes, hint: str) -> str:
    """Return the name of the zone that has this file in the database, "" if none has."""
    if hint in available_timezones() and _database_file(hint) == content:
        return hint
    same = [name for name in available_timezones() if _database_file(name) == content]
    # Several names may share one history: prefer the names that the zone table lists, then UTC.
    table = _database_file("zone1970.tab").decode().splitlines()
    lived_in = {line.split("\t")[2].strip() for line in table if line[:1] not in ("", "#")}
    return min(same, key=lambda name: (name not in lived_in, name != "UTC", name), default="")


def _database_file(name: str) -> bytes:
    """Return a file of the database, empty if there is none."""
    from importlib.resources import files

    for folder in TZPATH:
        with suppress(OSError), open(os.path.join(folder, name), "rb") as file:
            return file.read()
    with suppress(OSError):
        return files("tzdata").joinpath("zoneinfo", name).read_bytes()
    return b""


def _zone_of_rules(text: str) -> tzinfo | None:
    """Return the zone of a POSIX text such as EST5EDT,M3.2.0,M11.1.0."""
    form = _POSIX.fullmatch(text)
    if form is None:
        return None
    if form["summer"] and not form["rules"]:
        text += _USUAL_RULES
    # zoneinfo reads such texts only as the last line of a TZif file, so build a file with nothing else in it.
    counts = (0, 0, 0, 0, 1, 4)
    block = struct.pack(">4sc15x6l", b"TZif", b"2", *counts) + struct.pack(">lBB4s", 0, 0, 0, b"UTC")
    try:
        found = ZoneInfo.from_file(BytesIO(block + block + f"\n{text}\n".encode()))
    except ValueError:
        return None
    try:
        offset = datetime(2000, 1, 1, tzinfo=found).utcoffset()
    except ValueError:
        # C programs take 24 hours; a datetime holds less.
        return None
    return found if form["summer"] or offset is None else timezone(offset)


def _first_word(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return (file.read(256).split() or [""])[0]
    except (OSError, UnicodeDecodeError):
        return ""


def boottime() -> float:
    """Return seconds that only move forward, and also count the time in which the host sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SystemClock:
    """The host's clock."""

    def __init__(self) -> None:
        self.timezone = local_zone()
        self._began = time.monotonic()

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""
        return datetime.now(UTC)

    def epoch_ms(self) -> int:
        """Return the wall clock in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds that only move forward."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        # Imported here to keep the command line's start-up fast.
        import asyncio

        await asyncio.sleep(seconds)

    async def wait(self, woken: asyncio.Future[None], seconds: float) -> None:
        """Return when `woken` is done, or after so many seconds, or after a short nap."""
        import asyncio

        await asyncio.wait([woken], timeout=min(seconds, self.nap_left(time.monotonic())))

    def nap_left(self, monotonic: float) -> float:
        """Return how many seconds a wait that begins now lasts at most.

        The naps of all waits end together: the engines of 16 shards wake the process once a second.
        """
        return _NAP - (monotonic - self._began) % _NAP

    def hold(self) -> AbstractContextManager[None]:
        """Return a context that does nothing: real time cannot be held."""
        return nullcontext()


# Smaller differences (ms) are ordinary clock corrections.
STEP_MIN = 1000


class ClockWatch:
    """Detects steps of the wall clock, by comparing it with the monotonic clock at each call of `step`."""

    def __init__(self) -> None:
        self._last: tuple[Instant, float] | None = None
        # Whether the wall clock was ever stepped: start times taken from it are then unreliable.
        self.stepped = False
        # The latest time shown before a step back. Schedules due by then must still be looked at now.
        self.shown_before: Instant = 0

    def step(self, now: Instant, monotonic: float) -> int:
        """Return by how many milliseconds the wall clock was set since the last call; mostly 0."""
        last, self._last = self._last, (now, monotonic)
        if last is None:
            return 0
        step = (now - last[0]) - round((monotonic - last[1]) * 1000)
        if abs(step) < STEP_MIN:
            return 0
        self.stepped = True
        self.shown_before = max(self.shown_before, now - step)
        return step
