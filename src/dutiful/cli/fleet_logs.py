"""`dutiful fleet logs`: the stored output of a run, and new output as it comes."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import click

from dutiful.cli.fleet_ask import asked, state_dir_of_fleet
from dutiful.cli.output import print_json
from dutiful.core.cron.zone import from_epoch_ms
from dutiful.fleet.run.output_log import logs_of, older_half
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

    from dutiful.fleet.run.output_log import RunLog

_SECONDS = 0.3


def show_logs(
    path: Path, agent: str, schedule: str | None, number: int | None, *, follow: bool, as_json: bool
) -> None:
    """Print the output of a run; with `follow` also new output, and later runs unless one was chosen."""
    # Refuses a name that the fleet does not have.
    known = [each["schedule"] for each in asked(path, {"ask": "schedules", "agent": agent})]
    if schedule is not None and schedule not in known:
        asked(path, {"ask": "explain", "agent": agent, "schedule": schedule, "at": _now()})
    state_dir = state_dir_of_fleet(path)
    schedules = known if schedule is None else [schedule]
    found = _chosen(state_dir, agent, schedules, number)
    if found is None and not follow:
        name = f"{agent}/{schedule}" if schedule else agent
        missing = "no stored output yet" if number is None else f"no stored output of run {number}"
        raise click.ClickException(f"{name} has {missing}; `dutiful fleet history {name}` lists its runs")
    if as_json and found is not None:
        schedule_name, log = found
        text = log.read().decode("utf-8", "replace")
        head = {"agent": agent, "schedule": schedule_name, "run": log.number}
        print_json({**head, "run_at": f"{from_epoch_ms(log.run_at).isoformat()}", "output": text})
    elif not follow and found is not None:
        _print_whole(agent, *found)
    else:
        _follow(state_dir, agent, schedules, number, found)


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
    """Return output without the characters that command a terminal, when it goes to one."""
    text = output.decode("utf-8", "replace")
    if not sys.stdout.isatty():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def _follow(
    state_dir: Path, agent: str, schedules: list[str], number: int | None, found: tuple[str, RunLog] | None
) -> None:
    clock, reader = SystemClock(), None
    while True:
        if found is not None and (reader is None or reader.log.path != found[1].path):
            if reader is not None:
                reader.print_new()
            reader = _Reader(found[1])
            click.echo(_heading(agent, *found))
        if reader is not None:
            reader.print_new()
        sys.stdout.flush()
        asyncio.run(clock.sleep(_SECONDS))
        latest = _chosen(state_dir, agent, schedules, number)
        found = latest if latest is not None else found


class _Reader:
    """Reads a log that is being written, also across the change of its halves."""

    def __init__(self, log: RunLog) -> None:
        self.log = log
        older = older_half(log.path)
        if older.exists():
            click.echo(_printable(older.read_bytes()), nl=False)
        self._file = self._opened()

    def _opened(self) -> IO[bytes] | None:
        return self.log.path.open("rb") if self.log.path.exists() else None

    def print_new(self) -> None:
        """Print the output that was added since the last time."""
        if self._file is None:
            self._file = self._opened()
        while self._file is not None:
            click.echo(_printable(self._file.read()), nl=False)
            if not self.log.path.exists() or self._is_current():
                return
            # The file was renamed when it was half full: its rest has been read, and a new one begun.
            self._file.close()
            self._file = self._opened()

    def _is_current(self) -> bool:
        assert self._file is not None
        return os.path.samestat(os.fstat(self._file.fileno()), self.log.path.stat())
