"""Housekeeping: cursors that a wrong clock carried too far, and rows that nobody needs any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

    from dutiful.core.cadence import Instant
    from dutiful.ports import Retention

# Small enough that the moves of a pass do not wait long behind a slice.
_SLICE = 100
_AHEAD = """
SELECT number FROM states
WHERE namespace = ?2 AND number NOT IN (SELECT number FROM declarations WHERE damage IS NOT NULL)
  AND (max(cursor, coalesce(ended_at, 0)) > ?1 + ?3 OR number IN (
    SELECT schedule FROM runs INDEXED BY runs_open
    WHERE phase <> 'ended' AND max(fire_at, coalesce(started_at, 0)) > ?1 + ?3))
"""
# What is pruned is decided for good: its rows cannot say so any more.
_REARM_CURSOR = (
    "UPDATE states SET cursor = max(?1, pruned_until), decided_until = max(cursor, decided_until),"
    " skipped_at = NULL, skipped_reason = NULL,"
    " skipped_ticks = NULL WHERE number = ?2 AND cursor > ?1 + ?3"
)
_REARM_STATE = (
    "UPDATE states SET ended_at = min(ended_at, ?1), wake_at = ?1, version = version + 1 WHERE number = ?2"
)
_REARM_RUNS = (
    "UPDATE runs SET started_at = min(started_at, ?1), fire_at = min(fire_at, ?1)"
    " WHERE schedule = ?2 AND phase <> 'ended'"
)
_EXPENDABLE = """
SELECT run_at, schedule, kind, last
FROM (
  SELECT run_at, schedule, kind, coalesce(run_until, run_at) AS last,
    row_number() OVER (PARTITION BY schedule ORDER BY run_at DESC, kind DESC) AS rank
  FROM runs WHERE schedule BETWEEN ? AND ? AND phase = 'ended'
)
JOIN states ON states.number = schedule
WHERE namespace = ? AND last <= cursor AND run_at IS NOT skipped_at AND (rank > ? OR last < ?)
"""
_MARK = "UPDATE states SET pruned_until = max(pruned_until, ?) WHERE number = ?"
_DELETE = "DELETE FROM runs WHERE run_at = ? AND schedule = ? AND kind = ?"


def rearm(connection: sqlite3.Connection, namespace: str, now: Instant, beyond: int) -> int:
    """Set cursors more than `beyond` ahead of `now` back to `now`; return how many there were."""
    ahead = [number for (number,) in connection.execute(_AHEAD, (now, namespace, beyond)).fetchall()]
    connection.executemany(_REARM_CURSOR, [(now, number, beyond) for number in ahead])
    connection.executemany(_REARM_STATE, [(now, number) for number in ahead])
    connection.executemany(_REARM_RUNS, [(now, number) for number in ahead])
    return len(ahead)


def slices(connection: sqlite3.Connection, namespace: str) -> list[tuple[int, int]]:
    """Return ranges of schedule numbers that together cover the namespace."""
    query = "SELECT coalesce(min(number), 1), coalesce(max(number), 0) FROM declarations WHERE namespace = ?"
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
    connection.executemany(_DELETE, [row[:3] for row in expendable])
    connection.executemany(_MARK, [(last, schedule) for _, schedule, _, last in expendable])
    return len(expendable)
