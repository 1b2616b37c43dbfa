"""Declared schedules compared with stored ones: new, kept, overridden, orphaned or removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from dutiful.core.changes import Changes, Put
from dutiful.core.plan.jitter import first_wake
from dutiful.core.run import IN_FLIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dutiful.core.schedule import Schedule, State
    from dutiful.core.snapshot import Snapshot


class Survey(NamedTuple):
    """A store compared with a declaration; other schedules are stored as declared, without open runs."""

    # In the order of the declaration, each with the stored schedule of the same id; None where none is
    # stored, or where it cannot be read.
    differing: Sequence[tuple[Schedule, Snapshot | None]]
    # Ids that are stored but not declared, in the order in which they were first stored.
    undeclared: Sequence[str]


@dataclass(frozen=True, slots=True)
class Difference:
    """The change to one schedule id, with (field, from, to) for each declared field that changed."""

    id: str
    kind: Literal["added", "overridden", "orphaned", "removed"]
    changed: tuple[tuple[str, object, object], ...] = ()


def reconcile(survey: Survey, arm: Callable[[Schedule], State]) -> tuple[list[Difference], Changes]:
    """Return the differences and the changes that make the store match the declaration.

    A schedule that is stored as declared is neither a difference nor written. An overridden schedule keeps
    its history; `arm` gives the state of a new one.
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
    # Open runs may need attention before the next tick: wake the schedule at once, and let the planner
    # decide.
    state = known.state
    if declared.cadence != known.schedule.cadence:
        # Ticks of the new cadence before the last attempt under the old one are not owed.
        cursor = max(state.cursor, state.attempted_at or 0)
        state = state._replace(cursor=cursor, skipped=None)
    # An operator paused the schedule; a new declaration does not resume it.
    declared = declared._replace(paused=known.schedule.paused, pause_until=known.schedule.pause_until)
    return Put(declared, state, 0 if known.runs else first_wake(declared, state), known.version)
