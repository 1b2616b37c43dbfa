"""One engine on a virtual clock, for tests of a few steps. It is 10:00 on a Monday, UTC."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.core.plan.planner_notation import at, clock

from dutiful.core.cadence import Every
from dutiful.core.changes import Changes, Put
from dutiful.core.cron.zone import epoch_ms
from dutiful.core.plan.jitter import first_wake
from dutiful.core.plan.outcome import Outcome, Succeeded
from dutiful.core.schedule import State
from dutiful.runtime.engine import DEFAULTS, Engine, Settings
from dutiful.stores.memory import MemoryStore
from dutiful.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dutiful.core.event import Event
    from dutiful.core.schedule import Schedule
    from dutiful.runtime.ports import Launch

TEN = "2026-01-05T10:00:00+00:00"


class Calls:
    """A launcher that notes (instant, schedule, tick, attempt) and then does as the test says."""

    in_process = True

    def __init__(self, time: VirtualClock, behave: Callable[[Launch], Awaitable[Outcome]] | None) -> None:
        self._time, self._behave = time, behave
        self.noted: list[tuple[str, str, str, int]] = []

    async def launch(self, launch: Launch) -> Outcome:
        run = launch.run
        now = clock(epoch_ms(self._time.now()))
        self.noted.append((now, run.schedule_id, clock(run.run_at), run.attempt))
        return Succeeded() if self._behave is None else await self._behave(launch)


class Rig:
    """`async with Rig(schedule, …) as rig`: an engine that runs these schedules."""

    def __init__(
        self,
        *schedules: Schedule,
        behave: Callable[[Launch], Awaitable[Outcome]] | None = None,
        settings: Settings = DEFAULTS,
        through: Callable[[MemoryStore], Any] = lambda store: store,
        observer: Callable[[Event], None] | None = None,
    ) -> None:
        self._schedules, self._settings = schedules, settings
        self.time = VirtualClock(TEN)
        self.store = MemoryStore()
        self.through = through(self.store)
        self.calls = Calls(self.time, behave)
        self.events: list[Event] = []
        self._observer = observer or self.events.append
        self.engines: list[Engine] = []

    async def __aenter__(self) -> Rig:
        await self.declare(*self._schedules)
        self.boot()
        return self

    async def __aexit__(self, *_: object) -> None:
        for engine in self.engines:
            engine.abandon()
        await asyncio.sleep(0)

    @property
    def engine(self) -> Engine:
        return self.engines[-1]

    def boot(self, store: Any = None, settings: Settings | None = None) -> Engine:
        """Start another engine, as a process of its own would."""
        owner = f"instance {len(self.engines)}"
        through = self.through if store is None else store
        settings = settings or self._settings
        engine = Engine(through, self.calls, self.time, self._observer, owner, settings)
        self.engines.append(engine)
        engine.start()
        return engine

    async def crash(self) -> None:
        """End the engine as a kill would, and let another one lead."""
        self.engine.abandon()
        await self.store.close()

    async def declare(self, *schedules: Schedule) -> None:
        """Store schedules that owe nothing before now; a period runs at once."""
        await self.store.apply(Changes([self._armed(schedule) for schedule in schedules]))

    def _armed(self, schedule: Schedule) -> Put:
        period = schedule.cadence.period if isinstance(schedule.cadence, Every) else 0
        state = State(epoch_ms(self.time.now()) - period)
        return Put(schedule, state, first_wake(schedule, state))

    async def rows(self, schedule_id: str = "s") -> list[str]:
        """Return the ledger, oldest first, as "10:01 SUCCESS" or "10:01-10:05 SKIPPED missed"."""
        rows = (await self.store.ledger(schedule_id, None, 1000))[::-1]
        return [
            " ".join(
                [
                    clock(row.run_at) + (f"-{clock(row.run_until)}" if row.run_until else ""),
                    row.status,
                    *[row.reason] * (row.reason is not None),
                ]
            )
            for row in rows
        ]

    def told(self, *kinds: type) -> list[Event]:
        """Return the events of these kinds."""
        return [event for event in self.events if isinstance(event, kinds)]


__all__ = ["Calls", "Rig", "at", "clock"]
