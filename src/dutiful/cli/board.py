"""The board: running and upcoming tasks, updated by the events of a scheduler."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, cast

from dutiful.cli.output import duration
from dutiful.core.errors import CronCalculationError, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dutiful.core.cron.cron import Cron
    from dutiful.core.schedule import Schedule
    from dutiful.declarative.observe import SchedulerEvent

_PHASES = {
    "SchedulerStandby": "standby: another process leads",
    "SchedulerInitializationCompleted": "running",
    "SchedulerStopRequested": "stopping: waiting for what runs; once more to stop at once",
    "SchedulerStopped": "stopped",
}


@dataclass(slots=True)
class Entry:
    """One task: since when it runs, if it does; when it is next due; how it went last."""

    name: str
    cron: Cron
    # Milliseconds: a delay may be longer than a timedelta can hold when it is rounded up.
    delay: int
    due: datetime | None
    began: datetime | None = None
    last: str = ""


@dataclass(slots=True)
class Board:
    """All tasks of one scheduler; `phase` says what the scheduler itself does."""

    entries: dict[str, Entry]
    phase: str = "starting"
    running: dict[str, Entry] = field(default_factory=dict)

    def see(self, event: SchedulerEvent) -> None:
        """Take the next event."""
        self.phase = _PHASES.get(event.name, self.phase)
        entry = self.entries.get(event.task or "")
        if entry is None:
            return
        match event.name:
            case "TaskRunStarted" | "TaskRetryStarted":
                entry.began, entry.due = event.at, _next(entry.cron, event.at)
                self.running[entry.name] = entry
            case "TaskRunCompleted":
                self._end(entry, event, "ok", "")
            case "TaskRunFailed":
                self._end(entry, event, "failed", f": {quoted(event.details.get('error', ''))}")
                entry.due = min(filter(None, [_later(event.at, entry.delay), entry.due]), default=None)
            case "TaskRunCancelled":
                self._end(entry, event, "cancelled", "")
                entry.due = _next(entry.cron, event.at)

    def _end(self, entry: Entry, event: SchedulerEvent, how: str, why: str) -> None:
        took = event.at - (entry.began or event.at)
        entry.last = f"{event.at:%H:%M:%S} {how} after {duration(took.total_seconds())}{why}"
        entry.began = None
        self.running.pop(entry.name, None)

    def first(self, count: int, now: datetime) -> list[Entry]:
        """Return what runs, the oldest first, and then what is due next; at most `count`."""
        if self.phase.startswith("standby"):
            for entry in self.entries.values():
                if entry.due is not None and entry.due < now:
                    entry.due = _next(entry.cron, now)
        # Copy first: the drawing thread reads while the event loop writes.
        return heapq.nsmallest(count, [*self.entries.values()], key=_order)


def board_of(schedules: Iterable[Schedule], now: datetime) -> Board:
    """Return the board of a scheduler that has not begun; `now` is in its zone."""
    entries = {}
    for schedule in schedules:
        cron, retry = cast("Cron", schedule.cadence), schedule.policy.retry
        delay = retry.delay if retry is not None else 0
        entries[schedule.id] = Entry(schedule.id, cron, delay, _next(cron, now))
    return Board(entries)


def _later(at: datetime, delay: int) -> datetime | None:
    """Return when a delay is over; None beyond the years of a datetime."""
    try:
        return at + timedelta(milliseconds=delay)
    except OverflowError:
        return None


def _order(entry: Entry) -> tuple[bool, float, str]:
    at = entry.began or entry.due
    return entry.began is None, float("inf") if at is None else at.timestamp(), entry.name


def _next(cron: Cron, after: datetime) -> datetime | None:
    try:
        return cron.next(after)
    except CronCalculationError:
        return None
