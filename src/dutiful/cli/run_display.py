"""The display of `dutiful run`: a live table of its tasks on a terminal, else one line per event."""

from __future__ import annotations

import heapq
import json
import os
import sys
import traceback
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, cast

import click

from dutiful.cli.output import duration
from dutiful.core.errors import CronCalculationError, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import RenderableType
    from rich.live import Live

    from dutiful.core.cron.cron import Cron
    from dutiful.core.schedule import Schedule
    from dutiful.declarative.observe import SchedulerEvent


_PHASES = {
    "SchedulerStandby": "standby: another process leads",
    "SchedulerInitializationCompleted": "running",
    "SchedulerStopRequested": "stopping: waiting for what runs; once more to stop at once",
    "SchedulerStopped": "stopped",
}
# Up to this many tasks are drawn once a second, twice as many every two seconds.
_OFTEN = 10_000
# Events that are printed above the table, where they stay visible.
_KEPT = {
    *(
        "TaskRunFailed",
        "TaskRunOverran",
        "TaskRunCancelled",
        "TaskStartLate",
        "ClockStepped",
        "LoopBlocked",
        "PassFailed",
        "ScheduleQuarantined",
    ),
    *("SchedulerStandby", "SchedulerStopped"),
}


@dataclass(slots=True)
class Entry:
    """One task: since when it runs, when it is due next, and how its last run ended."""

    name: str
    cron: Cron
    # Milliseconds: a delay may be longer than a timedelta can hold when it is rounded up.
    delay: int
    due: datetime | None
    began: datetime | None = None
    last: str = ""


@dataclass(slots=True)
class Board:
    """All tasks of one scheduler; `phase` is the state of the scheduler itself."""

    entries: dict[str, Entry]
    phase: str = "starting"
    running: dict[str, Entry] = field(default_factory=dict)

    def see(self, event: SchedulerEvent) -> None:
        """Process the next event."""
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
        """Return at most `count` tasks: running ones first, the oldest first, then those due next."""
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


def print_nothing(event: SchedulerEvent) -> None:
    """Print nothing."""


def print_json_line(event: SchedulerEvent) -> None:
    """Print an event as one JSON object; a failed run has the traceback of its callback."""
    trace = {"traceback": trace_of(event)} if event.exception is not None else {}
    _say(json.dumps(event.as_dict() | trace))


def print_line(event: SchedulerEvent) -> None:
    """Print an event as one line, followed by the exception of its callback, if any."""
    _say("\n".join(filter(None, [line_of(event), trace_of(event)])))


def trace_of(event: SchedulerEvent) -> str:
    """Return the traceback of a failed run's callback; empty for other events."""
    error = event.exception
    return "" if error is None else "".join(traceback.format_exception(error)).rstrip()


def _say(line: str) -> None:
    try:
        click.echo(line)
    except BrokenPipeError:
        # The reader of the pipe has gone; the tasks go on without output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def line_of(event: SchedulerEvent) -> str:
    """Return the time, the name, the task and the details of an event."""
    details = [f"{key}={quoted(value)}" for key, value in event.details.items()]
    return " ".join([f"{event.at:%Y-%m-%d %H:%M:%S%z}", event.name, *filter(None, [event.task]), *details])


class LiveTable:
    """The board as a table at the foot of a terminal, drawn about once a second by a thread of its own."""

    def __init__(self, board: Board, title: str, now: Callable[[], datetime]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._board, self._title, self._now = board, title, now
        self._console = Console()
        # Drawing walks all tasks, so with very many of them it happens less often.
        often = min(1.0, _OFTEN / max(1, len(board.entries)))
        self.live: Live = Live(get_renderable=self._draw, console=self._console, refresh_per_second=often)

    def show(self, event: SchedulerEvent) -> None:
        """Print the events that should stay, above the table."""
        if event.name in _KEPT:
            for text in filter(None, [line_of(event), trace_of(event)]):
                self._console.print(text, markup=False, highlight=False)

    def _draw(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        now, room = self._now(), max(1, self._console.height - 7)
        table = Table("task", "cron", "now", "next", "last")
        for entry in self._board.first(room, now):
            table.add_row(*_cells(entry, now))
        left = max(0, len(self._board.entries) - room)
        more = [Text(f"… and {left} more")] if left else []
        return Group(Text(f"{self._title}: {self._board.phase}"), table, *more)


def _cells(entry: Entry, now: datetime) -> list[RenderableType]:
    from rich.text import Text

    runs = "" if entry.began is None else f"running for {duration((now - entry.began).total_seconds())}"
    cells = [entry.name, str(entry.cron), runs, _due(entry.due, now), entry.last]
    return [Text(cell) for cell in cells]


def _due(due: datetime | None, now: datetime) -> str:
    if due is None:
        return "never"
    if due <= now:
        return "now"
    near = due.date() == now.astimezone(due.tzinfo).date()
    at = f"{due:%H:%M:%S}" if near else f"{due:%Y-%m-%d %H:%M}"
    return f"{at}, in {duration((due - now).total_seconds())}"
