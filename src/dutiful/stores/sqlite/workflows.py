"""The workflows of the service in SQLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.errors import OvertakenError
from dutiful.core.workflow import Workflow, WorkflowEntry

if TYPE_CHECKING:
    import sqlite3

    from dutiful.core.workflow import PutWorkflow

_SAVE = (
    "INSERT INTO workflows (namespace, workflow_id, version, owner, dag, updated_at)"
    " VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET dag = excluded.dag, updated_at = excluded.updated_at"
)
_LOAD = (
    "SELECT workflow_id, version, owner, dag, updated_at FROM workflows"
    " WHERE namespace = ? AND workflow_id = ? AND version = ?"
)
_OWNER = "SELECT owner FROM workflows WHERE namespace = ? AND workflow_id = ? LIMIT 1"
_LIST = (
    "SELECT workflow_id, version, owner, length(CAST(dag AS BLOB)), updated_at FROM workflows"
    " WHERE namespace = ?1 AND (workflow_id, version) > (?2, ?3) {owned}"
    " ORDER BY workflow_id, version LIMIT ?4"
)
_LIST_ALL, _LIST_OWNED = _LIST.format(owned=""), _LIST.format(owned="AND owner = ?5")
_DELETE = "DELETE FROM workflows WHERE namespace = ? AND workflow_id = ? AND version = ?"


def put(connection: sqlite3.Connection, namespace: str, wanted: PutWorkflow) -> None:
    """Store one version; raise OvertakenError where the store holds something else than was expected."""
    workflow = wanted.workflow
    there = load(connection, namespace, workflow.workflow_id, workflow.version)
    owned_by = owner(connection, namespace, workflow.workflow_id)
    if (there and there.dag) != wanted.replaces or owned_by not in (None, workflow.owner):
        raise OvertakenError(workflow.workflow_id, workflow.version, workflow.version)
    connection.execute(_SAVE, (namespace, *workflow))


def load(connection: sqlite3.Connection, namespace: str, workflow_id: str, version: int) -> Workflow | None:
    """Return one version of a workflow."""
    found = connection.execute(_LOAD, (namespace, workflow_id, version)).fetchone()
    return None if found is None else Workflow._make(found)


def owner(connection: sqlite3.Connection, namespace: str, workflow_id: str) -> str | None:
    """Return the owner of all versions of a workflow."""
    found = connection.execute(_OWNER, (namespace, workflow_id)).fetchone()
    return None if found is None else str(found[0])


def listed(
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


def delete(connection: sqlite3.Connection, namespace: str, workflow_id: str, version: int) -> bool:
    """Delete one version, and return whether it was there."""
    return connection.execute(_DELETE, (namespace, workflow_id, version)).rowcount > 0
