"""CPU time of this thread: what a busy machine disturbs least."""

from __future__ import annotations

import gc
import statistics
from collections import deque
from contextlib import contextmanager
from functools import cache
from time import thread_time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_SAMPLE_US = 2000
# The CPU milliseconds of the fixed loop on the machine for which limits in seconds are written.
REFERENCE_MS = 18
_drop_all = deque[object](maxlen=0).extend


@cache
def calibration_ms() -> float:
    """Return the CPU milliseconds of a fixed loop, to compare runs on different machines.

    It is measured once for each section, because cores of a shared machine are not always as fast.
    """
    return statistics.median(cpu_us(_fixed_loop, 1) for _ in range(15)) / 1000


def slowness() -> float:
    """Return how many times longer than on the reference machine the fixed loop takes here."""
    return calibration_ms() / REFERENCE_MS


def cpu_us(work: Callable[[], object], calls: int) -> float:
    """Return the CPU microseconds of `work()` divided by the number of calls it makes."""
    begin = thread_time()
    work()
    return (thread_time() - begin) / calls * 1e6


def sustained_us(prepare: Callable[[], Callable[[], object]], calls: int) -> float:
    """Return the CPU microseconds per call of work in full swing.

    `prepare()`, which is not timed, returns the work; one unmeasured turn warms the caches, and as
    many follow as fill the least duration, so that quick work is not charged for what ran before it.
    """
    turns = 1 + int(_SAMPLE_US / max(1.0, cpu_us(prepare(), 1)))
    works = [prepare() for _ in range(turns)]
    return cpu_us(lambda: [work() for work in works], turns * calls)


def drain(items: Iterable[object]) -> None:
    """Run an iterator to its end at the least cost."""
    _drop_all(items)


@contextmanager
def collector_off() -> Iterator[None]:
    """Hold the garbage collector off, so that no measurement pays for the garbage of another."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _fixed_loop() -> int:
    total, seen = 0, {}
    for n in range(250_000):
        total += n % 7
        seen[n % 101] = total
    return total
