"""The terminal output of a fleet: tables that fit, a status that redraws itself, the output of runs."""

from __future__ import annotations

import asyncio
import codecs
import os
import shutil
import sys
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

import click

from dutiful.cli.fleet_client import asked, state_dir_of_fleet
from dutiful.cli.output import Form, show, state_cell, table_lines, zone_name
from dutiful.cli.schedule_text import run_state
from dutiful.core.cron.zone import from_epoch_ms
from dutiful.core.errors import quoted
from dutiful.fleet.run.output_log import logs_of
from dutiful.fleet.types import ScheduleSkipReason
from dutiful.process.output_log import older_half, printable
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import IO

    from dutiful.fleet.control.answers import Document
    from dutiful.fleet.run.output_log import RunLog


_DETAIL_MAX = 500
# Nothing stands in the way of these schedules, so it is not told for how long they have waited.
_ORDINARY = frozenset({ScheduleSkipReason.NOT_DUE, ScheduleSkipReason.UNSUPPORTED_TYPE})
# Seconds between two drawings of `status --watch`, and between two checks for new output.
_REDRAW_S, _LOOK_AGAIN_S = 1.0, 0.3


def table(head: list[str], rows: Sequence[Sequence[str]], width: int | None, *, colour: bool = False) -> str:
    """Return aligned columns with the manners of every table of the command line; cells are quoted."""
    shown = [[quoted(cell, _DETAIL_MAX) for cell in row] for row in rows]
    return "\n".join(table_lines(head, shown, width, colour=colour))


def terminal_width() -> int | None:
    """Return the width of the terminal; None if the output is a file or a pipe."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return max(shutil.get_terminal_size().columns, 40)
    return None


class Tables:
    """Draws the documents of a fleet as of `now`, in the zone of the reader."""

    def __init__(self, now: datetime, zone: tzinfo, width: int | None, *, colour: bool = False) -> None:
        self._now, self._zone, self._width, self._colour = now, zone, width, colour
        self._zone_name = zone_name(now, zone)

    def _table(self, head: list[str], rows: Sequence[Sequence[str]]) -> str:
        return table(head, rows, self._width, colour=self._colour)

    def status(self, found: Document) -> str:
        """Return the state of the fleet, its agents, and its jobs."""
        head = ["agent", "state", "jobs", "schedules", "failing", "done", "failed"]
        agents = [_agent_row(agent) for agent in found["agents"]]
        parts = [*self._heading(found), "", self._table(head, agents)]
        if found["jobs"]:
            jobs = [self._job(job) for job in found["jobs"]]
            head = ["job", "state", "trigger", f"since ({self._zone_name})", "latest output"]
            parts += ["", self._table(head, jobs)]
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
        since = self._at(job["started_at"])
        return [_name(job), state_cell("running"), job["trigger"], since, job["output"] or ""]

    def schedules(self, found: Sequence[Document]) -> str:
        """Return the state of each schedule, when it runs, why it does not run now, and the last errors."""
        times = [f"{name} ({self._zone_name})" for name in ("last", "next")]
        parts = [self._table(["schedule", "state", "when", *times, "reason"], [*map(self._schedule, found)])]
        errors = [
            [_name(each), each["problem"] or each["last_error"]]
            for each in found
            if each["problem"] or each["last_error"]
        ]
        if errors:
            parts += ["", self._table(["schedule", "last error"], errors)]
        return "\n".join(parts)

    def _schedule(self, each: Document) -> list[str]:
        times = self._at(each["last_run_at"]), self._at(each["next_run_at"])
        return [_name(each), _schedule_state(each), each["when"], *times, self._reason(each)]

    def _reason(self, each: Document) -> str:
        """Return why a schedule does not run, and since when; "" if it starts with the next pass."""
        if not each["skip_reason"]:
            return ""
        reason = ScheduleSkipReason(each["skip_reason"])
        if reason in _ORDINARY or not each["skipped_since"]:
            return reason.for_people
        return f"{reason.for_people} for {span(self._now - _read(each['skipped_since']))}"

    def history(self, found: Sequence[Document]) -> str:
        """Return the table of the history; the numbers are those of the stored outputs."""
        several = len({_name(run) for run in found}) > 1
        rows = [[*([_name(run)] if several else []), *self._run(run)] for run in found]
        head = [f"due ({self._zone_name})", "state", "run", "trigger", "reason", "took", "detail"]
        return self._table([*(["schedule"] if several else []), *head], rows)

    def _run(self, run: Document) -> list[str]:
        due = self._at(run["run_at"])
        if run["run_until"] is not None:
            due += f" and {run['ticks'] - 1} more until {self._at(run['run_until'])}"
        began, ended = run["started_at"], run["ended_at"]
        took = span(_read(ended) - _read(began)) if began and ended else ""
        number = "" if run["run"] is None else str(run["run"])
        return [due, run_state(run), number, run["trigger"], run["reason"] or "", took, run["detail"] or ""]

    def explanation(self, found: Document) -> str:
        """Return why a schedule ran, did not or will, and its present state."""
        now = found["now"]
        due = f"; next run {self._at(now['next_run_at'])}" if now["next_run_at"] else ""
        state = self._reason(now) or now["status"]
        return f"{quoted(found['text'], _DETAIL_MAX)}\n{_name(now)} now: {state}{due}"

    def _at(self, text: str | None) -> str:
        """Return an instant as local time, and its distance from now."""
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
    """Return a length of time in one unit."""
    seconds = max(time.total_seconds(), 0)
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s" if seconds >= 1 else f"{seconds:.1f} s"


def _agent_row(agent: Document) -> list[str]:
    state = "running" if agent["running"] else "failed" if agent["failing"] else "to_come"
    jobs = f"{agent['running']} of {agent['max_concurrent']}"
    counts = (f"{agent[key]:,}" for key in ("schedules", "failing", "done", "failed"))
    words = {"to_come": "idle", "failed": "failing"}
    return [agent["name"], state_cell(state, words.get(state)), jobs, *counts]


def _schedule_state(each: Document) -> str:
    if each["problem"] is not None:
        return state_cell("aside", "set aside")
    if each["status"] != "idle":
        return state_cell("running") if each["status"] == "running" else state_cell("paused", "disabled")
    if each["last_error"] is not None:
        return state_cell("failed")
    return state_cell("to_come") if each["last_run_at"] is None else state_cell("ran")


def _read(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _name(each: dict[str, Any]) -> str:
    return f"{each['agent']}/{each['schedule']}"


def watch_status(draw: Callable[[], str], *, live: bool) -> None:
    """Show the text of `draw` repeatedly: in place on a terminal, else one below the other."""
    clock = SystemClock()
    if not live:
        while True:
            click.echo(draw())
            asyncio.run(clock.sleep(_REDRAW_S))
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(Text.from_ansi(draw()), console=console, auto_refresh=False, vertical_overflow="crop") as shown:
        while True:
            asyncio.run(clock.sleep(_REDRAW_S))
            shown.update(Text.from_ansi(draw()), refresh=True)


def show_logs(
    path: Path, agent: str, schedule: str | None, number: int | None, *, follow: bool, form: Form
) -> None:
    """Print the output of a run; with `follow` also new output, and that of later runs if none was chosen."""
    state_dir = state_dir_of_fleet(path)
    schedules = _schedules(path, state_dir, agent, schedule)
    found = _chosen(state_dir, agent, schedules, number)
    if found is None and not follow:
        name = f"{agent}/{schedule}" if schedule else agent
        missing = "no stored output yet" if number is None else f"no stored output of run {number}"
        raise click.ClickException(f"{name} has {missing}; `dutiful fleet history {name}` lists its runs")
    if form != "text" and found is not None:
        schedule_name, log = found
        text = log.read().decode("utf-8", "replace")
        head = {"agent": agent, "schedule": schedule_name, "run": log.number}
        document = {**head, "run_at": f"{from_epoch_ms(log.run_at).isoformat()}", "output": text}
        show(form, document, lambda: None)
    elif not follow and found is not None:
        _print_whole(agent, *found)
    else:
        _follow(state_dir, agent, schedules, number, found)


def _schedules(path: Path, state_dir: Path, agent: str, schedule: str | None) -> list[str]:
    """Return the schedules whose outputs are meant. Raises an error for one that the fleet does not have."""
    if schedule is not None and logs_of(state_dir, agent, schedule):
        # A schedule that the fleet no longer has keeps its outputs.
        return [schedule]
    known = [each["schedule"] for each in asked(path, {"ask": "schedules", "agent": agent})]
    if schedule is not None and schedule not in known:
        asked(path, {"ask": "explain", "agent": agent, "schedule": schedule, "at": _now()})
    return known if schedule is None else [schedule]


def _now() -> str:
    return SystemClock().now().isoformat()


def _chosen(
    state_dir: Path, agent: str, schedules: list[str], number: int | None
) -> tuple[str, RunLog] | None:
    """Return the latest run of these schedules, or the latest with this number."""
    logs = [(name, log) for name in schedules for log in logs_of(state_dir, agent, name)]
    wanted = [each for each in logs if number in (None, each[1].number)]
    return max(wanted, key=lambda each: (each[1].run_at, each[1].number), default=None)


def _heading(agent: str, schedule: str, log: RunLog) -> str:
    at = from_epoch_ms(log.run_at).astimezone(SystemClock().timezone)
    return f"== {agent}/{schedule} run {log.number}, due {at:%Y-%m-%d %H:%M:%S%z} =="


def _print_whole(agent: str, schedule: str, log: RunLog) -> None:
    click.echo(_heading(agent, schedule, log))
    click.echo(_printable(log.read()), nl=False)


def _printable(output: bytes) -> str:
    """Return output, without terminal control characters if it goes to a terminal."""
    text = output.decode("utf-8", "replace")
    return printable(text) if sys.stdout.isatty() else text


def _follow(
    state_dir: Path, agent: str, schedules: list[str], number: int | None, found: tuple[str, RunLog] | None
) -> None:
    clock, reader = SystemClock(), None
    while True:
        if found is not None and (reader is None or reader.log.path != found[1].path):
            if reader is not None:
                reader.print_new()
                reader.close()
            reader = _Reader(found[1])
            click.echo(_heading(agent, *found))
        if reader is not None:
            reader.print_new()
        sys.stdout.flush()
        asyncio.run(clock.sleep(_LOOK_AGAIN_S))
        latest = _chosen(state_dir, agent, schedules, number)
        found = latest if latest is not None else found


class _Reader:
    """Reads a log that is being written, also after its file was renamed."""

    def __init__(self, log: RunLog) -> None:
        self.log = log
        # A character may be written in two pieces.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with suppress(FileNotFoundError):
            self._print(older_half(log.path).read_bytes())
        self._file = self._opened()

    def _opened(self) -> IO[bytes] | None:
        try:
            return self.log.path.open("rb")
        except FileNotFoundError:
            # The file is being renamed, or was deleted with the oldest outputs.
            return None

    def print_new(self) -> None:
        """Print the output added since the last call."""
        if self._file is None:
            self._file = self._opened()
        while self._file is not None:
            is_current = self._is_current()
            self._print(self._file.read())
            if is_current:
                return
            # The file was renamed when it was half full: its rest has been read, so continue with the new
            # file.
            self._file.close()
            self._file = self._opened()

    def close(self) -> None:
        """Close the log."""
        if self._file is not None:
            self._file.close()

    def _print(self, output: bytes) -> None:
        text = self._decoder.decode(output)
        click.echo(printable(text) if sys.stdout.isatty() else text, nl=False)

    def _is_current(self) -> bool:
        assert self._file is not None
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self.log.path.stat())
        except FileNotFoundError:
            return True
