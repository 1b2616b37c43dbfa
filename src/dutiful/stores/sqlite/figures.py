"""Queries over all schedules: runs by filter at a bounded cost, figures, starts, workflows."""

# ruff: noqa: S608 - the statements are made of column names and conditions written down here, never of values

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.tally import tallied
from dutiful.core.workflow import Workflow, WorkflowEntry
from dutiful.runtime.ports import RunPage, RunPlace
from dutiful.stores.rows import (
    NEWEST_FIRST,
    OLDEST_FIRST,
    RUN_ALL,
    SCAN_MAX,
    listed,
    readable_cadences,
    readable_run,
    scan_range,
)
from dutiful.stores.sqlite.reads import ID_AND_RUN, found_by

if TYPE_CHECKING:
    import sqlite3

    from dutiful.core.cadence import Instant
    from dutiful.core.run import Run
    from dutiful.core.schedule import Alike
    from dutiful.core.snapshot import Snapshot
    from dutiful.core.tally import Tally
    from dutiful.core.workflow import PutWorkflow
    from dutiful.runtime.ports import RunFilter
    from dutiful.stores.rows import Damage
    from dutiful.stores.sqlite.interned_texts import Texts


# Fewer than SCAN_MAX for one schedule: its rows are scattered over the file, so each costs a page read.
_SCAN_ONE = 1000
_RUN = listed(f"runs.{column}" for column in RUN_ALL)
_NUMBER = "(SELECT number FROM declarations WHERE namespace = :namespace AND id = :schedule_id)"
# At most two rows of a schedule share an instant, and both may come before the position.
_OF_ONE = (
    f"(SELECT schedule, {_RUN} FROM runs INDEXED BY runs_open WHERE phase <> 'ended' AND schedule = {_NUMBER}"
    f" UNION ALL SELECT * FROM (SELECT schedule, {_RUN} FROM runs INDEXED BY runs_ended"
    f" WHERE phase = 'ended' AND schedule = {_NUMBER}"
    " AND run_at BETWEEN min(:run_at, :bound) AND max(:run_at, :bound)"
    " ORDER BY run_at {order}, kind {order} LIMIT :scan + 2)) AS runs"
)
# Rows of schedules without a ledger have no `created_at`.
_SCANNED = (
    "FROM {source} CROSS JOIN declarations ON declarations.number = runs.schedule"
    " WHERE namespace = :namespace AND created_at IS NOT NULL"
    " AND (run_at, schedule, kind) {after} (:run_at, :number, :kind) AND run_at {within} :bound"
    " AND {condition} ORDER BY run_at {order}, schedule {order}, kind {order}"
)
_MATCHING = (
    f"SELECT * FROM (SELECT schedule, id, {_RUN},"
    f" iif(json_valid(payload), payload ->> '$.user_id', NULL) AS owner {_SCANNED} LIMIT :scan)"
    " WHERE (:status IS NULL OR status = :status) AND (:reason IS NULL OR reason = :reason)"
    " AND (:owner IS NULL OR owner = :owner)"
    " AND (:trigger IS NULL OR :trigger = CASE WHEN kind = 'manual' THEN kind"
    " WHEN backfill IS NULL THEN 'schedule' ELSE 'backfill' END) LIMIT :limit"
)
_LAST_SCANNED = f"SELECT run_at, schedule, kind {_SCANNED} LIMIT 1 OFFSET :scan - 1"
# Each source has its rows in the order of an index, so that a scan reads no row twice: all rows, failed rows,
# the rows of one schedule.
_SOURCES = {
    "all": ("runs", "true"),
    "failed": ("runs INDEXED BY runs_failed", "status = 'FAILED'"),
    "one": (_OF_ONE, "true"),
}


def _statements(source: str, oldest_first: bool) -> list[str]:
    """Return the statements that read a page from a source, and the position where its scan ended."""
    words, (rows, condition) = (OLDEST_FIRST if oldest_first else NEWEST_FIRST), _SOURCES[source]
    return [
        text.format(source=rows.format(**words), condition=condition, **words)
        for text in (_MATCHING, _LAST_SCANNED)
    ]


_BY_SOURCE = {(source, order): _statements(source, order) for source in _SOURCES for order in (False, True)}

_OPEN_COUNTS = (
    "SELECT phase, count(*) FROM runs INDEXED BY runs_open"
    " CROSS JOIN declarations ON declarations.number = runs.schedule"
    " WHERE phase <> 'ended' AND namespace = ? GROUP BY phase"
)

_NOTE_START = "INSERT OR REPLACE INTO starts (namespace, key, started_at) VALUES (?, ?, ?)"
_FORGET_STARTS = "DELETE FROM starts WHERE namespace = ? AND started_at < ?"
_HAS_START = "SELECT 1 FROM starts WHERE namespace = ? AND key = ?"


def note_start(connection: sqlite3.Connection, namespace: str, key: str, now: Instant, keep: int) -> None:
    """Record a start outside the ledger, and delete old starts."""
    connection.execute(_FORGET_STARTS, (namespace, now - keep))
    connection.execute(_NOTE_START, (namespace, key, now))


def has_start(connection: sqlite3.Connection, namespace: str, key: str) -> bool:
    """Return whether a start under this key is recorded."""
    return connection.execute(_HAS_START, (namespace, key)).fetchone() is not None


def open_counts(connection: sqlite3.Connection, namespace: str) -> dict[str, int]:
    """Return how many open runs are in each phase."""
    return dict(connection.execute(_OPEN_COUNTS, (namespace,)).fetchall())


def matching(
    connection: sqlite3.Connection,
    namespace: str,
    wanted: RunFilter,
    after: RunPlace | None,
    limit: int,
    oldest_first: bool,
) -> RunPage:
    """Return the runs that match and come after a position, and where to continue."""
    place, bound = scan_range(wanted, after, oldest_first)
    values = {
        **wanted._asdict(),
        **place._asdict(),
        "bound": bound,
        "namespace": namespace,
        "scan": SCAN_MAX if wanted.schedule_id is None else _SCAN_ONE,
        "limit": limit,
    }
    source = "one" if wanted.schedule_id is not None else "failed" if wanted.status == "FAILED" else "all"
    page, last_scanned = _BY_SOURCE[source, oldest_first]
    rows = connection.execute(page, values).fetchall()
    runs = [readable_run(schedule_id, tuple(row)) for _, schedule_id, *row, _ in rows]
    if len(rows) == limit:
        return RunPage(runs, RunPlace(runs[-1].run_at, rows[-1][0], runs[-1].kind))
    last = connection.execute(last_scanned, values).fetchone()
    return RunPage(runs, None if last is None else RunPlace._make(last))


# ?1 is the namespace and ?2 the owner; NULL stands for all owners.
_OWNED = (
    "declarations.namespace = ?1 AND (?2 IS NULL OR (json_valid(payload) AND payload ->> '$.user_id' = ?2))"
)
_OF_ITS_SCHEDULE = f"CROSS JOIN declarations ON declarations.number = runs.schedule WHERE {_OWNED}"
_TALLIES = (
    "SELECT run_at - run_at % ?5, status, reason, sum(ticks) FROM runs NOT INDEXED"
    f" {_OF_ITS_SCHEDULE} AND run_at >= ?3 AND run_at < ?4 AND run_until IS NULL"
    " AND created_at IS NOT NULL GROUP BY 1, 2, 3"
)
# A range of skipped ticks may have begun long before the period asked for.
_STRETCHES = (
    "SELECT status, reason, run_at, run_until, ticks FROM runs INDEXED BY runs_stretches"
    f" {_OF_ITS_SCHEDULE} AND run_until >= ?3 AND run_at < ?4 AND created_at IS NOT NULL"
)
_OPEN = (
    f"SELECT {ID_AND_RUN} INDEXED BY runs_open {_OF_ITS_SCHEDULE} AND runs.phase <> 'ended'"
    " AND created_at IS NOT NULL ORDER BY runs.run_at, id, runs.kind LIMIT ?3"
)
# The condition must equal that of the index states_troubled.
# The index first: SQLite would read all schedules in the order of their ids.
_TROUBLED = (
    "SELECT states.number FROM states INDEXED BY states_troubled CROSS JOIN declarations USING (number)"
    " WHERE states.namespace = ?1 AND damage IS NULL"
    " AND (quarantine IS NOT NULL OR failed_at > coalesce(succeeded_at, 0)"
    " OR (skipped_ticks >= 3 AND skipped_reason <> 'paused'))"
    " AND (?2 IS NULL OR (json_valid(payload) AND payload ->> '$.user_id' = ?2)) ORDER BY id LIMIT ?3"
)
# Scan the table in file order: the index by id would read pages at random.
_CADENCES = (
    "SELECT cadence_number, policy_number, window_start, window_end, count(*), min(id)"
    f" FROM declarations NOT INDEXED WHERE damage IS NULL AND paused = 0 AND {_OWNED} GROUP BY 1, 2, 3, 4"
)


_FIND_IDS = (
    f"SELECT id FROM declarations WHERE {_OWNED} AND id > ?3 AND instr(id, ?4) > 0 AND damage IS NULL"
    " ORDER BY id LIMIT ?5"
)


def tallies(
    connection: sqlite3.Connection,
    namespace: str,
    owner: str | None,
    since: Instant,
    until: Instant,
    width: int,
) -> list[Tally]:
    """Return the number of recorded ticks by status and reason, in buckets of time."""
    counted = connection.execute(_TALLIES, (namespace, owner, since, until, width))
    stretches = connection.execute(_STRETCHES, (namespace, owner, since, until))
    return tallied(stretches, since, until, width, counted)


def open_runs(connection: sqlite3.Connection, namespace: str, owner: str | None, limit: int) -> list[Run]:
    """Return runs that have not ended, oldest first."""
    rows = connection.execute(_OPEN, (namespace, owner, limit))
    return [readable_run(schedule_id, row) for schedule_id, *row in rows]


def find_ids(
    connection: sqlite3.Connection, namespace: str, owner: str | None, part: str, after: str, limit: int
) -> list[str]:
    """Return ids that contain a text and come after another id."""
    return [row[0] for row in connection.execute(_FIND_IDS, (namespace, owner, after, part, limit))]


def troubled(
    connection: sqlite3.Connection, texts: Texts, namespace: str, owner: str | None, limit: int
) -> tuple[list[Snapshot], list[Damage]]:
    """Return schedules that need attention, and schedules found damaged."""
    return found_by(connection, texts, _TROUBLED, (namespace, owner, limit))


def cadences(connection: sqlite3.Connection, texts: Texts, namespace: str, owner: str | None) -> list[Alike]:
    """Return the schedules that are not paused, those that are alike together."""
    return readable_cadences(connection.execute(_CADENCES, (namespace, owner)), texts)


_SAVE_WORKFLOW = (
    "INSERT INTO workflows (namespace, workflow_id, version, owner, dag, updated_at)"
    " VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET dag = excluded.dag, updated_at = excluded.updated_at"
)
_LOAD_WORKFLOW = (
    "SELECT workflow_id, version, owner, dag, updated_at FROM workflows"
    " WHERE namespace = ? AND workflow_id = ? AND version = ?"
)
_WORKFLOW_OWNER = "SELECT owner FROM workflows WHERE namespace = ? AND workflow_id = ? LIMIT 1"
_LIST_WORKFLOWS = (
    "SELECT workflow_id, version, owner, length(CAST(dag AS BLOB)), updated_at FROM workflows"
    " WHERE namespace = ?1 AND (workflow_id, version) > (?2, ?3) {owned}"
    " ORDER BY workflow_id, version LIMIT ?4"
)
_LIST_ALL, _LIST_OWNED = _LIST_WORKFLOWS.format(owned=""), _LIST_WORKFLOWS.format(owned="AND owner = ?5")
_DELETE_WORKFLOW = "DELETE FROM workflows WHERE namespace = ? AND workflow_id = ? AND version = ?"


def put_workflow(connection: sqlite3.Connection, namespace: str, wanted: PutWorkflow) -> None:
    """Store one version; raise OvertakenError where the stored workflow or owner is not as expected."""
    workflow = wanted.workflow
    there = load_workflow(connection, namespace, workflow.workflow_id, workflow.version)
    wanted.check(there, workflow_owner(connection, namespace, workflow.workflow_id))
    connection.execute(_SAVE_WORKFLOW, (namespace, *workflow))


def load_workflow(
    connection: sqlite3.Connection, namespace: str, workflow_id: str, version: int
) -> Workflow | None:
    """Return one version of a workflow."""
    found = connection.execute(_LOAD_WORKFLOW, (namespace, workflow_id, version)).fetchone()
    return None if found is None else Workflow._make(found)


def workflow_owner(connection: sqlite3.Connection, namespace: str, workflow_id: str) -> str | None:
    """Return the owner of all versions of a workflow."""
    found = connection.execute(_WORKFLOW_OWNER, (namespace, workflow_id)).fetchone()
    return None if found is None else str(found[0])


def listed_workflows(
    connection: sqlite3.Connection, namespace: str, after: tuple[str, int], limit: int, owner: str | None
) -> list[WorkflowEntry]:
    """Return the versions that come after this one, of one owner or of all."""
    values = (namespace, *after, limit)
    rows = (
        connection.execute(_LIST_ALL, values)
        if owner is None
        else connection.execute(_LIST_OWNED, (*values, owner))
    )
    return [WorkflowEntry._make(row) for row in rows]


def delete_workflow(connection: sqlite3.Connection, namespace: str, workflow_id: str, version: int) -> bool:
    """Delete one version, and return whether it was there."""
    return connection.execute(_DELETE_WORKFLOW, (namespace, workflow_id, version)).rowcount > 0
