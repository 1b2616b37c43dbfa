"""A stopped fleet, which answers from its fleet file, `state.yaml`, the history and the logs."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dutiful.core.run import Status
from dutiful.fleet.agent_schedules import INTERRUPTED
from dutiful.fleet.control.answers import (
    PAST_MAX,
    of_output,
    of_run,
    of_runs,
    of_schedule,
    of_verdict,
    states_of,
)
from dutiful.fleet.errors import (
    AgentNotFoundError,
    FleetControlError,
    FleetNotRunningError,
    ScheduleNotFoundError,
)
from dutiful.fleet.history import last_runs, manual_run
from dutiful.fleet.next_trigger import when_it_runs
from dutiful.fleet.scheduler import HISTORY_FILE
from dutiful.fleet.state.file import read_states, write_states
from dutiful.fleet.types import Problem, ScheduleInfo, ScheduleSkipReason
from dutiful.fleet.view import shown
from dutiful.runtime.registrar import Registrar
from dutiful.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection
    from datetime import datetime
    from pathlib import Path

    from dutiful.core.cadence import Instant
    from dutiful.core.run import Run
    from dutiful.fleet.control.answers import Document
    from dutiful.fleet.file.config import Fleet
    from dutiful.fleet.state.file import States
    from dutiful.fleet.types import Agent, AgentSchedule, ScheduleState
    from dutiful.runtime.ports import Clock


class StoppedFleet:
    """Answers for a fleet that no process runs."""

    def __init__(self, file: Path, fleet: Fleet, state_dir: Path, clock: Clock) -> None:
        self._file, self._state_dir, self._clock = file, state_dir, clock
        self._agents = {agent.name: agent for agent in fleet.agents}

    async def status(self) -> Document:
        """Return that the fleet is stopped, and its agents."""
        agents, states = self._agents.values(), read_states(self._state_dir)
        failing = {
            a.name: sum(self._info(states, a.name, name).last_error is not None for name in a.schedules)
            for a in agents
        }
        return {
            "status": "stopped",
            "pid": None,
            "file": str(self._file.absolute()),
            "state_dir": str(self._state_dir.absolute()),
            "problem": None,
            "stalled_since": None,
            "stall": None,
            "started_at": None,
            "last_check_at": None,
            "check_interval": None,
            "check_count": 0,
            "trigger_count": 0,
            "agents": [
                {
                    "name": a.name,
                    "running": 0,
                    "max_concurrent": a.max_concurrent,
                    "schedules": len(a.schedules),
                    "failing": failing[a.name],
                    "done": 0,
                    "failed": 0,
                    "no_work": 0,
                }
                for a in agents
            ],
            "jobs": [],
        }

    async def schedules(self, agent: str | None) -> list[Document]:
        """Return every schedule as the state file has it, ordered by agent and name."""
        states = read_states(self._state_dir)
        agents = self._agents.values() if agent is None else [self._agent(agent)]
        pairs = sorted((a.name, name) for a in agents for name in a.schedules)
        return [of_schedule(self._info(states, agent, name)) for agent, name in pairs]

    def _info(self, states: States, agent: str, name: str) -> ScheduleInfo:
        written, found = self._agents[agent].schedules[name], states.of(agent, name)
        info = self._recorded(agent, name, written, found)
        return info._replace(when=when_it_runs(written, self._clock.timezone))

    def _recorded(
        self, agent: str, name: str, written: AgentSchedule, found: ScheduleState | Problem
    ) -> ScheduleInfo:
        if isinstance(found, Problem):
            reason, problem = ScheduleSkipReason.QUARANTINED, shown(found)
            return ScheduleInfo(agent, name, written.type, "idle", None, None, None, reason, None, problem)
        state = found if written.enabled else found._replace(status="disabled")
        if state.status == "running":
            # The process that ran the job is gone, and the job with it; the next start records the same.
            state = state._replace(status="idle", last_error=INTERRUPTED)
        disabled = state.status == "disabled"
        due = None if disabled else state.next_run_at
        reason_now = ScheduleSkipReason.DISABLED if disabled else None
        times = (state.last_run_at, due, state.last_error)
        return ScheduleInfo(agent, name, written.type, state.status, *times, reason_now)

    async def switch(self, agent: str, schedule: str | None, *, enabled: bool) -> list[Document]:
        """Enable or disable a schedule, or all of an agent, for the next start, and return them."""
        names = [*self._agent(agent).schedules] if schedule is None else [schedule]
        for name in names:
            self._known(agent, name)
        changes = {"status": "idle" if enabled else "disabled"}
        states = write_states(self._state_dir, {(agent, name): changes for name in names})
        return [of_schedule(self._info(states, agent, name)) for name in names]

    async def run(self, agent: str, schedule: str, prompt: str | None) -> Document:  # noqa: ARG002
        """Raise FleetNotRunningError: no process could run it."""
        self._known(agent, schedule)
        raise FleetNotRunningError(str(self._state_dir))

    async def outcome(self, agent: str, schedule: str, run_at: Instant) -> Document | None:
        """Return the manual run of a schedule that has this key, or None.

        Raises FleetControlError for one that has not begun: nothing begins while the fleet is stopped.
        """
        if not self._has_history():
            return None
        async with self._store() as store:
            found = await manual_run(store, agent, schedule, run_at)
        if found is not None and found.status is Status.ENQUEUED:
            raise FleetControlError(
                f"The fleet was stopped before {agent}/{schedule} began; the run begins with its next start"
            )
        return None if found is None else of_run(found, alive=False)

    async def cancel(self, agent: str, schedule: str) -> Document:
        """Raise FleetNotRunningError: nothing is running."""
        self._known(agent, schedule)
        raise FleetNotRunningError(str(self._state_dir))

    async def stop_soon(self) -> Document:
        """Raise FleetNotRunningError: nothing is running."""
        raise FleetNotRunningError(str(self._state_dir))

    async def history(
        self, agent: str | None, schedule: str | None, limit: int, *, failed: bool
    ) -> list[Document]:
        """Return the last entries of the history, newest first."""
        rows = await self._rows(agent, schedule, limit, failed=failed)
        return of_runs(rows, self._state_dir, alive=False)

    async def past(self, ids: Collection[str]) -> dict[str, list[str]]:
        """Return the states of the last ticks of these schedules, oldest first, by id."""
        if not self._has_history():
            return {}
        async with self._store() as store:
            found = await store.latest(ids, PAST_MAX)
        return {id_: states_of(rows, alive=False) for id_, rows in found.items()}

    async def _rows(self, agent: str | None, schedule: str | None, limit: int, *, failed: bool) -> list[Run]:
        rows: list[Run] = []
        kept: list[Run] = []
        if self._has_history():
            async with self._store() as store:
                rows = await last_runs(store, agent, schedule, limit, failed=failed)
                kept = rows or await last_runs(store, agent, schedule, 1, failed=False)
        # An agent or a schedule that the fleet no longer has keeps its history for a while.
        if agent is not None and not kept:
            if schedule is None:
                self._agent(agent)
            else:
                self._known(agent, schedule)
        return rows

    async def output(self, agent: str, schedule: str, number: int | None) -> Document | None:
        """Return the stored output of a run, by default of the latest, or None."""
        self._known(agent, schedule)
        return of_output(self._state_dir, agent, schedule, number)

    async def explain(self, agent: str, schedule: str, at: datetime) -> Document:
        """Return why a schedule ran at an instant or did not, as far as the history goes."""
        self._known(agent, schedule)
        if not self._has_history():
            raise FleetNotRunningError(str(self._state_dir))
        async with self._store() as store:
            verdict = await Registrar(store, self._clock, _nobody_to_wake).explain(f"{agent}/{schedule}", at)
        now = self._info(read_states(self._state_dir), agent, schedule)
        return {**of_verdict(verdict), "now": of_schedule(now)}

    def _agent(self, agent: str) -> Agent:
        if agent not in self._agents:
            raise AgentNotFoundError(agent, self._agents)
        return self._agents[agent]

    def _known(self, agent: str, schedule: str) -> None:
        known = self._agent(agent).schedules
        if schedule not in known:
            raise ScheduleNotFoundError(agent, schedule, known)

    def _has_history(self) -> bool:
        return (self._state_dir / HISTORY_FILE).exists()

    @asynccontextmanager
    async def _store(self) -> AsyncIterator[SqliteStore]:
        store = SqliteStore(str(self._state_dir / HISTORY_FILE), namespace="fleet")
        await store.open()
        try:
            yield store
        finally:
            await store.close()


def _nobody_to_wake() -> None:
    """Wake no engine: explaining changes no schedule."""
