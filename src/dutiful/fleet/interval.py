"""When an interval schedule is due: so long after its last job has ended."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

from dutiful.core.cron.duration import parse_duration
from dutiful.core.errors import InvalidArgumentError
from dutiful.runtime.clock import SystemClock

JITTER_PERCENT_MAX = 10
# The jitter is one of so many equal steps.
_STEPS = 2**64 - 1


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
    """Return when an interval schedule is due next: now at the earliest, and now the first time.

    Up to `jitter_percent` of the interval is added, by a hash of `last_completed_at` and `key`: whoever
    asks again gets the same answer, and schedules with different keys spread out. Raises
    IntervalParseError, and InvalidArgumentError for a naive time or a jitter that is not from 0 to 10.
    """
    duration = parse_interval(interval) if isinstance(interval, str) else interval
    if not 0 <= jitter_percent <= JITTER_PERCENT_MAX:
        raise InvalidArgumentError("jitter_percent", jitter_percent, "must be from 0 to 10")
    present = now if now is not None else SystemClock().now()
    if last_completed_at is None:
        return present
    if last_completed_at.tzinfo is None:
        raise InvalidArgumentError("last_completed_at", last_completed_at, "must have a time zone")
    try:
        due = last_completed_at + duration + _jitter(duration, jitter_percent, last_completed_at, key)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
    return max(due, present)


def is_schedule_due(next_trigger: datetime, now: datetime | None = None) -> bool:
    """Return whether the time has come."""
    return next_trigger <= (now if now is not None else SystemClock().now())


def _jitter(interval: timedelta, percent: float, last_completed_at: datetime, key: str) -> timedelta:
    seed = f"jitter:{key}:{last_completed_at.astimezone(UTC).isoformat()}"
    step = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8])
    # Whole microseconds, rounded down: never more than was allowed.
    most = int(interval / timedelta(microseconds=1) * percent / 100)
    return timedelta(microseconds=most * step // _STEPS)
