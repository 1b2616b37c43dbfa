"""Declared schedules against stored ones: what is new, kept, overridden, orphaned or removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from dutiful.core.opening import first_wake
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
    kind: Literal["added", "overridden", "orphaned", "removed"]
    changed: tuple[tuple[str, object, object], ...] = ()


def reconcile(
    declared: Iterable[Schedule],
    stored: Mapping[str, Due],
    arm: Callable[[Schedule], State],
) -> tuple[list[Difference], Changes]:
    """Return the differences and the changes that make the store match the declaration.

    One that is there as declared is no difference, and is not written at all. One that is overridden
    keeps its history; `arm` gives the state of a new one.
    """
    differences, puts, seen, alike = list[Difference](), list[Put](), set[str](), _Alike()
    for schedule in declared:
        seen.add(schedule.id)
        known = stored.get(schedule.id)
        if known is None:
            state = arm(schedule)
            differences.append(Difference(schedule.id, "added"))
            puts.append(Put(schedule, state, first_wake(schedule, state), 0))
        elif known.runs or not alike.are(known.schedule, schedule):
            _keep_history(schedule, known, differences, puts)
    removed = [id_ for id_ in stored if id_ not in seen]
    differences += [Difference(id_, "removed") for id_ in removed]
    return differences, Changes(puts, removed)


class _Alike:
    """Tells whether two schedules are declared alike; what many share is compared once."""

    def __init__(self) -> None:
        # The values are kept too, so that no other one gets its identity.
        self._known: dict[tuple[int, int, int, int], tuple[bool, object]] = {}

    def are(self, old: Schedule, new: Schedule) -> bool:
        """Return whether the declared fields are equal."""
        shared = old.cadence, new.cadence, old.policy, new.policy
        key = id(old.cadence), id(new.cadence), id(old.policy), id(new.policy)
        if key not in self._known:
            self._known[key] = shared[0] == shared[1] and shared[2] == shared[3], shared
        return self._known[key][0] and old.task == new.task and old.window == new.window


def _keep_history(schedule: Schedule, known: Due, differences: list[Difference], puts: list[Put]) -> None:
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


def _override(declared: Schedule, known: Due) -> Put:
    # Open runs may want attention before the next tick: look at once, and let the planner decide.
    state = known.state
    if declared.cadence != known.schedule.cadence:
        # The new cadence owes nothing that lies before the last attempt under the old one.
        cursor = max(state.cursor, state.attempted_at or 0)
        state = state._replace(cursor=cursor, skipped=None, decided_until=0)
    # Pausing is the operator's; a declaration does not undo it.
    declared = declared._replace(paused=known.schedule.paused)
    return Put(declared, state, 0 if known.runs else first_wake(declared, state), known.version)
