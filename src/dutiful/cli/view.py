"""How `dutiful run` shows a scheduler: a table that keeps up on a terminal, else one line per event."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING

import click

from dutiful.cli.output import duration
from dutiful.core.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from rich.console import RenderableType
    from rich.live import Live

    from dutiful.cli.board import Board, Entry
    from dutiful.declarative.observe import SchedulerEvent

# Up to this many tasks are drawn once a second; twice as many, half as often.
_OFTEN = 10_000
# Events that are printed above the table, where they stay.
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


def print_nothing(event: SchedulerEvent) -> None:
    """Print nothing."""


def print_json_line(event: SchedulerEvent) -> None:
    """Print an event as one JSON object; that of a failed run has the trace of its callback."""
    trace = {"traceback": trace_of(event)} if event.exception is not None else {}
    _say(json.dumps(event.as_dict() | trace))


def print_line(event: SchedulerEvent) -> None:
    """Print an event as one line, and below it what its callback raised."""
    _say("\n".join(filter(None, [line_of(event), trace_of(event)])))


def trace_of(event: SchedulerEvent) -> str:
    """Return the trace of what the callback of a failed run raised; empty for other events."""
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
