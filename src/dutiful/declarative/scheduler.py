"""`Scheduler`, the declarative door: two methods, `initialize` and `stop`; the tasks are data."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dutiful.core.cron.dialect import DIALECTS
from dutiful.core.cron.zone import epoch_ms, zone
from dutiful.core.errors import (
    DutifulError,
    InvalidArgumentError,
    SchedulerAlreadyActiveError,
    ScheduleTaskError,
    StopSchedulerError,
    UnrecordedRunsError,
)
from dutiful.core.event import RunLaunched, RunSettled
from dutiful.core.run import Status
from dutiful.core.schedule import State
from dutiful.declarative.observe import (
    SchedulerEvent,
    changes_in_words,
    checked_observer,
    log,
    logger,
    translate,
)
from dutiful.declarative.registration import Registered, check
from dutiful.declarative.stored_task import check_stored, unreadable
from dutiful.launchers.callback import CallbackLauncher
from dutiful.runtime.clock import SystemClock
from dutiful.runtime.cluster_clock import clock_of
from dutiful.runtime.engine import Settings
from dutiful.runtime.gc_pause import Collector
from dutiful.runtime.host import Host
from dutiful.runtime.ports import Retention
from dutiful.runtime.registrar import Registrar
from dutiful.stores.memory import MemoryStore
from dutiful.stores.url import store_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dutiful.core.event import Event
    from dutiful.core.plan.reconcile import Difference, Survey
    from dutiful.declarative.registration import Registration
    from dutiful.runtime.in_flight import Drained
    from dutiful.runtime.ports import Clock

Lifecycle: TypeAlias = Literal["uninitialized", "initializing", "running", "stopping", "stopped"]

# A start counts as late after one minute, and 6 ms more for each task: 100,000 tasks may start over ten
# minutes.
_LATE, _LATE_PER_TASK = 60_000, 6
_LOOK_EVERY_MS = 1000
_OTHER_LOOP = "stop() must be called in the event loop that called initialize()"


class Scheduler:
    """Runs the registered tasks when they are due, through crashes, restarts and clock changes."""

    def __init__(
        self,
        store: str = "sqlite:dutiful.db",
        *,
        namespace: str = "default",
        clock: Clock | None = None,
        timezone: str | tzinfo | None = None,
        observer: Callable[[SchedulerEvent], None] | None = None,
        ledger: bool = False,
        dialect: str = "posix",
    ) -> None:
        self._store = store_for(store, namespace)
        self._clock = clock_of(self._store) if clock is None else _checked_clock(clock)
        self._zone = zone(self._clock.timezone if timezone is None else timezone)
        self._observer, self._broken = checked_observer(observer), set[str]()
        self._dialect, self._ledger = _dialect(dialect), bool(ledger)
        self._state: Lifecycle = "uninitialized"
        self._registered = Registered([], {})
        self._loop: asyncio.AbstractEventLoop | None = None
        self._initializing: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._host: Host | None = None
        self._declared_under: int | None = None
        self._polling = False

    # The two public methods

    def initialize(self, registrations: Sequence[Registration]) -> Awaitable[None]:
        """Declare all tasks and begin to run them; await the result to know that they are durable.

        Errors in the registrations are raised by the call itself, before anything is written.
        """
        self._note_closed_loop()
        if self._state not in ("uninitialized", "stopped"):
            raise SchedulerAlreadyActiveError(self._state)
        self._tell("SchedulerInitializationStarted")
        try:
            with Collector():
                registered = check(registrations, self._zone.tzinfo, self._dialect, self._ledger)
            loop = _running_loop()
        except Exception:
            self._tell("SchedulerInitializationFailed")
            raise
        self._registered, self._loop = registered, loop
        self._state, self._stopping = "initializing", None
        self._initializing = loop.create_task(self._initialize(), name="dutiful-initialize")
        self._initializing.add_done_callback(self._note_end_of_initialize)
        return self._initializing

    async def stop(self) -> None:
        """Start no more runs, and return when the runs in flight have ended.

        A poll under way is completed; the runs that it has recorded still start. May be called at any time
        and by several callers; all return together. A task that stops its own scheduler is not waited for:
        its call returns at once, and the stop completes after the task.

        Raises StopSchedulerError where ended runs could not be recorded, naming them, and where it is called
        from another event loop than `initialize`. Where that loop was closed without a stop, nothing runs any
        more, and the scheduler is stopped.
        """
        self._note_closed_loop()
        if self._state in ("uninitialized", "stopped"):
            return
        if asyncio.get_running_loop() is not self._loop:
            raise StopSchedulerError(RuntimeError(_OTHER_LOOP))
        if self._stopping is None:
            if self._state == "running":
                self._state = "stopping"
            else:
                self._tell("SchedulerStopRequested")
            self._stopping = asyncio.create_task(self._stop(), name="dutiful-stop")
        if self._host is None or not self._host.is_carrying_caller():
            await self._until_stopped(self._stopping)

    async def _until_stopped(self, stopping: asyncio.Task[None]) -> None:
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:
            if not stopping.cancelled():
                raise
            # The program cancelled all its tasks, and so the stop instead of its caller: stop again.
            if self._stopping is stopping:
                self._stopping = asyncio.create_task(self._stop(), name="dutiful-stop")
            assert self._stopping is not None
            await self._until_stopped(self._stopping)

    def _note_closed_loop(self) -> None:
        """Count a scheduler as stopped whose event loop was closed: its runs have ended as in a crash."""
        is_active = self._state not in ("uninitialized", "stopped")
        if is_active and self._loop is not None and self._loop.is_closed():
            self._state, self._polling = "stopped", False

    # Initializing

    async def _initialize(self) -> None:
        try:
            await self._open()
        except BaseException as error:
            await self._give_up()
            if isinstance(error, DutifulError) or not isinstance(error, Exception):
                raise
            first = self._registered.schedules[0] if self._registered.schedules else None
            name, text = (first.id, str(first.cadence)) if first is not None else ("", "")
            raise ScheduleTaskError(name, text, error) from error

    async def _give_up(self) -> None:
        try:
            if self._host is not None:
                with suppress(Exception):
                    await self._host.close()
        finally:
            self._host = None
            self._note_failure()

    def _note_failure(self) -> None:
        # With a stop under way the stop sets the final state.
        self._state = "uninitialized" if self._stopping is None else "stopping"
        self._tell("SchedulerInitializationFailed")

    def _note_end_of_initialize(self, initializing: asyncio.Task[None]) -> None:
        """Undo an initialize that was cancelled before its first step."""
        if initializing.cancelled() and initializing is self._initializing and self._state == "initializing":
            self._note_failure()

    async def _open(self) -> None:
        # Yield once, so that a stop called right after initialize finds it under way with every store.
        await asyncio.sleep(0)
        if self._host is not None:
            # The last event loop was closed without a stop, which may have left the store open.
            self._host = None
            with self._clock.hold():
                await self._store.close()
        launcher = CallbackLauncher(self._registered.callbacks)
        host = Host(
            "library",
            self._store,
            launcher,
            self._clock,
            self._hear,
            pace=self._pace(),
            declare=self._declare,
            retention=Retention if self._ledger else None,
        )
        self._declared_under, self._host = None, host
        with Collector():
            await host.open()
            epoch = await host.lead()
        if self._state == "initializing" and self._stopping is None:
            host.start()
            self._state = "running"
        if epoch is None:
            self._tell("SchedulerStandby", **await self._leader_in_words())

    def _pace(self) -> Settings:
        """Return the pace of the engine; it reads a store that `dutiful tasks` may write to every second."""
        is_shared = isinstance(self._clock, SystemClock) and not isinstance(self._store, MemoryStore)
        return Settings(tick=_LOOK_EVERY_MS if is_shared else None)

    async def _leader_in_words(self) -> dict[str, Any]:
        with self._clock.hold():
            leader = await self._store.leader()
        if leader is None:
            return {}
        since = datetime.fromtimestamp(leader.since / 1000, self._zone.tzinfo)
        return {"leaderPid": leader.pid, "leadsSince": since.isoformat(timespec="seconds")}

    async def _declare(self, epoch: int) -> None:
        """Make the store hold exactly the registered tasks, now or when a standby takes over."""
        if self._declared_under == epoch:
            return
        registrar = Registrar(self._store, self._clock, lambda: None)
        opening = self._opening_state()
        differences = await registrar.declare(
            self._registered.schedules, lambda _: opening, self._refuse_damage
        )
        begins, self._declared_under = self._declared_under is None, epoch
        if self._is_heard():
            for difference in differences:
                self._tell_difference(difference)
        if begins:
            self._begin()

    async def _refuse_damage(self, survey: Survey) -> None:
        for name, problem in await self._store.damaged():
            if name in self._registered.callbacks:
                raise unreadable(name, problem, await self._store.faulty_key(name))
        for _, known in survey.differing:
            if known is not None:
                check_stored(known)

    def _begin(self) -> None:
        self._tell("SchedulerInitializationCompleted", tasks=len(self._registered.schedules))
        if self._registered.schedules and self._stopping is None:
            self._polling = True
            self._tell("PollingStarted")

    def _opening_state(self) -> State:
        """Return the state of a new task: no tick before this minute is owed, and this minute in full.

        With seconds in its cron texts, the same holds for this second.
        """
        now = epoch_ms(self._clock.now())
        wall = now + self._zone.offset(now // 1000) * 1000
        return State(cursor=now - wall % (1000 if DIALECTS[self._dialect].seconds else 60_000) - 1)

    # Stopping

    async def _stop(self) -> None:
        if self._initializing is not None:
            await asyncio.wait([self._initializing])
        self._state = "stopping"
        error: Exception | None = None
        try:
            await self._close()
        except Exception as problem:  # noqa: BLE001 - raised as StopSchedulerError below
            error = problem
        self._state = "stopped"
        self._tell("SchedulerStopped")
        if error is not None:
            raise StopSchedulerError(error) from error

    async def _close(self) -> None:
        host = self._host
        if host is None:
            return
        drained = await self._drain(host) if host.is_started else None
        self._host = None
        try:
            await host.close()
        finally:
            if self._polling:
                self._polling = False
                self._tell("PollingStopped")
        if drained is not None and drained.unrecorded:
            raise UnrecordedRunsError([run.schedule_id for run in drained.unrecorded], drained.error)

    async def _drain(self, host: Host) -> Drained:
        # Emit the event after the poll under way is completed: nothing starts after the event.
        await host.drain(within=0)
        self._tell("SchedulerStopRequested")
        if self._polling:
            self._tell("PollingStopRequested")
        return await host.drain()

    # Events

    def _hear(self, event: Event) -> None:
        told = None if _is_routine(event) and not self._is_heard() else translate(event)
        if told is not None:
            self._pass_on(replace(told, at=told.at.astimezone(self._zone.tzinfo)))
        if isinstance(event, RunLaunched) and event.late > _LATE + _LATE_PER_TASK * len(
            self._registered.schedules
        ):
            self._tell("TaskStartLate", event.run.schedule_id, lateMs=event.late)

    def _tell_difference(self, difference: Difference) -> None:
        changes = changes_in_words(difference.changed)
        self._tell("TaskDifference", difference.id, kind=difference.kind, **changes)

    def _tell(self, name: str, task: str | None = None, **details: Any) -> None:
        now = self._clock.now().astimezone(self._zone.tzinfo)
        # Round down to milliseconds, as in the engine's events, so that a trace never steps back.
        at = now.replace(microsecond=now.microsecond // 1000 * 1000)
        self._pass_on(SchedulerEvent(name, at, task, details))

    def _is_heard(self) -> bool:
        # With a million tasks, building events without a listener costs more than the runs themselves.
        return self._observer is not None or logger.isEnabledFor(logging.INFO)

    def _pass_on(self, event: SchedulerEvent) -> None:
        # A log handler or an observer that raises, CancelledError included, must not interrupt a stop.
        with suppress(Exception, asyncio.CancelledError):
            log(event)
        if self._observer is not None:
            try:
                self._observer(event)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # noqa: BLE001 - logged, and the scheduler goes on
                self._note_failed_observer(event)

    def _note_failed_observer(self, event: SchedulerEvent) -> None:
        # Log once per kind of event: an observer that always fails must not fill the log.
        if event.name not in self._broken:
            self._broken.add(event.name)
            with suppress(Exception, asyncio.CancelledError):
                logger.exception("The observer failed at %s; the scheduler goes on", event.name)


def is_run_of(scheduler: Scheduler) -> bool:
    """Return whether the caller belongs to a run of this scheduler, for which no stop can wait."""
    host = scheduler._host  # noqa: SLF001 - part of the class, but not of its public interface
    return host is not None and host.is_carrying_caller()


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        advice = "await initialize() in an async function, or use dutiful.in_background(registrations)"
        raise RuntimeError(f"no running event loop: {advice}") from None


def _checked_clock(clock: Clock) -> Clock:
    if not isinstance(getattr(clock, "timezone", None), tzinfo):
        raise InvalidArgumentError("clock", clock, "must be a clock, such as dutiful.testing.VirtualClock(…)")
    return clock


def _dialect(name: object) -> str:
    if not isinstance(name, str) or name not in DIALECTS:
        raise InvalidArgumentError("dialect", name, f"choose from {', '.join(map(repr, DIALECTS))}")
    return name


def _is_routine(event: Event) -> bool:
    return isinstance(event, RunLaunched) or (
        isinstance(event, RunSettled) and event.run.status is Status.SUCCESS
    )
