"""Writes of a leader beside rows that another transaction keeps locked.

A program that leaves a transaction open, or a process that is frozen within one, may keep the rows of a
schedule locked for hours. The other schedules of the shard are written all the same.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from asyncpg.exceptions import LockNotAvailableError

from dutiful.stores.postgres.statements import ORPHANS_ARE_DUE, give_rows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from dutiful.core.run import Run
    from dutiful.stores.postgres.connections import Session

T = TypeVar("T")
R = TypeVar("R")
# The instant and the kind of a run, which are its key beside its schedule.
_RunKey: TypeAlias = "tuple[int, str]"
logger = logging.getLogger("dutiful.stores")
_LOCKED = (
    "ScheduleLocked: another transaction keeps rows of the schedules %s locked, so they are late until it"
    " ends: look for it in pg_stat_activity"
)
# A log line names this many schedules.
_NAMED_MAX = 10
# Selects the schedules among these that cannot be written now. The end of a run also wakes the schedules that
# are blocked on its group, so one locked schedule of the group delays them all.
_LOCKED_STATES = (
    "WITH own AS MATERIALIZED (SELECT number, shard, capacity_group FROM states"
    " WHERE number = ANY($1::bigint[])),"
    " beside AS MATERIALIZED (SELECT number, capacity_group FROM states JOIN"
    " (SELECT DISTINCT shard, capacity_group FROM own) AS groups USING (shard, capacity_group)"
    " WHERE blocked),"
    " free AS MATERIALIZED (SELECT number FROM states WHERE number IN (SELECT number FROM own UNION"
    " SELECT number FROM beside) ORDER BY number FOR NO KEY UPDATE SKIP LOCKED)"
    " SELECT number FROM own WHERE number NOT IN (SELECT number FROM free) OR capacity_group IN"
    " (SELECT capacity_group FROM beside WHERE number NOT IN (SELECT number FROM free))"
)
_LOCKED_RUNS = (
    "WITH own AS MATERIALIZED (SELECT schedule, run_at, kind FROM"
    " unnest($1::bigint[], $2::bigint[], $3::text[]) AS asked (schedule, run_at, kind)"
    " JOIN runs USING (schedule, run_at, kind)),"
    " free AS MATERIALIZED (SELECT schedule, run_at, kind FROM own JOIN runs USING (schedule, run_at, kind)"
    " FOR UPDATE OF runs SKIP LOCKED)"
    " SELECT schedule FROM (TABLE own EXCEPT TABLE free) AS locked"
)
_WITH_OPEN_RUNS = "SELECT number FROM states WHERE shard = $1 AND (open_runs > 0 OR inline_at IS NOT NULL)"
_LOCK_FREE = (
    "SELECT number FROM states WHERE number = ANY($1::bigint[]) ORDER BY number FOR UPDATE SKIP LOCKED"
)


class LockedRows:
    """The schedules of a shard that could not be written at the last try, because their rows were locked."""

    def __init__(self) -> None:
        # By number, with the keys of the runs whose rows were to be changed.
        self._known: dict[int, set[_RunKey]] = {}

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of the schedules that were locked at the last look."""
        return [*self._known]

    async def look_again(self, session: Session) -> list[int]:
        """Return the numbers of the schedules that are still locked."""
        if self._known:
            locked = await _locked(session, self._known)
            self._known = {number: keys for number, keys in self._known.items() if number in locked}
        return self.numbers

    async def beside(
        self,
        session: Session,
        items: Sequence[T],
        target: Callable[[T], tuple[int, str, Sequence[Run]]],
        write: Callable[[Sequence[T]], Awaitable[R]],
    ) -> tuple[R, set[int]]:
        """Write the items whose rows are free; return the result, and the numbers of the others' schedules.

        `target` returns the number of the schedule of an item, its id, and the runs whose rows it changes.
        """
        if not self._known:
            try:
                return await write(items), set()
            except LockNotAvailableError:
                # The write waited as long as an edit may, and wrote nothing.
                pass
        # While any row is locked, look for locked rows first, so that no write waits for one.
        targets = [target(item) for item in items]
        asked: dict[int, set[_RunKey]] = {}
        for number, _, runs in targets:
            asked.setdefault(number, set()).update((run.run_at, run.kind) for run in runs)
        locked = await _locked(session, asked)
        self._tell({id_ for number, id_, _ in targets if number in locked.difference(self._known)})
        self._note(asked, locked)
        free = [item for item, (number, *_) in zip(items, targets, strict=True) if number not in locked]
        return await write(free), locked

    def _note(self, asked: Mapping[int, set[_RunKey]], locked: set[int]) -> None:
        for number, keys in asked.items():
            if number in locked:
                self._known[number] = keys | self._known.get(number, set())
            else:
                self._known.pop(number, None)

    def _tell(self, ids: set[str]) -> None:
        if ids:
            named = ", ".join(map(repr, sorted(ids)[:_NAMED_MAX]))
            logger.warning(
                _LOCKED, named if len(ids) <= _NAMED_MAX else f"{named} and {len(ids) - _NAMED_MAX} more"
            )


async def _locked(session: Session, asked: Mapping[int, set[_RunKey]]) -> set[int]:
    """Return the schedules among these whose rows are locked: their states, or their runs with these keys."""
    locked = {number for (number,) in await session.rows(_LOCKED_STATES, sorted(asked))}
    runs = [(number, *key) for number, keys in asked.items() for key in keys]
    if runs:
        rows = await session.rows(_LOCKED_RUNS, *map(list, zip(*runs, strict=True)))
        locked |= {number for (number,) in rows}
    return locked


async def lock_free(session: Session, numbers: Collection[int]) -> list[int]:
    """Lock those of these schedules that no other transaction keeps locked, and return their numbers."""
    rows = await session.rows(_LOCK_FREE, sorted(numbers)) if numbers else []
    return [number for (number,) in rows]


async def adopt_free(session: Session, shard: int, only: set[int] | None = None) -> set[int]:
    """Make the schedules with open runs due, where their rows are free; return the numbers of the others.

    Call it inside a transaction. With `only`, no other schedules are looked at.
    """
    if only is None:
        rows = await session.rows(_WITH_OPEN_RUNS, shard)
    else:
        rows = await session.rows(f"{_WITH_OPEN_RUNS} AND number = ANY($2::bigint[])", shard, sorted(only))
    wanted = {number for (number,) in rows}
    free = await lock_free(session, wanted)
    await give_rows(session, free)
    await session.run(f"{ORPHANS_ARE_DUE} AND number = ANY($2::bigint[])", shard, free)
    return wanted.difference(free)
