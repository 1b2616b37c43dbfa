"""The rows of a namespace in SQLite, read and written as they are."""

# ruff: noqa: S608 - the statements are made of table and column names written down here, never of values

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.stores.rows import listed
from dutiful.stores.sqlite.file import owning_door, raise_number, stored_number
from dutiful.stores.transfer import COPYING, TABLES, Facts, shifted

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from dutiful.stores.rows import Row

_OURS = "(SELECT number FROM declarations WHERE namespace = :namespace)"
_USED = (
    "(SELECT cadence_number FROM declarations WHERE namespace = :namespace"
    " UNION SELECT policy_number FROM declarations WHERE namespace = :namespace)"
)
# The FROM item and the condition of a namespace's rows, by table.
_WHERE = {
    "texts": f"texts WHERE number IN {_USED}",
    "states": "states JOIN declarations USING (number) WHERE declarations.namespace = :namespace",
    "runs": f"runs WHERE schedule IN {_OURS}",
    "notes": f"notes WHERE number IN {_OURS}",
}


def _where(table: str) -> str:
    return _WHERE.get(table, f"{table} WHERE namespace = :namespace")


def facts(connection: sqlite3.Connection, namespace: str) -> Facts:
    """Return the facts of a namespace that are not rows of its tables."""
    floor = stored_number(connection, namespace, "version floor", 0)
    # Changes with every write of another connection.
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    epoch = stored_number(connection, namespace, "epoch", 0)
    return Facts(owning_door(connection, namespace), epoch, floor, str(version))


def read_rows(
    connection: sqlite3.Connection, namespace: str, table: str, after: Row | None, limit: int
) -> list[Row]:
    """Return rows in the order of their keys."""
    columns, key, _ = TABLES[table]
    keys = listed(columns[:key])
    values = {"namespace": namespace, "limit": limit}
    beyond = ""
    if after is not None:
        beyond = f" AND ({keys}) > ({listed(f':k{n}' for n in range(key))})"
        values |= {f"k{n}": value for n, value in enumerate(after)}
    query = f"SELECT {listed(columns)} FROM {_where(table)}{beyond} ORDER BY {keys} LIMIT :limit"
    return connection.execute(query, values).fetchall()


def count_rows(connection: sqlite3.Connection, namespace: str, table: str) -> int:
    """Return how many rows of a namespace a table has."""
    query = f"SELECT count(*) FROM {_where(table)}"
    found: int = connection.execute(query, {"namespace": namespace}).fetchone()[0]
    return found


def write_rows(
    connection: sqlite3.Connection, namespace: str, table: str, rows: Sequence[Row], offset: int
) -> None:
    """Write rows. A text that is stored already is equal, because its number is its hash."""
    columns = TABLES[table].columns
    values = shifted(table, rows, offset)
    if table == "states":
        place = columns.index("id")
        columns = (*columns[:place], *columns[place + 1 :])
        values = [[*row[:place], *row[place + 1 :]] for row in values]
    if table not in ("texts", "runs", "notes"):
        columns, values = (*columns, "namespace"), [[*row, namespace] for row in values]
    connection.executemany(
        f"INSERT OR IGNORE INTO {table} ({listed(columns)}) VALUES ({listed('?' * len(columns))})", values
    )


def highest_number(connection: sqlite3.Connection) -> int:
    """Return the highest number that a schedule of any namespace has had."""
    found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'declarations'").fetchone()
    return 0 if found is None else int(found[0])


def clear(connection: sqlite3.Connection, namespace: str) -> None:
    """Delete everything in a namespace, and mark it as being written to."""
    for table in ("declarations", "workflows", "starts"):
        connection.execute(f"DELETE FROM {table} WHERE namespace = ?", (namespace,))
    _put_door(connection, namespace, COPYING)


def finish(connection: sqlite3.Connection, namespace: str, facts: Facts) -> None:
    """Complete the derived values, and give the namespace to its door."""
    connection.execute(
        "UPDATE runs SET capacity_group = (SELECT capacity_group FROM states WHERE number = schedule)"
        " WHERE schedule IN (SELECT number FROM states WHERE namespace = ? AND capacity_group IS NOT NULL)",
        (namespace,),
    )
    raise_number(connection, namespace, "epoch", facts.epoch)
    raise_number(connection, namespace, "version floor", facts.version_floor)
    _put_door(connection, namespace, facts.door)


def _put_door(connection: sqlite3.Connection, namespace: str, door: str | None) -> None:
    connection.execute("DELETE FROM meta WHERE namespace = ? AND name = 'door'", (namespace,))
    if door is not None:
        connection.execute("INSERT INTO meta VALUES (?, 'door', ?)", (namespace, door))
