"""A fleet that does not run, asked through the files that it left."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dutiful.fleet.control.answers import of_run, of_schedule, of_verdict
from dutiful.fleet.errors import AgentNotFoundError, FleetNotRunningError, ScheduleNotFoundError
from dutiful.fleet.scheduler import HISTORY_FILE
from dutiful.fleet.state.file import read_states, update_schedule_state
from dutiful.fleet.types import Problem, ScheduleInfo, ScheduleSkipReason
from dutiful.runtime.registrar import Registrar
from dutiful.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime
    from pathlib import Path

    from dutiful.fleet.control.answers import Document
    from dutiful.fleet.file.config import Fleet
    from dutiful.fleet.state.file import States
    from dutiful.fleet.types import Agent
    from dutiful.runtime.ports import Clock


class StoppedFleet:
    """Answers from the fleet file, `state.yaml` and the history."""

    def __init__(self, file: Path, fleet: Fleet, state_dir: Path, clock: Clock) -> None:
        self._file, self._state_dir, self._clock = file, state_dir, clock
        self._agents = {agent.name: agent for agent in fleet.agents}

    async def status(self) -> Document:
        """Return that it is stopped, and of what it consists."""
        agents = self._agents.values()
        return {
            "status": "stopped",
            "pid": None,
            "file": str(self._file.absolute()),
            "state_dir": str(self._state_dir.absolute()),
            "problem": None,
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
                }
                for a in agents
            ],
            "jobs": [],
        }

    async def schedules(self) -> list[Document]:
        """Return every schedule as the state file has it, ordered by agent and name."""
        states = read_states(self._state_dir)
        pairs = sorted((a.name, name) for a in self._agents.values() for name in a.schedules)
        return [of_schedule(self._info(states, agent, name)) for agent, name in pairs]

    def _info(self, states: States, agent: str, name: str) -> ScheduleInfo:
        written, found = self._agents[agent].schedules[name], states.of(agent, name)
        if isinstance(found, Problem):
            reason = ScheduleSkipReason.QUARANTINED
            return ScheduleInfo(agent, name, written.type, "idle", None, None, found.message, reason)
        state = found if written.enabled else found._replace(status="disabled")
        disabled = state.status == "disabled"
        due = None if disabled else state.next_run_at
        reason_now = ScheduleSkipReason.DISABLED if disabled else None
        times = (state.last_run_at, due, state.last_error)
        return ScheduleInfo(agent, name, written.type, state.status, *times, reason_now)

    async def switch(self, agent: str, schedule: str, *, enabled: bool) -> Document:
        """Enable or disable a schedule for the next start, and return it."""
        self._known(agent, schedule)
        changes = {"status": "idle" if enabled else "disabled"}
        update_schedule_state(self._state_dir, agent, schedule, changes)
        return of_schedule(self._info(read_states(self._state_dir), agent, schedule))

    async def run(self, agent: str, schedule: str, prompt: str | None) -> Document:  # noqa: ARG002
        """Raise FleetNotRunningError: there is nobody to run it."""
        self._known(agent, schedule)
        raise FleetNotRunningError(str(self._state_dir))

    async def history(self, agent: str, schedule: str, limit: int) -> list[Document]:
        """Return what became of the last occurrences, newest first."""
        self._known(agent, schedule)
        if not self._has_history():
            return []
        async with self._store() as store:
            return [of_run(run) for run in await store.ledger(f"{agent}/{schedule}", None, limit)]

    async def explain(self, agent: str, schedule: str, at: datetime) -> Document:
        """Return why a schedule ran at an instant or did not, as far as the fleet got to know it."""
        self._known(agent, schedule)
        if not self._has_history():
            raise FleetNotRunningError(str(self._state_dir))
        async with self._store() as store:
            verdict = await Registrar(store, self._clock, _nobody_to_wake).explain(f"{agent}/{schedule}", at)
        now = self._info(read_states(self._state_dir), agent, schedule)
        return {**of_verdict(verdict), "now": of_schedule(now)}

    def _known(self, agent: str, schedule: str) -> Agent:
        if agent not in self._agents:
            raise AgentNotFoundError(agent, self._agents)
        if schedule not in self._agents[agent].schedules:
            raise ScheduleNotFoundError(agent, schedule, self._agents[agent].schedules)
        return self._agents[agent]

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
    """Explaining changes nothing."""
