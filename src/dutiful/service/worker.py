"""The firing half of the service: the engine, its launcher and its store, on one event loop."""

from __future__ import annotations

import asyncio
import logging
import resource
from typing import TYPE_CHECKING

from dutiful.core import event as happened
from dutiful.core.policy import Overrides
from dutiful.launchers.executor import launches_that_fit
from dutiful.runtime.cluster import Cluster
from dutiful.runtime.cluster_ports import Sharded
from dutiful.runtime.engine import Settings as Pace
from dutiful.runtime.host import Host
from dutiful.runtime.ports import Retention
from dutiful.service import event_log
from dutiful.service.cluster import this_node
from dutiful.service.declaration import launch_retry
from dutiful.service.launcher import RunLauncher
from dutiful.service.types import Health
from dutiful.service.views import moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dutiful.core.event import Event
    from dutiful.core.run import Run
    from dutiful.launchers.url import Executors
    from dutiful.runtime.ports import Clock, Store
    from dutiful.service.metrics import Metrics
    from dutiful.service.settings import Settings

logger = logging.getLogger("dutiful.service")
_DAY_MS = 86_400_000
# How many runs a log line of the stop lists by name.
_NAMED_MAX = 10
# After a failed pass, and while another process leads, the next pass comes at the latest after this time.
_RETRY_MS = 1000


class Worker:
    """Fires schedules while it leads, and stands by while another process does.

    `start` and `stop` must run on the engine's event loop; the other methods may be called from any thread.
    """

    def __init__(
        self, settings: Settings, store: Store, executors: Executors, clock: Clock, metrics: Metrics
    ) -> None:
        self._settings, self._store, self._clock, self._metrics = settings, store, clock, metrics
        self._launcher = RunLauncher(store, clock, executors)
        self._trouble: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        tick = settings.tick_ms
        self.launches_max = settings.launches_max or launches_that_fit(executors, _open_files_max())
        metrics.launches_max(self.launches_max)
        pace = Pace(
            retry_after=min(tick, _RETRY_MS),
            lookahead=settings.lookahead_ms,
            overrides=overrides_of(settings),
            in_flight_max=self.launches_max,
            tick=tick,
        )
        self._host = self._host_of(store, pace)

    def _host_of(self, store: Store, pace: Pace) -> Host | Cluster:
        """Return the owner of the engines: one engine on a store of one machine, else one per shard."""
        settings, given = self._settings, (self._launcher, self._clock, self._hear)
        if not isinstance(store, Sharded):
            return Host("service", store, *given, pace=pace, retention=self._retention)
        # The cluster wakes the engines after each look, so they need no regular tick.
        me, pace = this_node(settings.node), pace._replace(tick=None)
        return Cluster(
            "service", store, *given, me, pace=pace, retention=self._retention, lease_s=settings.lease_s
        )

    def _retention(self) -> Retention:
        return Retention(self._settings.retention_days * _DAY_MS, self._settings.retention_rows)

    async def start(self) -> None:
        """Open the store and start to fire. Raises StoreError where the store cannot be used."""
        self._loop = asyncio.get_running_loop()
        await self._host.open()
        self._host.start()

    async def stop(self) -> list[str]:
        """Launch no more runs and drain; return the schedules whose runs were cut short."""
        cut = await self._drain() if self._host.is_started else []
        self._loop = None
        await self._host.close()
        with self._clock.hold():
            await self._launcher.close()
        return cut

    async def _drain(self) -> list[str]:
        drained = await self._host.drain(within=0)
        if drained.in_flight:
            patience = self._settings.drain_s
            logger.info("waiting up to %g s for runs in flight: %s", patience, _named(drained.in_flight))
            try:
                # In real time: a stopped virtual clock must not keep the service alive.
                drained = await asyncio.wait_for(self._host.drain(), patience)
            except TimeoutError:
                drained = await self._host.drain(within=0)
                logger.warning("cut short after %g s: %s", patience, _named(drained.in_flight))
        if drained.unrecorded:
            logger.error("ended and not recorded (%s): %s", drained.error, _named(drained.unrecorded))
        return [run.schedule_id for run in drained.in_flight]

    def wake(self) -> None:
        """Make the engine pass at once."""
        if (loop := self._loop) is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._host.wake)

    def due_so_far(self) -> int:
        """Return how many schedules were found due since the start."""
        return self._host.schedules_due

    def in_flight(self) -> int:
        """Return how many runs are being launched, or run by this process."""
        return self._host.in_flight

    def pass_s(self) -> float:
        """Return how many seconds the last pass took."""
        return self._host.pass_s

    async def health(self) -> Health:
        """Return whether the worker is healthy; on a standby, also whether the leader is."""
        leading, passed_at = self._host.epoch is not None, self._host.passed_at
        if not self._host.is_started:
            return Health(False, False, None, "the worker is not running")
        if passed_at is None:
            waiting = self._failing() or "the worker has not made its first pass"
            return Health(False, leading, None, waiting, self._trouble)
        silent = self._clock.epoch_ms() - passed_at
        reason = None
        if silent > patience_ms(self._settings):
            reason = self._failing() or f"the last pass was {silent / 1000:.0f} s ago"
        elif isinstance(self._host, Cluster):
            reason = self._overdue_shards(self._host)
        elif not leading:
            reason = await self._silent_leader()
        return Health(reason is None, leading, moment(passed_at), reason, self._trouble)

    def _failing(self) -> str | None:
        """Return the problem that passes fail, without the error: it has paths, and probes are public."""
        return None if self._trouble is None else "passes fail; the log of the service says why"

    def _overdue_shards(self, cluster: Cluster) -> str | None:
        patience, overdue = patience_ms(self._settings), cluster.overdue()
        late = sorted(shard for shard, waited in overdue.items() if waited > patience)
        if not late:
            return None
        longest = max(overdue.values()) / 1000
        return f"shards {', '.join(map(str, late))} have waited for up to {longest:.0f} s"

    async def _silent_leader(self) -> str | None:
        leader = await self._store.leader()
        silent = 0 if leader is None else self._clock.epoch_ms() - leader.seen
        if leader is None or silent <= patience_ms(self._settings):
            return None
        idle = f"process {leader.pid} leads and has not passed for {silent / 1000:.0f} s"
        return f"{idle}; end it, and this one takes over"

    def _hear(self, event: Event) -> None:
        match event:
            case happened.PassFailed() | happened.EngineStopped():
                self._trouble = event.error
            case _:
                self._trouble = None
        self._metrics(event)
        event_log.write(event)


def overrides_of(settings: Settings) -> Overrides:
    """Return the settings of a worker that hold for every schedule, however long ago it was stored."""
    return Overrides(
        settings.max_catchup_per_tick, launch_retry(settings.launch_retries), takeover_ms(settings)
    )


def takeover_ms(settings: Settings) -> int:
    """Return the longest time until another worker takes over from a frozen or dead worker."""
    if settings.store.startswith(("postgresql:", "postgres:")):
        return round(2000 * settings.lease_s)
    # On one machine the lock falls with its process, and a standby looks for it again and again.
    return 2 * _RETRY_MS


def patience_ms(settings: Settings) -> int:
    """Return after how many milliseconds without a pass a worker counts as unhealthy."""
    return max(10 * settings.tick_ms, round(2000 * settings.lease_s))


def _open_files_max() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft


def _named(runs: Sequence[Run]) -> str:
    names = sorted({run.schedule_id for run in runs})
    more = "" if len(names) <= _NAMED_MAX else f" and {len(names) - _NAMED_MAX} more"
    return ", ".join(names[:_NAMED_MAX]) + more
