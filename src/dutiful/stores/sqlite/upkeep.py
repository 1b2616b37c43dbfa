"""Housekeeping: re-arms schedules after a wrong clock, and deletes expired rows and unused texts."""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.plan.clock_rollback import rearmed
from dutiful.stores.rows import STATE, assigned, state_columns
from dutiful.stores.sqlite import inline_runs
from dutiful.stores.sqlite.edits import mark
from dutiful.stores.sqlite.reads import some

if TYPE_CHECKING:
    import sqlite3

    from dutiful.core.cadence import Instant
    from dutiful.runtime.ports import Retention
    from dutiful.stores.sqlite.interned_texts import Texts

# Schedules per slice: small enough that the commits of a pass do not wait long.
_SLICE = 100
# Selects candidates; `rearmed` decides which of them are ahead of the clock.
_AHEAD = """number IN (
  SELECT number FROM states WHERE max(cursor, coalesce(ended_at, 0)) > ?2
  UNION ALL SELECT schedule FROM runs INDEXED BY runs_open
  WHERE phase <> 'ended' AND max(fire_at, coalesce(started_at, 0), coalesce(ended_at, 0)) > ?2)
"""
_NUMBER = "(SELECT number FROM declarations WHERE namespace = ? AND id = ?)"
_REARM_STATE = (
    f"UPDATE states SET {assigned(STATE)}, wake_at = ?, version = version + 1 WHERE number = {_NUMBER}"
)
_REARM_RUN = (
    "UPDATE runs SET fire_at = ?, started_at = ?, ended_at = ?"
    f" WHERE run_at = ? AND kind = ? AND schedule = {_NUMBER}"
)
_EXPENDABLE = """
SELECT run_at, schedule, kind, last
FROM (
  SELECT run_at, schedule, kind, coalesce(run_until, run_at) AS last,
    row_number() OVER (PARTITION BY schedule ORDER BY run_at DESC, kind DESC) AS rank
  FROM runs
  WHERE schedule BETWEEN ?1 AND ?2 AND phase = 'ended' AND kind = 'schedule' AND backfill IS NULL
)
JOIN states ON states.number = schedule
JOIN declarations ON declarations.number = schedule
LEFT JOIN texts ON texts.number = policy_number AND json_valid(text)
WHERE states.namespace = ?3 AND last <= cursor AND run_at IS NOT skipped_at
  AND (
    rank > coalesce(text ->> '$.retention_rows', ?4)
    OR last < ?5 - coalesce(text ->> '$.retention_age', ?6)
  )
"""
_MARK = "UPDATE states SET pruned_until = max(pruned_until, ?) WHERE number = ?"
_DELETE = "DELETE FROM runs WHERE run_at = ? AND schedule = ? AND kind = ?"
# A few MiB. Below this, unused texts are not worth a scan of all declarations; an index to find them would
# make every declaration more expensive to write.
TEXTS_MAX = 10_000
_DELETE_TEXTS = (
    "DELETE FROM texts WHERE number NOT IN"
    " (SELECT cadence_number FROM declarations UNION ALL SELECT policy_number FROM declarations)"
)


def rearm(connection: sqlite3.Connection, texts: Texts, namespace: str, now: Instant, beyond: int) -> int:
    """Re-arm the schedules that a clock more than `beyond` ms ahead has written; return how many."""
    inline_runs.give_rows_to_all(connection, namespace)
    maybe, damage = some(connection, texts, namespace, _AHEAD, [now + beyond])
    mark(connection, damage)
    ahead = [(due.schedule.id, back) for due in maybe if (back := rearmed(due, now, beyond)) is not None]
    states = [(*state_columns(state), now, namespace, id_) for id_, (state, _) in ahead]
    runs = [
        (run.fire_at, run.started_at, run.ended_at, run.run_at, run.kind, namespace, id_)
        for id_, (_, runs) in ahead
        for run in runs
    ]
    connection.executemany(_REARM_STATE, states)
    connection.executemany(_REARM_RUN, runs)
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
    """Delete the rows of these schedules that are beyond the retention; return how many."""
    values = (*numbers, namespace, retention.rows, now, retention.age)
    expendable = connection.execute(_EXPENDABLE, values).fetchall()
    connection.executemany(_DELETE, [row[:3] for row in expendable])
    connection.executemany(_MARK, [(last, schedule) for _, schedule, _, last in expendable])
    return len(expendable)


def prune_texts(connection: sqlite3.Connection, most: int) -> int:
    """Delete texts that no schedule refers to, if there are more than `most`; return the next `most`."""
    count: int = connection.execute("SELECT count(*) FROM texts").fetchone()[0]
    if count <= most:
        return most
    used = count - connection.execute(_DELETE_TEXTS).rowcount
    # Passes wait during this scan. If most texts are in use, scan again only at twice their number.
    return max(TEXTS_MAX, 2 * used)
