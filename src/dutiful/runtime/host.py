"""The life of one engine, the same for every door: open, lead, declare, pass, watch, prune, drain, stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from typing import TYPE_CHECKING

from dutiful.core import event as happened
from dutiful.core.errors import DutifulError, LostLeadershipError
from dutiful.runtime.clock import SystemClock
from dutiful.runtime.cluster_clock import SAMPLE_EVERY_S, OffsetWatch, SamplingClock, sampled_look
from dutiful.runtime.cluster_ports import Sharded
from dutiful.runtime.engine import DEFAULTS, Engine, carried_run, nothing_to_do
from dutiful.runtime.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from dutiful.core.cadence import Instant
    from dutiful.core.event import Event
    from dutiful.runtime.engine import Settings
    from dutiful.runtime.in_flight import Drained
    from dutiful.runtime.ports import Clock, Launcher, Observer, Retention, Store

logger = logging.getLogger("dutiful")
_PRUNE_EVERY_S = 600.0


class Host:
    """Owns the store and the engine of one door from `open` to `stop`; may be opened again afterwards.

    `declare(epoch)` runs when leadership begins, before anything is decided. With a `retention` the ledger is
    pruned while this host leads. A host that is one of many in its process leads as the `owner` of them all,
    and is not watched for blocking the event loop, which they share.
    """

    def __init__(
        self,
        door: str,
        store: Store,
        launcher: Launcher,
        clock: Clock,
        observer: Observer,
        *,
        pace: Settings = DEFAULTS,
        declare: Callable[[int], Awaitable[None]] = nothing_to_do,
        retention: Callable[[], Retention] | None = None,
        owner: str | None = None,
        is_watched: bool = True,
    ) -> None:
        self._given_owner, self._is_watched = owner, is_watched
        self._door, self._store, self._launcher, self._clock = door, store, launcher, clock
        self._observer, self._pace, self._declare, self._retention = observer, pace, declare, retention
        self._owner = owner or uuid.uuid4().hex
        self._engine: Engine | None = None
        self._watchdog: Watchdog | None = None
        self._pruning: asyncio.Task[None] | None = None
        self._sampling: asyncio.Task[None] | None = None
        self._offsets = OffsetWatch()
        self._loop_end: AsyncGenerator[None] | None = None
        self._stopping = False
        self.epoch: int | None = None

    # Beginning

    async def open(self) -> None:
        """Open the store for this door. Raises StoreError where it, or its namespace, cannot be used."""
        self._owner = self._given_owner or uuid.uuid4().hex
        self._stopping, self.epoch = False, None
        try:
            with self._clock.hold():
                await self._store.open()
                await self._store.claim(self._door)
                await self._read_clock()
        except BaseException:
            await self._close_store()
            raise
        if isinstance(self._clock, SamplingClock) and isinstance(self._store, Sharded):
            self._sampling = asyncio.create_task(self._read_clock_now_and_then(), name="dutiful-clock")
        self._loop_end = self._until_loop_ends()
        await anext(self._loop_end)

    async def lead(self) -> int | None:
        """Try to lead and declare now; return the epoch, or None while another process leads."""
        with self._clock.hold():
            self.epoch = await self._store.lead(self._owner)
            if self.epoch is not None:
                await self._declare(self.epoch)
        return self.epoch

    def start(self) -> None:
        """Begin to pass at the engine's own pace."""
        self.make_engine().start().add_done_callback(self._note_end)

    def make_engine(self) -> Engine:
        """Return the engine, created and watched but not started: the caller runs its passes."""
        self._engine = engine = Engine(
            self._store, self._launcher, self._clock, self._hear, self._owner, self._pace, self._declare
        )
        if self._retention is not None:
            self._pruning = asyncio.create_task(self._prune_now_and_then(), name="dutiful-prune")
        if self._is_watched and isinstance(self._clock, SystemClock):
            self._watchdog = Watchdog(self._clock, self._observer)
            self._watchdog.start()
        return engine

    # Life

    def wake(self) -> None:
        """Have the engine pass now."""
        if self._engine is not None:
            self._engine.wake()

    @property
    def is_started(self) -> bool:
        """Whether there is an engine."""
        return self._engine is not None

    @property
    def passed_at(self) -> Instant | None:
        """When a pass was last completed, leading or standing by."""
        return None if self._engine is None else self._engine.passed_at

    @property
    def pass_s(self) -> float:
        """How many seconds the last completed pass took."""
        return 0.0 if self._engine is None else self._engine.pass_s

    @property
    def schedules_due(self) -> int:
        """How many schedules were found due, summed over all passes."""
        return 0 if self._engine is None else self._engine.counts["schedules_due"]

    @property
    def in_flight(self) -> int:
        """How many runs are being launched, or run by this process."""
        return 0 if self._engine is None else self._engine.in_flight

    @property
    def occupied(self) -> int:
        """How much of `in_flight_max` the engine uses or has reserved."""
        return 0 if self._engine is None else self._engine.occupied

    async def cancel_outlived(self) -> None:
        """Cancel runs past their timeout that no plan will end, because their schedule was removed."""
        if self._engine is not None:
            await self._engine.cancel_outlived()

    def is_carrying_caller(self) -> bool:
        """Return whether the current task belongs to a run in flight here, which cannot be waited for."""
        carried = carried_run.get()
        return carried is not None and carried[0] is self._engine and carried[0].carries(carried[1])

    def _hear(self, event: Event) -> None:
        if isinstance(event, happened.LeadershipChanged):
            self.epoch = event.epoch
        self._observer(event)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """Report an engine that ended without `stop`, as when a program cancels all its tasks."""
        if not self._stopping:
            error = "its task was cancelled" if task.cancelled() else repr(task.exception())
            with contextlib.suppress(Exception):
                self._observer(happened.EngineStopped(self._clock.epoch_ms(), error))

    async def _prune_now_and_then(self) -> None:
        assert self._retention is not None
        while True:
            await self._clock.sleep(_PRUNE_EVERY_S)
            if self.epoch is not None:
                await self._prune(self._retention())

    async def _prune(self, retention: Retention) -> None:
        try:
            with self._clock.hold():
                await self._store.prune(self._clock.epoch_ms(), retention)
        except LostLeadershipError:
            return
        except DutifulError as error:
            # The ledger is only longer until the next prune; but one that is never pruned fills the disk.
            logger.warning("the ledger was not pruned; it is tried again in ten minutes: %s", error)

    async def _read_clock(self) -> None:
        """Sample the database's clock, and report a clock of this host that differs too much from it."""
        if not (isinstance(self._clock, SamplingClock) and isinstance(self._store, Sharded)):
            return
        view = await sampled_look(self._store, self._clock)
        offset = self._clock.offset_ms()
        if offset is not None and self._offsets.rises(offset):
            self._observer(happened.ClockOff(view.now_ms, offset))

    async def _read_clock_now_and_then(self) -> None:
        while True:
            await self._clock.sleep(SAMPLE_EVERY_S)
            # Without a sample the clock goes on by the monotonic clock of the host.
            with contextlib.suppress(DutifulError):
                await self._read_clock()

    # End

    async def drain(self, within: float | None = None) -> Drained:
        """Launch no more runs, wait `within` seconds for the runs in flight; return the rest."""
        assert self._engine is not None
        self._stopping = True
        return await self._engine.stop(within)

    def resume(self) -> None:
        """Go on after a drain, with the runs that it left in flight."""
        assert self._engine is not None
        self._stopping = False
        self._engine.start().add_done_callback(self._note_end)

    async def close(self) -> None:
        """Drop the runs still in flight, as a crash would, and close the store."""
        self.abandon()
        await self._close_store()
        loop_end, self._loop_end = self._loop_end, None
        if loop_end is not None:
            await loop_end.aclose()

    def abandon(self) -> None:
        """Drop everything but the store, as a crash would: no run is launched or recorded any more."""
        self._stopping = True
        for task in (self._pruning, self._sampling):
            if task is not None:
                task.cancel()
        if self._engine is not None:
            self._engine.abandon()
        if self._watchdog is not None:
            self._watchdog.stop()
        self._engine = self._watchdog = self._pruning = self._sampling = self.epoch = None

    async def _close_store(self) -> None:
        with self._clock.hold():
            await self._store.close()

    async def _until_loop_ends(self) -> AsyncGenerator[None]:
        """Close the store when the event loop ends without `close`.

        `asyncio.run` closes suspended generators after it has cancelled all tasks. Without this, a process in
        which nothing runs any more would keep the lock.
        """
        try:
            yield
        finally:
            if not self._stopping:
                self.abandon()
                await self._close_store()
