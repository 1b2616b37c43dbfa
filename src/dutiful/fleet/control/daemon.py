"""A fleet as a program: its file, scheduler, jobs, control socket and HTTP listener in one process."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dutiful.core.errors import DutifulError, quoted
from dutiful.fleet.control.answers import (
    PAST_MAX,
    Target,
    answer,
    iso,
    of_job,
    of_output,
    of_runs,
    of_schedule,
    of_verdict,
    states_of,
)
from dutiful.fleet.control.socket import ControlSocket, FleetLock
from dutiful.fleet.errors import (
    FleetControlError,
    FleetNotRunningError,
    SchedulerShutdownError,
    StateFileError,
)
from dutiful.fleet.file.watched_fleet import WatchedFleet
from dutiful.fleet.run.output_log import OutputLogs
from dutiful.fleet.run.run_schedule import JobRunner, build_schedule_prompt
from dutiful.fleet.scheduler import FleetScheduler
from dutiful.fleet.state.file import unless_disabled, write_states
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime
    from logging import Logger

    from dutiful.core.cadence import Instant
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
        fleet = self.watched.fleet
        self.state_dir = self.watched.state_dir
        self._interval = (
            _CHECK_INTERVAL if fleet.check_interval is None else fleet.check_interval.total_seconds()
        )
        self._logs = OutputLogs(self.state_dir, fleet.logs)
        self._runner = JobRunner(self._logger, self._clock, self._logs)
        self.scheduler = FleetScheduler(
            state_dir=self.state_dir,
            check_interval=self._interval,
            logger=self._logger,
            on_trigger=self._runner,
            on_failure=self._runner.report_failure,
            clock=self._clock,
            reload=self._reload,
            retention=fleet.retention,
        )
        self._lock = FleetLock(self.watched.path, self.state_dir)
        self._control = ControlSocket(self.state_dir, self._answered)
        # Set when the fleet must stop, by a signal or by `dutiful fleet stop`.
        self.asked_to_stop = asyncio.Event()

    def _reload(self) -> Sequence[Agent] | None:
        agents = self.watched.reload()
        if agents is not None:
            self._logs.limits = self.watched.fleet.logs
            self._runner.forget_executors()
        return agents

    # Life

    async def start(self) -> None:
        """Make the first pass and start to answer requests.

        Raises SchedulerError while another process runs this fleet, or where its files cannot be used.
        """
        self._make_state_dir()
        self._lock.hold()
        try:
            self._control.bind()
            await self.scheduler.start(self.watched.fleet.agents)
            await self._control.open()
            self._lock.tell_ready()
        except BaseException:
            with suppress(SchedulerShutdownError):
                await self.scheduler.stop(timeout=0)
            await self._control.close()
            self._lock.release()
            raise

    def _make_state_dir(self) -> None:
        try:
            self.state_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            advice = "make it, or set `state_dir` to a directory that you can write"
            problem = f"the state directory cannot be made ({error.strerror})"
            raise StateFileError(str(self.state_dir), problem, advice) from error

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109 - the scheduler applies it
        """Trigger no more jobs and wait for the running ones.

        Raises SchedulerShutdownError when some still run after `timeout` seconds. They are recorded as
        interrupted: the caller must end the process, and with it the jobs.
        """
        try:
            await self.scheduler.stop(timeout=timeout)
        except SchedulerShutdownError:
            self._write_off_jobs()
            raise
        finally:
            await self._control.close()
            self._lock.release()

    def _write_off_jobs(self) -> None:
        ended = unless_disabled({"status": "idle", "last_error": _KILLED})
        entries = [job.entry for job in self.scheduler.get_running_jobs()]
        # The next start records the interruption if it cannot be written now.
        with suppress(OSError, DutifulError):
            write_states(self.state_dir, {(entry.agent.name, entry.name): ended for entry in entries})

    def running(self) -> list[str]:
        """Return the names of the schedules whose jobs are running."""
        return [job.entry.id for job in self.scheduler.get_running_jobs()]

    # Answers

    async def _answered(self, request: dict[str, Any]) -> Document | list[Document] | None:
        self._refuse_other_file(request.get("file"))
        if self.scheduler.get_status() == "stopped":
            # The history is closed, and the socket will be in a moment: the files answer from now on.
            raise FleetNotRunningError(str(self.state_dir))
        return await answer(self, request)

    def _refuse_other_file(self, file: object) -> None:
        """Raise FleetControlError for a request about another file that has the same state directory."""
        own = self.watched.path
        if isinstance(file, str) and os.path.realpath(file) != os.path.realpath(own):
            ask = f"to ask that one, add --file {own}"
            advice = f"{ask}; to run both, set another `state_dir` in {quoted(file, _PATH_LIMIT)}"
            raise FleetControlError(f"{self.state_dir} is in use by the fleet of {own}; {advice}")

    async def status(self) -> Document:
        """Return the state of the fleet, its agents, and its running jobs with their latest lines."""
        state, latest = self.scheduler.get_state(), self._runner.latest
        failing = self._failing()
        return {
            "status": state.status,
            "pid": os.getpid(),
            "file": str(self.watched.path),
            "state_dir": str(self.state_dir),
            "problem": self.watched.problem,
            "stalled_since": iso(state.problem_since),
            "stall": state.problem,
            "started_at": iso(state.started_at),
            "last_check_at": iso(state.last_check_at),
            "check_interval": self._interval,
            "check_count": state.check_count,
            "trigger_count": state.trigger_count,
            "agents": [self._agent(agent, failing) for agent in self.watched.fleet.agents],
            "jobs": [of_job(job, latest.get(job.entry.id)) for job in self.scheduler.get_running_jobs()],
        }

    def revision(self) -> str:
        """Return a short text that changes with the answers, but for the counts of passes in `status`."""
        facts = self.scheduler.get_revision(), self.watched.problem, sorted(self._runner.latest.items())
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]

    def _failing(self) -> dict[str, int]:
        """Return how many schedules of each agent have failed in their last run."""
        failing: dict[str, int] = {}
        for info in self.scheduler.get_schedules():
            failing[info.agent_name] = failing.get(info.agent_name, 0) + (info.last_error is not None)
        return failing

    def _agent(self, agent: Agent, failing: dict[str, int]) -> Document:
        return {
            "name": agent.name,
            "running": self.scheduler.get_running_job_count(agent.name),
            "max_concurrent": agent.max_concurrent,
            "schedules": len(agent.schedules),
            "failing": failing.get(agent.name, 0),
            **self.scheduler.get_counts(agent.name),
        }

    async def schedules(self, agent: str | None) -> list[Document]:
        """Return every schedule, or those of one agent, ordered by agent and name."""
        return [of_schedule(info) for info in self.scheduler.get_schedules(agent)]

    async def switch(self, agent: str, schedule: str | None, *, enabled: bool) -> list[Document]:
        """Enable or disable a schedule, or all of an agent, and return them."""
        if schedule is None:
            switch_all = self.scheduler.enable_agent if enabled else self.scheduler.disable_agent
            return [of_schedule(info) for info in switch_all(agent)]
        switch = self.scheduler.enable_schedule if enabled else self.scheduler.disable_schedule
        return [of_schedule(switch(agent, schedule))]

    def target(self, agent: str, schedule: str) -> Target:
        """Return the facts about a schedule on which a trigger depends."""
        info = self.scheduler.get_schedule(agent, schedule)
        own = next(known for known in self.watched.fleet.agents if known.name == agent)
        prompt = build_schedule_prompt(own.schedules[schedule], default_prompt=own.default_prompt)
        return Target(info.type, prompt, info.status == "disabled")

    async def run(self, agent: str, schedule: str, prompt: str | None) -> Document:
        """Request a run with the next pass, and return the schedule with the key of the run."""
        run = await self.scheduler.trigger(agent, schedule, prompt)
        return {**of_schedule(self.scheduler.get_schedule(agent, schedule)), "run_at": run.run_at}

    async def outcome(self, agent: str, schedule: str, run_at: Instant) -> Document | None:
        """Return the manual run of a schedule that has this key, or None."""
        found = await self.scheduler.get_manual_run(agent, schedule, run_at)
        return None if found is None else of_runs([found], self.state_dir)[0]

    async def cancel(self, agent: str, schedule: str) -> Document:
        """Cancel the running jobs of a schedule, and return how many."""
        return {"agent": agent, "schedule": schedule, "cancelled": self.scheduler.cancel(agent, schedule)}

    async def stop_soon(self) -> Document:
        """Request that the fleet stops, and return its process number."""
        self.asked_to_stop.set()
        return {"pid": os.getpid(), "running": len(self.running())}

    async def history(
        self, agent: str | None, schedule: str | None, limit: int, *, failed: bool
    ) -> list[Document]:
        """Return the last entries of the history, newest first."""
        if agent is not None and schedule is not None:
            rows = await self.scheduler.get_history(agent, schedule, limit, failed=failed)
        else:
            rows = await self.scheduler.get_recent(limit, agent=agent, failed=failed)
        return of_runs(rows, self.state_dir)

    async def past(self, ids: Collection[str]) -> dict[str, list[str]]:
        """Return the states of the last ticks of these schedules, oldest first, by id."""
        return {
            id_: states_of(rows) for id_, rows in (await self.scheduler.get_latest(ids, PAST_MAX)).items()
        }

    async def output(self, agent: str, schedule: str, number: int | None) -> Document | None:
        """Return the stored output of a run, by default of the latest, or None."""
        self.scheduler.get_schedule(agent, schedule)
        return of_output(self.state_dir, agent, schedule, number)

    async def explain(self, agent: str, schedule: str, at: datetime) -> Document:
        """Return why a schedule ran at an instant, did not run, or will run."""
        verdict = await self.scheduler.explain(agent, schedule, at)
        return {**of_verdict(verdict), "now": of_schedule(self.scheduler.get_schedule(agent, schedule))}
