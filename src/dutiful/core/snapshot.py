"""What a plan is made from, a schedule that is due, and what it is made of, its move."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.run import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.run import Run
    from dutiful.core.schedule import Schedule, State


class Limits(NamedTuple):
    """What the engine tells the planner about itself."""

    epoch: int = 0
    # The time over which `spread` distributes missed ticks.
    lookahead: int = 60_000
    # In-process launchers start what they are handed; others only enqueue it.
    launch_status: Status = Status.STARTED
    # How many more runs the engine itself can take; None is without bound.
    room: int | None = None
    # When the runs that this engine carries began, by the clock as it is set now, under schedule, tick and
    # kind; None where it was not set while the engine was watching: their rows are right.
    began: Mapping[tuple[str, Instant, str], Instant] | None = None
    # The runs in flight per capacity group before this plan, as they are stored.
    stored: Mapping[str, int] = MappingProxyType({})


class Snapshot(NamedTuple):
    """A schedule to look at, its state, and its runs that have not ended, oldest first."""

    schedule: Schedule
    state: State
    runs: Sequence[Run] = ()
    # Counts every write to the schedule or its state; a move made on an older one is not committed.
    version: int = 0
    # Whether the last move left something waiting for a run in flight, or for room, to end.
    blocked: bool = False
    # Ticks up to here may have run and had their rows deleted.
    pruned_until: Instant = 0
    # Rows of ticks after the cursor, in any order: the clock was set back, and they come again.
    repeated: Sequence[Run] = ()
    # The store's own name for it. One of the same id that is declared after this was removed has another.
    number: int = 0


class Move(NamedTuple):
    """What becomes of one schedule in one pass; committed as a whole or not at all."""

    due: Snapshot
    state: State
    # When to look again; None: only when a run ends or the schedule is edited.
    wake_at: Instant | None = None
    # When to look again instead once its only run has ended: its timeout is then of no interest.
    idle_wake_at: Instant | None = None
    # Something waits for a run in flight, of this schedule or of its capacity group, to end.
    blocked: bool = False
    inserts: Sequence[Run] = ()
    changes: Sequence[Run] = ()
    cancels: Sequence[Run] = ()
