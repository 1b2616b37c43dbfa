"""The fleet scheduler: a pass over every schedule of every agent, every `check_interval`."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dutiful.core import event as happened
from dutiful.core.cron.zone import epoch_ms
from dutiful.core.errors import InvalidArgumentError, OvertakenError
from dutiful.core.plan.reconcile import Changes, Put
from dutiful.core.run import Phase, Run, Status
from dutiful.core.snapshot import Due
from dutiful.fleet.errors import (
    AgentNotFoundError,
    ConcurrencyLimitError,
    ScheduleNotFoundError,
    SchedulerError,
    SchedulerShutdownError,
)
from dutiful.fleet.file.agents import agents_from
from dutiful.fleet.roster import changes_to, entries_of
from dutiful.fleet.run.launcher import JobLauncher
from dutiful.fleet.state.cache import StateBook
from dutiful.fleet.state.file import update_schedule_state
from dutiful.fleet.types import Problem, SchedulerState, ScheduleState
from dutiful.fleet.view import View
from dutiful.runtime.clock import SystemClock
from dutiful.runtime.host import Host
from dutiful.runtime.ledger_lookup import recalled
from dutiful.runtime.ports import Retention
from dutiful.runtime.registrar import Registrar
from dutiful.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from logging import Logger

    from dutiful.core.cadence import Instant
    from dutiful.core.event import Event
    from dutiful.core.plan.verdict import Verdict
    from dutiful.fleet.roster import Entry
    from dutiful.fleet.types import Agent, ScheduleCheckResult, ScheduleInfo, SchedulerStatus, TriggerInfo
    from dutiful.fleet.view import Job
    from dutiful.runtime.engine import Engine
    from dutiful.runtime.ports import Clock

HISTORY_FILE = "history.db"
_INTERRUPTED = "interrupted: the process ended while the job was running"
# One pass of the fleet is several of the engine where much is due; never endlessly many.
_ROUNDS_MAX = 1000


class FleetScheduler:
    """Triggers the due schedules of agents. `start` it with the agents, `stop` it."""

    def __init__(
        self,
        *,
        state_dir: str | Path,
        check_interval: float | timedelta = 1.0,
        logger: Logger | None = None,
        on_trigger: Callable[[TriggerInfo], Any] | None = None,
        clock: Clock | None = None,
        reload: Callable[[], Sequence[Agent] | None] | None = None,
    ) -> None:
        """`reload` is asked in every pass for the agents if they have changed, or None."""
        interval = (
            check_interval if isinstance(check_interval, timedelta) else timedelta(seconds=check_interval)
        )
        self._interval = interval.total_seconds()
        if self._interval <= 0:
            raise InvalidArgumentError("check_interval", check_interval, "must be longer than nothing")
        self._state_dir = Path(state_dir)
        self._logger = logger or logging.getLogger("dutiful.fleet")
        self._clock = clock or SystemClock()
        self._on_trigger, self._reload = on_trigger, reload
        self._agents: list[Agent] = []
        self._agents_changed = True
        self._status: SchedulerStatus = "stopped"
        self._started_at: datetime | None = None
        self._last_check_at: datetime | None = None
        self._checks = self._triggers_before = 0
        self._warned: dict[str, str] = {}
        # The latest moment that a manual run was given.
        self._asked_at = 0
        self._view = View(self._clock.timezone)
        self._book: StateBook | None = None
        self._host: Host | None = None
        self._engine: Engine | None = None
        self._launcher: JobLauncher | None = None
        self._store = SqliteStore(str(self._state_dir / HISTORY_FILE), namespace="fleet")
        self._loop: asyncio.Task[None] | None = None
        self._afterwards: asyncio.Task[None] | None = None

    # Life

    async def start(self, agents: Sequence[Agent | Mapping[str, Any]]) -> None:
        """Take the agents and make the first pass; the others follow every `check_interval`.

        Raises FleetConfigError for an agent that is none, StateFileError for a state file that cannot be
        read, SchedulerError while this object, or another process, already runs the fleet.
        """
        if self._status != "stopped" or self._afterwards is not None:
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
        self._view, self._book = View(self._clock.timezone), StateBook(self._state_dir, self._clock)
        self._launcher = JobLauncher(self._view, self._book, self._on_trigger, self._clock, self._logger)
        self._host = Host("fleet", self._store, self._launcher, self._clock, self._hear, retention=Retention)
        await self._host.open()
        if await self._host.lead() is None:
            raise SchedulerError(f"Another process already runs the fleet in {self._state_dir}")
        self._engine = self._host.make_engine()
        await self._book.read()
        for (agent, schedule), state in self._book.states.records.items():
            if state.status == "running":
                self._book.note(agent, schedule, {"status": "idle", "last_error": _INTERRUPTED})
        await self._book.flush()
        await self._refresh({})

    async def stop(self, wait_for_jobs: bool = True, timeout: float | timedelta = 30.0) -> None:  # noqa: ASYNC109
        """Trigger nothing more, and return when the running jobs have ended.

        Raises SchedulerShutdownError when they have not within `timeout`; the jobs go on, as they do without
        `wait_for_jobs`, and what becomes of them is still written down.
        """
        if self._status != "running":
            return
        self._status = "stopping"
        assert self._host is not None
        self._host.wake()
        if self._loop is not None:
            await asyncio.wait([self._loop])
        limit = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        # A job that stops its own fleet cannot be waited for.
        wait_for_jobs = wait_for_jobs and not self._host.is_carrying_caller()
        drained = await self._host.drain(limit if wait_for_jobs else 0)
        self._afterwards = asyncio.create_task(self._close(self._host), name="dutiful-fleet-close")
        self._status = "stopped"
        if not drained.in_flight:
            await asyncio.shield(self._afterwards)
        elif wait_for_jobs:
            raise SchedulerShutdownError(round(limit * 1000), len(drained.in_flight))

    async def _close(self, host: Host) -> None:
        await host.drain()
        await host.close()
        self._afterwards = None

    def _hear(self, event: Event) -> None:
        self._view.hear(event)
        match event:
            case happened.LoopBlocked():
                self._logger.warning("the event loop is blocked by %s, for %s s", event.task, event.seconds)
            case happened.ClockStepped():
                self._logger.warning("the clock was set by %+.1f s", event.by / 1000)
            case happened.ScheduleQuarantined():
                self._logger.error("%s is set aside: %s", event.schedule_id, event.error)
            case happened.ScheduleDamaged():
                self._logger.error("%s cannot be read: %s", event.schedule_id, event.problem)

    def is_running(self) -> bool:
        """Return whether passes are made."""
        return self._status == "running"

    def get_status(self) -> SchedulerStatus:
        """Return "stopped", "running" or "stopping"."""
        return self._status

    def get_state(self) -> SchedulerState:
        """Return what the scheduler did since it was started."""
        triggers = 0 if self._launcher is None else self._launcher.triggered
        return SchedulerState(self._status, self._started_at, self._checks, triggers, self._last_check_at)

    def set_agents(self, agents: Sequence[Agent | Mapping[str, Any]]) -> None:
        """Replace the agents; the next pass acts on it. Raises FleetConfigError."""
        self._agents, self._agents_changed = agents_from(agents), True

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
            # Passes that were slept through are not made up for.
            passes = int((self._clock.monotonic() - began) / self._interval) + 1
            await self._pass()

    async def _pass(self) -> None:
        self._checks += 1
        self._last_check_at = self._clock.now()
        try:
            with self._clock.hold():
                await self._look_at_files()
                await self._decide()
        except Exception as error:  # noqa: BLE001 - whatever it was, the next pass may succeed
            self._warn("the pass", f"{type(error).__name__}: {error}")
        else:
            self._warned.pop("the pass", None)

    async def _look_at_files(self) -> None:
        assert self._book is not None
        changed = self._reload() if self._reload is not None else None
        if changed is not None:
            self.set_agents(changed)
        await self._book.flush()
        if self._agents_changed or self._book.has_changed():
            before = {
                id_: entry._replace(state=self._record(entry)) for id_, entry in self._view.entries.items()
            }
            await self._book.read()
            await self._refresh(before)

    async def _decide(self) -> None:
        assert self._engine is not None
        for _ in range(_ROUNDS_MAX):
            again = await self._engine.pass_once()
            if again is None or again > self._now():
                return

    async def _refresh(self, before: Mapping[str, Entry]) -> None:
        """Make the store and the view hold what the agents and the state file say."""
        assert self._book is not None
        self._agents_changed = False
        now, pace = self._now(), round(self._interval * 1000)
        entries = list(entries_of(self._agents, self._book.states, self._clock.timezone, pace))
        known = [await recalled(self._store, due, now) for due in await self._store.every()]
        stored = {due.schedule.id: due for due in known}
        changes = changes_to(stored, entries, before, now)
        if changes != Changes([], [], []):
            await self._store.apply(changes)
        for put in changes.puts:
            due = stored.get(put.schedule.id, Due(put.schedule, put.state))
            stored[put.schedule.id] = due._replace(state=put.state)
        self._view.replace(entries, stored.values(), now)
        for entry in entries:
            self._warn(entry.id, None if entry.problem is None else _told(entry.problem))

    def _warn(self, what: str, problem: str | None) -> None:
        """Warn once of each problem, and again when it is another one."""
        if problem is not None and self._warned.get(what) != problem:
            self._logger.warning("%s: %s", what, problem)
        self._warned = {key: told for key, told in self._warned.items() if key != what}
        if problem is not None:
            self._warned[what] = problem

    # Questions

    def get_running_job_count(self, agent: str) -> int:
        """Return how many jobs of an agent run."""
        return self._view.running(agent)

    def get_total_running_job_count(self) -> int:
        """Return how many jobs run."""
        return len(self._view.jobs)

    def get_running_jobs(self) -> list[Job]:
        """Return the jobs that run, the oldest first."""
        return sorted(self._view.jobs.values(), key=lambda job: job.started_at)

    def check_schedule(self, agent: str, schedule: str) -> ScheduleCheckResult:
        """Return whether a pass would trigger a schedule now, or why not; nothing is changed."""
        return self._view.check(self._entry(agent, schedule), self._now())

    def get_schedules(self) -> list[ScheduleInfo]:
        """Return every schedule as it is now, ordered by agent and name."""
        now = self._now()
        entries = sorted(self._view.entries.values(), key=lambda entry: (entry.agent.name, entry.name))
        return [self._view.info(entry, self._record(entry), now) for entry in entries]

    def get_schedule(self, agent: str, schedule: str) -> ScheduleInfo:
        """Return one schedule. Raises AgentNotFoundError, ScheduleNotFoundError."""
        entry = self._entry(agent, schedule)
        return self._view.info(entry, self._record(entry), self._now())

    async def get_history(self, agent: str, schedule: str, limit: int = 20) -> list[Run]:
        """Return what became of the last occurrences, newest first."""
        with self._clock.hold():
            return await self._store.ledger(self._entry(agent, schedule).id, None, limit)

    async def explain(self, agent: str, schedule: str, at: datetime) -> Verdict:
        """Return why a schedule ran at an instant, did not, or will."""
        with self._clock.hold():
            return await self._registrar().explain(self._entry(agent, schedule).id, at)

    # By hand

    def enable_schedule(self, agent: str, schedule: str) -> ScheduleInfo:
        """Put a schedule back into service; it goes on with its next time."""
        return self._set_status(agent, schedule, enabled=True)

    def disable_schedule(self, agent: str, schedule: str) -> ScheduleInfo:
        """Take a schedule out of service; a job that runs is left to end."""
        return self._set_status(agent, schedule, enabled=False)

    def _set_status(self, agent: str, schedule: str, *, enabled: bool) -> ScheduleInfo:
        entry = self._entry(agent, schedule)
        idle = "running" if self._view.is_running(entry.id) else "idle"
        state = update_schedule_state(
            self._state_dir, agent, schedule, {"status": idle if enabled else "disabled"}
        )
        self._view.entries[entry.id] = entry._replace(state=state)
        if enabled and entry.disabled:
            self._view.resume(entry, self._now())
        return self._view.info(self._view.entries[entry.id], state, self._now())

    async def trigger(self, agent: str, schedule: str, prompt: str | None = None) -> None:
        """Have a schedule run with the next pass, whatever its type and whether it is disabled.

        Raises ConcurrencyLimitError when the agent has no place left.
        """
        entry = self._entry(agent, schedule)
        name, most = entry.agent.name, entry.agent.max_concurrent
        if self._view.taken(name) >= most:
            raise ConcurrencyLimitError(name, self._view.taken(name), most)
        if entry.schedule is None:
            raise SchedulerError(f"{entry.id} cannot be run: {_told(entry.problem)}")
        with self._clock.hold():
            await self._record_manual_run(entry, prompt)

    async def _record_manual_run(self, entry: Entry, prompt: str | None) -> None:
        # A moment of its own, also for several that are asked for at once.
        self._asked_at = run_at = max(self._now(), self._asked_at + 1)
        self._view.reserved[entry.id, run_at] = entry.agent.name
        row = Run(entry.id, run_at, "manual", Status.ENQUEUED, Phase.DELAYED, run_at, detail=prompt)
        try:
            while not await self._inserted(entry, row):
                pass
        except BaseException:
            self._view.reserved.pop((entry.id, run_at), None)
            raise

    async def _inserted(self, entry: Entry, row: Run) -> bool:
        """Record a run; return False if a pass was faster, and it is to be tried again."""
        due = await self._store.get(entry.id)
        if due is None:
            raise SchedulerError(f"{entry.id} is not there yet; it will be with the next pass")
        put = Put(due.schedule, due.state, row.run_at, due.version)
        try:
            await self._store.apply(Changes([put], rows=[row]))
        except OvertakenError:
            return False
        return True

    # Looking up

    def _registrar(self) -> Registrar:
        return Registrar(self._store, self._clock, lambda: None)

    def _entry(self, agent: str, schedule: str) -> Entry:
        found = self._view.entries.get(f"{agent}/{schedule}")
        if found is not None:
            return found
        names = {known.name: known for known in self._agents}
        if agent not in names:
            raise AgentNotFoundError(agent, names)
        raise ScheduleNotFoundError(agent, schedule, names[agent].schedules)

    def _record(self, entry: Entry) -> ScheduleState:
        found = ScheduleState() if self._book is None else self._book.states.of(entry.agent.name, entry.name)
        return entry.state if isinstance(found, Problem) else found

    def _now(self) -> Instant:
        return epoch_ms(self._clock.now())


def _told(problem: Problem | None) -> str:
    if problem is None:
        return "unknown"
    place = ".".join(map(str, problem.path))
    return f"{place}: {problem.message}" if place else problem.message
