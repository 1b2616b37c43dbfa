"""When a schedule is due next: an interval after its last job has ended, or by its cron expression.

Cron expressions use the host's zone, and run once a day through a clock change.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dutiful.core.cron.cron import Cron
from dutiful.core.cron.dialect import MACROS
from dutiful.core.cron.duration import format_duration, parse_duration
from dutiful.core.cron.explain import in_place
from dutiful.core.errors import (
    DutifulError,
    InvalidArgumentError,
    InvalidCronExpressionError,
    quoted,
)
from dutiful.fleet.errors import CronParseError
from dutiful.runtime.clock import SystemClock, local_zone

if TYPE_CHECKING:
    from datetime import tzinfo

    from dutiful.fleet.types import AgentSchedule

JITTER_PERCENT_MAX = 10
# The jitter is one of this many equal steps.
_STEPS = 2**64 - 1
_UNITS = {"s": ("second", "s"), "m": ("minute", "min"), "h": ("hour", "h"), "d": ("day", "d")}
_FIELDS = {"day": "day-of-month", "weekday": "day-of-week"}
# The message already begins with the whole expression, so cut off the repeated part and the layout.
_REPEATED = re.compile(r", not \S+$| \(write: .*\)$")


def parse_interval(text: str) -> timedelta:
    """Return the interval that a text such as "5m" names, or raise IntervalParseError."""
    return parse_duration(text)


def calculate_next_trigger(
    last_completed_at: datetime | None,
    interval: str | timedelta,
    jitter_percent: float = 0,
    now: datetime | None = None,
    key: str = "",
) -> datetime:
    """Return when an interval schedule is due next: never before `now`, and at `now` for the first run.

    Up to `jitter_percent` of the interval is added, by a hash of `last_completed_at` and `key`: the
    same question has the same answer, and schedules with different keys spread out. Raises
    IntervalParseError, and InvalidArgumentError for a naive time or a jitter that is not from 0 to 10.
    """
    duration = parse_interval(interval) if isinstance(interval, str) else interval
    if not 0 <= jitter_percent <= JITTER_PERCENT_MAX:
        raise InvalidArgumentError("jitter_percent", jitter_percent, "must be from 0 to 10")
    present = now if now is not None else SystemClock().now()
    _require_zone("now", present)
    if last_completed_at is None:
        return present
    _require_zone("last_completed_at", last_completed_at)
    try:
        due = last_completed_at + duration + _jitter(duration, jitter_percent, last_completed_at, key)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
    return max(due, present)


def is_schedule_due(next_trigger: datetime, now: datetime | None = None) -> bool:
    """Return whether the trigger time has come. Raises InvalidArgumentError for a naive time."""
    present = now if now is not None else SystemClock().now()
    _require_zone("next_trigger", next_trigger)
    _require_zone("now", present)
    return next_trigger <= present


def _require_zone(argument: str, at: datetime) -> None:
    if at.tzinfo is None:
        raise InvalidArgumentError(argument, at, "must have a time zone")


def _jitter(interval: timedelta, percent: float, last_completed_at: datetime, key: str) -> timedelta:
    seed = f"jitter:{key}:{last_completed_at.astimezone(UTC).isoformat()}"
    step = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8])
    # Whole microseconds, rounded down: never more than allowed.
    most = int(interval / timedelta(microseconds=1) * percent / 100)
    return timedelta(microseconds=most * step // _STEPS)


def parse_cron_expression(expression: str, timezone: str | tzinfo | None = None) -> Cron:
    """Return the Cron that a 5-field expression or a shorthand means, in the host's zone if none is given.

    Raises CronParseError.
    """
    _refuse_other_than_fields(expression)
    zone = local_zone() if timezone is None else timezone
    try:
        return Cron.parse(expression, dialect="standard", timezone=zone, dst="vixie")
    except InvalidCronExpressionError as refused:
        raise _as_told_here(refused) from refused


def calculate_next_cron_trigger(
    expression: str, after: datetime, timezone: str | tzinfo | None = None
) -> datetime:
    """Return the first instant after `after` that the expression matches, in the host's zone by default.

    Raises CronParseError, and CronCalculationError where there is none before the year 10000.
    """
    return parse_cron_expression(expression, timezone).next(after)


def is_valid_cron_expression(expression: str) -> bool:
    """Return whether `parse_cron_expression` accepts this expression."""
    try:
        parse_cron_expression(expression, UTC)
    except CronParseError:
        return False
    return True


def when_it_runs(written: AgentSchedule, zone: tzinfo) -> str:
    """Return in words when a schedule runs; its own text if that cannot be read. `zone` is the fleet's."""
    try:
        if written.type == "interval":
            text = format_duration(parse_interval(written.interval or ""))
            one, several = _UNITS[text[-1]]
            return f"every {one if text[:-1] == '1' else f'{text[:-1]} {several}'} from completion"
        if written.type == "cron":
            cron = parse_cron_expression(written.expression or "", written.timezone or zone)
            return in_place(cron.describe(), cron.zone.name)
    except DutifulError:
        return str(written.interval or written.expression or "")
    return "on a webhook or by hand" if written.type == "webhook" else "by hand or over HTTP"


def _refuse_other_than_fields(expression: object) -> None:
    text = expression.strip() if isinstance(expression, str) else "*"
    if not text:
        raise CronParseError("Cron expression cannot be empty", expression)
    if text.startswith("@") and text.lower() not in MACROS:
        known = ", ".join(MACROS)
        raise CronParseError(f'Unknown cron shorthand "{quoted(text)}" (known: {known})', expression)


def _as_told_here(refused: InvalidCronExpressionError) -> CronParseError:
    field = None if refused.field == "expression" else _FIELDS.get(refused.field, refused.field)
    reason = _REPEATED.sub("", refused.reason)
    told = reason if field is None else f"{field} {reason}"
    message = f'Invalid cron expression "{quoted(refused.expression)}" - {told}'
    return CronParseError(message, refused.expression, field)
