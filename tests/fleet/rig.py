"""A fleet in virtual time: what was triggered and when, as short texts."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from dutiful.fleet import FleetScheduler, get_schedule_state
from dutiful.testing import VirtualClock

START = "2026-03-02T08:59:58+00:00"


class Said(logging.Handler):
    """Remembers what was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")


class FleetRig:
    """`async with FleetRig(folder, agent, …) as rig`; jobs take `lasts` seconds, `behave` does them."""

    def __init__(
        self, folder, *agents: Any, lasts: float = 0, behave=None, start: str = START, **options: Any
    ):
        self.clock = VirtualClock(start)
        self.folder, self.agents, self.lasts = folder, agents, lasts
        self.triggered: list[str] = []
        self.infos: list[Any] = []
        self.said = Said()
        logger = logging.Logger("fleet of a test", logging.INFO)
        logger.addHandler(self.said)
        self._behave = behave
        options = {"check_interval": 1, "logger": logger, "clock": self.clock, **options}
        self.fleet = FleetScheduler(state_dir=folder, on_trigger=self._trigger, **options)

    async def _trigger(self, info):
        self.infos.append(info)
        self.triggered.append(f"{self.now()} {info.agent.name}/{info.schedule_name}")
        if self._behave is not None:
            return await self._behave(info)
        if self.lasts:
            await self.clock.sleep(self.lasts)
        return None

    async def __aenter__(self) -> FleetRig:
        await self.fleet.start(self.agents)
        await self.clock.advance(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop(timeout=1_000_000)

    async def stop(self, **options: Any) -> None:
        """Stop, and let time flow until that is done."""
        stopping = asyncio.ensure_future(self.fleet.stop(**options))
        while not stopping.done():
            await self.clock.advance(1)
        await stopping

    def now(self) -> str:
        return f"{self.clock.now():%H:%M:%S}"

    def state(self, agent: str, schedule: str):
        return get_schedule_state(self.folder, agent, schedule)

    def reasons(self) -> dict[str, str | None]:
        """Return why each schedule is not triggered now."""
        return {
            f"{info.agent_name}/{info.name}": info.skip_reason and info.skip_reason.value
            for info in self.fleet.get_schedules()
        }

    async def history(self, agent: str, schedule: str) -> list[str]:
        return [
            " ".join(filter(None, [row.status.value, row.reason and row.reason.value]))
            for row in await self.fleet.get_history(agent, schedule)
        ]


def every(interval: str, **more: Any) -> dict[str, Any]:
    return {"type": "interval", "interval": interval, **more}


def cron(expression: str, **more: Any) -> dict[str, Any]:
    return {"type": "cron", "expression": expression, **more}


def agent(name: str = "a", most: int = 1, **schedules: Any) -> dict[str, Any]:
    return {"name": name, "instances": {"max_concurrent": most}, "schedules": schedules}
