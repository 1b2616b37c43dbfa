"""The metrics of the service, counted from the events of the engine."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from dutiful.core import event as happened
from dutiful.core.policy import Reason
from dutiful.core.run import Phase, Status
from dutiful.httpd.tls import TlsError, expiries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from prometheus_client import Metric

    from dutiful.core.cadence import Instant
    from dutiful.core.event import Event
    from dutiful.core.run import Run
    from dutiful.httpd.tls import TlsFiles
    from dutiful.runtime.ports import Clock
    from dutiful.service.cluster import ClusterView

_NOT_LAUNCHED = {
    Reason.LAUNCH_REFUSED,
    Reason.LAUNCH_FAILED,
    Reason.UNKNOWN_WORKFLOW,
    Reason.OUTCOME_UNKNOWN,
}
# (name, labels, value) of every sample.
Samples: TypeAlias = "Sequence[tuple[str, Mapping[str, str], float]]"
_DRIFT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)


class Metrics:
    """An observer that counts events.

    `due` returns how many schedules the engine has found due so far, `in_flight` how many launches there are,
    `pass_s` how many seconds the last pass took.
    """

    def __init__(
        self,
        due: Callable[[], int],
        in_flight: Callable[[], int] = lambda: 0,
        pass_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._registry = registry = CollectorRegistry()
        registry.register(_Due(due))
        self._emitted = Counter("runs_emitted", "Ticks launched, each once", registry=registry)
        self._overlap = Counter(
            "runs_skipped_overlap", "Ticks skipped because a run was in flight", registry=registry
        )
        self._failed = Counter("runs_failed_launch", "Runs whose launch failed for good", registry=registry)
        self._skipped = Counter(
            "dutiful_ticks_skipped", "Ticks skipped, by reason", ["reason"], registry=registry
        )
        self._missed = Gauge(
            "dutiful_expectations_missed",
            "Schedules that do not start, end or succeed in the time that they expect",
            ["expectation"],
            registry=registry,
        )
        self._ended = Counter(
            "dutiful_runs_ended", "Runs that this process saw end, by status", ["status"], registry=registry
        )
        self._open = Gauge(
            "dutiful_runs_open",
            "Runs that have not ended, by what they wait for",
            ["phase"],
            registry=registry,
        )
        self._failures = Counter(
            "dutiful_passes_failed", "Passes that had to be made again", registry=registry
        )
        Gauge("dutiful_pass_seconds", "How long the last pass took", registry=registry).set_function(pass_s)
        Gauge(
            "dutiful_launches_in_flight", "Runs that this worker is launching or running", registry=registry
        ).set_function(in_flight)
        self._launches_max = Gauge(
            "dutiful_launches_max", "Launches at a time; further runs wait in the store", registry=registry
        )
        self._leading = Gauge("dutiful_leading", "Whether this process leads", registry=registry)
        # The shards that this process leads; None is the only shard of a store without shards.
        self._led: set[int | None] = set()
        self._cluster = _ClusterGauges(registry)
        self._drift = Histogram(
            "scheduling_drift_seconds",
            "Between the planned time of a tick and its launch",
            buckets=_DRIFT_BUCKETS,
            registry=registry,
        )
        self._damaged = Gauge(
            "dutiful_schedules_damaged", "Schedules whose rows cannot be read", registry=registry
        )
        self._surroundings = _SurroundingGauges(registry)
        # The samples of a worker in another process, by name and labels.
        self._others: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        # By schedule, the growing range of skipped ticks and how many of its ticks are counted so far.
        self._counted: dict[str, tuple[Instant, int]] = {}

    def __call__(self, event: Event) -> None:
        """Count one event."""
        match event:
            case happened.RunLaunched(run=run) if run.attempt == 1:
                self._emitted.inc()
                if run.trigger == "schedule":
                    self._drift.observe(abs(event.at - run.run_at) / 1000)
            case happened.TicksSkipped(run=run):
                self._skip(run)
            case happened.RunSettled(run=run) | happened.RunEndedByPlan(run=run):
                self._failed.inc(_failed_to_launch(run))
                self.ended(run)
            case happened.PassFailed():
                self._failures.inc()
            case happened.LeadershipChanged():
                (self._led.discard if event.epoch is None else self._led.add)(event.shard)
                self._leading.set(bool(self._led))
                if event.shard is not None:
                    self._cluster.lead(len(self._led))

    def ended(self, run: Run) -> None:
        """Count a run if it has ended; runs on which executors report end outside the engine."""
        if run.phase is Phase.ENDED:
            self._ended.labels(run.status.value).inc()

    def open_runs(self, counts: Mapping[str, int]) -> None:
        """Set the number of runs in each phase."""
        for phase in Phase:
            if phase is not Phase.ENDED:
                self._open.labels(phase.value).set(counts.get(phase.value, 0))

    def missed_expectations(self, counts: Mapping[str, int]) -> None:
        """Set the number of schedules that miss each expectation."""
        for expectation, count in counts.items():
            self._missed.labels(expectation).set(count)

    def cluster(self, view: ClusterView) -> None:
        """Record the nodes and shards of a cluster."""
        if view.shards:
            self._cluster.set(view)

    def certificate(self, name: str, expires_at: datetime) -> None:
        """Set when a certificate expires."""
        self._surroundings.expires.labels(name).set(expires_at.timestamp())

    def launches_max(self, most: int) -> None:
        """Set the highest number of launches at a time."""
        self._launches_max.set(most)

    def store_bytes(self, size: int) -> None:
        """Set the size of the store."""
        self._surroundings.store_bytes.set(size)

    def executor_answered(self, seconds: float) -> None:
        """Set how long the last probe of the executors took."""
        self._surroundings.executor_answer_s.set(seconds)

    def value(self, name: str) -> float:
        """Return the sum of the samples of this name, with those of the other process."""
        found = [sample for metric in self.collect() for sample in metric.samples]
        return sum(sample.value for sample in found if sample.name == name)

    def damaged(self, count: int) -> None:
        """Set the number of schedules that cannot be read."""
        self._damaged.set(count)

    def text(self) -> str:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self).decode()

    def samples(self) -> Samples:
        """Return all metrics as plain values, without the times at which they were created."""
        found = [sample for metric in self._registry.collect() for sample in metric.samples]
        return [(each.name, each.labels, each.value) for each in found if not each.name.endswith("_created")]

    def add(self, samples: Samples) -> None:
        """Take another process's samples, in place of earlier ones; `collect` adds them to the own ones."""
        self._others = {(name, frozenset(labels.items())): value for name, labels, value in samples}

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, each sample with the value of the other process added."""
        others = dict(self._others)
        for metric in self._registry.collect():
            own = [
                each._replace(value=each.value + others.pop((each.name, frozenset(each.labels.items())), 0))
                for each in metric.samples
            ]
            names = {f"{metric.name}{suffix}" for suffix in ("", "_total")}
            # Samples whose labels only the other process has.
            more = [key for key in others if key[0] in names]
            metric.samples = own + [
                Sample(name, dict(labels), others.pop((name, labels))) for name, labels in more
            ]
            yield metric

    def _skip(self, run: Run) -> None:
        run_at, counted = self._counted.get(run.schedule_id, (None, 0))
        new = run.ticks - counted if run_at == run.run_at else run.ticks
        self._counted[run.schedule_id] = run.run_at, run.ticks
        self._skipped.labels(str(run.reason)).inc(max(0, new))
        if run.reason is Reason.OVERLAP:
            self._overlap.inc(max(0, new))


class _SurroundingGauges:
    """The gauges of what the service depends on: its certificates, its store, its executors."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.expires = Gauge(
            "dutiful_certificate_expires_timestamp_seconds",
            "When a certificate of TLS expires",
            ["certificate"],
            registry=registry,
        )
        self.store_bytes = Gauge("dutiful_store_bytes", "The size of the store on disk", registry=registry)
        self.executor_answer_s = Gauge(
            "dutiful_executor_answer_seconds",
            "How long the executors took to answer the last probe; 0 where none is probed",
            registry=registry,
        )


class _ClusterGauges:
    """The gauges of a cluster; other stores export none of them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._gauges: dict[str, Gauge] = {}

    def lead(self, shards: int) -> None:
        self._shards_led().set(shards)

    def _shards_led(self) -> Gauge:
        return self._gauge("dutiful_shards_led", "Shards that this worker leads")

    def set(self, view: ClusterView) -> None:
        self._gauge("dutiful_cluster_nodes", "Workers that have joined the cluster").set(len(view.nodes))
        # Create the gauge on nodes without shards as well, so that they export a 0.
        self._shards_led()
        free = sum(shard.node is None for shard in view.shards)
        self._gauge("dutiful_shards_free", "Shards that no worker leads").set(free)
        lag = max(shard.lag_s for shard in view.shards)
        self._gauge("dutiful_shard_lag_seconds", "How long the most overdue schedule has waited").set(lag)
        self._set_shards(view)
        offset = self._gauge(
            "dutiful_clock_offset_seconds", "By how much the host's clock is ahead of the database's"
        )
        offset.set((view.clock_offset_ms or 0) / 1000)

    def _set_shards(self, view: ClusterView) -> None:
        epochs = self._gauge("dutiful_shard_epoch", "How often each shard has changed hands", ["shard"])
        overdue = self._gauge(
            "dutiful_shard_overdue_seconds",
            "How long the most overdue schedule of a shard has waited",
            ["shard"],
        )
        leaders = self._gauge(
            "dutiful_shard_leader", "1 for the worker that leads a shard", ["shard", "node"]
        )
        # Forget the last leaders: a shard that changed hands would be shown with two.
        leaders.clear()
        for shard in view.shards:
            epochs.labels(str(shard.shard)).set(shard.epoch)
            overdue.labels(str(shard.shard)).set(shard.lag_s)
            if shard.node is not None:
                leaders.labels(str(shard.shard), shard.node).set(1)

    def _gauge(self, name: str, meaning: str, labels: Sequence[str] = ()) -> Gauge:
        if name not in self._gauges:
            self._gauges[name] = Gauge(name, meaning, labels, registry=self._registry)
        return self._gauges[name]


def _failed_to_launch(run: Run) -> bool:
    return run.phase is Phase.ENDED and run.status is Status.FAILED and run.reason in _NOT_LAUNCHED


class _Due(Collector):
    """Exports the engine's own count of due schedules."""

    def __init__(self, due: Callable[[], int]) -> None:
        self._due = due

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "schedules_due", "Schedules found due, summed over passes", value=self._due()
        )


logger = logging.getLogger("dutiful.service")

WARN_BEFORE = timedelta(days=14)
_LOOK_EVERY_S = 6 * 3600.0
_NAMES = {"server": "the certificate of the server", "client_ca": "the authority of the clients"}


async def watch_certificates(files: TlsFiles, clock: Clock, metrics: Metrics) -> None:
    """Check the certificates periodically, without end."""
    while True:
        look_at_certificates(files, clock, metrics)
        await clock.sleep(_LOOK_EVERY_S)


def look_at_certificates(files: TlsFiles, clock: Clock, metrics: Metrics) -> None:
    """Record when the certificates expire, and warn about those that expire soon."""
    try:
        for name, at in expiries(files).items():
            metrics.certificate(name, at)
    except TlsError as error:
        logger.warning("it is not known when the certificates expire: %s", error)
        return
    for each in expiring(files, clock.now()):
        logger.warning("%s", each)


class Expiring(NamedTuple):
    """A certificate that has expired or expires soon."""

    name: str
    at: datetime
    has_expired: bool

    def __str__(self) -> str:
        tense = "has expired" if self.has_expired else "expires"
        return f"{self.name} {tense}: {self.at:%Y-%m-%d %H:%M}Z; put a new one in its place"


def expiring(files: TlsFiles, now: datetime) -> list[Expiring]:
    """Return the certificates that have expired or expire within two weeks; none if a file is unreadable."""
    try:
        found = expiries(files)
    except TlsError:
        return []
    return [Expiring(_NAMES[name], at, at <= now) for name, at in found.items() if at - now <= WARN_BEFORE]
