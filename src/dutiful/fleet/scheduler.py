"""The fleet scheduler: a pass over every schedule of every agent, every `check_interval`."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dutiful.core import event as happened
from dutiful.core.cron.zone import epoch_ms
from dutiful.core.errors import InvalidArgumentError, UnknownScheduleError
from dutiful.core.policy import Reason
from dutiful.fleet.agent_schedules import AgentSchedules
from dutiful.fleet.errors import (
    ConcurrencyLimitError,
    SchedulerError,
    SchedulerShutdownError,
    ScheduleTriggerError,
)
from dutiful.fleet.file.agents import agents_from
from dutiful.fleet.history import last_runs, manual_run
from dutiful.fleet.run.launcher import JobLauncher
from dutiful.fleet.types import SchedulerState
from dutiful.fleet.view import shown
from dutiful.runtime.clock import SystemClock
from dutiful.runtime.host import Host
from dutiful.runtime.ports import Retention
from dutiful.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from dutiful.core.cadence import Instant
    from dutiful.core.event import Event
    from dutiful.core.plan.verdict import Verdict
    from dutiful.core.run import Run
    from dutiful.fleet.types import (
        Agent,
        ScheduleCheckResult,
        ScheduleInfo,
        SchedulerLogger,
        SchedulerStatus,
        TriggerInfo,
    )
    from dutiful.fleet.view import Entry, Job
    from dutiful.runtime.engine import Engine
    from dutiful.runtime.ports import Clock

HISTORY_FILE = "history.db"
# Most passes of the engine in one pass of the fleet, which may need several where much is due.
_ROUNDS_MAX = 1000
# Seconds for which a stop waits for the reports of failed runs.
_REPORTS_S = 60.0


class FleetScheduler:
    """Triggers the due schedules of agents. `start` it with the agents, `stop` it."""

    def __init__(
        self,
        *,
        state_dir: str | Path,
        check_interval: float | timedelta = 1.0,
        logger: SchedulerLogger | None = None,
        on_trigger: Callable[[TriggerInfo], Any] | None = None,
        clock: Clock | None = None,
        on_failure: Callable[[TriggerInfo, str], Any] | None = None,
        reload: Callable[[], Sequence[Agent] | None] | None = None,
        retention: Retention = Retention(),  # noqa: B008 - an immutable value
    ) -> None:
        """Create a scheduler that does nothing before `start`.

        `on_failure(info, error)`, which may be async, is called when a run has failed for good. `reload()` is
        called in every pass and returns the agents if they have changed, or None. `retention` bounds the
        history.
        """
        self._interval = _seconds(check_interval)
        self._state_dir = Path(state_dir)
        self._logger = logger or logging.getLogger("dutiful.fleet")
        self._clock = clock or SystemClock()
        self._on_trigger, self._on_failure, self._reload = on_trigger, on_failure, reload
        self._retention = retention
        self._status: SchedulerStatus = "stopped"
        self._started_at: datetime | None = None
        self._last_check_at: datetime | None = None
        self._checks = 0
        # Serialize triggers: the free slot that a trigger has seen must still be free when its run is
        # recorded.
        self._triggering = asyncio.Lock()
        # Held while the scheduler starts: a stop that comes then waits for the first pass.
        self._starting = asyncio.Lock()
        self._host: Host | None = None
        self._engine: Engine | None = None
        self._launcher: JobLauncher | None = None
        self._store = SqliteStore(str(self._state_dir / HISTORY_FILE), namespace="fleet")
        pace = round(self._interval * 1000)
        self._declared = AgentSchedules(
            self._state_dir, self._store, self._clock, self._logger, pace, retention
        )
        self._loop: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    # Life

    async def start(self, agents: Sequence[Agent | Mapping[str, Any]]) -> None:
        """Take the agents and make the first pass; further passes follow every `check_interval`.

        Raises FleetConfigError for an invalid agent, StateFileError for a state file that cannot be read,
        SchedulerError while this object, or another process, already runs the fleet.
        """
        async with self._starting:
            if self._status != "stopped" or self._closing is not None:
                raise SchedulerError("The scheduler is already running; stop it and its jobs first")
            self.set_agents(agents)
            self._status = "running"
            try:
                with self._clock.hold():
                    await self._open()
            except BaseException:
                self._status = "stopped"
                if self._host is not None:
                    await self._host.close()
                raise
            self._started_at, self._checks = self._clock.now(), 0
            await self._pass()
            self._loop = asyncio.create_task(self._run(), name="dutiful-fleet")

    async def _open(self) -> None:
        self._state_dir.mkdir(parents=True, exist_ok=True)
        self._declared.reset()
        view, cache = self._declared.view, self._declared.cache
        self._launcher = JobLauncher(
            view, cache, self._on_trigger, self._on_failure, self._clock, self._logger
        )
        self._host = Host(
            "fleet", self._store, self._launcher, self._clock, self._hear, retention=lambda: self._retention
        )
        await self._host.open()
        if await self._host.lead() is None:
            raise SchedulerError(f"Another process already runs the fleet in {self._state_dir}")
        self._engine = self._host.make_engine()
        await self._declared.open()

    async def stop(self, wait_for_jobs: bool = True, timeout: float | timedelta = 30.0) -> None:  # noqa: ASYNC109
        """Trigger no more jobs, and return when the running jobs have ended.

        Raises SchedulerShutdownError when they have not within `timeout`; the jobs go on, as they do without
        `wait_for_jobs`, and their results are still recorded. A further call waits for them again.
        """
        async with self._starting:
            if self._status == "running" and self._host is not None:
                self._status = "stopping"
                self._host.wake()
                self._closing = asyncio.create_task(self._close(self._host), name="dutiful-fleet-close")
        closing, host, loop = self._closing, self._host, self._loop
        if closing is None or host is None or loop is None:
            return
        limit = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        # A job that stops its own fleet must not wait for itself.
        wait_for_jobs = wait_for_jobs and not host.is_carrying_caller()
        # The last pass may still begin jobs.
        await asyncio.wait([loop])
        if wait_for_jobs and limit > 0:
            await self._wait(closing, limit)
        if not host.in_flight:
            await asyncio.shield(closing)
            return
        self._status = "stopped"
        if wait_for_jobs:
            raise SchedulerShutdownError(round(limit * 1000), host.in_flight)

    async def _wait(self, task: asyncio.Future[Any], seconds: float) -> None:
        """Return when a task is done, or after this many seconds."""
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait([task, timer], return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    async def _close(self, host: Host) -> None:
        """Close the store after the last pass and the last job, however many callers of `stop` wait."""
        assert self._loop is not None
        await asyncio.wait([self._loop])
        try:
            drained = await host.drain()
            if drained.unrecorded:
                names = ", ".join(run.schedule_id for run in drained.unrecorded)
                self._logger.error("ended and not recorded (%s): %s", drained.error, names)
            await self._finish_reports()
            # From here on nothing can be asked about the history.
            self._status = "stopped"
            await host.close()
        finally:
            self._status, self._closing = "stopped", None

    async def _finish_reports(self) -> None:
        """Wait for the reports of failed runs, for a minute at most."""
        assert self._launcher is not None
        reports = asyncio.gather(*self._launcher.reports)
        await self._wait(reports, _REPORTS_S)
        if not reports.done():
            self._logger.error("on_failure takes longer than %g s, and is cancelled", _REPORTS_S)
            reports.cancel()

    def _hear(self, event: Event) -> None:
        self._declared.view.hear(event)
        match event:
            case happened.LoopBlocked():
                self._logger.warning("the event loop is blocked by %s, for %s s", event.task, event.seconds)
            case happened.ClockStepped():
                self._logger.warning("the clock was set by %+.1f s", event.by / 1000)
            case happened.RunEndedByPlan(run=run) if run.reason is Reason.TASK_FAILED and self._launcher:
                self._launcher.note_given_up(run)
            case happened.ScheduleQuarantined():
                self._logger.error("%s is set aside: %s", event.schedule_id, event.error)
            case happened.ScheduleDamaged():
                self._logger.error("%s cannot be read: %s", event.schedule_id, event.problem)

    def is_running(self) -> bool:
        """Return whether the scheduler makes passes."""
        return self._status == "running"

    def get_status(self) -> SchedulerStatus:
        """Return "stopped", "running" or "stopping"."""
        return self._status

    def get_state(self) -> SchedulerState:
        """Return the state of the scheduler, with its counts since the start."""
        triggers = 0 if self._launcher is None else self._launcher.triggered
        stall = self._declared.view.stall
        trouble = (None, None) if stall is None else (stall.problem, stall.since)
        times = self._started_at, self._checks, triggers, self._last_check_at
        return SchedulerState(self._status, *times, *trouble)

    def get_revision(self) -> str:
        """Return a text that changes with every fact about schedules and jobs, but not with each pass."""
        return f"{self._started_at}, {self._declared.revision}"

    def set_agents(self, agents: Sequence[Agent | Mapping[str, Any]]) -> None:
        """Replace the agents; the next pass uses them. Raises FleetConfigError."""
        self._declared.set_agents(agents_from(agents))

    # Passes

    async def _run(self) -> None:
        began = self._clock.monotonic()
        passes = 1
        assert self._engine is not None
        while self._status == "running":
            left = began + passes * self._interval - self._clock.monotonic()
            if left > 0:
                await self._engine.idle(left)
                continue
            # Passes missed during a long sleep are not made up for.
            passes = int((self._clock.monotonic() - began) / self._interval) + 1
            await self._pass()

    async def _pass(self) -> None:
        self._checks += 1
        self._last_check_at = self._clock.now()
        problem: str | None = None
        try:
            with self._clock.hold():
                await self._look_at_files()
                await self._decide()
                await self._declared.merge_empty_polls()
        except Exception as error:  # noqa: BLE001 - a failure ends one pass only
            problem = f"{type(error).__name__}: {error}"
        said = self._declared.view.note_pass(self._last_check_at, problem)
        if said is not None:
            tell = self._logger.info if problem is None else self._logger.error
            tell("%s", said)

    async def _look_at_files(self) -> None:
        changed = self._reload() if self._reload is not None else None
        if changed is not None:
            self.set_agents(changed)
        await self._declared.refresh()

    async def _decide(self) -> None:
        assert self._engine is not None
        for _ in range(_ROUNDS_MAX):
            again = await self._engine.pass_once()
            if again is None or again > self._now():
                return

    # Questions

    def get_running_job_count(self, agent: str) -> int:
        """Return how many jobs of an agent are running."""
        return self._declared.view.running(agent)

    def get_total_running_job_count(self) -> int:
        """Return how many jobs are running."""
        return len(self._declared.view.jobs)

    def get_running_jobs(self) -> list[Job]:
        """Return the running jobs, oldest first."""
        return sorted(self._declared.view.jobs.values(), key=lambda job: job.started_at)

    def get_counts(self, agent: str) -> dict[str, int]:
        """Return how many runs of an agent ended since the start: `done`, `failed` and `no_work`."""
        counts = self._declared.view.counts
        return {ending: counts[agent, ending] for ending in ("done", "failed", "no_work")}

    def check_schedule(self, agent: str, schedule: str) -> ScheduleCheckResult:
        """Return whether a pass would trigger a schedule now, or why not; changes nothing."""
        return self._declared.view.check(self._declared.entry(agent, schedule), self._now())

    def get_schedules(self, agent: str | None = None) -> list[ScheduleInfo]:
        """Return every schedule, or those of one agent, ordered by agent and name."""
        now, entries = self._now(), [*self._declared.view.entries.values()]
        if agent is not None:
            entries = [self._declared.entry(agent, name) for name in self._declared.agent(agent).schedules]
        ordered = sorted(entries, key=lambda entry: (entry.agent.name, entry.name))
        return [self._info(entry, now) for entry in ordered]

    def get_schedule(self, agent: str, schedule: str) -> ScheduleInfo:
        """Return one schedule. Raises AgentNotFoundError, ScheduleNotFoundError."""
        return self._info(self._declared.entry(agent, schedule), self._now())

    def _info(self, entry: Entry, now: Instant) -> ScheduleInfo:
        return self._declared.view.info(entry, self._declared.record(entry), now)

    async def get_history(
        self, agent: str, schedule: str, limit: int = 20, *, failed: bool = False
    ) -> list[Run]:
        """Return the last entries of the history of a schedule, newest first, or only failed runs."""
        store = self._opened()
        with self._clock.hold():
            rows = await last_runs(store, agent, schedule, limit, failed=failed)
            if not rows and not await last_runs(store, agent, schedule, 1, failed=False):
                # A schedule that the fleet no longer has keeps its history for a while.
                self._declared.entry(agent, schedule)
        return rows

    async def get_recent(
        self, limit: int = 20, *, agent: str | None = None, failed: bool = False
    ) -> list[Run]:
        """Return the last entries of the history of all schedules, or those of an agent, newest first."""
        store = self._opened()
        with self._clock.hold():
            rows = await last_runs(store, agent, None, limit, failed=failed)
            if agent is not None and not rows and not await last_runs(store, agent, None, 1, failed=False):
                self._declared.agent(agent)
        return rows

    async def get_manual_run(self, agent: str, schedule: str, run_at: Instant) -> Run | None:
        """Return the run that `trigger` has returned, as it is now; None if it is no longer recorded."""
        with self._clock.hold():
            return await manual_run(self._opened(), agent, schedule, run_at)

    async def get_latest(self, ids: Collection[str], limit: int) -> dict[str, list[Run]]:
        """Return the last entries of the history of each schedule, newest first, by `agent/schedule`."""
        with self._clock.hold():
            return await self._opened().latest(ids, limit)

    async def explain(self, agent: str, schedule: str, at: datetime) -> Verdict:
        """Return why a schedule ran at an instant, did not run, or will run."""
        self._opened()
        with self._clock.hold():
            return await self._declared.registrar.explain(self._declared.entry(agent, schedule).id, at)

    # By hand

    def enable_schedule(self, agent: str, schedule: str) -> ScheduleInfo:
        """Enable a schedule; it continues with its next occurrence."""
        return self._switch(agent, [schedule], enabled=True)[0]

    def disable_schedule(self, agent: str, schedule: str) -> ScheduleInfo:
        """Disable a schedule; a running job goes on to its end."""
        return self._switch(agent, [schedule], enabled=False)[0]

    def enable_agent(self, agent: str) -> list[ScheduleInfo]:
        """Enable all schedules of an agent."""
        return self._switch(agent, self._declared.agent(agent).schedules, enabled=True)

    def disable_agent(self, agent: str) -> list[ScheduleInfo]:
        """Disable all schedules of an agent; running jobs go on to their end."""
        return self._switch(agent, self._declared.agent(agent).schedules, enabled=False)

    def _switch(self, agent: str, schedules: Iterable[str], *, enabled: bool) -> list[ScheduleInfo]:
        view, now = self._declared.view, self._now()
        switched = self._declared.switch(agent, schedules, enabled=enabled)
        return [view.info(entry, entry.state, now) for entry in switched]

    def cancel(self, agent: str, schedule: str) -> int:
        """Cancel the running jobs of a schedule and return how many; each ends as failed, without a retry."""
        cancelled = 0 if self._launcher is None else self._launcher.cancel(f"{agent}/{schedule}")
        if not cancelled:
            # The job of a schedule that the fleet no longer has goes on, and can be cancelled too.
            self._declared.entry(agent, schedule)
        return cancelled

    async def trigger(self, agent: str, schedule: str, prompt: str | None = None) -> Run:
        """Request a run with the next pass, for any type of schedule, also a disabled one; return the run.

        Raises ConcurrencyLimitError when the agent has no free slot, ScheduleTriggerError when the schedule
        cannot be run, SchedulerError while no passes are made.
        """
        if self._status != "running":
            raise SchedulerError(f"The scheduler is {self._status} and triggers nothing; start it first")
        async with self._triggering:
            with self._clock.hold():
                await self._declared.refresh()
            entry, view = self._declared.entry(agent, schedule), self._declared.view
            name, most = entry.agent.name, entry.agent.max_concurrent
            if view.taken(name) >= most:
                raise ConcurrencyLimitError(name, view.taken(name), most)
            if entry.problem is not None:
                raise ScheduleTriggerError(agent, schedule, SchedulerError(shown(entry.problem)))
            run = await self._record_manual_run(entry, prompt)
            view.reserve(run, name)
        return run

    async def _record_manual_run(self, entry: Entry, prompt: str | None) -> Run:
        given = None if prompt is None else json.dumps(prompt)
        try:
            return await self._declared.registrar.trigger(entry.id, uuid.uuid4().hex, given)
        except UnknownScheduleError:
            cause = SchedulerError("the store does not have it yet; try again after the next pass")
            raise ScheduleTriggerError(entry.agent.name, entry.name, cause) from None

    # Looking up

    def _opened(self) -> SqliteStore:
        """Return the store of the history. Raises SchedulerError while it is closed."""
        if self._host is None or not self._host.is_started:
            raise SchedulerError("The scheduler is stopped, and its history closed; start it first")
        return self._store

    def _now(self) -> Instant:
        return epoch_ms(self._clock.now())


def _seconds(check_interval: float | timedelta) -> float:
    """Return a check interval in seconds. Raises InvalidArgumentError."""
    try:
        length = (
            check_interval if isinstance(check_interval, timedelta) else timedelta(seconds=check_interval)
        )
    except (TypeError, ValueError, OverflowError):
        length = timedelta()
    if length <= timedelta():
        said = "must be seconds or a timedelta, longer than nothing"
        raise InvalidArgumentError("check_interval", check_interval, said)
    return length.total_seconds()
