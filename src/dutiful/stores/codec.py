"""Schedules <-> stored texts: the only module that knows the stored form of a schedule.

A text is a JSON object with its format version under "v". Reading is strict: a missing, mistyped or unknown
value raises CodecError; keys that a later release added are ignored. Equal texts are parsed once and share
one object.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from dataclasses import fields
from datetime import UTC, datetime, timezone, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, assert_never

from dutiful.core.cadence import Cadence, Every, Once, OnDemand
from dutiful.core.cron.cron import Cron
from dutiful.core.errors import (
    CodecError,
    DutifulError,
    ImpossibleKey,
    InvalidCronExpressionError,
    MissingKey,
    MistypedKey,
    quoted,
)
from dutiful.core.policy import Capacity, CatchUp, OnOrphan, Overlap, Policy, Retry
from dutiful.core.schedule import ALWAYS, Schedule, Task, Window
from dutiful.stores.task_record import task_from_record as task_from_record  # noqa: PLC0414 - its public name

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum

    from dutiful.core.errors import FaultyKey

    E = TypeVar("E", bound=StrEnum)
    R = TypeVar("R", Policy, Retry, Capacity)

Value = dict[str, Any]
Shared: TypeAlias = tuple[Cadence, Policy, int]
"""A cadence and a policy, and their part of the checksum. A plain tuple, as it is unpacked for each row."""

VERSION = 1
_CACHE_SIZE = 16_384
_RECORDS = (Retry, Capacity)
_INT64 = range(-(2**63), 2**63)
_OFFSET = re.compile(r"[+-]\d\d:\d\d(:\d\d(\.\d{6})?)?")
# The name that earlier files use for the database's entry "UTC".
_DATABASE_UTC = "zoneinfo:UTC"


class Declaration(NamedTuple):
    """A schedule as the columns of a row, without its id."""

    task: str
    payload: str
    cadence: str
    policy: str
    window_start: int | None
    window_end: int | None
    paused: int
    pause_until: int | None


def declare(schedule: Schedule) -> Declaration:
    """Return the schedule as columns, or raise CodecError where it cannot be stored."""
    try:
        declaration = Declaration(
            _text(schedule.task.name, "task"),
            _text(schedule.task.payload, "payload"),
            encode_cadence(schedule.cadence),
            encode_policy(schedule.policy),
            _instant_or_none(schedule.window.start, "window"),
            _instant_or_none(schedule.window.end, "window"),
            int(schedule.paused),
            _instant_or_none(schedule.pause_until, "pause_until"),
        )
        _text(schedule.id, "id")
    except CodecError as error:
        raise CodecError(f"schedule {quoted(schedule.id)!r}, {error.subject}", error.reason) from error
    return declaration


def revive(
    schedule_id: str,
    shared: Shared,
    task: str,
    payload: str,
    start: int | None,
    end: int | None,
    paused: int,
    until: int | None,
    expected: int,
) -> Schedule:
    """Return the stored schedule, or raise CodecError; `expected` is its checksum."""
    cadence, policy, common = shared
    if row_checksum(common, schedule_id, task, payload, start, end, paused, until) != expected:
        raise CodecError("declaration", "the row was changed outside dutiful: its checksum does not match")
    window = ALWAYS if start is None is end else Window(start, end)
    # tuple.__new__ takes half as long as the named tuple's constructor.
    invoked = tuple.__new__(Task, (task, payload))
    return tuple.__new__(Schedule, (schedule_id, invoked, cadence, policy, window, paused == 1, until))


def shared_checksum(cadence: str, policy: str) -> int:
    """Return the part of a checksum that is the same for all schedules with these texts."""
    return zlib.crc32(f"{cadence}\0{policy}\0".encode())


def row_checksum(
    shared: int,
    schedule_id: str,
    task: str,
    payload: str,
    start: int | None,
    end: int | None,
    paused: int,
    until: int | None = None,
) -> int:
    """Return the checksum of a declaration; `shared` is that of its cadence and policy."""
    # Most schedules have no window; formatting None twice took nearly half of the time.
    window = "None\0None" if start is None is end else f"{start}\0{end}"
    row = f"{schedule_id}\0{task}\0{payload}\0{window}\0{paused}"
    if until is not None:
        row += f"\0{until}"
    return zlib.crc32(row.encode(), shared)


def text_number(text: str) -> int:
    """Return the number under which a text is stored: 63 bits, which no two texts are likely to share."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


@lru_cache(maxsize=_CACHE_SIZE)
def read_shared(cadence: str, policy: str) -> Shared:
    """Return the cadence and policy of two texts with their checksum, or raise CodecError."""
    return decode_cadence(cadence), decode_policy(policy), shared_checksum(cadence, policy)


# Cadences


@lru_cache(maxsize=_CACHE_SIZE)
def encode_cadence(cadence: Cadence) -> str:
    """Return the text of a cadence."""
    return _checked("cadence", _cadence_value(cadence), _cadence)


@lru_cache(maxsize=_CACHE_SIZE)
def decode_cadence(text: str) -> Cadence:
    """Return the cadence that a text means."""
    return _cadence(_Reader("cadence", _object("cadence", text)))


def _cadence_value(cadence: Cadence) -> Value:
    match cadence:
        case Cron():
            settings = {"dialect": cadence.dialect, "zone": _zone_name(cadence.zone.tzinfo)}
            return {
                "kind": "cron",
                "text": cadence.text,
                **settings,
                "gap": cadence.gap,
                "fold": cadence.fold,
                **({"calendar": list(cadence.calendar)} if cadence.calendar else {}),
            }
        case Every():
            return {"kind": "every", "period": cadence.period, "anchor": cadence.anchor}
        case Once():
            return {"kind": "once", "at": cadence.at}
        case OnDemand():
            return {"kind": "on_demand"}
        case _:
            assert_never(cadence)


def _cadence(read: _Reader) -> Cadence:
    match read.text("kind"):
        case "cron":
            return _cron(read)
        case "every":
            return Every(read.integer("period"), "start" if _anchored_at_start(read) else "completion")
        case "once":
            return Once(read.integer("at"))
        case "on_demand":
            return OnDemand()
        case kind:
            raise read.unknown("kind", kind)


def _cron(read: _Reader) -> Cron:
    text, dialect, zone = read.text("text"), read.text("dialect"), _tzinfo(read)
    gap, fold = read.text("gap"), read.text("fold")
    try:
        return Cron.parse(text, dialect, zone, gap, fold, calendar=read.texts("calendar"))  # type: ignore[arg-type]
    except InvalidCronExpressionError as error:
        key = ImpossibleKey(f"{read.path}.text", text, f"{error.field} field {error.reason}")
        raise read.refuse(str(error), key) from error
    except DutifulError as error:
        raise read.refuse(str(error)) from error


def _anchored_at_start(read: _Reader) -> bool:
    anchor = read.text("anchor")
    if anchor not in ("completion", "start"):
        raise read.unknown("anchor", anchor)
    return anchor == "start"


def _zone_name(tz: tzinfo) -> str:
    if isinstance(tz, timezone):
        # Store the offset only: a name that the program gave to the zone has no meaning here.
        return str(timezone(tz.utcoffset(None))).removeprefix("UTC") or "UTC"
    key = getattr(tz, "key", None)
    if not isinstance(key, str):
        reason = (
            f"{quoted(repr(tz))} has no name of the tz database and no fixed offset, so it cannot be stored;"
            " give a timezone such as Europe/Berlin, or set TZ to one"
        )
        raise CodecError("time zone", reason)
    return key


def _tzinfo(read: _Reader) -> str | tzinfo:
    name = read.text("zone")
    if name == _DATABASE_UTC:
        return UTC
    if _OFFSET.fullmatch(name):
        try:
            return datetime.fromisoformat(f"2000-01-01T00:00:00{name}").tzinfo or name
        except ValueError as error:
            raise read.refuse(f"the offset {name!r} does not exist") from error
    return name


# Policies


@lru_cache(maxsize=_CACHE_SIZE)
def encode_policy(policy: Policy) -> str:
    """Return the text of a policy."""
    return _checked("policy", _record_value(policy), _policy)


@lru_cache(maxsize=_CACHE_SIZE)
def decode_policy(text: str) -> Policy:
    """Return the policy that a text means."""
    return _policy(_Reader("policy", _object("policy", text)))


def _record_value(record: Policy | Retry | Capacity) -> Value:
    # dataclasses.asdict copies each value, which doubled the time of a new policy.
    found = ((name, getattr(record, name)) for name in record.__slots__)
    return {name: _record_value(each) if type(each) in _RECORDS else each for name, each in found}


def _policy(read: _Reader) -> Policy:
    return read.record(Policy)


# Texts


class _Reader:
    """Reads typed values from the JSON object at a path, such as "policy.retry"."""

    def __init__(self, path: str, value: Value) -> None:
        self.path, self._value = path, value

    def refuse(self, reason: str, key: FaultyKey | None = None) -> CodecError:
        return CodecError(_subject(self.path), reason, key)

    def unknown(self, key: str, value: str) -> CodecError:
        reason = f"the value {quoted(value)!r} of {key!r} is unknown"
        return self.refuse(reason, ImpossibleKey(f"{self.path}.{key}", value, "is unknown"))

    def text(self, key: str) -> str:
        return _text(self._get(key, str), _subject(f"{self.path}.{key}"))

    def texts(self, key: str) -> list[str]:
        """Return a list of texts; where the key is absent, an empty one."""
        if key not in self._value:
            return []
        return [_text(each, _subject(f"{self.path}.{key}")) for each in self._get(key, list)]

    def boolean(self, key: str) -> bool:
        return bool(self._get(key, bool))

    def integer(self, key: str) -> int:
        number = self._get(key, int)
        if number not in _INT64:
            raise self.refuse(f"{key!r} does not fit in 64 bits")
        return int(number)

    def integer_or_none(self, key: str) -> int | None:
        return None if self._value.get(key, ...) is None else self.integer(key)

    def choice(self, key: str, choices: type[E]) -> E:
        value = self.text(key)
        try:
            return choices(value)
        except ValueError as error:
            raise self.unknown(key, value) from error

    def record(self, kind: type[R]) -> R:
        """Return a dataclass whose fields are the keys of the object."""
        return kind(**{each.name: _FIELD_READERS[str(each.type)](self, each.name) for each in fields(kind)})

    def record_or_none(self, key: str, kind: type[R]) -> R | None:
        if self._value.get(key, ...) is None:
            return None
        return _Reader(f"{self.path}.{key}", self._get(key, dict)).record(kind)

    def _get(self, key: str, kind: type) -> Any:
        if key not in self._value:
            raise self.refuse(f"the key {key!r} is missing", MissingKey(f"{self.path}.{key}"))
        value = self._value[key]
        # Compare types exactly: `isinstance(True, int)` is true, and 1.0 equals 1.
        if type(value) is not kind and not (kind is str and isinstance(value, str)):
            shown = quoted(json.dumps(value, default=repr))
            reason = f"{key!r} must be {kind.__name__}, not {type(value).__name__}: {shown}"
            raise self.refuse(reason, MistypedKey(f"{self.path}.{key}", value, kind))
        return value


# Reads a field by its annotation; a new field of a known type needs no entry here.
_FIELD_READERS: dict[str, Callable[[_Reader, str], Any]] = {
    "str": _Reader.text,
    "int": _Reader.integer,
    "bool": _Reader.boolean,
    "int | None": _Reader.integer_or_none,
    "Milliseconds": _Reader.integer,
    "Milliseconds | None": _Reader.integer_or_none,
    "Overlap": lambda read, key: read.choice(key, Overlap),
    "CatchUp": lambda read, key: read.choice(key, CatchUp),
    "OnOrphan": lambda read, key: read.choice(key, OnOrphan),
    "Retry | None": lambda read, key: read.record_or_none(key, Retry),
    "Capacity | None": lambda read, key: read.record_or_none(key, Capacity),
}


def _subject(path: str) -> str:
    """Return a path for a message: policy.retry is "policy key 'retry'"."""
    first, *keys = path.split(".")
    return " key ".join([first, *map(repr, keys)])


def _object(subject: str, text: str) -> Value:
    try:
        value = json.loads(text)
    # json.loads raises TypeError where the column holds no text.
    except (ValueError, TypeError, RecursionError) as error:
        raise CodecError(subject, f"is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise CodecError(subject, "is not a JSON object")
    version = value.get("v")
    if version != VERSION:
        raise CodecError(subject, f"has version {quoted(version)!r}; this release reads version {VERSION}")
    return value


def _checked(path: str, value: Value, decode: Callable[[_Reader], object]) -> str:
    """Return the text of a value, after checking that it can be read back."""
    decode(_Reader(path, value))
    return json.dumps({"v": VERSION, **value}, ensure_ascii=False, separators=(",", ":"))


def _text(value: str, subject: str) -> str:
    if not isinstance(value, str):
        raise CodecError(subject, f"must be str, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise CodecError(subject, "has half a surrogate pair, which UTF-8 cannot hold") from error
    if "\0" in value:
        raise CodecError(subject, "has a NUL character, which databases cut texts at")
    return value


def _instant_or_none(value: int | None, subject: str) -> int | None:
    if value is not None and (type(value) is not int or value not in _INT64):
        raise CodecError(subject, f"must be epoch milliseconds in 64 bits, not {quoted(value)!r}")
    return value
