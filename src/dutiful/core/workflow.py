"""Workflows of the service: DAGs by id and version, each with an owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.errors import OvertakenError

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

    def check(self, there: Workflow | None, owner: str | None) -> None:
        """Raise OvertakenError if the stored version, or the owner of its id, is not the expected one."""
        if (there and there.dag) != self.replaces or owner not in (None, self.workflow.owner):
            version = self.workflow.version
            raise OvertakenError(self.workflow.workflow_id, version, version)


class WorkflowEntry(NamedTuple):
    """One version of a workflow in a list, with the size of its DAG in bytes."""

    workflow_id: str
    version: int
    owner: str
    size: int
    updated_at: Instant
