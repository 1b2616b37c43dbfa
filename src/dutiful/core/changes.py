"""The changes of a store: schedules to write and to remove, rows, notes, workflows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.run import Run
    from dutiful.core.schedule import Schedule, State
    from dutiful.core.workflow import PutWorkflow


class Put(NamedTuple):
    """Store this schedule with this state, and look at it at `wake_at`."""

    schedule: Schedule
    state: State
    wake_at: Instant | None
    # The version that the edit was made from; 0: the schedule must not exist yet; None: any version.
    version: int | None = None


class Note(NamedTuple):
    """Facts about a schedule for people; no decision depends on them."""

    updated_at: Instant
    pause_note: str | None = None
    # When the schedule was paused, and by whom; None while it is not paused.
    paused_at: Instant | None = None
    paused_by: str | None = None


class Changes(NamedTuple):
    """The rows to write and to delete; applied all together or not at all.

    `rows` are ledger rows of the schedules in `puts`: new rows, or new versions of open runs and of growing
    ranges. `drops` are rows of skipped ticks to delete first; if one of them has changed meanwhile, nothing
    is applied.
    """

    puts: Sequence[Put] = ()
    removes: Sequence[str] = ()
    rows: Sequence[Run] = ()
    drops: Sequence[Run] = ()
    # By schedule id; ids that are not stored are ignored.
    notes: Sequence[tuple[str, Note]] = ()
    workflows: Sequence[PutWorkflow] = ()
    # By schedule id: the names and values by which the schedule can be found from now on.
    facets: Sequence[tuple[str, Sequence[tuple[str, str]]]] = ()
    # Applied only while this epoch leads; None: under any leader.
    under: int | None = None
