"""The cron dialects as data, and the one grammar that reads them: text -> bit sets.

A bit set is an int whose bit n says that value n belongs to the field. A refusal names the leftmost bad field
and gives a reason that says what to write instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import compress
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.errors import FieldParseError, InvalidCronExpressionError, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

TEXT_LENGTH_MAX = 256


def _numbered(names: str, first: int) -> Mapping[str, int]:
    return MappingProxyType({name: n for n, name in enumerate(names.split(), first)})


@dataclass(frozen=True, slots=True, eq=False)
class FieldRule:
    """One field: its name, its lowest and highest value, and names for values where there are any."""

    name: str
    low: int
    high: int
    names: Mapping[str, int]
    every: int = field(init=False)
    # Spelling -> bit of each plain number; `plain` adds a single "*". Together they cover most texts.
    numbers: Mapping[str, int] = field(init=False)
    plain: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        bits = {n: 1 << n for n in range(self.low, self.high + 1)}
        numbers = {f"{n}": bit for n, bit in bits.items()} | {f"{n:02}": bit for n, bit in bits.items()}
        object.__setattr__(self, "every", span(self.low, self.high))
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "plain", numbers | {"*": self.every})


def span(low: int, high: int, step: int = 1) -> int:
    """Return the bit set of low, low + step, … up to high."""
    if step == 1:
        return (2 << high) - (1 << low)
    return sum(1 << n for n in range(low, high + 1, step))


_SIXTY = range(60)
_DIGITS = bytes.maketrans(b"01", b"\0\1")


def values(bits: int) -> list[int]:
    """Return the members of a bit set in ascending order."""
    return list(compress(_SIXTY, bin(bits)[:1:-1].encode().translate(_DIGITS)))


MONTH_NAMES = _numbered("jan feb mar apr may jun jul aug sep oct nov dec", 1)
WEEKDAY_NAMES = _numbered("sun mon tue wed thu fri sat", 0)

_NO_NAMES = _numbered("", 0)
SECOND = FieldRule("second", 0, 59, _NO_NAMES)
MINUTE = FieldRule("minute", 0, 59, _NO_NAMES)
HOUR = FieldRule("hour", 0, 23, _NO_NAMES)
DAY = FieldRule("day", 1, 31, _NO_NAMES)
MONTH = FieldRule("month", 1, 12, MONTH_NAMES)
WEEKDAY = FieldRule("weekday", 0, 6, WEEKDAY_NAMES)

# The days that every month has in some year: February has a 29th in leap years.
_IN_EVERY_MONTH = span(1, 29)

MACROS = MappingProxyType(
    {
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
        "@monthly": "0 0 1 * *",
        "@weekly": "0 0 * * 0",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@hourly": "0 * * * *",
    }
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The syntax of cron texts. `extended` adds names, steps, macros and 7 for Sunday."""

    name: str
    extended: bool = False
    seconds: bool = False


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        "posix": Dialect("posix"),
        "standard": Dialect("standard", extended=True),
        "seconds": Dialect("seconds", extended=True, seconds=True),
    }
)


class Fields(NamedTuple):
    """A cron text as bit sets, with the two facts about its spelling that the search needs."""

    second: int
    minute: int
    hour: int
    day: int
    month: int
    weekday: int
    # Both day and weekday are other than a lone "*": either may match (POSIX).
    either_day: bool
    # Minute or hour begins with "*": the job follows real time through a DST change (vixie).
    wildcard: bool


def parse_fields(text: object, dialect: Dialect) -> Fields:
    """Return the fields of `text`, or raise InvalidCronExpressionError."""
    if not isinstance(text, str):
        raise InvalidCronExpressionError(text, "expression", f"must be a string, not {type(text).__name__}")
    if len(text) > TEXT_LENGTH_MAX:
        raise InvalidCronExpressionError(text, "expression", f"is longer than {TEXT_LENGTH_MAX} bytes")
    parts = text.split(" ")
    if len(parts) != 5 or "" in parts or "\t" in text or text[0] == "@":
        parts = _split(text, dialect)
    second = 1
    if len(parts) == 6:
        second = SECOND.plain.get(parts[0]) or _parse_in(text, SECOND, parts[0], dialect)
        parts = parts[1:]
    minute, hour, day, month, weekday = parts
    fields = Fields(
        second,
        MINUTE.plain.get(minute) or _parse_in(text, MINUTE, minute, dialect),
        HOUR.plain.get(hour) or _parse_in(text, HOUR, hour, dialect),
        DAY.plain.get(day) or _parse_in(text, DAY, day, dialect),
        MONTH.plain.get(month) or _parse_in(text, MONTH, month, dialect),
        WEEKDAY.plain.get(weekday) or _parse_in(text, WEEKDAY, weekday, dialect),
        day != "*" != weekday,
        minute[0] == "*" or hour[0] == "*",
    )
    # With a restricted weekday an impossible date is legal: the weekday may match instead.
    if weekday == "*" and not fields.day & _IN_EVERY_MONTH:
        _refuse_impossible(text, fields.day, fields.month)
    return fields


def legal_dialect(text: str) -> str | None:
    """Return the first dialect in which a text is legal; None if it is in none."""
    for name, dialect in DIALECTS.items():
        try:
            parse_fields(text, dialect)
        except InvalidCronExpressionError:
            continue
        return name
    return None


def _split(text: str, dialect: Dialect) -> list[str]:
    parts = [part for part in text.replace("\t", " ").split(" ") if part]
    if parts and parts[0][0] == "@":
        parts = _expand_macro(text, parts, dialect).split(" ")
    if len(parts) != 5 and not (dialect.seconds and len(parts) == 6):
        expected = "5 or 6 fields" if dialect.seconds else "5 fields"
        names = ("[second] " if dialect.seconds else "") + "minute hour day month weekday"
        reason = f"expected {expected}, got {len(parts)} (write: {names}, separated by spaces or tabs)"
        raise InvalidCronExpressionError(text, "expression", reason)
    return parts


def _expand_macro(text: str, parts: list[str], dialect: Dialect) -> str:
    macro = parts[0].lower()
    if len(parts) > 1 or macro not in MACROS:
        reason = f"has the unknown macro '{quoted(parts[0])}' (known: {', '.join(MACROS)})"
        if macro == "@reboot":
            reason = "has the macro '@reboot', which names no time; run such work when your program starts"
        raise InvalidCronExpressionError(text, "expression", reason)
    if not dialect.extended:
        reason = f"has the macro {parts[0]!r}, which POSIX cron lacks; write {MACROS[macro]!r}"
        raise InvalidCronExpressionError(text, "expression", reason)
    return MACROS[macro]


def _parse_in(text: str, rule: FieldRule, part: str, dialect: Dialect) -> int:
    try:
        return parse_field(rule, part, dialect)
    except FieldParseError as error:
        # `from None`: the new message has the whole reason, so the traceback need not show the first error.
        raise InvalidCronExpressionError(text, rule.name, error.reason) from None


def parse_field(rule: FieldRule, part: str, dialect: Dialect) -> int:
    """Return the bit set of one field other than a lone "*", or raise FieldParseError."""
    numbers, bits = rule.numbers, 0
    for item in part.split(","):
        bits |= numbers.get(item) or _plain_range(numbers, item) or _parse_item(rule, item, part, dialect)
    return bits


def _plain_range(numbers: Mapping[str, int], item: str) -> int | None:
    """Return the bits of a range of plain numbers, or None for any other item, which `_parse_item` reads."""
    low, _, high = item.partition("-")
    first, last = numbers.get(low), numbers.get(high)
    return (last << 1) - first if first and last and first <= last else None


_ITEM = re.compile(r"(?:(\*)|([0-9A-Za-z]+)(?:-([0-9A-Za-z]+))?)(?:/([0-9]+))?")


def _parse_item(rule: FieldRule, item: str, part: str, dialect: Dialect) -> int:
    shape = _ITEM.fullmatch(item)
    if shape is None:
        raise FieldParseError(_malformed(rule, item), part, rule.name)
    star, start, end, step = shape.groups()
    if not dialect.extended and (star or step is not None):
        raise FieldParseError(_not_posix(rule, item, part, star=star is not None), part, rule.name)
    if star:
        low, high = rule.low, rule.high
    else:
        low = _number(rule, start, part, dialect)
        high = low if end is None else _number(rule, end, part, dialect)
        if end is None and step is not None:
            high = max(low, rule.high)
    if low > high:
        raise FieldParseError(_backwards(rule, item, low, high), part, rule.name)
    if not dialect.extended and (name := _first_name(start, end)) is not None:
        raise FieldParseError(_name_not_posix(rule, name, part), part, rule.name)
    bits = span(low, high, _step(rule, step, part))
    return bits if high <= rule.high else (bits | bits >> 7) & rule.every


def _step(rule: FieldRule, step: str | None, part: str) -> int:
    if step is None:
        return 1
    digits = step.lstrip("0")
    if not digits or len(digits) > 2:
        reason = f'has the invalid step value "{quoted(step)}"; write a number from 1 to {rule.high}'
        raise FieldParseError(reason, part, rule.name)
    return int(digits)


def _number(rule: FieldRule, token: str, part: str, dialect: Dialect) -> int:
    # Seven is Sunday in the extended dialects; `_parse_item` folds bit 7 onto bit 0.
    high = 7 if dialect.extended and rule is WEEKDAY else rule.high
    digits = token.lstrip("0") or "0"
    if token.isdigit() and len(digits) <= 2 and rule.low <= (n := int(digits)) <= high:
        return n
    named = rule.names.get(token.lower())
    # Read a name also in dialects without names: the refusal then says how to write the whole field in
    # numbers.
    if named is not None:
        return named
    raise FieldParseError(_not_a_value(rule, token, part, high), part, rule.name)


def _refuse_impossible(text: str, day: int, month: int) -> None:
    months = span(1, 12) & ~(1 << 2) if day & 1 << 30 else sum(1 << m for m in (1, 3, 5, 7, 8, 10, 12))
    if not month & months:
        first = day.bit_length() - 1 if not day & 1 << 30 else 30
        reason = f"has a date that cannot exist: no month given has a day {first}"
        raise InvalidCronExpressionError(text, "expression", reason)


def _not_a_value(rule: FieldRule, token: str, part: str, high: int) -> str:
    if token.isdigit():
        if rule is WEEKDAY and token.lstrip("0") == "7":
            instead = None if token == part else _in_posix(rule, part)
            return f"must be 0-6, not 7; use {'0 for Sunday' if instead is None else _in_quotes(instead)}"
        return f"must be {rule.low}-{high}, not {quoted(token.lstrip('0') or '0')}"
    token = quoted(token)
    if re.fullmatch(r"[0-9]*[LW]|LW", token):
        return f'has the Quartz token "{token}", which this dialect lacks; list the days by number'
    if re.fullmatch(r"0[xXoObB][0-9A-Fa-f]+|[0-9]+[eE][0-9]+", token):
        return f'must be plain decimal digits, not "{token}"'
    if rule.names:
        known = ", ".join(rule.names)
        return f'has "{token}", which is no number from {rule.low} to {high} and no name ({known})'
    return f'has "{token}", which is no number from {rule.low} to {high}'


def _malformed(rule: FieldRule, item: str) -> str:
    shown = quoted(item)
    if not item:
        return "has an empty list item; remove the extra comma"
    if "?" in item:
        return 'has the Quartz token "?"; use "*"'
    if "#" in item:
        return f'has the Quartz token "{shown}" (nth weekday), which this dialect lacks'
    if re.fullmatch(r"[+-].*", item):
        return f'must be plain decimal digits without a sign, not "{shown}"'
    odd = next((c for c in item if not (c.isascii() and (c.isalnum() or c in "*-/,"))), None)
    if odd is not None:
        return f"has the character {odd!a}; write ASCII digits, with fields separated by spaces or tabs"
    if "/" in item:
        step = quoted(item.partition("/")[2])
        return f'has the invalid step value "{step}"; write a number from 1 to {rule.high}'
    return f'has "{shown}", which is neither a number nor a range such as {rule.low}-{rule.high}'


def _not_posix(rule: FieldRule, item: str, part: str, *, star: bool) -> str:
    if "/" not in item:
        return '"*" must stand alone in its field; remove the rest of the list'
    reason = f'has the step "{quoted(item)}", which POSIX cron lacks'
    if star and part == item and item.rpartition("/")[2].lstrip("0") == "1":
        return f'{reason}; write "*"'
    listed = _in_posix(rule, part)
    return f"{reason}; list the values instead" + ("" if listed is None else f": {_in_quotes(listed)}")


def _first_name(start: str | None, end: str | None) -> str | None:
    return next((token for token in (start, end) if token is not None and not token.isdigit()), None)


def _name_not_posix(rule: FieldRule, name: str, part: str) -> str:
    reason = f'has the name "{name}", which POSIX cron lacks'
    if name == part:
        return f"{reason}; use {rule.names[name.lower()]}"
    listed = _in_posix(rule, part)
    return reason if listed is None else f"{reason}; use {_in_quotes(listed)}"


def _in_posix(rule: FieldRule, part: str) -> str | None:
    """Return a field of the extended dialects as POSIX spells it; None where it is not legal there either."""
    try:
        members = values(parse_field(rule, part, DIALECTS["standard"]))
    except FieldParseError:
        return None
    runs: list[list[int]] = []
    for n in members:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


def _in_quotes(text: str) -> str:
    return f'"{text}"'


def _backwards(rule: FieldRule, item: str, low: int, high: int) -> str:
    head = f"{low}-{rule.high}" if low < rule.high else f"{low}"
    tail = f"{rule.low}-{high}" if rule.low < high else f"{high}"
    return f'has the range "{quoted(item)}", which runs backwards; use "{head},{tail}"'
