"""A namespace as rows, which `dutiful store copy` reads from one durable store and writes to another.

The columns are those that all dialects share. The target store derives its other columns from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from dutiful.core.errors import StoreError
from dutiful.stores.rows import DECLARED, NOTE, RUN_ALL, STATE, Row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

CHUNK = 2000
COPIER = "transfer"
"""The owner of the shards of a namespace while it is copied."""
COPYING = "copy"
"""The door that owns an incomplete copy: every other door is refused until the copy is complete."""


class Table(NamedTuple):
    """The columns that are copied; the first ones are the key, in whose order rows are read."""

    columns: tuple[str, ...]
    key: int
    # The column with the number of a schedule, which is another one in the store that is written to.
    number: str | None = None


_STATE = (*STATE, "version", "wake_at", "idle_wake_at", "blocked", "capacity_group", "pruned_until")
_RUN = tuple(column for column in RUN_ALL if column not in ("run_at", "kind"))
TABLES: Mapping[str, Table] = {
    "texts": Table(("number", "text"), 1),
    "declarations": Table(("number", "id", *DECLARED, "checksum", "damage"), 1, "number"),
    "states": Table(("number", "id", *_STATE), 1, "number"),
    "runs": Table(("run_at", "schedule", "kind", *_RUN), 3, "schedule"),
    "notes": Table(("number", *NOTE), 1, "number"),
    "facets": Table(("name", "value", "id", "number"), 3, "number"),
    "workflows": Table(("workflow_id", "version", "owner", "dag", "updated_at"), 2),
    "starts": Table(("key", "started_at"), 1),
}


class Facts(NamedTuple):
    """The facts of a namespace that are not rows of its tables."""

    door: str | None
    epoch: int
    version_floor: int
    # A text that is another one after any process has written to the namespace.
    written: str = ""


class Transferable(Protocol):
    """A durable store whose rows can be read and written as they are, while this process leads it."""

    async def begin_transfer(self) -> Facts | None:
        """Lead the whole namespace and return its facts; None while another process leads."""

    async def read_rows(self, table: str, after: Row | None, limit: int) -> list[Row]:
        """Return rows of the shared columns whose keys come after the key `after`, ordered by key."""

    async def write_rows(self, table: str, rows: Sequence[Row], offset: int) -> None:
        """Write rows; numbers of schedules grow by `offset`."""

    async def highest_number(self) -> int:
        """Return the highest number that a schedule of any namespace has had."""

    async def clear(self) -> None:
        """Delete everything in the namespace, and mark it as being written to."""

    async def count_rows(self, table: str) -> int:
        """Return how many rows of the namespace a table has."""

    async def finish(self, facts: Facts) -> None:
        """Complete the derived values, and give the namespace to its door."""


async def copy(
    source: Transferable, target: Transferable, progress: Callable[[float], None] | None = None
) -> dict[str, int]:
    """Copy a namespace and return how many rows of each table there are; both stores are open.

    `progress` is told the fraction of the rows that are written, from 0 to 1.

    Raises StoreError where a process leads either of them, where the target holds something, where the
    source was written to meanwhile, or where the counts differ afterwards. A target that was left half
    written is begun anew.
    """
    facts = _led(await source.begin_transfer(), "is read from")
    there = _led(await target.begin_transfer(), "is written to")
    if there.door != COPYING and any([await target.count_rows(table) for table in TABLES]):
        problem = "The namespace that is written to is not empty"
        raise StoreError(problem, "name another one with --to-namespace; nothing was changed")
    await target.clear()
    offset = await target.highest_number()
    await _copy_rows(source, target, offset, progress)
    counts = {table: (await source.count_rows(table), await target.count_rows(table)) for table in TABLES}
    wrong = {table: pair for table, pair in counts.items() if pair[0] != pair[1]}
    if wrong:
        problem = f"The numbers of rows differ after the copy: {wrong}"
        raise StoreError(
            problem, "copy again while nothing else writes; the target cannot be used until then"
        )
    if await source.begin_transfer() != facts:
        problem = "The store that is read from was written to during the copy, or is led by another process"
        raise StoreError(problem, "stop every process on it, API nodes too, and copy again")
    await target.finish(facts._replace(epoch=max(facts.epoch, there.epoch)))
    return {table: pair[0] for table, pair in counts.items()}


def _led(facts: Facts | None, which: str) -> Facts:
    if facts is None:
        problem = f"A process leads the store that {which}"
        raise StoreError(problem, "stop it first: what it does during a copy would be lost")
    return facts


async def _copy_rows(
    source: Transferable, target: Transferable, offset: int, progress: Callable[[float], None] | None
) -> None:
    # Counting the rows of a long ledger takes seconds, so they are counted for a bar only.
    whole = 0 if progress is None else sum([await source.count_rows(table) for table in TABLES])
    done = 0
    for table in TABLES:
        async for rows in chunks(source, table):
            await target.write_rows(table, rows, offset)
            done += len(rows)
            if progress is not None:
                progress(done / whole)


async def chunks(source: Transferable, table: str) -> AsyncIterator[list[Row]]:
    """Yield the rows of a table of the namespace, some at a time."""
    after: Row | None = None
    while rows := await source.read_rows(table, after, CHUNK):
        yield rows
        after = rows[-1][: TABLES[table].key]


def shifted(table: str, rows: Sequence[Row], offset: int) -> list[list[object]]:
    """Return rows with the numbers that their schedules get in the target store."""
    columns, _, number = TABLES[table]
    moved = [list(row) for row in rows]
    if number is not None:
        place = columns.index(number)
        for row in moved:
            row[place] += offset
    return moved
