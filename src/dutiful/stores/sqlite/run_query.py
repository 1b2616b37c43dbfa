"""Runs of all schedules by filter, at a bounded cost; open runs by phase; starts outside the ledger."""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.runtime.ports import RunPage, RunPlace
from dutiful.stores.rows import RUN_ALL, listed, read_run

if TYPE_CHECKING:
    import sqlite3

    from dutiful.core.cadence import Instant
    from dutiful.runtime.ports import RunFilter

# Rows that one question looks at. A page that ends here says where to go on.
SCAN_MAX = 5000
_END_OF_TIME = 2**63 - 1
# Along the primary key, the newest first. Schedules without a ledger leave rows without `created_at`.
_SCANNED = (
    "FROM runs CROSS JOIN declarations ON declarations.number = runs.schedule"
    " WHERE namespace = :namespace AND created_at IS NOT NULL"
    " AND (run_at, schedule, kind) < (:run_at, :number, :kind) AND run_at >= :since"
    " AND (:schedule_id IS NULL OR id = :schedule_id)"
    " ORDER BY run_at DESC, schedule DESC, kind DESC"
)
_RUN = listed(f"runs.{column}" for column in RUN_ALL)
_MATCHING = (
    f"SELECT * FROM (SELECT schedule, id, {_RUN}, payload ->> '$.user_id' AS owner {_SCANNED} LIMIT :scan)"
    " WHERE (:status IS NULL OR status = :status) AND (:reason IS NULL OR reason = :reason)"
    " AND (:owner IS NULL OR owner = :owner) LIMIT :limit"
)
_LAST_SCANNED = f"SELECT run_at, schedule, kind {_SCANNED} LIMIT 1 OFFSET :scan - 1"

_OPEN_COUNTS = (
    "SELECT phase, count(*) FROM runs INDEXED BY runs_open"
    " CROSS JOIN declarations ON declarations.number = runs.schedule"
    " WHERE phase <> 'ended' AND namespace = ? GROUP BY phase"
)

_NOTE_START = "INSERT OR REPLACE INTO starts (namespace, key, started_at) VALUES (?, ?, ?)"
_FORGET_STARTS = "DELETE FROM starts WHERE namespace = ? AND started_at < ?"
_HAS_START = "SELECT 1 FROM starts WHERE namespace = ? AND key = ?"


def note_start(connection: sqlite3.Connection, namespace: str, key: str, now: Instant, keep: int) -> None:
    """Record a start outside the ledger, and forget old ones."""
    connection.execute(_FORGET_STARTS, (namespace, now - keep))
    connection.execute(_NOTE_START, (namespace, key, now))


def has_start(connection: sqlite3.Connection, namespace: str, key: str) -> bool:
    """Return whether a start under this key is recorded."""
    return connection.execute(_HAS_START, (namespace, key)).fetchone() is not None


def open_counts(connection: sqlite3.Connection, namespace: str) -> dict[str, int]:
    """Return how many open runs are in each phase."""
    return dict(connection.execute(_OPEN_COUNTS, (namespace,)).fetchall())


def matching(
    connection: sqlite3.Connection, namespace: str, wanted: RunFilter, after: RunPlace | None, limit: int
) -> RunPage:
    """Return the runs that match and come after a place, and where to go on."""
    until = _END_OF_TIME if wanted.until is None else wanted.until
    place = RunPlace(until, 0, "") if after is None or after.run_at >= until else after
    values = {
        **wanted._asdict(),
        **place._asdict(),
        "namespace": namespace,
        "since": 0 if wanted.since is None else wanted.since,
        "scan": SCAN_MAX,
        "limit": limit,
    }
    rows = connection.execute(_MATCHING, values).fetchall()
    runs = [read_run(schedule_id, tuple(row)) for _, schedule_id, *row, _ in rows]
    if len(rows) == limit:
        return RunPage(runs, RunPlace(runs[-1].run_at, rows[-1][0], runs[-1].kind))
    last = connection.execute(_LAST_SCANNED, values).fetchone()
    return RunPage(runs, None if last is None else RunPlace._make(last))
