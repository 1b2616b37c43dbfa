"""`simulate`: the real engine on a virtual clock, over a schedule file, with scripted outages."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from datetime import timedelta
from selectors import DefaultSelector, SelectorKey
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.cron.zone import epoch_ms
from dutiful.core.event import ClockStepped, LeadershipChanged, ScheduleQuarantined
from dutiful.core.plan.edit import arm
from dutiful.core.plan.outcome import Failed, Outcome, Succeeded
from dutiful.runtime.engine import Engine
from dutiful.runtime.registrar import Registrar
from dutiful.stores.memory import MemoryStore
from dutiful.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from dutiful.core.event import Event
    from dutiful.core.run import Run
    from dutiful.core.schedule import Schedule, State
    from dutiful.runtime.ports import Launch
    from dutiful.simulate.schedule_file import Behaviour, Outage, ScheduleFile


# A tuple, because the engine emits an event for every run, and a union type would be built anew each time.
_NOTABLE = (ClockStepped, LeadershipChanged, ScheduleQuarantined)


# A simulation reports its progress this many times.
_STEPS = 100


class Simulation(NamedTuple):
    """The result: every ledger row by (run_at, schedule), and the notable events in order."""

    rows: list[Run]
    events: list[Event]


def simulate(
    file: ScheduleFile, start: datetime, end: datetime, progress: Callable[[float], None] | None = None
) -> Simulation:
    """Run the schedules from `start` to `end`; equal inputs give equal outputs.

    Ticks due at `end` are included; an outage that does not begin in between is left out. `progress` is
    called from time to time with the fraction of the time that has passed, from 0 to 1.
    """
    # A simulated year creates many small objects that all stay alive, so collections would find nothing.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        run = _Run(file, start, end, progress)
        # Do not return the result from the coroutine: the event loop would format megabytes of it as text.
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_NoInput())) as runner:
            runner.run(run.run())
        return run.result
    finally:
        if was_enabled:
            gc.enable()


class _NoInput(DefaultSelector):
    """Polls the host for input only when the loop is idle: a simulated year has many turns and no input."""

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        return super().select(timeout) if timeout != 0 else []


class SimulatedLauncher:
    """Takes each task's configured time, and fails every nth run."""

    in_process = True

    def __init__(self, clock: VirtualClock, behaviours: Mapping[str, Behaviour]) -> None:
        self._clock, self._behaviours = clock, behaviours
        self._runs: Counter[str] = Counter()

    async def launch(self, launch: Launch) -> Outcome:
        """Wait the duration of the run, and return its outcome."""
        id_ = launch.schedule.id
        behaviour = self._behaviours[id_]
        self._runs[id_] += 1
        if behaviour.takes:
            await self._clock.sleep(behaviour.takes.total_seconds())
        fails = behaviour.fails_every is not None and self._runs[id_] % behaviour.fails_every == 0
        return Failed("as the schedule file says") if fails else Succeeded()


class _Run:
    def __init__(
        self, file: ScheduleFile, start: datetime, end: datetime, progress: Callable[[float], None] | None
    ) -> None:
        self._file, self._start, self._end, self._progress = file, start, end, progress
        self._clock = VirtualClock(start)
        self._store = MemoryStore()
        self._launcher = SimulatedLauncher(self._clock, file.behaviours)
        self._events: list[Event] = []
        self.result = Simulation([], [])
        self._instances = 0
        self._engine: Engine | None = None

    async def run(self) -> None:
        await Registrar(self._store, self._clock, lambda: None).declare(self._file.schedules, self._arm)
        self._boot()
        for outage in sorted(self._file.outages, key=lambda outage: outage.start):
            await self._suffer(outage)
        await self._advance_to(self._end)
        rows = [run for schedule in self._file.schedules for run in await self._ledger(schedule)]
        self._crash()
        rows.sort(key=lambda run: (run.run_at, run.schedule_id, run.kind))
        self.result = Simulation(rows, self._events)

    async def _ledger(self, schedule: Schedule) -> list[Run]:
        return await self._store.ledger(schedule.id, None, 1 << 62)

    def _arm(self, schedule: Schedule) -> State:
        return arm(schedule, epoch_ms(self._clock.now())).state

    async def _suffer(self, outage: Outage) -> None:
        if not self._clock.now() <= outage.start < self._end:
            return
        await self._advance_to(outage.start)
        left = self._end - outage.start
        if outage.kind == "suspend" and outage.lasts <= left:
            await self._clock.jump(outage.lasts)
            return
        self._crash()
        await self._store.close()
        await self._clock.advance(min(outage.lasts, left))
        if outage.lasts <= left:
            self._boot()

    async def _advance_to(self, instant: datetime) -> None:
        if self._progress is not None:
            await self._advance_in_steps(instant, self._progress)
        await self._clock.advance(max(timedelta(0), instant - self._clock.now()))

    async def _advance_in_steps(self, instant: datetime, progress: Callable[[float], None]) -> None:
        """Advance in hundredths of the whole period, and report the progress after each."""
        whole = self._end - self._start
        while (step := max(whole / _STEPS, timedelta(seconds=1))) < instant - self._clock.now():
            await self._clock.advance(step)
            progress((self._clock.now() - self._start) / whole)

    def _boot(self) -> None:
        self._instances += 1
        self._engine = Engine(
            self._store, self._launcher, self._clock, self._note, f"instance-{self._instances}"
        )
        self._engine.start()

    def _crash(self) -> None:
        if self._engine is not None:
            self._engine.abandon()

    def _note(self, event: Event) -> None:
        if isinstance(event, _NOTABLE):
            self._events.append(event)
