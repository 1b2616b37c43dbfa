"""One schedule of the reference store with its state and runs, and the queue of wakes."""

from __future__ import annotations

import heapq
from operator import attrgetter
from typing import TYPE_CHECKING

from dutiful.core.run import Phase
from dutiful.core.snapshot import Snapshot
from dutiful.runtime.ports import PART_OF_ID

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.changes import Note
    from dutiful.core.run import Kind, Run
    from dutiful.core.schedule import Schedule, State
    from dutiful.runtime.ports import Facets

# One empty value for all schedules, never written to: a separate one per schedule took a third of the
# memory.
_NO_RUNS: dict[tuple[Instant, Kind], Run] = {}
_NO_FACETS: frozenset[tuple[str, str]] = frozenset()
_ENDED = Phase.ENDED


def by_tick(run: Run) -> tuple[Instant, str]:
    """Return the order of the rows of a schedule."""
    return run.run_at, run.kind


class Row:
    """One schedule, its state and its runs."""

    __slots__ = (
        *("blocked", "ended", "note", "number", "open", "pruned_until", "idle_wake_at", "schedule", "state"),
        *("facets", "version", "wake_at"),
    )

    def __init__(self, schedule: Schedule, state: State, number: int, version: int) -> None:
        self.schedule, self.state = schedule, state
        self.number, self.version = number, version
        self.wake_at: Instant | None = None
        self.idle_wake_at: Instant | None = None
        self.blocked = False
        self.pruned_until = 0
        self.note: Note | None = None
        self.facets = _NO_FACETS
        self.open = self.ended = _NO_RUNS

    def due(self) -> Snapshot:
        """Return the schedule as the planner sees it."""
        # tuple.__new__ takes half as long as the named tuple's constructor.
        runs = sorted(self.open.values(), key=by_tick) if self.open else ()
        return tuple.__new__(Snapshot, (
            self.schedule, self.state, runs, self.version, self.blocked, self.pruned_until, (), self.number,
        ))  # fmt: skip

    def has(self, facets: Facets) -> bool:
        """Return whether the schedule has all of these facets."""
        return all(
            facet[1] in self.schedule.id if facet[0] == PART_OF_ID else facet in self.facets
            for facet in facets
        )

    def runs(self) -> list[Run]:
        """Return all runs of the schedule, in no order."""
        return [*self.open.values(), *self.ended.values()]

    def group(self) -> str | None:
        """Return the capacity group of the schedule."""
        return self.schedule.policy.group

    def put(self, run: Run, keep: bool) -> None:
        """Write a run; an ended one is kept only where `keep` is true."""
        key = run.run_at, run.kind
        if run.phase is not _ENDED:
            self.open = {**self.open, key: run}
            return
        if key in self.open:
            del self.open[key]
            self.open = self.open or _NO_RUNS
        if keep and self.ended is _NO_RUNS:
            self.ended = {key: run}
        elif keep:
            self.ended[key] = run


_number = attrgetter("number")


class Wakes:
    """The rows by wake. An entry is skipped if its row has another wake by now."""

    def __init__(self) -> None:
        self._rows: dict[Instant, list[Row]] = {}
        # The keys of `_rows`, as a heap.
        self._instants: list[Instant] = []
        # The instants whose rows are sorted, lowest number last, because rows are taken from the end.
        self._sorted: set[Instant] = set()

    def add(self, row: Row, at: Instant) -> None:
        """Record that a row is due at an instant; the caller sets the row's wake to it."""
        rows = self._rows.get(at)
        if rows is None:
            self._rows[at] = [row]
            heapq.heappush(self._instants, at)
        else:
            rows.append(row)
            self._sorted.discard(at)

    def next(self) -> Instant | None:
        """Return the earliest wake."""
        while self._instants:
            at = self._instants[0]
            rows = self._rows[at]
            while rows and rows[-1].wake_at != at:
                rows.pop()
            if rows:
                return at
            heapq.heappop(self._instants)
            del self._rows[at]
            self._sorted.discard(at)
        return None

    def take(self, now: Instant, limit: int) -> tuple[list[Row], Instant | None]:
        """Remove the rows that are due by `now`, ordered by wake and number.

        Returns these rows, and the earliest wake of the remaining ones.
        """
        taken: list[Row] = []
        while (at := self.next()) is not None and at <= now and len(taken) < limit:
            rows = self._rows[at]
            if len(rows) > 1 and at not in self._sorted:
                # A row that left this instant and came back is listed twice.
                rows[:] = sorted({*rows}, key=_number, reverse=True)
                self._sorted.add(at)
            wanted = limit - len(taken)
            taken += [row for row in rows[: -wanted - 1 : -1] if row.wake_at == at]
            del rows[-wanted:]
        return taken, at
