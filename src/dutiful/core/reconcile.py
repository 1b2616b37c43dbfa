"""Declared schedules against stored ones: what is new, kept, overridden, orphaned or removed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from dutiful.core.draft import first_wake
from dutiful.core.run import IN_FLIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.draft import Due
    from dutiful.core.run import Run
    from dutiful.core.schedule import Schedule, State


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


@dataclass(frozen=True, slots=True)
class Difference:
    """What became of one schedule id, with (field, from, to) for each declared field that changed."""

    id: str
    kind: Literal["added", "kept", "overridden", "orphaned", "removed"]
    changed: tuple[tuple[str, object, object], ...] = ()


def reconcile(
    declared: Iterable[Schedule],
    stored: Mapping[str, Due],
    arm: Callable[[Schedule], State],
) -> tuple[list[Difference], Changes]:
    """Return the differences and the changes that make the store match the declaration.

    A schedule that was there keeps its history, also when it is overridden; `arm` gives the state of
    a new one. A kept schedule is not written at all.
    """
    differences, puts, seen = [], [], set[str]()
    for schedule in declared:
        seen.add(schedule.id)
        known = stored.get(schedule.id)
        difference = _compare(schedule, known)
        differences.append(difference)
        if known is None:
            state = arm(schedule)
            puts.append(Put(schedule, state, first_wake(schedule, state), 0))
        elif difference.changed:
            puts.append(_override(schedule, known))
    removed = [id_ for id_ in stored if id_ not in seen]
    differences += [Difference(id_, "removed") for id_ in removed]
    return differences, Changes(puts, removed)


def _compare(declared: Schedule, known: Due | None) -> Difference:
    if known is None:
        return Difference(declared.id, "added")
    changed = _changed_fields(known.schedule, declared)
    if any(run.phase in IN_FLIGHT for run in known.runs):
        return Difference(declared.id, "orphaned", changed)
    return Difference(declared.id, "overridden" if changed else "kept", changed)


def _changed_fields(old: Schedule, new: Schedule) -> tuple[tuple[str, object, object], ...]:
    # Nearly all are kept at a restart, and a million are compared.
    if (old.task, old.cadence, old.policy, old.window) == (new.task, new.cadence, new.policy, new.window):
        return ()
    names = ("task", "cadence", "policy", "window")
    pairs = [(name, getattr(old, name), getattr(new, name)) for name in names]
    return tuple((name, before, after) for name, before, after in pairs if before != after)


def _override(declared: Schedule, known: Due) -> Put:
    # Open runs may want attention before the next tick: look at once, and let the planner decide.
    state = known.state
    if declared.cadence != known.schedule.cadence:
        # The new cadence owes nothing that lies before the last attempt under the old one.
        cursor = max(state.cursor, state.attempted_at or 0)
        state = state._replace(cursor=cursor, skipped=None, decided_until=0)
    # Pausing is the operator's; a declaration does not undo it.
    declared = replace(declared, paused=known.schedule.paused)
    return Put(declared, state, 0 if known.runs else first_wake(declared, state), known.version)
