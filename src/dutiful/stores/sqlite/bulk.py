"""Thousands of small writes at a time, and which of them hit their row."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from dutiful.stores.rows import Row

Write: TypeAlias = "tuple[str, Row]"
"""A statement that changes at most one row, with its values. Plain: there are thousands."""

Own: TypeAlias = "tuple[Row, int, int | None]"
"""The values that many rows are written, the number of one of them, and the value that is its own."""


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
        answers = [connection.execute(*write).rowcount == 1 for write in writes]
    connection.execute("RELEASE bulk")
    return answers


def _all_hit(connection: sqlite3.Connection, writes: Sequence[Write]) -> bool:
    values: defaultdict[str, list[Row]] = defaultdict(list)
    for statement, row in writes:
        values[statement].append(row)
    return all(
        connection.executemany(statement, rows).rowcount == len(rows) for statement, rows in values.items()
    )


def hits_alike(connection: sqlite3.Connection, statement: str, writes: Sequence[Own]) -> list[bool]:
    """Do one statement for all writes, and return for each whether its row was there to be hit.

    Its last value is a JSON object of the rows: their own values by their numbers. Schedules that fall due
    together are written much the same, and one execution for all of them is less work than as many.
    """
    if not writes:
        return []
    alike: defaultdict[Row, dict[int, int | None]] = defaultdict(dict)
    for values, number, own in writes:
        alike[values][number] = own
    connection.execute("SAVEPOINT alike")
    hit = sum(
        connection.execute(statement, (*values, json.dumps(rows))).rowcount for values, rows in alike.items()
    )
    answers = [True] * len(writes)
    if hit < len(writes):
        connection.execute("ROLLBACK TO alike")
        one_by_one = ((*values, json.dumps({number: own})) for values, number, own in writes)
        answers = [connection.execute(statement, write).rowcount == 1 for write in one_by_one]
    connection.execute("RELEASE alike")
    return answers
