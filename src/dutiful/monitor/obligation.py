"""The obligations of a task: its facts, and the minutes that its cron matches.

All instants and lengths are whole microseconds, so that "exactly at failure plus delay" is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from dutiful.core.cron.dialect import DIALECTS
from dutiful.core.cron.zone import EPOCH
from dutiful.core.errors import CronCalculationError, InvalidArgumentError

if TYPE_CHECKING:
    from dutiful.core.cron.cron import Cron

SECOND = 1_000_000
_MICROSECOND = timedelta(microseconds=1)
NEVER = float("inf")


@dataclass(slots=True)
class Task:
    """The model's state of one registered name."""

    cron: Cron
    delay: int
    # Each minute that is due after this start is owed a start. A requested run does not move the mark.
    mark: int
    # The last start of the task, requested or not.
    attempted: int
    retry: int | None = None
    orphan: bool = False
    # When a user requested a run that has not begun.
    requested: int | None = None
    started: int | None = None
    # Whether a user requested the last run that started. Not every trace says so.
    manual: bool = False
    ended: float = -NEVER
    # Start of the last run that succeeded: the next such start needs a due minute in between.
    succeeded: int | None = None
    # Counts changes, so that deadlines of earlier versions can be recognised as stale.
    version: int = 0
    retry_limit: int | None = None
    retry_backoff: int = 1
    # Failures of the run that was started last, counting its retries.
    failures: int = 0

    def begin(self, now: int, *, manual: bool = False) -> None:
        """Record a start; a start that is owed only as a retry continues the failed run."""
        is_due = next_due(self.cron, self.mark) <= now or self.requested is not None
        if is_due and not self.orphan:
            self.failures = 0
        # A requested run does not stand for a tick, which is still owed; a restarted run does.
        self.manual = manual and not self.orphan
        self.mark, self.attempted = self.mark if self.manual else now, now
        self.retry, self.orphan, self.started, self.requested = None, False, now, None

    def waits(self) -> bool:
        """Return whether a run waits that can be cancelled."""
        return self.orphan or self.retry is not None or self.requested is not None

    def cancel(self) -> None:
        """Cancel the start that waits: of a run that a crash cut short, of a retry, or of a request."""
        self.retry, self.orphan, self.requested = None, False, None

    def fail(self, now: int) -> None:
        """Record a failure, after which a retry is owed unless the limit is reached."""
        self.failures += 1
        if self.retry_limit is None or self.failures <= self.retry_limit:
            self.retry = now + self.delay * self.retry_backoff ** min(self.failures - 1, 64)

    def pending_since(self) -> float | None:
        """Return the instant from which a start is owed, past or future; None while the task runs."""
        if self.started is not None:
            return None
        if self.orphan:
            return -NEVER
        asked = [at for at in (self.retry, self.requested) if at is not None]
        return min([next_due(self.cron, self.mark), *asked])


def next_due(cron: Cron, after: int) -> float:
    """Return the first instant after `after` that the cron matches."""
    try:
        return cron.next_epoch(after // SECOND) * SECOND
    except CronCalculationError:
        return NEVER


def due_in(cron: Cron, after: int, until: int) -> bool:
    """Return whether the cron matches an instant in (after, until]."""
    return next_due(cron, after) <= until


def just_before(now: int, cron: Cron) -> int:
    """Return the last second before this civil minute, or before this second if cron texts have seconds."""
    instant = now // SECOND
    into_unit = 0 if DIALECTS[cron.dialect].seconds else (instant + cron.zone.offset(instant)) % 60
    return (instant - into_unit - 1) * SECOND


def instant_of(at: Any) -> int:
    """Return an instant of a trace in microseconds: epoch seconds, an ISO text, or an aware datetime."""
    if isinstance(at, str):
        at = datetime.fromisoformat(at)
    if isinstance(at, datetime) and at.utcoffset() is None:
        raise InvalidArgumentError("at", at, "has no UTC offset; add Z or +00:00")
    return (at - EPOCH) // _MICROSECOND if isinstance(at, datetime) else round(at * SECOND)


def length_of(time: timedelta | float) -> int:
    """Return a length in microseconds: a timedelta, or a number of seconds."""
    return time // _MICROSECOND if isinstance(time, timedelta) else round(time * SECOND)


def iso(instant: float) -> str:
    """Return an instant as ISO 8601."""
    return (EPOCH + timedelta(microseconds=instant)).isoformat()
