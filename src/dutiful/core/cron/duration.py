"""Durations as people write them: "30s", "5m", "1h", "1d". The only such parser."""

from __future__ import annotations

import re
from datetime import timedelta

from dutiful.core.errors import IntervalParseError, InvalidArgumentError

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SHAPE = re.compile(r"(-?)([0-9]+)([A-Za-z]+)")
# Long enough for every duration a timedelta can hold, and short enough for a fast int().
_LENGTH_MAX = 32
_SECONDS_MAX = timedelta.max // timedelta(seconds=1)


def parse_duration(text: str) -> timedelta:
    """Return the duration that `text` names.

    Raises IntervalParseError with the first reason that applies, in the order of the checks below.
    """
    if not isinstance(text, str):
        raise IntervalParseError(f"Interval must be a string, not {type(text).__name__}", text)
    value = text.strip()
    if not value:
        raise IntervalParseError("Interval cannot be empty", text)
    if len(value) > _LENGTH_MAX:
        raise IntervalParseError("Invalid interval format: too long", text)
    if re.fullmatch(r"[0-9]+", value):
        raise IntervalParseError('Missing time unit. Expected format: "{number}{unit}"', text)
    if re.fullmatch(r"[A-Za-z]+", value):
        raise IntervalParseError("Missing numeric value", text)
    return _from_shape(value, text)


def _from_shape(value: str, text: str) -> timedelta:
    if re.fullmatch(r"-?[0-9]*\.[0-9]*[A-Za-z]*", value):
        raise IntervalParseError("Decimal values are not supported", text)
    shape = _SHAPE.fullmatch(value)
    if shape is None:
        raise IntervalParseError('Invalid interval format. Expected "{number}{unit}", e.g. "5m"', text)
    sign, digits, unit = shape.groups()
    if sign:
        raise IntervalParseError("Negative intervals are not allowed", text)
    if int(digits) == 0:
        raise IntervalParseError("Zero interval is not allowed", text)
    if unit not in _UNIT_SECONDS:
        raise IntervalParseError(f'Invalid time unit "{unit}". Valid units are: s, m, h, d', text)
    seconds = int(digits) * _UNIT_SECONDS[unit]
    if seconds > _SECONDS_MAX:
        raise IntervalParseError("Invalid interval format: longer than a datetime can hold", text)
    return timedelta(seconds=seconds)


def format_duration(duration: timedelta) -> str:
    """Return the shortest text that `parse_duration` reads back as `duration`."""
    seconds, rest = divmod(duration, timedelta(seconds=1))
    if seconds <= 0 or rest:
        raise InvalidArgumentError("duration", str(duration), "must be whole seconds, at least one")
    unit = next(u for u in "dhms" if seconds % _UNIT_SECONDS[u] == 0)
    return f"{seconds // _UNIT_SECONDS[unit]}{unit}"
