"""A fleet in tables that fit the terminal, with times in the zone of the reader."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from datetime import datetime, timedelta, tzinfo
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from dutiful.core.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dutiful.fleet.control.answers import Document

_DETAIL_MAX = 500
_NAME_SHARE = 0.4
_GAP = "  "
# The width of a table that goes into a file or a pipe.
_ENDLESS = 100_000


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Return aligned columns; a cell that does not fit continues in the next line."""
    shown = [[quoted(cell, _DETAIL_MAX) for cell in row] for row in rows]
    widths = _fitted([max(map(len, column)) for column in zip(head, *shown, strict=True)], width)
    return "\n".join(line for row in (head, *shown) for line in _lines(row, widths))


def _fitted(widths: list[int], room: int) -> list[int]:
    """Return the widths of columns that fit: the widest gives way, the names in the first one last."""
    room -= len(_GAP) * (len(widths) - 1)
    names = min(widths[0], round(room * _NAME_SHARE))
    while sum(widths) > room:
        others = [n for n in range(len(widths)) if n or widths[0] > names] or [0]
        widest = max(others, key=lambda n: widths[n])
        if widths[widest] <= 1:
            break
        widths[widest] -= 1
    return widths


def _lines(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    if all(len(cell) <= width for cell, width in zip(row, widths, strict=True)):
        yield _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        return
    folded = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
    for cells in zip_longest(*folded, fillvalue=""):
        yield _GAP.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def terminal_width() -> int:
    """Return the columns of the terminal; a very large number where the output is a file or a pipe."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return max(shutil.get_terminal_size().columns, 40)
    return _ENDLESS


class Tables:
    """Draws the documents of a fleet as they are seen at `now`, in the zone of the reader."""

    def __init__(self, now: datetime, zone: tzinfo, width: int) -> None:
        self._now, self._zone, self._width = now, zone, width

    def status(self, found: Document) -> str:
        """Return the state of the fleet, its agents, and its jobs."""
        agents = [
            [
                agent["name"],
                f"{agent['running']} of {agent['max_concurrent']}",
                *(str(agent[key]) for key in ("schedules", "failing", "done", "failed")),
            ]
            for agent in found["agents"]
        ]
        head = ["agent", "running", "schedules", "failing", "done", "failed"]
        parts = [*self._heading(found), "", table(head, agents, self._width)]
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
        if found["stall"] is not None:
            yield f"STALLED since {self._at(found['stalled_since'])}: {found['stall']}"

    def _job(self, job: Document) -> list[str]:
        return [_name(job), job["trigger"], self._at(job["started_at"]), job["output"] or ""]

    def schedules(self, found: Sequence[Document]) -> str:
        """Return why each schedule does not run now, when it ran and runs next, and the last errors."""
        rows = [self._schedule(each) for each in found]
        parts = [table(["schedule", "now", "last run", "next run"], rows, self._width)]
        errors = [
            [_name(each), each["problem"] or each["last_error"]]
            for each in found
            if each["problem"] or each["last_error"]
        ]
        if errors:
            parts += ["", table(["schedule", "last error"], errors, self._width)]
        return "\n".join(parts)

    def _schedule(self, each: Document) -> list[str]:
        return [_name(each), self._state(each), self._at(each["last_run_at"]), self._at(each["next_run_at"])]

    def _state(self, each: Document) -> str:
        """Return why a schedule does not run, and for how long; else its status."""
        since = f" for {span(self._now - _read(each['skipped_since']))}" if each["skipped_since"] else ""
        return f"{each['skip_reason']}{since}" if each["skip_reason"] else str(each["status"])

    def history(self, found: Sequence[Document]) -> str:
        """Return the entries of the history; the number is that of the stored output."""
        several = len({_name(run) for run in found}) > 1
        rows = [[*([_name(run)] if several else []), *self._run(run)] for run in found]
        head = ["run", "due", "trigger", "status", "reason", "took", "detail"]
        return table([*(["schedule"] if several else []), *head], rows, self._width)

    def _run(self, run: Document) -> list[str]:
        due = self._at(run["run_at"])
        if run["run_until"] is not None:
            due += f" and {run['ticks'] - 1} more until {self._at(run['run_until'])}"
        began, ended = run["started_at"], run["ended_at"]
        took = span(_read(ended) - _read(began)) if began and ended else ""
        number = "" if run["run"] is None else str(run["run"])
        return [number, due, run["trigger"], run["status"], run["reason"] or "", took, run["detail"] or ""]

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
