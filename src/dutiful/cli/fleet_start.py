"""`dutiful fleet start`: the fleet in this process, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import TYPE_CHECKING

import click

from dutiful.cli.signals import end_at_once, hear_signals
from dutiful.core.errors import DutifulError
from dutiful.fleet.control.daemon import Daemon
from dutiful.fleet.errors import SchedulerShutdownError

if TYPE_CHECKING:
    from pathlib import Path

    from dutiful.fleet.control.http import Listener


def run_in_foreground(path: Path, timeout: float, *, quiet: bool, address: str | None) -> None:
    """Run the fleet of a file until it is asked to stop and its jobs have ended, or the process with them."""
    logger = _logger(quiet=quiet)
    daemon = Daemon(path, logger)
    # Directories and modules in the file are relative to the file.
    os.chdir(daemon.watched.path.parent)
    sys.path.insert(0, os.getcwd())
    asyncio.run(_serve(daemon, timeout, logger, address))


def _logger(*, quiet: bool) -> logging.Logger:
    logger = logging.getLogger("dutiful.fleet")
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S%z"))
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    # The reader of stdout may have gone; jobs go on without a log.
    logging.raiseExceptions = False
    return logger


def _listener(daemon: Daemon, address: str | None, logger: logging.Logger) -> Listener | None:
    if address is None:
        return None
    from dutiful.fleet.control.http import Listener, bound, secrets_from

    # The address is bound before the fleet may lead, so that a start that cannot listen triggers nothing.
    secrets = secrets_from(os.environ)
    return Listener(daemon, bound(address), secrets, logger)


async def _serve(
    daemon: Daemon,
    timeout: float,  # noqa: ASYNC109 - the scheduler applies it
    logger: logging.Logger,
    address: str | None,
) -> None:
    listener = _listener(daemon, address, logger)
    asked = daemon.asked_to_stop
    with hear_signals(asked, lambda: _last_words(daemon)):
        try:
            await daemon.start()
        except DutifulError as error:
            raise click.ClickException(str(error)) from error
        agents = daemon.watched.fleet.agents
        count = sum(len(agent.schedules) for agent in agents)
        logger.info("started: %d agents with %d schedules, state in %s", len(agents), count, daemon.state_dir)
        if listener is not None:
            listener.start()
        await asked.wait()
        if listener is not None:
            await listener.stop()
        logger.info("stopping: waiting for %d job(s), at most %g s", len(daemon.running()), timeout)
        try:
            await daemon.stop(timeout)
        except SchedulerShutdownError as error:
            sys.stdout.flush()
            # The jobs are killed with this process.
            end_at_once(f"{error}; killed: {', '.join(daemon.running())}")
        logger.info("stopped")


def _last_words(daemon: Daemon) -> str:
    return f"Stopped at once; killed: {', '.join(daemon.running()) or 'nothing'}"
