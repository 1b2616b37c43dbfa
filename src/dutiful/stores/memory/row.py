"""One schedule of the reference store, and everything about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.run import Phase
from dutiful.core.snapshot import Due

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.plan.reconcile import Note
    from dutiful.core.run import Kind, Run
    from dutiful.core.schedule import Schedule, State


# Shared by all that have no runs, and never written to: an empty dictionary each is a tenth of the memory.
_NO_RUNS: dict[tuple[Instant, Kind], Run] = {}
_ENDED = Phase.ENDED


def by_tick(run: Run) -> tuple[Instant, str]:
    """Return the order of the rows of a schedule."""
    return run.run_at, run.kind


class Row:
    """One schedule and everything about it."""

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
        self.facets: frozenset[tuple[str, str]] = frozenset()
        self.open = self.ended = _NO_RUNS

    def due(self) -> Due:
        """Return it as the planner sees it."""
        # A named tuple's own constructor takes twice as long.
        runs = sorted(self.open.values(), key=by_tick) if self.open else ()
        return tuple.__new__(Due, (
            self.schedule, self.state, runs, self.version, self.blocked, self.pruned_until, (), self.number,
        ))  # fmt: skip

    def runs(self) -> list[Run]:
        """Return all rows of its ledger, in no order."""
        return [*self.open.values(), *self.ended.values()]

    def group(self) -> str | None:
        """Return its capacity group."""
        capacity = self.schedule.policy.capacity
        return None if capacity is None else capacity.group

    def put(self, run: Run, keep: bool) -> None:
        """Write a row; one that has ended is only kept where there is a ledger."""
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
