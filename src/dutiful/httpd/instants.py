"""Times on the wire: RFC 3339, always with an offset."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from dutiful.core.cron.zone import rfc_3339

_RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
# In a query string an unescaped + is decoded as a space.
_LOST_PLUS = re.compile(r" (?=\d\d:\d\d\Z)", re.ASCII)
# Instants that every zone can represent: the first and last day of the calendar overflow in some.
_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


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
