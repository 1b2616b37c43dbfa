"""The facts about a namespace: who leads it, and whether its last leader said goodbye."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.errors import StoreError, quoted
from dutiful.stores.sqlite import inline_runs
from dutiful.stores.sqlite.faults import RESTORE

if TYPE_CHECKING:
    import sqlite3

_ORPHANS_ARE_DUE = (
    "UPDATE states SET wake_at = 0, version = version + 1 WHERE namespace = ?"
    " AND number IN (SELECT schedule FROM runs WHERE phase <> 'ended')"
    " AND number NOT IN (SELECT number FROM declarations WHERE damage IS NOT NULL)"
)


def get(connection: sqlite3.Connection, namespace: str, name: str, default: int) -> int:
    """Return a number kept under `name`; raise StoreError where something else is."""
    query = "SELECT value FROM meta WHERE namespace = ? AND name = ?"
    found = connection.execute(query, (namespace, name)).fetchone()
    if found is None:
        return default
    if not isinstance(found[0], int):
        problem = f"{name!r} of the namespace {namespace!r} is {quoted(found[0])!r} in the table meta"
        raise StoreError(problem, f"it must be a number: {RESTORE}")
    return found[0]


def put(connection: sqlite3.Connection, namespace: str, name: str, value: int) -> None:
    """Keep a number under `name`."""
    statement = "INSERT INTO meta VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
    connection.execute(statement, (namespace, name, value))


def raise_to(connection: sqlite3.Connection, namespace: str, name: str, value: int) -> None:
    """Keep a number under `name`, unless a higher one is kept there."""
    put(connection, namespace, name, max(value, get(connection, namespace, name, value)))


def door(connection: sqlite3.Connection, namespace: str) -> str | None:
    """Return which door owns the namespace, None where none has claimed it."""
    query = "SELECT value FROM meta WHERE namespace = ? AND name = 'door'"
    found = connection.execute(query, (namespace,)).fetchone()
    return None if found is None else str(found[0])


def claim(connection: sqlite3.Connection, namespace: str, claimant: str) -> str:
    """Give the namespace to the claimant unless another door has it; return which door has it."""
    statement = "INSERT INTO meta VALUES (?, 'door', ?) ON CONFLICT DO NOTHING"
    connection.execute(statement, (namespace, claimant))
    return door(connection, namespace) or claimant


def begin_leadership(connection: sqlite3.Connection, namespace: str) -> int:
    """Return the epoch that begins; what was in flight under the last one is due, to be adopted."""
    epoch = get(connection, namespace, "epoch", 0) + 1
    put(connection, namespace, "epoch", epoch)
    put(connection, namespace, "clean", 0)
    inline_runs.give_rows_to_all(connection, namespace)
    connection.execute(_ORPHANS_ARE_DUE, (namespace,))
    return epoch
