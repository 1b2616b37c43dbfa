"""Cron fields in English, from the same bit sets that the search uses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dutiful.core.cron.dialect import DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, FieldRule, values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dutiful.core.cron.dialect import Fields

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
# Up to this many clock times are listed one by one.
_CLOCKS_MAX = 4


def describe(fields: Fields) -> str:
    """Return one sentence that says when the fields match; never fails."""
    parts = [_time(fields), _date(fields)]
    sentence = ", ".join(part for part in parts if part)
    return sentence[0].upper() + sentence[1:]


def place(zone: str) -> str:
    """Return a zone as people call it: New York for America/New_York."""
    name = zone.rpartition("/")[2].replace("_", " ")
    return "UTC" if name in {"UTC", "UCT", "Zulu", "Universal"} else name


def in_place(sentence: str, zone: str) -> str:
    """Return a sentence of `describe` with its days and its place: At 01:30, every day, in New York."""
    # Times of day alone, such as "At 09:00 and 17:00", name no day.
    daily = ", every day" if re.fullmatch(r"At [\d:]+(, [\d:]+)*( and [\d:]+)?", sentence) else ""
    return f"{sentence}{daily}, {'UTC' if place(zone) == 'UTC' else 'in ' + place(zone)}"


def even_step(rule: FieldRule, bits: int) -> int | None:
    """Return n where the bits are every nth value from the lowest, and n divides the range."""
    members = values(bits)
    if len(members) < 2 or members[0] != rule.low:
        return None
    step = members[1] - members[0]
    whole = (rule.high - rule.low + 1) % step == 0
    return step if whole and members == list(range(rule.low, rule.high + 1, step)) else None


def _time(fields: Fields) -> str:
    minutes, hours, seconds = values(fields.minute), values(fields.hour), values(fields.second)
    if len(minutes) * len(hours) * len(seconds) <= _CLOCKS_MAX:
        clocks = [(h, m, s) for h in hours for m in minutes for s in seconds]
        return "at " + _listed([_clock(*c, with_second=seconds != [0]) for c in clocks])
    parts = [_second(fields), _minute(fields), _hour(fields)]
    return " ".join(part for part in parts if part)


def _second(fields: Fields) -> str:
    step = even_step(SECOND, fields.second)
    if fields.second == 1:
        return ""
    if step is not None:
        return _every(step, "second")
    return f"at {_numbers('second', values(fields.second))}"


def _minute(fields: Fields) -> str:
    step = even_step(MINUTE, fields.minute)
    if fields.second != 1:
        if step != 1:
            return "of " + _numbers("minute", values(fields.minute))
        return "" if even_step(SECOND, fields.second) is not None else "of every minute"
    if step is not None:
        return _every(step, "minute")
    on_the_hour = fields.minute == 1 and even_step(HOUR, fields.hour) is not None
    return "" if on_the_hour else "at " + _numbers("minute", values(fields.minute))


def _hour(fields: Fields) -> str:
    step, hours = even_step(HOUR, fields.hour), values(fields.hour)
    if fields.minute == 1 and fields.second == 1 and step is not None:
        return _every(step, "hour")
    if step == 1:
        return "" if even_step(MINUTE, fields.minute) is not None else "of every hour"
    if hours == list(range(hours[0], hours[-1] + 1)):
        return f"from {hours[0]:02}:00 to {hours[-1]:02}:59"
    if step is not None:
        return f"of every {step}{({2: 'nd', 3: 'rd'}).get(step, 'th')} hour"
    return f"of {_numbers('hour', hours)}"


def _date(fields: Fields) -> str:
    day = fields.either_day or fields.day != DAY.every
    weekday = fields.either_day or fields.weekday != WEEKDAY.every
    months = "" if fields.month == MONTH.every else _months(fields.month)
    day_of = "the month" if weekday or not months else months
    parts = [f"on {_numbers('day', values(fields.day))} of {day_of}"] if day else []
    if weekday:
        parts.append(_prefixed("on", _weekdays(fields.weekday)))
    sentence = ", or ".join(parts)
    if months and not (day and not weekday):
        sentence = f"{sentence}, {_prefixed('in', months)}".removeprefix(", ")
    return sentence


def _months(bits: int) -> str:
    return _listed(_spans([MONTHS[m - 1] for m in values(bits)], MONTHS))


def _prefixed(preposition: str, names: str) -> str:
    is_span = " to " in names and "," not in names and " and " not in names
    return names if is_span else f"{preposition} {names}"


def _weekdays(bits: int) -> str:
    # Start the week on Monday, so that Saturday and Sunday are neighbours.
    from_monday = (*WEEKDAYS[1:], WEEKDAYS[0])
    chosen = [name for name in from_monday if bits >> WEEKDAYS.index(name) & 1]
    return _listed(_spans(chosen, from_monday))


def _every(step: int, unit: str) -> str:
    return f"every {unit}" if step == 1 else f"every {step} {unit}s"


def _numbers(noun: str, members: list[int]) -> str:
    order = [str(n) for n in range(members[0], members[-1] + 1)]
    listed = _listed(_spans([str(n) for n in members], order))
    return f"{noun} {listed}" if len(members) == 1 else f"{noun}s {listed}"


def _spans(chosen: list[str], order: Iterable[str]) -> list[str]:
    """Return the chosen names with three or more neighbours in `order` joined: "Monday to Friday"."""
    runs: list[list[str]] = [[]]
    for name in order:
        if name in chosen:
            runs[-1].append(name)
        elif runs[-1]:
            runs.append([])
    joined = [[f"{run[0]} to {run[-1]}"] if len(run) >= 3 else run for run in runs]
    return [name for run in joined for name in run]


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _clock(hour: int, minute: int, second: int, *, with_second: bool) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if with_second else "")
