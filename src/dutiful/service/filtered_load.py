"""The load of the schedules that a filter matches, counted from their cadences as that of all of them is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from dutiful.service import load
from dutiful.service.cache import TimedCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dutiful.core.cadence import Cadence, Instant
    from dutiful.core.policy import Policy
    from dutiful.core.snapshot import Snapshot
    from dutiful.runtime.ports import Clock, Facets, Store
    from dutiful.service.board import Board
    from dutiful.service.load import Firing, Outage

READ_MAX = 1000
"""The most schedules of a filter that are counted."""


class WholeLoad(NamedTuple):
    """The load of all schedules, or of all schedules of one user."""

    board: Board
    owner: str | None
    cut: bool = False

    async def forecast(self, since: Instant, until: Instant, width: int) -> dict[Instant, int]:
        """Return how many ticks fall in each bucket from `since` on."""
        return await self.board.forecast(since, until, width, self.owner)

    async def outage(self, start: Instant, length: int) -> Outage:
        """Return the effect of an outage in [start, start + length]."""
        return await self.board.outage(start, length, self.owner)

    async def firing(self, since: Instant, until: Instant) -> list[Firing]:
        """Return the crons with ticks in [since, until)."""
        return await self.board.firing(since, until, self.owner)


class PartLoad(NamedTuple):
    """The load of some schedules, by their cadences; `cut` if more of them match than were read."""

    clock: Clock
    cadences: Sequence[tuple[Cadence, Policy, int, str]]
    cut: bool

    async def forecast(self, since: Instant, until: Instant, width: int) -> dict[Instant, int]:
        """Return how many ticks fall in each bucket from `since` on."""
        cadences = [(cadence, number) for cadence, _, number, _ in self.cadences]
        with self.clock.hold():
            return await asyncio.to_thread(load.forecast, cadences, since, until, width)

    async def outage(self, start: Instant, length: int) -> Outage:
        """Return the effect of an outage in [start, start + length]."""
        with self.clock.hold():
            return await asyncio.to_thread(load.outage, self.cadences, start, start + length)

    async def firing(self, since: Instant, until: Instant) -> list[Firing]:
        """Return the crons with ticks in [since, until)."""
        with self.clock.hold():
            return await asyncio.to_thread(load.firing, self.cadences, since, until)


class FilteredLoad:
    """Reads the cadences of a filter's schedules, and keeps them for a minute."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._kept: TimedCache[PartLoad] = TimedCache(clock)

    async def of(self, facets: Facets) -> PartLoad:
        """Return the load of the schedules with all of these facets that are not paused."""
        return await self._kept.get(tuple(facets), lambda: self._read(facets))

    async def _read(self, facets: Facets) -> PartLoad:
        found = await self._store.page("", READ_MAX + 1, facets, False)
        return PartLoad(self._clock, distinct(found[:READ_MAX]), len(found) > READ_MAX)


def distinct(schedules: Sequence[Snapshot]) -> list[tuple[Cadence, Policy, int, str]]:
    """Return each cadence and policy, the number of schedules that have both, and the first id of these."""
    ids: dict[tuple[Cadence, Policy], list[str]] = {}
    for due in schedules:
        ids.setdefault((due.schedule.cadence, due.schedule.policy), []).append(due.schedule.id)
    return [(cadence, policy, len(names), min(names)) for (cadence, policy), names in ids.items()]
