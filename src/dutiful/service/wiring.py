"""Assembles the service: registrar, workflows, launcher and worker, started and stopped together."""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dutiful.core.errors import InvalidArgumentError, StoreError
from dutiful.core.event import ClockOff
from dutiful.httpd.tls import TlsError, expiries
from dutiful.launchers.executor import ExecutorSettings, Probing
from dutiful.launchers.url import EXECUTORS_MAX, Executors, executor_for
from dutiful.process.output_log import OutputFolder
from dutiful.runtime.clock import SystemClock
from dutiful.runtime.cluster_clock import SAMPLE_EVERY_S, ClusterClock, OffsetWatch, clock_of, sampled_look
from dutiful.runtime.cluster_ports import Sharded
from dutiful.runtime.loop_thread import LoopThread
from dutiful.runtime.ports import Sized
from dutiful.service import event_log
from dutiful.service.backfill_progress import Backfills
from dutiful.service.board import Board
from dutiful.service.catalog import Catalog
from dutiful.service.cluster import ClusterView, cluster_view, member_named
from dutiful.service.declaration import Defaults
from dutiful.service.errors import UnknownNodeError
from dutiful.service.expectations import Expectations
from dutiful.service.http_settings import tls_files
from dutiful.service.launcher import NoExecutor, RunLauncher, named_executors
from dutiful.service.metrics import Expiring, Metrics, expiring, watch_certificates
from dutiful.service.pauses import Pauses
from dutiful.service.registrar import SchedulerRegistrar
from dutiful.service.types import Health, Readiness
from dutiful.service.worker import Worker, patience_ms, takeover_ms
from dutiful.service.workflows import WorkflowStore
from dutiful.stores.memory import MemoryStore
from dutiful.stores.url import sqlite_path, store_for

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime

    from dutiful.launchers.executor import Executor
    from dutiful.process.output_log import Shown
    from dutiful.runtime.ports import Clock, Leader, Store
    from dutiful.service.metrics import Samples
    from dutiful.service.settings import Settings
    from dutiful.service.worker_process import WorkerProcess

T = TypeVar("T")
logger = logging.getLogger("dutiful.service")
_PROBE_EVERY_S = 5.0
_SEEN_FOR_S = 1.0


class Service:
    """`await Service(settings).start()`; with `worker=False` it only serves requests, and other processes
    fire.

    A `WorkerProcess` as the worker fires in a process of its own, so that no request can delay a tick. With
    `worker=True` the worker has its own event loop, thread and store; on a virtual clock, or with a store in
    memory, it shares those of the caller. `watches=False` leaves expectations and certificates to another
    process.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None = None,
        *,
        worker: bool | WorkerProcess = True,
        watches: bool = True,
        executor: Executor | None = None,
    ) -> None:
        self._watches = watches
        self.settings, self._store = settings, _store(settings)
        # All nodes of a cluster use the database's clock, also nodes without a worker: edits write cursors.
        self.clock = clock or clock_of(self._store)
        self._offsets = OffsetWatch()
        self._sampling: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._thread: LoopThread | None = None
        self._problem: str | None = None
        self._probe_at = -math.inf
        self._seen: tuple[float, ClusterView] | None = None
        self._metrics = Metrics(self._due_so_far, self._in_flight, self._pass_s)
        self.workflows = WorkflowStore(self._store, self.clock)
        self._given = executor
        self._executors = _executors(settings, self.clock, executor)
        self.launcher = RunLauncher(self._store, self.clock, self._executors)
        self._process = None if isinstance(worker, bool) else worker
        self._worker = self._make_worker() if worker is True else None
        self.board = Board(self._store, self.clock)
        self.catalog = Catalog(self._store, self.clock)
        self.pauses, self.backfills = Pauses(self._store, self.clock), Backfills(self._store, self.clock)
        self.expectations = Expectations(self._store, self.clock, event_log.write)
        # The worker passes every tick by itself, so edits due later than its patience need not wake it.
        self.registrar = SchedulerRegistrar(
            self._store,
            self.clock,
            self.wake,
            _defaults(settings),
            patience_ms(settings),
            self._metrics.ended,
        )

    def _make_worker(self) -> Worker:
        settings, store, executors = self.settings, self._store, self._executors
        if isinstance(self.clock, SystemClock) and not isinstance(store, MemoryStore):
            self._thread = LoopThread("dutiful-worker")
            store = _store(settings)
            # Executors keep connections, which belong to one event loop.
            executors = _executors(settings, self.clock, self._given)
        return Worker(settings, store, executors, self.clock, self._metrics)

    async def start(self) -> Service:
        """Open the store and start the worker; raises StoreError where the store cannot be used."""
        with self.clock.hold():
            await self._store.open()
            await self._store.claim("service")
        if isinstance(self.clock, ClusterClock):
            await self.cluster()
            self._sampling = asyncio.create_task(self._read_clock(), name="dutiful-clock")
        if self._thread is not None:
            self._thread.start()
        if self._worker is not None:
            await self._beside(self._worker.start())
        if self._process is not None:
            await self._process.start()
        if self._watches:
            self._watch()
        return self

    def _watch(self) -> None:
        """Check expectations and certificates periodically."""
        if isinstance(self.clock, SystemClock):
            # On a virtual clock tests call `look` themselves; a periodic check would slow down simulated
            # years.
            self.expectations.start()
        if (files := tls_files(self.settings)) is not None:
            watching = watch_certificates(files, self.clock, self._metrics)
            self._watching = asyncio.create_task(watching, name="dutiful-certificates")

    async def stop(self) -> list[str]:
        """Launch no more runs, drain, close the store; return the schedules whose runs were cut short."""
        cut: list[str] = []
        try:
            self.expectations.stop()
            for task in (self._watching, self._sampling):
                if task is not None:
                    task.cancel()
            if self._worker is not None and (self._thread is None or self._thread.is_running):
                cut = await self._beside(self._worker.stop())
            if self._process is not None:
                cut = await self._process.stop()
        finally:
            if self._thread is not None:
                await self._thread.stop()
            with self.clock.hold():
                await self.launcher.close()
                await self._store.close()
        return cut

    async def health(self) -> Health:
        """Return whether the service is healthy: its worker has passed lately and reaches its executor."""
        if self._process is not None:
            return (await self._process.report()).health
        if self._worker is None:
            return Health(True, False, None, None)
        health = await self._worker.health()
        if health.ok and await self.executor_problem() is not None:
            reason = "the executor cannot be reached; the log and `dutiful doctor` say why"
            return health._replace(ok=False, reason=reason)
        return health

    async def readiness(self) -> Readiness:
        """Return the health, and the state of the cluster; a process without a worker needs the store."""
        health = await self.health()
        try:
            view = await self._seen_lately()
        except StoreError as error:
            logger.warning("not ready: %s", error)
            if health.ok:
                health = health._replace(ok=False, reason="the store cannot be reached; the log says why")
            return Readiness(*health[:4])
        if not view.shards:
            return Readiness(*health[:4])
        free = sum(shard.node is None for shard in view.shards)
        return Readiness(*health[:4], free, max(shard.lag_s for shard in view.shards), view.clock_offset_ms)

    async def _seen_lately(self) -> ClusterView:
        """Return the cluster as of the last second: anonymous callers may ask for the readiness often."""
        now = self.clock.monotonic()
        if self._seen is None or now - self._seen[0] >= _SEEN_FOR_S:
            if not isinstance(self._store, Sharded):
                with self.clock.hold():
                    await self._store.revision()
            self._seen = now, await self.cluster()
        return self._seen[1]

    async def executor_problem(self) -> str | None:
        """Return why this process cannot hand runs over, None if it can; probes at most every few seconds."""
        if self._worker is None:
            return None
        now = self.clock.monotonic()
        if now >= self._probe_at:
            self._probe_at = now + _PROBE_EVERY_S
            with self.clock.hold():
                before, self._problem = self._problem, await self._probed()
            self._metrics.executor_answered(self.clock.monotonic() - now)
            if self._problem is not None and self._problem != before:
                logger.warning("the executor cannot be reached: %s", self._problem)
        return self._problem

    async def _probed(self) -> str | None:
        """Probe the executor of the service and those that schedules name; return their problems."""
        named = dict[str, str]()
        # A store that fails is reported by the passes and by `readiness`; the executors are not to blame.
        with suppress(StoreError):
            named = await named_executors(self._store)
        urls = [None, *islice(named, EXECUTORS_MAX)]
        probed = await asyncio.gather(*map(self._probed_at, urls))
        return "; ".join(problem for problem in probed if problem is not None) or None

    async def _probed_at(self, url: str | None) -> str | None:
        # An executor with a wrong URL refuses each of its runs with the reason, so skip it here.
        with suppress(InvalidArgumentError):
            async with self._executors.using(url) as executor:
                return await executor.probe() if isinstance(executor, Probing) else None
        return None

    async def lacks_executor(self) -> bool:
        """Return whether neither the settings nor any schedule name an executor."""
        return not self.launcher.has_executor and not await named_executors(self._store)

    async def expiring_certificates(self) -> list[Expiring]:
        """Return the certificates of this server that have expired or expire within two weeks."""
        files = tls_files(self.settings)
        return [] if files is None else await asyncio.to_thread(expiring, files, self.clock.now())

    async def certificates(self) -> dict[str, datetime]:
        """Return when each certificate of this server expires; none without TLS or with unreadable files."""
        files = tls_files(self.settings)
        try:
            return {} if files is None else await asyncio.to_thread(expiries, files)
        except TlsError:
            return {}

    async def leader(self) -> Leader | None:
        """Return the process that leads a store of one machine; a cluster has a leader for each shard."""
        if isinstance(self._store, Sharded):
            return None
        with self.clock.hold():
            return await self._store.leader()

    def metric(self, name: str) -> float:
        """Return the value of one metric, as of the last `count_damaged`."""
        return self._metrics.value(name)

    async def _store_bytes(self) -> int:
        """Return the size of the store on disk; 0 for one in memory."""
        if isinstance(self._store, Sized):
            with self.clock.hold():
                return await self._store.size()
        if not self.settings.store.startswith("sqlite:"):
            return 0
        path = sqlite_path(self.settings.store)
        files = [Path(f"{path}{ending}") for ending in ("", "-wal")]
        return sum(file.stat().st_size for file in files if file.exists())

    def output(self, idempotency_key: str) -> Shown | None:
        """Return the output of a command's run as it may be shown, or None if none is kept here."""
        if self.settings.output_dir is None:
            return None
        return OutputFolder(Path(self.settings.output_dir)).read(idempotency_key)

    async def cluster(self) -> ClusterView:
        """Return the nodes and shards of the cluster; a store for one machine has none."""
        if not isinstance(self._store, Sharded):
            return ClusterView(self.clock.now())
        with self.clock.hold():
            view = await sampled_look(self._store, self.clock)
        offset = None
        if isinstance(self.clock, ClusterClock):
            offset = self.clock.offset_ms()
            if offset is not None and self._offsets.rises(offset):
                event_log.write(ClockOff(view.now_ms, offset))
        return cluster_view(view, offset)

    async def _read_clock(self) -> None:
        """Sample the database's clock at intervals, whether or not this process has a worker."""
        while True:
            await self.clock.sleep(SAMPLE_EVERY_S)
            with suppress(StoreError):
                await self.cluster()

    async def drain_node(self, node: str) -> ClusterView:
        """Ask a worker to give its shards away and to take no others; raises UnknownNodeError."""
        store = self._store
        if not isinstance(store, Sharded):
            raise UnknownNodeError(node, [])
        with self.clock.hold():
            await store.drain(member_named(await store.look(), node).owner, True)
        return await self.cluster()

    async def rebalance(self) -> ClusterView:
        """End every request to drain, so that the shards spread over all workers again."""
        store = self._store
        if isinstance(store, Sharded):
            with self.clock.hold():
                for member in (await store.look()).members:
                    if member.draining:
                        await store.drain(member.owner, False)
        return await self.cluster()

    def metrics(self) -> str:
        """Return the metrics in the text format of Prometheus."""
        return self._metrics.text()

    def samples(self) -> Samples:
        """Return the metrics as plain values, for the process that exports them."""
        return self._metrics.samples()

    async def count_damaged(self) -> None:
        """Refresh the gauges that no event updates, and the metrics of a worker process."""
        if self._process is not None:
            self._metrics.add((await self._process.report()).samples)
        self._metrics.missed_expectations(self.expectations.missed())
        self._metrics.damaged(len(await self.registrar.damaged()))
        self._metrics.store_bytes(await self._store_bytes())
        self._metrics.cluster(await self.cluster())
        with self.clock.hold():
            self._metrics.open_runs(await self._store.open_counts())

    async def _beside(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the worker on the worker's event loop."""
        return await (work if self._thread is None else self._thread.run(work))

    def wake(self) -> None:
        """Make the worker pass at once."""
        if self._process is not None:
            self._process.wake()
        if self._worker is not None:
            self._worker.wake()

    def _in_flight(self) -> int:
        return 0 if self._worker is None else self._worker.in_flight()

    def _pass_s(self) -> float:
        return 0.0 if self._worker is None else self._worker.pass_s()

    def _due_so_far(self) -> int:
        return 0 if self._worker is None else self._worker.due_so_far()


def _store(settings: Settings) -> Store:
    return store_for(settings.store, settings.namespace, shards=settings.shards, lease=settings.lease_s)


def _executors(settings: Settings, clock: Clock, given: Executor | None) -> Executors:
    """Return the executors; the default is the `given` one, or the one of the settings."""
    shared = ExecutorSettings(
        clock,
        settings.executor_secret,
        settings.executor_allow,
        settings.executor_timeout_s,
        settings.executor_mode,
        outputs=_outputs(settings),
    )
    if given is None:
        given = NoExecutor() if settings.executor is None else executor_for(settings.executor, shared)
    # On the loopback without authentication every caller is the operator.
    trusted = settings.is_loopback and not settings.has_auth
    return Executors(given, shared._replace(opens_loopback=trusted))


def _outputs(settings: Settings) -> OutputFolder | None:
    """Return the folder of the outputs of commands; raises InvalidArgumentError if it cannot be used."""
    if settings.output_dir is None:
        return None
    folder = OutputFolder(Path(settings.output_dir))
    if (flaw := folder.flaw()) is not None:
        raise InvalidArgumentError("DUTIFUL_OUTPUT_DIR", settings.output_dir, flaw)
    return folder


def _defaults(settings: Settings) -> Defaults:
    return Defaults(
        settings.default_overlap_policy,
        settings.default_catchup_policy,
        settings.default_jitter_ms,
        settings.max_catchup_per_tick,
        settings.launch_retries,
        takeover_ms(settings),
    )
