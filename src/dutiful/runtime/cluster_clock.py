"""The clock of a cluster: the database's clock, estimated on every node from sampled answers."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dutiful.runtime.clock import STEP_MIN, SystemClock
from dutiful.runtime.cluster_ports import Sharded
from dutiful.runtime.ports import Clock

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.runtime.cluster_ports import View
    from dutiful.runtime.ports import Store

# Samples older than this (s) are dropped: the two clocks may drift apart.
_KEPT_S = 60.0
# A process without other questions to the database asks for its clock after so many seconds.
SAMPLE_EVERY_S = 5.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SampledClock:
    """An estimate of another host's clock, in milliseconds, as a function of a monotonic clock in seconds.

    An answer D to a question sent at a and answered at b proves that the other clock shows at least D and at
    most D + (b - a) at b. The estimate uses the highest lower bound of the last minute, so it is never ahead
    of the other clock, and behind it by a round trip at most. Threads may share a clock.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        # (answered at, offset): offsets fall from the first sample to the last, so the first is the highest.
        self._samples: deque[tuple[float, float]] = deque()
        self._offset: float | None = None
        self._shown: Instant = 0

    @property
    def is_set(self) -> bool:
        """Whether there was a sample."""
        return self._offset is not None

    def sample(self, sent: float, answered: float, said: Instant) -> None:
        """Add an answer."""
        lowest, highest = said - answered * 1000, said - sent * 1000
        with self._lock:
            samples = self._samples
            if self._offset is not None and highest < self._offset:
                # The other clock was set back, so earlier samples are invalid.
                samples.clear()
            while samples and (samples[0][0] < answered - _KEPT_S):
                samples.popleft()
            while samples and samples[-1][1] <= lowest:
                samples.pop()
            samples.append((answered, lowest))
            self._set(samples[0][1], answered)

    def _set(self, offset: float, now: float) -> None:
        self._offset = offset
        # After a small step back, repeat the last reading until the clock has caught up; show a larger step.
        if self._shown - (now * 1000 + offset) >= STEP_MIN:
            self._shown = 0

    def read(self, now: float) -> Instant:
        """Return the estimate of the other clock at this time of the monotonic clock."""
        assert self._offset is not None
        # Without the lock, a read could restore what was shown before a step back.
        with self._lock:
            self._shown = shown = max(self._shown, int(now * 1000 + self._offset))
        return shown


# Differences (ms) between the host's clock and the database's from which on one is reported. They move no
# fire time, but logs, tokens and certificates go by the host's clock.
CLOCK_WARNING_MS, CLOCK_ALARM_MS = 500, 5000


class OffsetWatch:
    """Detects that the host's clock has left the bounds within which it may differ from the database's."""

    def __init__(self) -> None:
        self._crossed = 0

    def rises(self, offset_ms: int) -> bool:
        """Return whether the offset is beyond a bound that it had not crossed before.

        An offset counts as beyond a bound until it is below half of it, so that one near the bound is
        reported once.
        """
        bounds = (CLOCK_WARNING_MS, CLOCK_ALARM_MS)
        beyond = sum(abs(offset_ms) >= bound for bound in bounds)
        near = sum(2 * abs(offset_ms) >= bound for bound in bounds)
        before, self._crossed = self._crossed, max(beyond, min(self._crossed, near))
        return beyond > before


@runtime_checkable
class SamplingClock(Clock, Protocol):
    """A clock that follows the database's clock."""

    def sample(self, sent: float, answered: float, said: Instant) -> None:
        """Add an answer of the database's clock; `sent` and `answered` are values of `monotonic()`."""

    def offset_ms(self) -> int | None:
        """Return by how much the host's clock is ahead of the database's; None before the first sample."""


class ClusterClock(SystemClock):
    """The database's clock on this host; before the first sample, the host's own.

    Only the monotonic clock of the host is used after that, so a wrong wall clock changes nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._database = SampledClock()

    def sample(self, sent: float, answered: float, said: Instant) -> None:
        """Add an answer of the database's clock; `sent` and `answered` are values of `monotonic()`."""
        self._database.sample(sent, answered, said)

    def offset_ms(self) -> int | None:
        """Return by how much the host's clock is ahead of the database's; None before the first sample."""
        return super().epoch_ms() - self.epoch_ms() if self._database.is_set else None

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""
        return _EPOCH + timedelta(milliseconds=self.epoch_ms())

    def epoch_ms(self) -> Instant:
        """Return the database's clock in milliseconds since 1970, never ahead of it."""
        return self._database.read(self.monotonic()) if self._database.is_set else super().epoch_ms()


def clock_of(store: Store) -> Clock:
    """Return the clock for everything that is written into a store: the database's where many hosts share it.

    The clocks of two hosts may differ, and both write cursors and fire times into one database.
    """
    return ClusterClock() if isinstance(store, Sharded) else SystemClock()


async def sampled_look(store: Sharded, clock: Clock) -> View:
    """Look at the cluster, and give a clock that follows the database's clock the sample in the answer."""
    sent = clock.monotonic()
    view = await store.look()
    if isinstance(clock, SamplingClock):
        clock.sample(sent, clock.monotonic(), view.now_ms)
    return view
