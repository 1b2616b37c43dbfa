"""A fleet in tables that fit the terminal, with times as the people in front of it read them."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import datetime, timedelta, tzinfo
from io import StringIO
from typing import TYPE_CHECKING, Any

from dutiful.core.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dutiful.fleet.control.answers import Document

_DETAIL_MAX = 500
_NAME_SHARE = 0.4
# What a table of a file or a pipe is wide at most; nobody there counts columns.
_ENDLESS = 100_000


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Return aligned columns; cells that do not fit go on in the next line."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*head, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in drawn.columns:
        column.overflow = "fold"
    # Names are read at a glance if they are not broken.
    longest = max((len(row[0]) for row in rows), default=0)
    drawn.columns[0].min_width = min(longest, round(width * _NAME_SHARE))
    for row in rows:
        drawn.add_row(*(Text(quoted(cell, _DETAIL_MAX)) for cell in row))
    console = Console(file=StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(drawn)
    return "\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n"))


def terminal_width() -> int:
    """Return the columns of the terminal, or as many as anybody may want where there is none."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return max(shutil.get_terminal_size().columns, 40)
    return _ENDLESS


class Tables:
    """Draws the documents of a fleet as they are seen at `now`, in the zone of the reader."""

    def __init__(self, now: datetime, zone: tzinfo, width: int) -> None:
        self._now, self._zone, self._width = now, zone, width

    def status(self, found: Document) -> str:
        """Return what the fleet does, its agents, and its jobs."""
        agents = [
            [agent["name"], f"{agent['running']} of {agent['max_concurrent']}", str(agent["schedules"])]
            for agent in found["agents"]
        ]
        parts = [*self._heading(found), "", table(["agent", "running", "schedules"], agents, self._width)]
        if found["jobs"]:
            jobs = [self._job(job) for job in found["jobs"]]
            parts += ["", table(["job", "trigger", "since", "latest output"], jobs, self._width)]
        return "\n".join(parts)

    def _heading(self, found: Document) -> Iterator[str]:
        yield f"{found['file'].removeprefix(os.getcwd() + os.sep)}: {found['status']}"
        if found["started_at"] is not None:
            since, checks = self._at(found["started_at"]), found["check_count"]
            yield f"since {since}, process {found['pid']}, {checks} checks, {found['trigger_count']} triggers"
        if found["problem"] is not None:
            yield f"The file has changed and cannot be used; the fleet goes on as it was.\n{found['problem']}"

    def _job(self, job: Document) -> list[str]:
        return [_name(job), job["trigger"], self._at(job["started_at"]), job["output"] or ""]

    def schedules(self, found: Sequence[Document]) -> str:
        """Return why each schedule does not run now, when it ran and runs next, and the last errors."""
        rows = [self._schedule(each) for each in found]
        parts = [table(["schedule", "now", "last run", "next run"], rows, self._width)]
        errors = [[_name(each), each["last_error"]] for each in found if each["last_error"]]
        if errors:
            parts += ["", table(["schedule", "last error"], errors, self._width)]
        return "\n".join(parts)

    def _schedule(self, each: Document) -> list[str]:
        return [_name(each), self._state(each), self._at(each["last_run_at"]), self._at(each["next_run_at"])]

    def _state(self, each: Document) -> str:
        """Return why a schedule does not run, since when; else what it does."""
        since = f" since {self._at(each['skipped_since'])}" if each["skipped_since"] else ""
        return f"{each['skip_reason']}{since}" if each["skip_reason"] else str(each["status"])

    def history(self, found: Sequence[Document]) -> str:
        """Return what became of occurrences."""
        rows = [self._run(run) for run in found]
        return table(["due", "trigger", "status", "reason", "took", "detail"], rows, self._width)

    def _run(self, run: Document) -> list[str]:
        due = self._at(run["run_at"])
        if run["run_until"] is not None:
            due += f" and {run['ticks'] - 1} more until {self._at(run['run_until'])}"
        began, ended = run["started_at"], run["ended_at"]
        took = span(_read(ended) - _read(began)) if began and ended else ""
        return [due, run["trigger"], run["status"], run["reason"] or "", took, run["detail"] or ""]

    def explanation(self, found: Document) -> str:
        """Return why a schedule ran, did not, or will, and how it is now."""
        now = found["now"]
        due = f"; next run {self._at(now['next_run_at'])}" if now["next_run_at"] else ""
        return f"{quoted(found['text'], _DETAIL_MAX)}\n{_name(now)} now: {self._state(now)}{due}"

    def _at(self, text: str | None) -> str:
        """Return an instant as the clock on the wall shows it, and how far away it is."""
        if text is None:
            return ""
        at = _read(text).astimezone(self._zone)
        near = at.date() == self._now.astimezone(self._zone).date()
        return f"{at:%H:%M:%S} {self._away(at)}" if near else f"{at:%Y-%m-%d %H:%M} {self._away(at)}"

    def _away(self, at: datetime) -> str:
        seconds = (at - self._now).total_seconds()
        if abs(seconds) < 1:
            return "now"
        return f"in {span(at - self._now)}" if seconds > 0 else f"{span(self._now - at)} ago"


def span(time: timedelta) -> str:
    """Return how long something takes, in one unit."""
    seconds = max(time.total_seconds(), 0)
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s" if seconds >= 1 else f"{seconds:.1f}s"


def _read(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _name(each: dict[str, Any]) -> str:
    return f"{each['agent']}/{each['schedule']}"
