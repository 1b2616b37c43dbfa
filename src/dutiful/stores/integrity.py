"""The checks of `dutiful store check` beyond damaged schedules: rows that contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from dutiful.core.errors import CodecError
from dutiful.stores.rows import RUN_ALL, read_run
from dutiful.stores.transfer import TABLES, chunks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dutiful.stores.transfer import Transferable

_RUN_AT = [TABLES["runs"].columns.index(column) for column in RUN_ALL]
_SCHEDULE = TABLES["runs"].columns.index("schedule")


class Inconsistency(NamedTuple):
    """A schedule, or "" for rows that belong to none, and the contradiction between its rows."""

    id: str
    problem: str


@runtime_checkable
class Counting(Protocol):
    """A store with derived columns, such as counts, which can differ from the rows behind them."""

    async def inconsistencies(self) -> Sequence[Inconsistency]:
        """Return the rows whose derived columns are not what they should be."""


async def inconsistencies(store: Transferable) -> list[Inconsistency]:
    """Read every row of a namespace, and return the contradictions; damaged schedules are not repeated."""
    ids = {row[0]: row[1] async for rows in chunks(store, "declarations") for row in rows}
    stated = {row[0] async for rows in chunks(store, "states") for row in rows}
    found = [Inconsistency(str(ids[number]), "has no state") for number in ids.keys() - stated]
    found += await _unreadable_runs(store, ids)
    if isinstance(store, Counting):
        found += await store.inconsistencies()
    return sorted(found)


async def _unreadable_runs(store: Transferable, ids: Mapping[object, object]) -> list[Inconsistency]:
    found = []
    async for rows in chunks(store, "runs"):
        for row in rows:
            schedule_id = str(ids.get(row[_SCHEDULE], ""))
            try:
                read_run(schedule_id, tuple(row[place] for place in _RUN_AT))
            except CodecError as error:
                found.append(Inconsistency(schedule_id, str(error)))
    return found
