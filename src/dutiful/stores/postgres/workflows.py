"""The workflows of the service in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.workflow import Workflow, WorkflowEntry

if TYPE_CHECKING:
    from dutiful.core.workflow import PutWorkflow
    from dutiful.stores.postgres.connections import Session

# Held until the transaction ends: concurrent writers of one workflow must see each other's owner.
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended($1 || ':' || $2, 0))"
_SAVE = (
    "INSERT INTO workflows (namespace, workflow_id, version, owner, dag, updated_at) VALUES ($1, $2, $3,"
    " $4, $5, $6)"
    " ON CONFLICT (namespace, workflow_id, version) DO UPDATE SET dag = excluded.dag, updated_at ="
    " excluded.updated_at"
)
_LOAD = (
    "SELECT workflow_id, version, owner, dag, updated_at FROM workflows"
    " WHERE namespace = $1 AND workflow_id = $2 AND version = $3"
)
_OWNER = "SELECT owner FROM workflows WHERE namespace = $1 AND workflow_id = $2 LIMIT 1"
_LIST = (
    "SELECT workflow_id, version, owner, octet_length(dag), updated_at FROM workflows"
    " WHERE namespace = $1 AND (workflow_id, version) > ($2, $3) AND ($5::text IS NULL OR owner = $5)"
    " ORDER BY workflow_id, version LIMIT $4"
)
_DELETE = "DELETE FROM workflows WHERE namespace = $1 AND workflow_id = $2 AND version = $3"


async def put(session: Session, namespace: str, wanted: PutWorkflow) -> None:
    """Store one version; raise OvertakenError where the stored workflow or owner is not as expected."""
    workflow = wanted.workflow
    await session.run(_LOCK, namespace, workflow.workflow_id)
    there = await load(session, namespace, workflow.workflow_id, workflow.version)
    wanted.check(there, await owner(session, namespace, workflow.workflow_id))
    await session.run(_SAVE, namespace, *workflow)


async def load(session: Session, namespace: str, workflow_id: str, version: int) -> Workflow | None:
    """Return one version of a workflow."""
    found = await session.row(_LOAD, namespace, workflow_id, version)
    return None if found is None else Workflow._make(found)


async def owner(session: Session, namespace: str, workflow_id: str) -> str | None:
    """Return the owner of all versions of a workflow."""
    found = await session.value(_OWNER, namespace, workflow_id)
    return None if found is None else str(found)


async def listed(
    session: Session, namespace: str, after: tuple[str, int], limit: int, owner: str | None
) -> list[WorkflowEntry]:
    """Return the versions that come after this one, of one owner or of all."""
    return [WorkflowEntry._make(row) for row in await session.rows(_LIST, namespace, *after, limit, owner)]


async def delete(session: Session, namespace: str, workflow_id: str, version: int) -> bool:
    """Delete one version, and return whether it was there."""
    return await session.run(_DELETE, namespace, workflow_id, version) > 0
