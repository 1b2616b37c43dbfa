"""The planner's input (`Snapshot` and `Limits`) and its result (`Move`)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.policy import NO_OVERRIDES, Overrides
from dutiful.core.run import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.run import Run
    from dutiful.core.schedule import Schedule, State


class Limits(NamedTuple):
    """The state of the engine that the planner needs."""

    epoch: int = 0
    # The time over which `spread` distributes missed ticks.
    lookahead: int = 60_000
    # In-process launchers start a run at once; other launchers only enqueue it.
    launch_status: Status = Status.STARTED
    # How many more runs the engine itself can take; None is without bound.
    room: int | None = None
    # Start times of the runs that this engine carries, corrected for clock steps, by schedule, tick and kind;
    # None while the clock has not been stepped, when the rows are right.
    began: Mapping[tuple[str, Instant, str], Instant] | None = None
    overrides: Overrides = NO_OVERRIDES
    # The stored number of runs in flight per capacity group before this plan.
    stored: Mapping[str, int] = MappingProxyType({})


class Snapshot(NamedTuple):
    """A schedule to look at, its state, and its runs that have not ended, oldest first."""

    schedule: Schedule
    state: State
    runs: Sequence[Run] = ()
    # Counts every write to the schedule or its state; a move made from an older version is not committed.
    version: int = 0
    # Whether the last move left a tick or run waiting for a run in flight to end.
    blocked: bool = False
    # Ticks up to here may have run, with their rows deleted since.
    pruned_until: Instant = 0
    # Rows of ticks after the cursor, in any order: the clock was set back, so these ticks come again.
    repeated: Sequence[Run] = ()
    # The store's number of the schedule. A schedule that is removed and declared again gets a new number.
    number: int = 0


class Move(NamedTuple):
    """The planner's decision about one schedule in one pass; committed as a whole or not at all."""

    due: Snapshot
    state: State
    # When to look again; None: only after a run ends or the schedule is edited.
    wake_at: Instant | None = None
    # When to look again after the only open run has ended, which makes its timeout irrelevant.
    idle_wake_at: Instant | None = None
    # Whether a tick or run waits for a run in flight, of this schedule or its capacity group, to end.
    blocked: bool = False
    inserts: Sequence[Run] = ()
    changes: Sequence[Run] = ()
    cancels: Sequence[Run] = ()
