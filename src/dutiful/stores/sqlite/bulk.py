"""Thousands of small writes at a time, and which of them hit their row."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from dutiful.stores.sqlite.rows import Row


class Bulk(NamedTuple):
    """A statement that takes its rows from `json_each(?)`: the interpreter is free while all are written.

    For numbers and words of ours only. A text of somebody else would end at its first NUL.
    """

    sql: str


Write: TypeAlias = "tuple[str | Bulk, Row]"
"""A statement that changes at most one row, with its values. Plain: there are thousands."""


def hits(connection: sqlite3.Connection, writes: Sequence[Write]) -> list[bool]:
    """Do all writes and return for each whether its row was there to be hit.

    They are done like with like, a statement at a time. SQLite then tells how many rows were hit and
    not which; nearly always it is all of them. Otherwise they are done again one by one, in order.
    """
    if not writes:
        return []
    connection.execute("SAVEPOINT bulk")
    answers = [True] * len(writes)
    if not _all_hit(connection, writes):
        connection.execute("ROLLBACK TO bulk")
        answers = [do(connection, statement, [row]) == 1 for statement, row in writes]
    connection.execute("RELEASE bulk")
    return answers


def _all_hit(connection: sqlite3.Connection, writes: Sequence[Write]) -> bool:
    values: defaultdict[str | Bulk, list[Row]] = defaultdict(list)
    for statement, row in writes:
        values[statement].append(row)
    return all(do(connection, statement, rows) == len(rows) for statement, rows in values.items())


def do(connection: sqlite3.Connection, statement: str | Bulk, rows: Sequence[Row]) -> int:
    """Do a statement with each of the rows, and return how many rows of the table it has hit."""
    if isinstance(statement, Bulk):
        return connection.execute(statement.sql, (json.dumps(rows),)).rowcount
    return connection.executemany(statement, rows).rowcount
