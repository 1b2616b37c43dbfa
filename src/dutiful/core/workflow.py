"""Workflows of the service: DAGs by id and version, each with an owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant


class Workflow(NamedTuple):
    """One version of a workflow. All versions of an id have the same owner."""

    workflow_id: str
    version: int
    owner: str
    # The DAG as JSON text.
    dag: str
    updated_at: Instant


class PutWorkflow(NamedTuple):
    """Store this version in place of the one whose DAG is `replaces`; None: only where there is none yet."""

    workflow: Workflow
    replaces: str | None = None


class WorkflowEntry(NamedTuple):
    """One version of a workflow in a list, with the size of its DAG in bytes."""

    workflow_id: str
    version: int
    owner: str
    size: int
    updated_at: Instant
