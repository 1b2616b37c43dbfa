"""Requests to the fleet of a file: to the process that runs it, else to the files that it left."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from dutiful.core.errors import InvalidArgumentError
from dutiful.fleet.control.answers import answer
from dutiful.fleet.control.lock import running_state_dir
from dutiful.fleet.control.socket import ask
from dutiful.fleet.control.stopped import StoppedFleet
from dutiful.fleet.errors import FleetControlError, FleetNotRunningError
from dutiful.fleet.file.config import Fleet, read_fleet
from dutiful.fleet.file.watch import state_dir_of
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path


def asked(path: Path, request: dict[str, Any]) -> Any:
    """Return the answer of the running fleet, else the answer from its files."""
    request = {**request, "file": str(path.absolute())}
    running = running_state_dir(path)
    # The lock names the directory of the running fleet, whatever its file says by now.
    known, state_dir = (None, running) if running is not None else _found(path)
    try:
        return asyncio.run(ask(state_dir, request))
    except FleetNotRunningError:
        pass
    except FleetControlError as error:
        if error.kind.endswith("NotFoundError"):
            raise
        raise click.ClickException(str(error)) from error
    if known is None:
        known, state_dir = _found(path)
    if isinstance(known, Exception):
        raise known
    try:
        return asyncio.run(answer(StoppedFleet(path, known, state_dir, SystemClock()), request))
    except FleetNotRunningError as error:
        raise click.ClickException(str(error)) from error


def _found(path: Path) -> tuple[Fleet | Exception, Path]:
    """Return the fleet, or the problems of its file, and its state directory."""
    found, _ = read_fleet(path)
    # A running fleet can be asked also while its file is broken.
    return found, state_dir_of(path, found if isinstance(found, Fleet) else Fleet(()))


def state_dir_of_fleet(path: Path) -> Path:
    """Return the state directory of the fleet of a file, running or not."""
    return running_state_dir(path) or _found(path)[1]


def named(name: str) -> dict[str, str]:
    """Return the agent and the schedule that AGENT/SCHEDULE names."""
    agent, slash, schedule = name.partition("/")
    if not (agent and slash and schedule):
        raise InvalidArgumentError("name", name, "write AGENT/SCHEDULE, such as watcher/disk")
    return {"agent": agent, "schedule": schedule}


def agent_or_named(name: str | None) -> dict[str, str | None]:
    """Return the agent and the schedule that AGENT or AGENT/SCHEDULE names; None means all."""
    if name is None or "/" in name:
        return {"agent": None, "schedule": None} if name is None else {**named(name)}
    return {"agent": name, "schedule": None}


def instant(text: str | None) -> datetime:
    """Return the instant that a text names, by default the present one."""
    clock = SystemClock()
    if text is None:
        return clock.now()
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        advice = "write ISO 8601, such as 2026-03-08T01:30 or …T06:30Z"
        raise InvalidArgumentError("--at", text, advice) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=clock.timezone)
