"""Many worlds, on all cores: who failed, what was reached, and how fast time went by."""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from tests.sim.genesis import world_of
from tests.sim.stages import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHUNK = 20


class Survey(NamedTuple):
    """What a set of worlds has shown. `seconds` is the time of one core."""

    worlds: int
    failures: dict[int, list[str]]
    reach: Counter[str]
    days: float
    runs: int
    seconds: float

    def __add__(self, other: Survey) -> Survey:  # type: ignore[override]
        return Survey(
            self.worlds + other.worlds,
            self.failures | other.failures,
            self.reach + other.reach,
            self.days + other.days,
            self.runs + other.runs,
            self.seconds + other.seconds,
        )

    def __str__(self) -> str:
        pace = self.days / self.seconds * 60 if self.seconds else 0
        return (
            f"{self.worlds} worlds, {self.days:,.0f} simulated days, {self.runs:,} launches, "
            f"{len(self.failures)} failures; {pace:,.0f} simulated days per minute per core"
        )


NOTHING = Survey(0, {}, Counter(), 0, 0, 0)


def survey(seeds: Iterable[int], stage: str = "memory") -> Survey:
    """Run the worlds of these seeds, one after the other."""
    total, run = NOTHING, STAGES[stage]
    for seed in seeds:
        began = time.perf_counter()
        result = run(world_of(seed))
        took = time.perf_counter() - began
        failures = {seed: result.problems} if result.problems else {}
        total += Survey(1, failures, result.reach, result.days, len(result.calls), took)
    gc.collect()
    return total


def campaign(
    first: int, worlds: int, cores: int, seconds: float | None = None, stage: str = "memory"
) -> Survey:
    """Run the worlds of consecutive seeds on several cores; with `seconds`, as many as that allows."""
    context = multiprocessing.get_context("spawn")
    until = None if seconds is None else time.monotonic() + seconds
    total = NOTHING
    with ProcessPoolExecutor(cores, mp_context=context) as pool:
        for chunks in _rounds(first, worlds, cores, until):
            for part in pool.map(survey, chunks, repeat(stage)):
                total += part
    return total


def _rounds(first: int, worlds: int, cores: int, until: float | None) -> Iterator[list[range]]:
    """Yield chunks of seeds: all at once, or some per core until time is up."""
    if until is None:
        last = first + worlds
        yield [range(seed, min(seed + CHUNK, last)) for seed in range(first, last, CHUNK)]
        return
    while time.monotonic() < until:
        yield [range(first + n * CHUNK, first + (n + 1) * CHUNK) for n in range(cores)]
        first += cores * CHUNK
