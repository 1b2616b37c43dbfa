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


def run_in_foreground(path: Path, timeout: float, *, quiet: bool) -> None:
    """Run the fleet of a file until a signal comes and its jobs have ended, or the process with them."""
    logger = _logger(quiet=quiet)
    daemon = Daemon(path, logger)
    # What the file says of directories and modules is meant from where the file is.
    os.chdir(daemon.watched.path.parent)
    sys.path.insert(0, os.getcwd())
    asyncio.run(_serve(daemon, timeout, logger))


def _logger(*, quiet: bool) -> logging.Logger:
    logger = logging.getLogger("dutiful.fleet")
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S%z"))
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    # Whoever read this may have gone; the jobs go on without.
    logging.raiseExceptions = False
    return logger


async def _serve(daemon: Daemon, timeout: float, logger: logging.Logger) -> None:  # noqa: ASYNC109
    asked = asyncio.Event()
    with hear_signals(asked, lambda: _last_words(daemon)):
        try:
            await daemon.start()
        except DutifulError as error:
            raise click.ClickException(str(error)) from error
        agents = daemon.watched.fleet.agents
        count = sum(len(agent.schedules) for agent in agents)
        logger.info("started: %d agents with %d schedules, state in %s", len(agents), count, daemon.state_dir)
        await asked.wait()
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
