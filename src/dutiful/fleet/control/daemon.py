"""A fleet as a program: its file, its scheduler, its jobs and its control socket in one process."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dutiful.core.errors import DutifulError, quoted
from dutiful.fleet.control.answers import answer, iso, of_job, of_run, of_schedule, of_verdict
from dutiful.fleet.control.socket import ControlSocket
from dutiful.fleet.errors import FleetControlError, SchedulerShutdownError
from dutiful.fleet.file.watch import WatchedFleet
from dutiful.fleet.run.runner import JobRunner
from dutiful.fleet.scheduler import FleetScheduler
from dutiful.fleet.state.file import unless_disabled, update_schedule_state
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from logging import Logger

    from dutiful.fleet.control.answers import Document
    from dutiful.fleet.types import Agent
    from dutiful.runtime.ports import Clock

_CHECK_INTERVAL = 1.0
_PATH_LIMIT = 4096
_KILLED = "interrupted: the fleet was stopped and did not wait any longer"


class Daemon:
    """Runs the fleet of a file, and answers for it."""

    def __init__(
        self, fleet_file: str | os.PathLike[str], logger: Logger | None = None, clock: Clock | None = None
    ) -> None:
        """Read the file. Raises FleetConfigError."""
        self._logger = logger or logging.getLogger("dutiful.fleet")
        self._clock = clock or SystemClock()
        self.watched = WatchedFleet(fleet_file, self._logger)
        self.state_dir = self.watched.state_dir
        interval = self.watched.fleet.check_interval
        self._interval = _CHECK_INTERVAL if interval is None else interval.total_seconds()
        self._runner = JobRunner(self._logger, self._clock)
        self._scheduler = FleetScheduler(
            state_dir=self.state_dir,
            check_interval=self._interval,
            logger=self._logger,
            on_trigger=self._runner,
            clock=self._clock,
            reload=self._reload,
        )
        self._control = ControlSocket(self.state_dir, self._answered)

    def _reload(self) -> Sequence[Agent] | None:
        agents = self.watched.reload()
        if agents is not None:
            self._runner.forget_executors()
        return agents

    # Life

    async def start(self) -> None:
        """Make the first pass and begin to answer.

        Raises SchedulerError while another process runs this fleet, or where its files cannot be used.
        """
        await self._scheduler.start(self.watched.fleet.agents)
        try:
            await self._control.open()
        except BaseException:
            with suppress(SchedulerShutdownError):
                await self._scheduler.stop(timeout=0)
            raise

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109 - it is the scheduler's
        """Trigger nothing more and wait for the jobs.

        Raises SchedulerShutdownError when some still run after `timeout` seconds. They are written down as
        interrupted: the caller is to end the process, and with it the jobs.
        """
        try:
            await self._scheduler.stop(timeout=timeout)
        except SchedulerShutdownError:
            self._write_off_jobs()
            raise
        finally:
            await self._control.close()

    def _write_off_jobs(self) -> None:
        ended = unless_disabled({"status": "idle", "last_error": _KILLED})
        for job in self._scheduler.get_running_jobs():
            # The next start finds out by itself what cannot be written now.
            with suppress(OSError, DutifulError):
                update_schedule_state(self.state_dir, job.entry.agent.name, job.entry.name, ended)

    def running(self) -> list[str]:
        """Return the names of the schedules whose jobs run."""
        return [job.entry.id for job in self._scheduler.get_running_jobs()]

    # Answers

    async def _answered(self, request: dict[str, Any]) -> Document | list[Document]:
        self._refuse_what_is_meant_for_another(request.get("file"))
        return await answer(self, request)

    def _refuse_what_is_meant_for_another(self, file: object) -> None:
        """Two files with one state directory are two fleets, and only one of them runs."""
        own = self.watched.path
        if isinstance(file, str) and os.path.realpath(file) != os.path.realpath(own):
            advice = f"set another `state_dir` in {quoted(file, _PATH_LIMIT)}"
            raise FleetControlError(f"{self.state_dir} is in use by the fleet of {own}; {advice}")

    async def status(self) -> Document:
        """Return what the fleet does, and its jobs with their latest lines."""
        state, latest = self._scheduler.get_state(), self._runner.latest
        return {
            "status": state.status,
            "pid": os.getpid(),
            "file": str(self.watched.path),
            "state_dir": str(self.state_dir),
            "problem": self.watched.problem,
            "started_at": iso(state.started_at),
            "last_check_at": iso(state.last_check_at),
            "check_interval": self._interval,
            "check_count": state.check_count,
            "trigger_count": state.trigger_count,
            "agents": [self._agent(agent) for agent in self.watched.fleet.agents],
            "jobs": [of_job(job, latest.get(job.entry.id)) for job in self._scheduler.get_running_jobs()],
        }

    def _agent(self, agent: Agent) -> Document:
        running = self._scheduler.get_running_job_count(agent.name)
        return {
            "name": agent.name,
            "running": running,
            "max_concurrent": agent.max_concurrent,
            "schedules": len(agent.schedules),
        }

    async def schedules(self) -> list[Document]:
        """Return every schedule, ordered by agent and name."""
        return [of_schedule(info) for info in self._scheduler.get_schedules()]

    async def switch(self, agent: str, schedule: str, *, enabled: bool) -> Document:
        """Enable or disable a schedule and return it."""
        switch = self._scheduler.enable_schedule if enabled else self._scheduler.disable_schedule
        return of_schedule(switch(agent, schedule))

    async def run(self, agent: str, schedule: str, prompt: str | None) -> Document:
        """Have a schedule run with the next pass, and return it."""
        await self._scheduler.trigger(agent, schedule, prompt)
        return of_schedule(self._scheduler.get_schedule(agent, schedule))

    async def history(self, agent: str, schedule: str, limit: int) -> list[Document]:
        """Return what became of the last occurrences, newest first."""
        return [of_run(run) for run in await self._scheduler.get_history(agent, schedule, limit)]

    async def explain(self, agent: str, schedule: str, at: datetime) -> Document:
        """Return why a schedule ran at an instant, did not, or will."""
        verdict = await self._scheduler.explain(agent, schedule, at)
        return {**of_verdict(verdict), "now": of_schedule(self._scheduler.get_schedule(agent, schedule))}
