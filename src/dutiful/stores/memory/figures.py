"""Counts and a few rows of all schedules of the reference store; see `ports.Figures`."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING

from dutiful.core.schedule import is_troubled, owner_of
from dutiful.core.tally import Tally, tallied

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dutiful.core.cadence import Cadence, Instant
    from dutiful.core.policy import Policy
    from dutiful.core.run import Run
    from dutiful.core.snapshot import Due
    from dutiful.stores.memory.row import Row


class MemoryFigures:
    """The figures of a store that keeps its rows in `_rows`."""

    _rows: dict[str, Row]

    async def tallies(
        self, since: Instant, until: Instant, width: int, owner: str | None = None
    ) -> list[Tally]:
        """Return how many ticks ended how."""
        return _tallies(self._rows.values(), since, until, width, owner)

    async def open_runs(self, limit: int, owner: str | None = None) -> list[Run]:
        """Return runs that have not ended."""
        return _open_runs(self._rows.values(), limit, owner)

    async def find_ids(self, part: str, after: str, limit: int, owner: str | None = None) -> list[str]:
        """Return ids that contain a text."""
        return _find_ids(self._rows.values(), part, after, limit, owner)

    async def troubled(self, limit: int, owner: str | None = None) -> list[Due]:
        """Return schedules that need somebody."""
        return _troubled(self._rows.values(), limit, owner)

    async def cadences(self, owner: str | None = None) -> list[tuple[Cadence, Policy, int]]:
        """Return each cadence and policy with the number of schedules."""
        return _cadences(self._rows.values(), owner)


def _tallies(
    rows: Iterable[Row], since: Instant, until: Instant, width: int, owner: str | None
) -> list[Tally]:
    """Return how many recorded ticks ended how."""
    runs = (run for row in _owned(rows, owner) for run in row.runs() if run.created_at is not None)
    return tallied(runs, since, until, width)


def _open_runs(rows: Iterable[Row], limit: int, owner: str | None) -> list[Run]:
    """Return runs that have not ended, the oldest first."""
    runs = [run for row in _owned(rows, owner) for run in row.open.values() if run.created_at is not None]
    return sorted(runs, key=lambda run: (run.run_at, run.schedule_id, run.kind))[:limit]


def _find_ids(rows: Iterable[Row], part: str, after: str, limit: int, owner: str | None) -> list[str]:
    """Return ids that contain a text and come after another id."""
    found = (row.schedule.id for row in _owned(rows, owner) if part in row.schedule.id > after)
    return heapq.nsmallest(limit, found)


def _troubled(rows: Iterable[Row], limit: int, owner: str | None) -> list[Due]:
    """Return schedules that need somebody, ordered by id."""
    found = [row.due() for row in _owned(rows, owner) if is_troubled(row.state)]
    return sorted(found, key=lambda due: due.schedule.id)[:limit]


def _cadences(rows: Iterable[Row], owner: str | None) -> list[tuple[Cadence, Policy, int]]:
    """Return each cadence and policy with the number of schedules that are not paused."""
    running = [row.schedule for row in _owned(rows, owner) if not row.schedule.paused]
    counts = Counter((schedule.cadence, schedule.policy) for schedule in running)
    return [(cadence, policy, number) for (cadence, policy), number in counts.items()]


def _owned(rows: Iterable[Row], owner: str | None) -> list[Row]:
    return [row for row in rows if owner in (None, owner_of(row.schedule))]
