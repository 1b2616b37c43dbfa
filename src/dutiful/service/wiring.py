"""The service put together: store, engine, launcher and registrar, with one life."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

from dutiful.core import event as happened
from dutiful.core.cron.zone import epoch_ms
from dutiful.core.errors import DutifulError
from dutiful.launchers.executor import ExecutorSettings
from dutiful.launchers.url import executor_for
from dutiful.runtime.clock import SystemClock
from dutiful.runtime.engine import Engine
from dutiful.runtime.engine import Settings as Pace
from dutiful.runtime.ports import Retention
from dutiful.runtime.watchdog import Watchdog
from dutiful.service import certificates, journal
from dutiful.service.declaration import Defaults
from dutiful.service.http_settings import tls_files
from dutiful.service.launcher import NoExecutor, RunLauncher
from dutiful.service.metrics import Metrics
from dutiful.service.registrar import SchedulerRegistrar
from dutiful.service.types import Health
from dutiful.service.views import moment
from dutiful.service.workflows import WorkflowStore
from dutiful.stores.url import store_for

if TYPE_CHECKING:
    from dutiful.core.event import Event
    from dutiful.launchers.executor import Executor
    from dutiful.runtime.ports import Clock
    from dutiful.service.settings import Settings

_PRUNE_EVERY_S = 600.0
# How long a stop waits for launches under way; what is left is taken up by the next start.
_STOP_WITHIN_S = 5.0


class Service:
    """`await Service(settings).start()`; with `worker=False` it only answers, and others fire."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None = None,
        *,
        worker: bool = True,
        executor: Executor | None = None,
    ) -> None:
        self.settings, self.clock = settings, clock or SystemClock()
        self._store = store_for(settings.store, settings.namespace)
        self._has_worker = worker
        self._engine: Engine | None = None
        self._watchdog: Watchdog | None = None
        self._upkeep: list[asyncio.Task[None]] = []
        self._trouble: str | None = None
        self._epoch: int | None = None
        self._metrics = Metrics(self._due_so_far)
        self.workflows = WorkflowStore(self._store, self.clock)
        self.launcher = RunLauncher(self.workflows, executor or self._executor())
        # It looks once a tick by itself; what takes longer than that patience is reported as ill anyway.
        self.registrar = SchedulerRegistrar(
            self._store, self.clock, self._wake, self._defaults(), self._patience()
        )

    async def start(self) -> Service:
        """Open the store and begin to work; raises StoreError where the store cannot be used."""
        with self.clock.hold():
            await self._store.open()
        if self._has_worker:
            self._engine = Engine(
                self._store, self.launcher, self.clock, self._hear, uuid.uuid4().hex, self._pace()
            )
            self._engine.start()
            self._upkeep.append(asyncio.create_task(self._prune_now_and_then(), name="dutiful-upkeep"))
            if isinstance(self.clock, SystemClock):
                self._watchdog = Watchdog(self.clock, self._hear)
                self._watchdog.start()
        if (files := tls_files(self.settings)) is not None:
            watching = certificates.watch(files, self.clock, self._metrics)
            self._upkeep.append(asyncio.create_task(watching, name="dutiful-certificates"))
        return self

    async def stop(self) -> None:
        """Launch nothing more, wait a while for what is under way, and let go of the store."""
        try:
            for task in self._upkeep:
                task.cancel()
            await asyncio.gather(*self._upkeep, return_exceptions=True)
            if self._engine is not None:
                with suppress(TimeoutError):
                    # By real time: a clock that a test has stopped must not keep the service alive.
                    await asyncio.wait_for(self._engine.stop(), _STOP_WITHIN_S)
                self._engine.abandon()
        finally:
            if self._watchdog is not None:
                self._watchdog.stop()
            self._engine = self._watchdog = self._epoch = None
            self._upkeep = []
            with self.clock.hold():
                await self.launcher.close()
                await self._store.close()

    def health(self) -> Health:
        """Return whether the worker does its work: it has passed lately, leading or standing by."""
        leading, engine = self._epoch is not None, self._engine
        if engine is None:
            stopped = "the worker is not running" if self._has_worker else None
            return Health(stopped is None, leading, None, stopped)
        if engine.passed_at is None:
            return Health(False, leading, None, self._trouble or "the worker has not made its first pass")
        silent = epoch_ms(self.clock.now()) - engine.passed_at
        ok = silent <= self._patience()
        reason = None if ok else self._trouble or f"the last pass was {silent / 1000:.0f} s ago"
        return Health(ok, leading, moment(engine.passed_at), reason)

    def metrics(self) -> str:
        """Return the metrics in the text format that Prometheus reads."""
        return self._metrics.text()

    async def count_damaged(self) -> None:
        """Bring the metrics up to date with what nobody is told of when it happens."""
        self._metrics.damaged(len(await self.registrar.damaged()))

    def _patience(self) -> int:
        """Return after how many milliseconds without a pass something is wrong."""
        return max(10 * self.settings.tick_ms, round(2000 * self.settings.lease_s))

    async def _prune_now_and_then(self) -> None:
        while True:
            await self.clock.sleep(_PRUNE_EVERY_S)
            if self._epoch is not None:
                # The next round may succeed; until then the ledger is longer than it need be.
                with suppress(DutifulError), self.clock.hold():
                    await self._store.prune(epoch_ms(self.clock.now()), Retention())

    def _hear(self, event: Event) -> None:
        match event:
            case happened.LeadershipChanged():
                self._epoch = event.epoch
            case happened.PassFailed():
                self._trouble = event.error
            case _:
                self._trouble = None
        self._metrics(event)
        journal.write(event)

    def _wake(self) -> None:
        if self._engine is not None:
            self._engine.wake()

    def _due_so_far(self) -> int:
        return 0 if self._engine is None else self._engine.counts["schedules_due"]

    def _executor(self) -> Executor:
        settings = self.settings
        if settings.executor is None:
            return NoExecutor()
        return executor_for(
            settings.executor,
            ExecutorSettings(
                self.clock, settings.executor_secret, settings.executor_allow, settings.executor_timeout_s
            ),
        )

    def _defaults(self) -> Defaults:
        settings = self.settings
        return Defaults(
            settings.default_overlap_policy,
            settings.default_catchup_policy,
            settings.default_jitter_ms,
            settings.max_catchup_per_tick,
        )

    def _pace(self) -> Pace:
        tick = self.settings.tick_ms
        return Pace(retry_after=tick, lookahead=self.settings.lookahead_ms, tick=tick)
