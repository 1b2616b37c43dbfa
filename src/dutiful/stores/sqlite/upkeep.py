"""Housekeeping: cursors that a wrong clock carried too far, and rows that nobody needs any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

    from dutiful.core.cadence import Instant
    from dutiful.ports import Retention

# Small enough that the moves of a pass do not wait long behind a slice.
_SLICE = 100
_REARM = (
    "UPDATE states SET cursor = ?1, wake_at = ?1, skipped_at = NULL, skipped_reason = NULL,"
    " skipped_ticks = NULL, version = version + 1 WHERE namespace = ?2 AND cursor > ?1 + ?3"
    " AND number NOT IN (SELECT number FROM schedules WHERE damage IS NOT NULL)"
)
_EXPENDABLE = """
SELECT run_at, schedule, kind
FROM (
  SELECT run_at, schedule, kind, coalesce(run_until, run_at) AS last,
    row_number() OVER (PARTITION BY schedule ORDER BY run_at DESC, kind DESC) AS rank
  FROM runs WHERE schedule BETWEEN ? AND ? AND phase = 'ended'
)
JOIN states ON states.number = schedule
WHERE namespace = ? AND last <= cursor AND run_at IS NOT skipped_at AND (rank > ? OR last < ?)
"""
_DELETE = "DELETE FROM runs WHERE run_at = ? AND schedule = ? AND kind = ?"


def rearm(connection: sqlite3.Connection, namespace: str, now: Instant, beyond: int) -> int:
    """Set cursors more than `beyond` ahead of `now` back to `now`; return how many there were."""
    return connection.execute(_REARM, (now, namespace, beyond)).rowcount


def slices(connection: sqlite3.Connection, namespace: str) -> list[tuple[int, int]]:
    """Return ranges of schedule numbers that together cover the namespace."""
    query = "SELECT coalesce(min(number), 1), coalesce(max(number), 0) FROM schedules WHERE namespace = ?"
    lowest, highest = connection.execute(query, (namespace,)).fetchone()
    return [(first, first + _SLICE - 1) for first in range(lowest, highest + 1, _SLICE)]


def prune(
    connection: sqlite3.Connection,
    namespace: str,
    numbers: tuple[int, int],
    now: Instant,
    retention: Retention,
) -> int:
    """Delete the rows of these schedules that are beyond the retention; return how many there were."""
    values = (*numbers, namespace, retention.rows, now - retention.age)
    expendable = connection.execute(_EXPENDABLE, values).fetchall()
    connection.executemany(_DELETE, expendable)
    return len(expendable)
