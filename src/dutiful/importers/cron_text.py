"""Cron texts made of other schedulers' fields, intervals and days."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dutiful.core.cron.dialect import DAY, DIALECTS, WEEKDAY, parse_field, values
from dutiful.core.cron.zone import zone
from dutiful.importers.imported import Difference, NotImportableError

if TYPE_CHECKING:
    from dutiful.core.cron.dialect import FieldRule

_STANDARD = DIALECTS["standard"]
# A unit in seconds, how many of it make the next one, and the text of every n of it.
_FORMS = ((1, 60, "*/{} * * * * *"), (60, 60, "*/{} * * * *"), (3600, 24, "0 */{} * * *"))
_WHOLE = {86_400: "0 0 * * *", 7 * 86_400: "0 0 * * 0"}


def bits_of(rule: FieldRule, text: str) -> int:
    """Return the values of a field in the dialect `standard`, as a bit set; raises FieldParseError."""
    return rule.every if text == "*" else parse_field(rule, text, _STANDARD)


def written(rule: FieldRule, bits: int) -> str:
    """Return the shortest plain text of a bit set: `*`, or numbers and ranges."""
    if bits == rule.every:
        return "*"
    numbers, parts = values(bits), list[str]()
    while numbers:
        run = next((n for n in range(1, len(numbers)) if numbers[n] != numbers[0] + n), len(numbers))
        first, last = numbers[0], numbers[run - 1]
        parts += [f"{first}-{last}"] if run > 2 else [str(number) for number in numbers[:run]]
        numbers = numbers[run:]
    return ",".join(parts)


def both_days(day: str, weekday: str) -> tuple[str, str]:
    """Return the two fields for days on which both match; here a day matches if either field does.

    Raises NotImportableError where both fields restrict the days.
    """
    if bits_of(WEEKDAY, weekday) == WEEKDAY.every:
        return day, "*"
    if bits_of(DAY, day) == DAY.every:
        return "*", weekday
    problem = f"day of month {day} and weekday {weekday} must both match there; here either is enough"
    raise NotImportableError(f"{problem}. Keep one of the fields, and check the other one in the task")


def interval_text(seconds: float) -> str:
    """Return the cron text of an interval in UTC that divides a minute, an hour, a day or a week.

    Raises NotImportableError for other intervals.
    """
    if not math.isfinite(seconds):
        raise NotImportableError(f"{seconds} is no interval")
    if seconds in _WHOLE:
        return _WHOLE[int(seconds)]
    for unit, whole, form in _FORMS:
        every = seconds / unit
        if every >= 1 and every == int(every) and whole % every == 0 and every < whole:
            return form.format(int(every)).replace("*/1 ", "* ")
    problem = f"an interval of {seconds:g} s divides no minute, hour, day or week"
    raise NotImportableError(f"{problem}, so no cron text has it; write one that is near enough")


def interval_difference(text: str, start: str) -> Difference:
    """Return what is different about an interval that became a cron text."""
    here = f"it is {text!r} in UTC, on the clock"
    return Difference(
        "interval", f"it counts from {start}", here, "Nothing to do if the phase does not matter"
    )


def changes_clocks(timezone: str) -> bool:
    """Return whether the clocks of a zone changed in 2026."""
    begin, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2026, 2027))
    return any(True for _ in zone(timezone).changes(begin, end))


def zone_difference(timezone: str, there: str) -> Difference:
    """Return what is different where the source does not name a zone."""
    return Difference("timezone", there, f"it is {timezone}", "Give --timezone if that is another zone")


LOST_RUN = Difference(
    *("run_timeout_s", "a run may take for ever", "a run without an end after an hour is FAILED as lost_run"),
    "Set run_timeout_s where runs take longer",
)
