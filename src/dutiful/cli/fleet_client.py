"""The client of a fleet, for commands: starts it, sends requests, waits for it.

A request goes to the process that runs the fleet, or is answered from the fleet's files.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dutiful.cli.output import counted
from dutiful.cli.signals import end_at_once, hear_signals
from dutiful.core.cron.zone import read_instant
from dutiful.core.errors import DutifulError, InvalidArgumentError
from dutiful.fleet.control.answers import answer
from dutiful.fleet.control.daemon import Daemon
from dutiful.fleet.control.socket import ask, running_fleet
from dutiful.fleet.control.stopped import StoppedFleet
from dutiful.fleet.errors import FleetControlError, FleetNotRunningError, SchedulerShutdownError
from dutiful.fleet.file.config import Fleet, read_fleet, state_dir_of
from dutiful.process import allow_many_commands
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from dutiful.fleet.control.socket import Running
    from dutiful.httpd.server import HttpServer


_LOOK_AGAIN_S = 0.25
# Seconds for which commands wait for a fleet that is starting.
_START_S = 10.0


def asked(path: Path, request: dict[str, Any]) -> Any:
    """Return the answer of the running fleet, or the answer from its files."""
    request = {**request, "file": str(path.absolute())}
    running = _started(path)
    # Use the state directory that the lock names: the file may have been edited to name another one.
    known, state_dir = (None, running.state_dir) if running is not None else _found(path)
    if running is not None and running.is_cut_off:
        raise click.ClickException(
            f"process {running.pid} runs the fleet, and its socket in {running.state_dir} was deleted;"
            " stop it with `dutiful fleet stop` and start it again"
        )
    try:
        return asyncio.run(ask(state_dir, request))
    except FleetNotRunningError:
        pass
    except FleetControlError as error:
        if error.kind.endswith("NotFoundError"):
            raise
        busy = running is not None and error.kind == "TimeoutError"
        process = f"; it is process {running.pid}" if running is not None and busy else ""
        raise click.ClickException(f"{error}{process}") from error
    if known is None:
        known, state_dir = _found(path)
    if isinstance(known, Exception):
        raise known
    try:
        return asyncio.run(answer(StoppedFleet(path, known, state_dir, SystemClock()), request))
    except (FleetNotRunningError, FleetControlError) as error:
        raise click.ClickException(str(error)) from error


def _started(path: Path) -> Running | None:
    """Return the process that runs the fleet, or None; waits while that process starts."""
    clock = SystemClock()
    began = clock.monotonic()
    while (running := running_fleet(path)) is not None:
        waited = clock.monotonic() - began
        # A process that stops deletes its socket a moment before it gives up its lock.
        if running.ready and (not running.is_cut_off or waited > _LOOK_AGAIN_S):
            break
        if waited > _START_S:
            raise click.ClickException(f"process {running.pid} is still starting the fleet; try again later")
        asyncio.run(clock.sleep(_LOOK_AGAIN_S))
    return running


def _found(path: Path) -> tuple[Fleet | Exception, Path]:
    """Return the fleet, or the problems of its file, and its state directory."""
    found, _ = read_fleet(path)
    # A running fleet can answer while its file is broken.
    return found, state_dir_of(path, found if isinstance(found, Fleet) else Fleet(()))


def state_dir_of_fleet(path: Path) -> Path:
    """Return the state directory of the fleet of a file, running or not."""
    running = running_fleet(path)
    return _found(path)[1] if running is None else running.state_dir


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
    """Return the instant in a text, by default the present one."""
    clock = SystemClock()
    return clock.now() if text is None else read_instant("--at", text, clock.timezone)


_ENDED = ("SUCCESS", "FAILED", "SKIPPED")


def ask_to_stop(path: Path) -> int:
    """Ask the running fleet to stop, and return its process number."""
    running = running_fleet(path)
    if running is None or (running.ready and not running.is_cut_off):
        return int(asked(path, {"ask": "stop"})["pid"])
    try:
        # The fleet cannot be asked: it has no socket yet, or its socket was deleted.
        os.kill(running.pid, signal.SIGTERM)
    except PermissionError:
        problem = (
            f"process {running.pid}, which runs the fleet, belongs to another user; stop it as that user"
        )
        raise click.ClickException(problem) from None
    return running.pid


def wait_for_run(look: Callable[[], Any]) -> Any:
    """Call `look` until it returns an ended run, and return that run."""
    while True:
        found = look()
        if found is not None and found["status"] in _ENDED:
            return found
        asyncio.run(SystemClock().sleep(_LOOK_AGAIN_S))


def wait_for_end(pid: int, seconds: float) -> bool:
    """Return whether a process ends within this many seconds."""
    clock = SystemClock()
    until = clock.monotonic() + seconds
    while _lives(pid):
        if clock.monotonic() >= until:
            return False
        asyncio.run(clock.sleep(_LOOK_AGAIN_S))
    return True


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # A zombie has ended; only its parent has not read its exit code yet.
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return state.split()[0] != "Z"


def run_in_foreground(
    path: Path, timeout: float, *, quiet: bool, address: str | None, page: str | None = None
) -> None:
    """Run the fleet of a file until it is asked to stop; ends the process if jobs do not end in time."""
    logger = _logger(quiet=quiet)
    daemon = Daemon(path, logger)
    # Directories and modules in the file are relative to the file.
    os.chdir(daemon.watched.path.parent)
    sys.path.insert(0, os.getcwd())
    allow_many_commands()
    asyncio.run(_serve(daemon, timeout, logger, address, page))


def _logger(*, quiet: bool) -> logging.Logger:
    logger = logging.getLogger("dutiful.fleet")
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S%z"))
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    # The reader of stdout may be gone; jobs go on without a log.
    logging.raiseExceptions = False
    return logger


def _api_server(daemon: Daemon, address: str, logger: logging.Logger) -> HttpServer:
    from dutiful.fleet.control.http import bound, secrets_from, server_of

    # Bind the address before the fleet can lead, so that a start that cannot listen triggers nothing.
    secrets = secrets_from(os.environ)
    return server_of(daemon, bound(address), secrets, logger)


def _page_server(daemon: Daemon, address: str, logger: logging.Logger) -> HttpServer:
    from dutiful.fleet.control.http import bound
    from dutiful.httpd.server import HttpServer
    from dutiful.service.settings import is_loopback
    from dutiful.web.fleet_page import create_fleet_app

    host = address.rpartition(":")[0].strip("[]")
    if not is_loopback(host):
        advice = "write a port of the loopback, such as 127.0.0.1:8789, and reach it through an SSH tunnel"
        raise InvalidArgumentError("--page", address, f"the page has no login; {advice}")
    app = create_fleet_app(daemon, SystemClock(), host)
    return HttpServer(app, bound(address, "--page"), None, lambda url: logger.info("the page is at %s", url))


async def _serve(
    daemon: Daemon,
    timeout: float,  # noqa: ASYNC109 - the scheduler applies it
    logger: logging.Logger,
    address: str | None,
    page: str | None,
) -> None:
    servers = [] if address is None else [_api_server(daemon, address, logger)]
    servers += [] if page is None else [_page_server(daemon, page, logger)]
    asked = daemon.asked_to_stop
    with hear_signals(asked, lambda: _last_words(daemon)):
        try:
            await daemon.start()
        except DutifulError as error:
            raise click.ClickException(str(error)) from error
        agents = daemon.watched.fleet.agents
        count = sum(len(agent.schedules) for agent in agents)
        said = counted(len(agents), "agent"), counted(count, "schedule")
        logger.info("started: %s with %s, state in %s", *said, daemon.state_dir)
        serving = [asyncio.create_task(server.answer(), name="dutiful-fleet-http") for server in servers]
        await asked.wait()
        for server in servers:
            server.stop()
        await asyncio.gather(*serving)
        waited = counted(len(daemon.running()), "job")
        logger.info("stopping: waiting for %s, at most %g s", waited, timeout)
        try:
            await daemon.stop(timeout)
        except SchedulerShutdownError as error:
            sys.stdout.flush()
            # The jobs are killed with this process.
            end_at_once(f"{error}; killed: {', '.join(daemon.running())}")
        logger.info("stopped")


def _last_words(daemon: Daemon) -> str:
    return f"Stopped at once; killed: {', '.join(daemon.running()) or 'nothing'}"
