"""Declared schedules against stored ones: what is new, kept, overridden, orphaned or removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from dutiful.core.plan.fire_times import first_wake
from dutiful.core.run import IN_FLIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.run import Run
    from dutiful.core.schedule import Schedule, State
    from dutiful.core.snapshot import Snapshot
    from dutiful.core.workflow import PutWorkflow


class Put(NamedTuple):
    """Store this schedule with this state, and look at it at `wake_at`."""

    schedule: Schedule
    state: State
    wake_at: Instant | None
    # The version that this was made from, 0 for a schedule that is not there; None: whatever there is.
    version: int | None = None


class Note(NamedTuple):
    """What people want to know of a schedule and no decision needs."""

    updated_at: Instant
    pause_note: str | None = None


class Changes(NamedTuple):
    """What to write and what to delete; applied all together or not at all.

    `rows` are ledger rows of the schedules put: written, in place of what they extend or begin.
    `drops` are rows of skipped ticks that go before that, as they are or not at all.
    """

    puts: Sequence[Put] = ()
    removes: Sequence[str] = ()
    rows: Sequence[Run] = ()
    drops: Sequence[Run] = ()
    # By the id of a schedule; those that are not there are passed over.
    notes: Sequence[tuple[str, Note]] = ()
    workflows: Sequence[PutWorkflow] = ()
    # By the id of a schedule: the names and values by which it is found from now on.
    facets: Sequence[tuple[str, Sequence[tuple[str, str]]]] = ()
    # Written only while this epoch leads; None: whoever leads.
    under: int | None = None


class Survey(NamedTuple):
    """What a store holds beside a declaration; whatever is in neither list is there as declared, at rest."""

    # In the order of the declaration, each with what is stored under its id: None is nothing, or nothing
    # that can be read.
    differing: Sequence[tuple[Schedule, Snapshot | None]]
    # Ids that are stored and not declared, in the order in which they were first stored.
    undeclared: Sequence[str]


@dataclass(frozen=True, slots=True)
class Difference:
    """What became of one schedule id, with (field, from, to) for each declared field that changed."""

    id: str
    kind: Literal["added", "overridden", "orphaned", "removed"]
    changed: tuple[tuple[str, object, object], ...] = ()


def reconcile(survey: Survey, arm: Callable[[Schedule], State]) -> tuple[list[Difference], Changes]:
    """Return the differences and the changes that make the store match the declaration.

    One that is there as declared is no difference, and is not written at all. One that is overridden
    keeps its history; `arm` gives the state of a new one.
    """
    differences, puts = list[Difference](), list[Put]()
    for schedule, known in survey.differing:
        if known is None:
            state = arm(schedule)
            differences.append(Difference(schedule.id, "added"))
            puts.append(Put(schedule, state, first_wake(schedule, state), 0))
        else:
            _keep_history(schedule, known, differences, puts)
    differences += [Difference(id_, "removed") for id_ in survey.undeclared]
    return differences, Changes(puts, survey.undeclared)


def _keep_history(
    schedule: Schedule, known: Snapshot, differences: list[Difference], puts: list[Put]
) -> None:
    changed = _changed_fields(known.schedule, schedule)
    if any(run.phase in IN_FLIGHT for run in known.runs):
        differences.append(Difference(schedule.id, "orphaned", changed))
    elif changed:
        differences.append(Difference(schedule.id, "overridden", changed))
    if changed:
        puts.append(_override(schedule, known))


def _changed_fields(old: Schedule, new: Schedule) -> tuple[tuple[str, object, object], ...]:
    names = ("task", "cadence", "policy", "window")
    pairs = [(name, getattr(old, name), getattr(new, name)) for name in names]
    return tuple((name, before, after) for name, before, after in pairs if before != after)


def _override(declared: Schedule, known: Snapshot) -> Put:
    # Open runs may want attention before the next tick: look at once, and let the planner decide.
    state = known.state
    if declared.cadence != known.schedule.cadence:
        # The new cadence owes nothing that lies before the last attempt under the old one.
        cursor = max(state.cursor, state.attempted_at or 0)
        state = state._replace(cursor=cursor, skipped=None)
    # Pausing is the operator's; a declaration does not undo it.
    declared = declared._replace(paused=known.schedule.paused)
    return Put(declared, state, 0 if known.runs else first_wake(declared, state), known.version)
