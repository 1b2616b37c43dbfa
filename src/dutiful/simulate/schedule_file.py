"""Schedules as a TOML file: read, checked as a whole, and turned into core types once."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dutiful.core.cadence import Cadence, Every, Once, OnDemand
from dutiful.core.cron.cron import Cron
from dutiful.core.cron.duration import parse_duration
from dutiful.core.cron.zone import epoch_ms
from dutiful.core.errors import DutifulError, ScheduleFileError, quoted
from dutiful.core.policy import Capacity, CatchUp, OnOrphan, Overlap, Policy, Retry
from dutiful.core.schedule import Schedule, Task, Window

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet
    from enum import StrEnum
    from pathlib import Path

_CADENCE_KEYS = ("cron", "every", "every_from_start", "at")
_CRON_KEYS = ("timezone", "dialect", "gap", "fold", "dst")
# A setting -> the setting that it needs; without that it would silently have no effect.
_COMPANIONS = {
    **dict.fromkeys(_CRON_KEYS, "cron"),
    "retry_limit": "retry_delay",
    "capacity": "capacity_group",
    "pause_until": "paused",
}


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The behaviour of a simulated task: its duration, and which runs fail (every nth)."""

    takes: timedelta = timedelta(0)
    fails_every: int | None = None


@dataclass(frozen=True, slots=True)
class Outage:
    """From `start`, for `lasts`, the process is down (`crash`) or the host asleep (`suspend`)."""

    start: datetime
    lasts: timedelta
    kind: str = "crash"


@dataclass(frozen=True, slots=True)
class ScheduleFile:
    """The content of a schedule file."""

    schedules: tuple[Schedule, ...]
    behaviours: dict[str, Behaviour]
    outages: tuple[Outage, ...]


def read_schedule_file(path: Path) -> ScheduleFile:
    """Return the content of a schedule file, or raise ScheduleFileError with every problem in it."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        # Catch more than TOMLDecodeError: a number of five thousand digits raises a plain ValueError.
        raise ScheduleFileError(str(path), [str(error)]) from error
    reader = _Reader(document)
    content = reader.read()
    if reader.problems:
        raise ScheduleFileError(str(path), reader.problems)
    return content


class _Reader:
    """Reads one document and collects its problems."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.problems: list[str] = []
        self._document = document
        self._path = ""

    def read(self) -> ScheduleFile:
        tables = self._tables("schedules")
        if any("schedule_id" in table for table in tables):
            self.problems.append(
                "schedules: this is a file for `dutiful plan`; here they have `id` and `cron`"
            )
            return ScheduleFile((), {}, ())
        outages = [self._outage(table, n) for n, table in enumerate(self._tables("outages"), 1)]
        self._refuse_overlaps(outages)
        self._path = ""
        self._refuse_unknown({"schedules", "outages"}, self._document)
        schedules, behaviours, seen = [], {}, set[str]()
        for number, table in enumerate(tables, 1):
            self._path = f"schedules[{quoted(table.get('id', number))}]."
            schedule, behaviour = self._schedule(table), self._behaviour(table)
            if repr(table.get("id", number)) in seen:
                self._problem("id", "is used twice")
            seen.add(repr(table.get("id", number)))
            if schedule is not None:
                schedules.append(schedule)
                behaviours[schedule.id] = behaviour
        return ScheduleFile(tuple(schedules), behaviours, tuple(o for o in outages if o))

    def _tables(self, name: str) -> list[dict[str, Any]]:
        tables = self._document.get(name, [])
        if isinstance(tables, list) and all(isinstance(table, dict) for table in tables):
            return tables
        self.problems.append(f"{name}: write it as [[{name}]] tables")
        return []

    def _schedule(self, table: dict[str, Any]) -> Schedule | None:
        before = len(self.problems)
        self._refuse_unknown(SCHEDULE_KEYS, table)
        for key, needed in _COMPANIONS.items():
            if key in table and needed not in table:
                self._problem(key, f"means nothing without {needed!r}")
        id_ = self._take(table, "id", _text)
        cadence, policy, window = self._cadence(table), self._policy(table), self._window(table)
        paused = self._take(table, "paused", _flag, False)
        until = self._take(table, "pause_until", _instant, None)
        if until is not None and not paused:
            self._problem("pause_until", "means nothing unless 'paused' is true")
        task = Task(self._take(table, "task", _text, id_), self._take(table, "payload", _text, ""))
        if len(self.problems) > before:
            return None
        return Schedule(id_, task, cadence, policy, window, paused, until)

    def _window(self, table: dict[str, Any]) -> Window:
        start = self._take(table, "start_at", _instant, None)
        end = self._take(table, "end_at", _instant, None)
        if start is not None and end is not None and end < start:
            self._problem("end_at", "is before start_at")
        return Window(start, end)

    def _cadence(self, table: dict[str, Any]) -> Cadence:
        given = [key for key in _CADENCE_KEYS if key in table]
        if len(given) > 1:
            self._problem(given[1], f"{given[0]!r} is there too; keep one")
        if "cron" in table:
            return self._cron(table)
        if "every" in table:
            return Every(self._take(table, "every", _ms, 1))
        if "every_from_start" in table:
            return Every(self._take(table, "every_from_start", _ms, 1), "start")
        return Once(self._take(table, "at", _instant, 0)) if "at" in table else OnDemand()

    def _cron(self, table: dict[str, Any]) -> Cadence:
        def accepts(key: str) -> bool:
            # Check the settings one by one, so that an error names the right one.
            return self._take(table, key, lambda value: Cron.parse("* * * * *", **{key: value})) is not None

        settings = {key: table[key] for key in _CRON_KEYS if key in table and accepts(key)}
        if "dialect" in table and "dialect" not in settings:
            return OnDemand()
        cron: Cadence = self._take(table, "cron", lambda text: Cron.parse(text, **settings), OnDemand())
        return cron

    def _policy(self, table: dict[str, Any]) -> Policy:
        chosen = {key: self._take(table, key, read) for key, read in _POLICY_KEYS.items() if key in table}
        if "retry_delay" in table:
            limit = self._take(table, "retry_limit", _whole, None)
            chosen["retry"] = Retry(self._take(table, "retry_delay", _ms, 1), limit)
        if "capacity_group" in table:
            group = self._take(table, "capacity_group", _text, "")
            chosen["capacity"] = Capacity(group, self._take(table, "capacity", _whole, 1))
        return Policy(**chosen)

    def _behaviour(self, table: dict[str, Any]) -> Behaviour:
        takes = self._take(table, "takes", parse_duration, timedelta(0))
        return Behaviour(takes, self._take(table, "fails_every", _whole, None))

    def _outage(self, table: dict[str, Any], number: int) -> Outage | None:
        self._path = f"outages[{number}]."
        self._refuse_unknown(OUTAGE_KEYS, table)
        start, lasts = self._take(table, "from", _datetime), self._take(table, "for", parse_duration)
        kind = self._take(table, "kind", _one_of("crash", "suspend"), "crash")
        return None if start is None or lasts is None else Outage(start, lasts, kind)

    def _refuse_overlaps(self, outages: list[Outage | None]) -> None:
        numbered = [(outage, number) for number, outage in enumerate(outages, 1) if outage is not None]
        for (early, first), (late, second) in pairwise(sorted(numbered, key=lambda entry: entry[0].start)):
            if late.start - early.start < early.lasts:
                self.problems.append(f"outages[{second}].from: lies within outages[{first}]")

    def _refuse_unknown(self, known: AbstractSet[str], table: dict[str, Any]) -> None:
        for key in sorted(set(table) - known):
            self._problem(quoted(key), f"unknown key (known: {', '.join(sorted(known))})")

    def _take(self, table: dict[str, Any], key: str, read: Callable[[Any], Any], *default: Any) -> Any:
        if key not in table:
            if not default:
                self._problem(key, "is missing")
            return default[0] if default else None
        try:
            return read(table[key])
        except (DutifulError, ValueError, TypeError) as error:
            self._problem(key, f"{quoted(repr(table[key]))}: {error}")
            return default[0] if default else None

    def _problem(self, key: str, text: str) -> None:
        self.problems.append(f"{self._path}{key}: {text}")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError("write a text in quotes")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("write true or false")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise TypeError("write a whole number from 1")
    return value


def _ms(value: Any) -> int:
    return parse_duration(value) // timedelta(milliseconds=1)


def _datetime(value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise TypeError("write a date and time without quotes, such as 2026-03-08T02:30:00Z")
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _instant(value: Any) -> int:
    return epoch_ms(_datetime(value))


def _one_of(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"choose from {', '.join(choices)}")
        return str(value)

    return read


def _choice(choices: type[StrEnum]) -> Callable[[Any], StrEnum]:
    return lambda value: choices(_one_of(*choices)(value))


# Reads a policy field by its annotation; a new field of a known type needs no entry here.
_POLICY_READERS: dict[str, Callable[[Any], Any]] = {
    "Overlap": _choice(Overlap),
    "CatchUp": _choice(CatchUp),
    "OnOrphan": _choice(OnOrphan),
    "bool": _flag,
    **dict.fromkeys(("int", "int | None"), _whole),
    **dict.fromkeys(("Milliseconds", "Milliseconds | None"), _ms),
}
# Fields that have keys of their own, or that no simulation shows.
_OTHERWISE_GIVEN = ("retry", "capacity")
_NOT_SHOWN = (
    *("jitter_early", "launch_retry", "ledger", "retention_age", "retention_rows"),
    *("start_within", "finish_within", "succeed_every"),
)
_POLICY_KEYS = {
    each.name: _POLICY_READERS[str(each.type)]
    for each in fields(Policy)
    if each.name not in (*_OTHERWISE_GIVEN, *_NOT_SHOWN)
}
_OTHER_KEYS = ("id", "task", "payload", "start_at", "end_at", "paused", "retry_delay", "capacity_group")
_SIMULATION_KEYS = ("takes", "fails_every")
SCHEDULE_KEYS = frozenset([*_OTHER_KEYS, *_CADENCE_KEYS, *_COMPANIONS, *_POLICY_KEYS, *_SIMULATION_KEYS])
OUTAGE_KEYS = frozenset(("from", "for", "kind"))
