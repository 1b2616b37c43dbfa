"""A service on a virtual clock and a real SQLite file, with an executor that does as the test says."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dutiful.core.plan.outcome import Accepted, Outcome
from dutiful.service import ScheduleInput, Service, settings_from
from dutiful.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dutiful.service import Meta

START = "2026-01-05T10:00:00+00:00"
TEN = datetime(2026, 1, 5, 10, tzinfo=UTC)
MINUTELY = ScheduleInput("report", 1, "ada", "* * * * *", "job")


def after(minutes: float) -> datetime:
    """Return the instant so many minutes after the start of the story."""
    return TEN + timedelta(minutes=minutes)


def given(**changes: Any) -> ScheduleInput:
    """Return a minutely schedule, but for what a test says."""
    return MINUTELY._replace(**changes)


class Calls:
    """An executor that remembers what it was told; `behave` says how each call goes."""

    def __init__(self, behave: Callable[[Meta], Awaitable[Outcome]] | None = None) -> None:
        self._behave = behave
        self.metas: list[Meta] = []
        self.dags: list[Any] = []

    async def run(self, dag: Any, meta: Meta) -> Outcome:
        self.dags.append(dag)
        self.metas.append(meta)
        return Accepted(f"run {len(self.metas)}") if self._behave is None else await self._behave(meta)

    def ticks(self) -> list[str]:
        return [f"{meta.scheduled_for:%H:%M}" for meta in self.metas]


class Reporting:
    """An executor that takes every run, says that it ended well so many seconds later."""

    def __init__(self, rig: Rig, seconds: float) -> None:
        self._rig, self._seconds = rig, seconds
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, meta: Meta) -> Outcome:
        task = asyncio.create_task(self._report(meta.idempotency_key))
        self._tasks.add(task)
        return Accepted("r")

    async def _report(self, key: str) -> None:
        await self._rig.clock.sleep(self._seconds)
        await self._rig.service.registrar.report(key, "SUCCESS")


class Rig:
    """`async with Rig() as rig`: a started service that knows the workflow `report`, version 1."""

    def __init__(
        self, behave: Callable[[Meta], Awaitable[Outcome]] | None = None, start: str = START, **environ: str
    ) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.path = f"{self._directory.name}/service.db"
        environ = {"DUTIFUL_STORE": f"sqlite:{self.path}", **environ}
        self.settings = settings_from(environ)
        self.clock = VirtualClock(start)
        self.calls = Calls(behave)
        self.service = self._new()

    def _new(self) -> Service:
        return Service(self.settings, self.clock, executor=self.calls)

    async def __aenter__(self) -> Rig:
        await self.service.start()
        await self.service.workflows.save_dag("report", 1, {"nodes": []})
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.service.stop()
        self._directory.cleanup()

    @property
    def registrar(self):
        return self.service.registrar

    def reports_after(self, seconds: float) -> Rig:
        """Let the executor report success so many seconds after it took a run."""
        self.calls._behave = Reporting(self, seconds)
        return self

    async def restart(self, down: float) -> None:
        """Stop the service, let time pass, start another one."""
        await self.service.stop()
        await self.clock.advance(down)
        self.service = self._new()
        await self.service.start()

    async def crash(self, down: float) -> None:
        """End the service as a kill would, let time pass, start another one."""
        self.service._worker._host.abandon()
        await self.service._store.close()
        await self.clock.advance(down)
        self.service = self._new()
        await self.service.start()

    async def rows(self, schedule_id: str = "job") -> list[str]:
        """Return the ledger, oldest first, as "10:01 SUCCESS" or "10:01-10:05 SKIPPED missed"."""
        page = await self.registrar.runs(schedule_id, 1000)
        assert page.next_cursor is None
        return [_shown(run) for run in page.items[::-1]]


def _shown(run: Any) -> str:
    until = f"-{run.run_until:%H:%M}" if run.run_until else ""
    manual = " manual" if run.trigger == "manual" else ""
    return f"{run.run_at:%H:%M}{until} {run.status}{manual}" + (f" {run.reason}" if run.reason else "")


def play(story: Callable[[Rig], Awaitable[Any]], **settings: Any) -> Any:
    """Run a story on a rig and return its answer."""

    async def run() -> Any:
        async with Rig(**settings) as rig:
            return await story(rig)

    return asyncio.run(run())
