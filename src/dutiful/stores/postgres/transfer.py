"""Copies of a namespace: reads and writes its PostgreSQL rows unchanged."""

# ruff: noqa: S608 - the statements are made of table and column names written down here, never of values

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.schedule import payload_owner
from dutiful.stores.postgres.statements import Values, recount
from dutiful.stores.rows import listed
from dutiful.stores.transfer import COPYING, TABLES, Facts, shifted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dutiful.stores.postgres.connections import Session
    from dutiful.stores.postgres.edits import Places
    from dutiful.stores.rows import Row

_OURS = "(SELECT number FROM declarations WHERE namespace = $1)"
_USED = (
    "(SELECT cadence_number FROM declarations WHERE namespace = $1"
    " UNION SELECT policy_number FROM declarations WHERE namespace = $1)"
)
# The rows of a namespace, by table.
_WHERE = {
    "texts": f"texts WHERE number IN {_USED}",
    "states": "states JOIN declarations USING (number) WHERE namespace = $1",
    "runs": f"runs WHERE schedule IN {_OURS}",
    "notes": f"notes WHERE number IN {_OURS}",
}
_OPEN_SINCE = (
    "SELECT schedule, min(run_at) FROM runs JOIN declarations ON number = schedule"
    " WHERE namespace = $1 AND phase <> 'ended' GROUP BY 1"
)
# Numbers written by a copy must not be assigned again.
_RESERVE = (
    "SELECT setval(pg_get_serial_sequence('declarations', 'number'),"
    " greatest((SELECT max(number) FROM declarations), (SELECT last_value FROM {sequence})))"
)


def _where(table: str) -> str:
    return _WHERE.get(table, f"{table} WHERE namespace = $1")


async def facts(session: Session, namespace: str) -> Facts:
    """Return the facts of a namespace that are not rows of its tables."""
    door, floor = await session.row(
        "SELECT door, version_floor FROM namespaces WHERE namespace = $1", namespace
    )
    epoch = await session.value("SELECT max(epoch) FROM shards WHERE namespace = $1", namespace)
    return Facts(door, epoch, floor, await _written(session, namespace))


async def _written(session: Session, namespace: str) -> str:
    """Return a text that changes with every write: the sums of the transactions that wrote the rows."""
    sums = [
        await session.value(f"SELECT sum({table}.xmin::text::bigint)::text FROM {_where(table)}", namespace)
        for table in TABLES
        if table != "texts"
    ]
    return " ".join(str(each) for each in sums)


async def read_rows(session: Session, namespace: str, table: str, after: Row | None, limit: int) -> list[Row]:
    """Return rows in the order of their keys."""
    columns, key, _ = TABLES[table]
    keys = listed(columns[:key])
    beyond = "" if after is None else f" AND ({keys}) > ({listed(f'${n + 3}' for n in range(key))})"
    query = f"SELECT {listed(columns)} FROM {_where(table)}{beyond} ORDER BY {keys} LIMIT $2"
    return [tuple(row) for row in await session.rows(query, namespace, limit, *(after or ()))]


async def count_rows(session: Session, namespace: str, table: str) -> int:
    """Return how many rows of a namespace a table has."""
    return int(await session.value(f"SELECT count(*) FROM {_where(table)}", namespace))


async def write_rows(
    session: Session, namespace: str, places: Places, table: str, rows: Sequence[Row], offset: int
) -> None:
    """Write rows; an existing text with the same number is the same text."""
    columns = TABLES[table].columns
    values = shifted(table, rows, offset)
    if table == "declarations":
        payload = columns.index("payload")
        columns, values = (*columns, "owner"), [[*row, payload_owner(str(row[payload]))] for row in values]
    if table == "states":
        columns, values = _state_rows(columns, values, places)
    constants = {} if table in ("texts", "states", "runs", "notes") else {"namespace": namespace}
    sent = Values(*constants.values())
    source = sent.rows(columns, values, numbered=columns[0])
    overriding = " OVERRIDING SYSTEM VALUE" if table == "declarations" else ""
    await session.run(
        f"INSERT INTO {table} ({listed((*constants, *columns))}){overriding}"
        f" SELECT {listed((*(f'${n}' for n in range(1, len(constants) + 1)), *columns))} FROM {source} AS new"
        " ON CONFLICT DO NOTHING",
        *sent.all,
    )


def _state_rows(
    columns: tuple[str, ...], values: list[list[object]], places: Places
) -> tuple[tuple[str, ...], list[list[object]]]:
    id_, group, blocked = (columns.index(name) for name in ("id", "capacity_group", "blocked"))
    for row in values:
        row[blocked] = bool(row[blocked])
    rows = [
        [*row[:id_], *row[id_ + 1 :], places.shards[places.place(str(row[id_]), row[group])]]
        for row in values
    ]
    return (*columns[:id_], *columns[id_ + 1 :], "shard"), rows


async def highest_number(session: Session) -> int:
    """Return the highest number that a schedule of any namespace has had."""
    sequence = await session.value("SELECT pg_get_serial_sequence('declarations', 'number')")
    last, is_used = await session.row(f"SELECT last_value, is_called FROM {sequence}")
    return int(last) if is_used else 0


async def clear(session: Session, namespace: str) -> None:
    """Delete everything in a namespace, and mark it as a copy in progress."""
    for table in ("declarations", "workflows", "starts"):
        await session.run(f"DELETE FROM {table} WHERE namespace = $1", namespace)
    await session.run("UPDATE namespaces SET door = $2 WHERE namespace = $1", namespace, COPYING)


async def finish(session: Session, namespace: str, facts: Facts) -> None:
    """Complete the derived values, and give the namespace to its door."""
    sequence = await session.value("SELECT pg_get_serial_sequence('declarations', 'number')")
    await session.run(_RESERVE.format(sequence=sequence))
    await recount(session, dict(await session.rows(_OPEN_SINCE, namespace)))
    await session.run(
        "UPDATE shards SET epoch = greatest(epoch, $2) WHERE namespace = $1", namespace, facts.epoch
    )
    await session.run(
        "UPDATE namespaces SET door = $2, version_floor = greatest(version_floor, $3) WHERE namespace = $1",
        namespace, facts.door, facts.version_floor,
    )  # fmt: skip
