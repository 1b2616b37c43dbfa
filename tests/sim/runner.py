"""Runs a world: the real engine on a virtual clock, with everything that the world does to it."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.sim.checkers import check
from tests.sim.declared import declaring
from tests.sim.executor import Executor
from tests.sim.gate import RIVAL, Crashed, Gate, Locks, Weather
from tests.sim.model import judge
from tests.sim.others import Others
from tests.sim.reach import reached
from tests.sim.recorder import REARM_BEYOND, Recorder, key_of
from tests.sim.requests import Requests
from tests.sim.world import BROKEN

from dutiful.core.cadence import Every
from dutiful.core.changes import Changes, Put
from dutiful.core.cron.zone import epoch_ms
from dutiful.core.event import PassFailed, ScheduleQuarantined
from dutiful.core.plan.edit import arm
from dutiful.core.plan.jitter import first_wake
from dutiful.core.policy import Reason
from dutiful.core.run import IN_FLIGHT
from dutiful.core.schedule import State
from dutiful.runtime.engine import Engine, Settings, nothing_to_do
from dutiful.runtime.registrar import Registrar
from dutiful.stores.memory import MemoryStore
from dutiful.testing import VirtualClock

if TYPE_CHECKING:
    from tests.sim.executor import Call
    from tests.sim.world import Action, Entry, World

    from dutiful.core.event import Event
    from dutiful.runtime.ports import Store


# What the worlds do to an engine, as a failed pass names it.
INJECTED = ("StoreError: ", "LostLeadershipError: ")


class BrokeError(Exception):
    """The engine is broken, so there is nothing to learn from this world any more."""


class Result(NamedTuple):
    """What a run of a world has shown."""

    problems: list[str]
    trace: list[tuple[Any, ...]]
    reach: Counter[str]
    days: float
    calls: list[Call]
    # The schedules, their states and all their rows at the end.
    left: list[Any]

    def digest(self) -> str:
        return hashlib.sha256(repr(self.trace).encode()).hexdigest()


def run(world: World, store: Store | None = None) -> Result:
    """Return what happens in a world, judged by every checker."""
    return asyncio.run(Runner(world, store or MemoryStore()).run())


class Runner:
    def __init__(self, world: World, store: Store) -> None:
        self._world, self._store = world, store
        self._clock = VirtualClock(datetime.fromtimestamp(world.start / 1000, UTC))
        self._trace: list[tuple[Any, ...]] = []
        self._reach: Counter[str] = Counter()
        self._recorder = Recorder(self._store, self._now, self._tell)
        self._executor = Executor(
            world, self._clock, self._recorder, self._wake, self._now, self._tell, self._look_after
        )
        self._registrar = Registrar(self._recorder, self._clock, self._wake)
        self._others = Others(
            self._recorder,
            self._registrar,
            self._reach,
            self._tell,
            self._rival_leads,
            self._clock.epoch_ms,
        )
        self._requests = Requests(world.seed, self._recorder, self._registrar, self._reach)
        self._weather = Weather(world, self._clock, self._reach, self._give_up)
        self._locks = Locks(world.faults.locked, world.seed, self._clock, self._reach)
        self._engine: Engine | None = None
        self._gate = Gate(self._recorder)
        self._armed: tuple[str, float] | None = None
        self._instances = 0
        # Which of the world's lists the next process brings.
        self._list = 0
        # What the clock said each time it was set back.
        self._set_back_at: list[int] = []
        # What went wrong that no world does to an engine; nothing else of such a world counts.
        self._broke: list[str] = []
        self._chores: set[asyncio.Task[None]] = set()

    async def run(self) -> Result:
        await self._store.open()
        try:
            return await self._live()
        finally:
            await self._store.close()

    async def _live(self) -> Result:
        if not self._world.lists:
            await self._recorder.apply(Changes([self._put(entry) for entry in self._world.entries]))
        self._boot()
        try:
            for action in self._world.actions:
                await self._advance_to(action.at)
                await self._act(action)
            await self._advance_to(self._world.horizon)
            await self._heal()
            self._check_cancelled()
        except BrokeError:
            pass
        await self._end()
        return await self._judged()

    async def _judged(self) -> Result:
        record = self._recorder.record
        ledgers = {due.schedule.id: due for due in await self._store.every()}
        problems = self._broke or (
            record.problems + check(record, self._executor.calls, ledgers, self._now()[0])
        )
        judged, reach = judge(self._world, self._trace) if self._world.lists else ([], Counter())
        problems = problems if self._broke else problems + judged
        days = self._clock.monotonic() / 86_400
        reach += self._reach + reached(record)
        left = [
            (due._replace(version=0), await self._store.ledger(id_, None, 10**6))
            for id_, due in ledgers.items()
        ]
        return Result(problems, self._trace, reach, days, self._executor.calls, left)

    # Time and trace

    def _now(self) -> tuple[int, float]:
        return epoch_ms(self._clock.now()), self._clock.monotonic()

    def _tell(self, what: str, *details: Any) -> None:
        if what == "report":
            self._reach["report heard" if details[-1] else "report refused"] += 1
        self._trace.append((round(self._clock.monotonic(), 3), epoch_ms(self._clock.now()), what, *details))

    def _hear(self, event: Event) -> None:
        name = type(event).__name__
        self._reach[name] += 1
        if isinstance(event, PassFailed) and not event.error.startswith(INJECTED):
            self._break(f"a pass failed of {event.error}")
        if isinstance(event, ScheduleQuarantined) and event.schedule_id != BROKEN:
            self._break(f"{event.schedule_id} cannot be planned: {event.error}")
        if name in ("PassFailed", "ClockStepped", "ScheduleQuarantined", "LeadershipChanged"):
            self._tell(name, getattr(event, "error", None) or getattr(event, "by", None))

    async def _advance_to(self, passed: float) -> None:
        await self._advance(max(0.0, passed - self._clock.monotonic()))

    async def _advance(self, seconds: float) -> None:
        await self._clock.advance(seconds)
        if self._broke:
            raise BrokeError

    def _break(self, what: str) -> None:
        self._broke.append(f"broke: {what}")
        if self._engine is not None:
            # It would only fail again, once a second, for the rest of the world.
            asyncio.get_running_loop().call_soon(self._engine.abandon)

    def _look_after(self, task: asyncio.Task[None]) -> None:
        """Notice what ends a task, beside its own end and a crash that was meant."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Crashed):
            self._break(f"{task.get_name()} died of {type(error).__name__}: {error}")

    # Engines

    def _put(self, entry: Entry) -> Put:
        state = arm(entry.schedule, self._world.start).state
        if isinstance(entry.schedule.cadence, Every):
            return Put(entry.schedule, state, first_wake(entry.schedule, state))
        owing = State(state.cursor - entry.owed)
        return Put(entry.schedule, owing, first_wake(entry.schedule, owing))

    def _boot(self) -> None:
        self._instances += 1
        self._gate = Gate(self._recorder, self._weather.verdict, self._others.come_between, self._locks)
        self._executor.engine = self._instances
        owner = f"instance {self._instances}"
        settings = Settings(batch=self._world.batch, in_flight_max=self._world.in_flight_max)
        lists = self._world.lists
        on_lead = declaring(lists[self._list], self._gate, self._clock) if lists else nothing_to_do
        self._engine = Engine(
            self._gate, self._executor, self._clock, self._hear, owner, settings, on_lead, self._checkpoint
        )
        self._engine.start()
        self._engine._loop.add_done_callback(self._look_after)
        self._tell("boot", owner, self._list)

    def _wake(self) -> None:
        if self._engine is not None:
            self._engine.wake()

    def _rival_leads(self, seconds: float) -> None:
        self._chore(self._retire_rival(seconds))

    async def _retire_rival(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        if self._recorder.owner == RIVAL:
            with self._clock.hold():
                await self._store.close()
                await self._store.open()

    def _give_up(self, why: str) -> None:
        self._recorder.complain("livelock", why)
        self._gate.dead = True

    def _checkpoint(self, label: str) -> None:
        if self._armed is None or self._armed[0] != label or self._gate.dead or self._engine is None:
            return
        (_, downtime), self._armed = self._armed, None
        self._reach[f"crash {label}"] += 1
        self._crash(label, downtime)
        raise Crashed

    def _crash(self, label: str, downtime: float) -> None:
        self._tell("crash", label, downtime)
        self._gate.dead = True
        engine, self._engine = self._engine, None
        for flight in engine._running.values():
            flight.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        asyncio.get_running_loop().call_soon(self._bury, engine, downtime)

    def _bury(self, engine: Engine, downtime: float) -> None:
        self._abandon(engine)
        self._recorder.excuse()
        self._chore(self._reboot(downtime))

    def _abandon(self, engine: Engine) -> None:
        self._executor.engine = None
        engine.abandon()

    async def _reboot(self, downtime: float) -> None:
        # The process is gone, and its leadership with it; others still use the store.
        with self._clock.hold():
            await self._store.close()
            await self._store.open()
        await self._clock.sleep(downtime)
        self._boot()

    async def _stop(self, patience: float) -> None:
        engine, self._engine = self._engine, None
        left = len((await engine.stop(within=0 if self._world.lists else patience)).in_flight)
        if self._world.lists:
            # As the declarative door does: what runs is waited for, and nothing more starts.
            self._tell("stopping")
            left = len((await engine.stop()).in_flight)
        # What is recorded and was not begun, or has ended and is not recorded, is left too.
        self._tell("stopped", left + len(engine._finished) + len(self._recorder.record.pending))
        self._reach["stopped with runs left" if left else "stopped"] += 1
        self._gate.dead = True
        self._abandon(engine)
        self._recorder.excuse()
        await self._reboot(1)

    def _chore(self, work: Any) -> None:
        task = asyncio.create_task(work, name=work.__name__)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)
        task.add_done_callback(self._look_after)

    # What happens to the world

    async def _act(self, action: Action) -> None:
        self._tell("act", action.kind, action.target, action.amount)
        match action.kind:
            case "crash":
                self._armed = action.target, action.amount
            case "rival" | "save":
                self._others.threat = action
            case "register":
                self._list = int(action.amount)
            case "overtake":
                self._others.threat = action._replace(kind="edit")
            case "kill" if self._engine is not None:
                self._reach["kill"] += 1
                self._crash("kill", action.amount)
                await self._clock.advance(0)
            case "stop" if self._engine is not None:
                self._chore(self._stop(action.amount))
            case "jump":
                self._reach["step forward" if action.amount > 0 else "step back"] += 1
                if action.amount < 0:
                    self._set_back_at.append(self._now()[0])
                await self._clock.jump(action.amount)
            case "outage":
                self._weather.break_off(action.amount)
            case "prune" | "forget" | "trigger" | "cancel" | "backfill" | "relabel":
                await self._requests.ask(action, self._now()[0])
                await self._clock.advance(0)
            case "edit" | "add" | "pause" | "resume" | "remove":
                await self._others.edit(action)
                await self._clock.advance(0)

    # The end

    async def _heal(self) -> None:
        """Let everything that was promised come true: no faults any more, and enough time."""
        self._weather.calm = self._executor.healing = True
        self._locks.rate = 0
        self._armed = self._others.threat = None
        self._tell("heal")
        await self._outlast(self._chores)
        for due in await self._store.every():
            if due.schedule.paused:
                await self._registrar.pause(due.schedule.id, paused=False)
        await self._advance(1)
        for _ in range(6):
            await self._advance(await self._patience())
        await self._outlast(self._executor.reports)
        await self._advance(2)

    async def _outlast(self, tasks: set[asyncio.Task[None]]) -> None:
        for _ in range(400):
            if not tasks:
                return
            await self._advance(self._world.horizon / 20 + 1)
        self._recorder.complain("healed", f"{len(tasks)} of the world's own tasks never ended")

    async def _patience(self) -> float:
        """Return after how many seconds everything that is open now must have ended.

        What has another clock's time for days to come is not waited for.
        """
        now, passed = self._now()
        # A full engine waits for calls, also for those whose runs have ended; and some have no timeout.
        timeouts = [entry.schedule.policy.run_timeout for entry in self._world.entries]
        waits_for_calls = self._world.in_flight_max is not None or None in timeouts
        waits = [2000.0, (self._executor.until - passed) * 1000 if waits_for_calls else 0]
        # What was to be looked at again just when the clock was set back waits for that instant.
        waits += [wall - now for wall in self._set_back_at if wall - now <= REARM_BEYOND]
        for due in await self._store.every():
            waits.append(due.state.cursor - now)
            timeout = due.schedule.policy.run_timeout or 0
            for run in due.runs:
                flying = run.phase in IN_FLIGHT
                waits.append(((run.started_at or now) + timeout if flying else run.fire_at) - now)
                # One whose engine still lives ages by the time that passes, whatever the clock says.
                began = self._recorder.record.history[key_of(run)][-1].passed
                waits.append((began - passed) * 1000 + timeout if flying else 0)
        return max(wait for wait in waits if wait < self._world.horizon * 3000) / 1000 + 1

    def _check_cancelled(self) -> None:
        """A run that was given up is not left running."""
        for key, attempt in sorted(self._executor.ongoing):
            row = self._recorder.record.history[key][-1].row
            if (
                row.reason in (Reason.LOST_RUN, Reason.INTERRUPTED)
                and key[0] not in self._recorder.record.removed
            ):
                self._recorder.complain("cancelled", f"{key} attempt {attempt} still runs: {row.reason}")

    async def _end(self) -> None:
        if self._engine is not None:
            self._abandon(self._engine)
        # Some do not listen when they are told for the first time; the end of the loop tells them again.
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)
