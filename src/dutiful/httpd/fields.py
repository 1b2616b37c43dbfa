"""Types of fields in requests and responses: Python's types, with the limits that the wire adds.

A type checker sees the plain Python type, so that programs may build the same values without pydantic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)

from dutiful.core.cron.zone import rfc_3339
from dutiful.core.name import SUBJECT_MAX

ID_PATTERN = r"^[A-Za-z0-9._-]{1,128}$"
KEY_PATTERN = r"^[!-~]{1,256}$"
_TEXT_PATTERN = r"^[^\x00-\x1f\x7f\x85\u2028\u2029]*$"
_USER_PATTERN = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
# What to write where a text does not match its pattern.
ADVICE = {
    ID_PATTERN: "write 1 to 128 letters, digits, dots, underlines and dashes",
    KEY_PATTERN: "write 1 to 256 visible ASCII characters",
    _TEXT_PATTERN: "write one line, without control characters",
    _USER_PATTERN: "write one line, without control characters",
}
# JSON numbers beyond this are rounded by some clients.
INTEGER_MAX = 2**53 - 1
_SECONDS_MAX = 366 * 86_400
_RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
# In a query string an unescaped + is decoded as a space.
_LOST_PLUS = re.compile(r" (?=\d\d:\d\d\Z)", re.ASCII)
# Instants that every zone can represent: the first and last day of the calendar overflow in some.
_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


class StrictModel(BaseModel):
    """A model without conversions and without unknown keys."""

    model_config = ConfigDict(strict=True, extra="forbid")


class QueryModel(BaseModel):
    """A query of a URL without unknown names; its values are texts, and are converted."""

    model_config = ConfigDict(extra="forbid")


def one_of(*choices: str) -> GetPydanticSchema:
    """Return an annotation that accepts only these texts."""
    return _checked_as(Literal[tuple(map(str, choices))])


def fields_of(declared: type, defaults: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return the fields of a class for `create_model`.

    The module of the class may import the types of its annotations for the type checker only.
    """
    hints = get_type_hints(declared, localns=globals(), include_extras=True)
    return {name: (hint, defaults.get(name, ...)) for name, hint in hints.items()}


def _checked_as(strict: Any) -> GetPydanticSchema:
    return GetPydanticSchema(lambda _, handler: handler(strict))


def parse_instant(given: Any) -> datetime:
    """Return the instant of an RFC 3339 text, in UTC; raises ValueError for anything else."""
    time = parse_time(given)
    return in_utc(time) if isinstance(given, str) else time


def parse_time(given: Any) -> datetime:
    """Return the time of an RFC 3339 text, with its own offset; raises ValueError for anything else."""
    if isinstance(given, datetime) and given.tzinfo is not None:
        return given
    if not isinstance(given, str) or not _RFC_3339.fullmatch(text := _LOST_PLUS.sub("+", given)):
        raise ValueError("must be an RFC 3339 time with an offset, such as 2026-03-08T02:30:00Z")
    try:
        instant = datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise ValueError(f"is no time of the calendar: {error}") from error
    in_utc(instant)
    return instant


def in_utc(instant: datetime) -> datetime:
    """Return an instant in UTC; raises ValueError for one that some zone cannot represent."""
    try:
        utc = instant.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"is no time of the calendar: {error}") from error
    if not _FIRST <= utc <= _LAST:
        raise ValueError("is too near an end of the calendar")
    return utc


Id = Annotated[str, Field(pattern=ID_PATTERN)]
Version = Annotated[int, Field(ge=0, le=INTEGER_MAX)]
# No control characters: they would forge lines of logs and tables.
Text = Annotated[str, StringConstraints(max_length=1000, pattern=_TEXT_PATTERN)]
# The subject of a token, such as ada@example.com or auth0|1.
User = Annotated[str, Field(min_length=1, max_length=SUBJECT_MAX, pattern=_USER_PATTERN)]
Seconds = Annotated[float, Field(ge=0, le=_SECONDS_MAX, allow_inf_nan=False)]
SomeSeconds = Annotated[float, Field(gt=0, le=_SECONDS_MAX, allow_inf_nan=False)]
Labels = Annotated[Mapping[str, str], _checked_as(Annotated[dict[Id, Text], Field(max_length=64)])]
_Days = Annotated[list[Annotated[str, Field(max_length=21)]], Field(max_length=1000)]
# Days of a calendar, such as 2026-12-25.
Days = Annotated[Sequence[str], _checked_as(_Days)]
# RFC 3339, always with an offset.
Instant = Annotated[
    datetime,
    BeforeValidator(parse_instant),
    PlainSerializer(rfc_3339, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
# An instant with the offset that it is written with.
LocalInstant = Annotated[
    datetime, BeforeValidator(parse_time), WithJsonSchema({"type": "string", "format": "date-time"})
]
