"""Runs of schedules with executors and work sources that remember what they were asked."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dutiful.fleet.run.run_schedule import run_schedule
from dutiful.fleet.state.file import get_schedule_state
from dutiful.fleet.types import Agent, AgentSchedule, JobResult, NextWorkItem, ScheduleState, WorkItem
from dutiful.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ITEM = WorkItem("list-1:7", "list", "7", "Fix it")
CLAIMED = NextWorkItem(ITEM, claimed=True)
START = "2026-01-05T09:00:00+00:00"
SOURCE = {"type": "list"}
LOGGER = logging.getLogger("tests.fleet")


class Executor:
    """Does a job by calling `does(request)`, or says that it is done."""

    def __init__(self, does: Callable[[Any], Any] | None = None) -> None:
        self.requests: list[Any] = []
        self._does = does

    async def execute(self, request: Any) -> Any:
        self.requests.append(request)
        answer = self._does(request) if self._does else JobResult(True, "looked")
        return await answer if asyncio.iscoroutine(answer) else answer


class Sources:
    """Hands out `answer`, and fails where it is told to."""

    def __init__(self, answer: NextWorkItem | Exception = CLAIMED, *, broken: bool = False) -> None:
        self.told: list[tuple[Any, ...]] = []
        self._answer, self._broken = answer, broken

    async def get_next_work_item(self, agent: Any, work_source: Any) -> NextWorkItem:
        self.told.append(("next", agent.name, work_source))
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def report_outcome(self, item_id: str, result: JobResult) -> None:
        self._tell("report", item_id, result)

    async def release_work_item(self, item_id: str, reason: str) -> None:
        self._tell("release", item_id, reason)

    def _tell(self, *what: Any) -> None:
        self.told.append(what)
        if self._broken:
            raise ConnectionError("the source is gone")


@dataclass
class World:
    state_dir: Path
    executor: Any = field(default_factory=Executor)
    sources: Any = None
    schedule: AgentSchedule = field(
        default_factory=lambda: AgentSchedule("interval", interval="5m", prompt="Look.")
    )
    agent: Agent = field(default_factory=lambda: Agent("scout"))

    def __post_init__(self) -> None:
        self.clock = VirtualClock(START)

    def state(self) -> ScheduleState:
        return get_schedule_state(self.state_dir, "scout", "look")

    async def start(self) -> Any:
        return await run_schedule(
            agent=self.agent,
            schedule=self.schedule,
            schedule_name="look",
            state_dir=self.state_dir,
            job_executor=self.executor,
            work_source_manager=self.sources,
            logger=LOGGER,
            clock=self.clock,
        )

    def run(self) -> Any:
        return asyncio.run(self.start())
