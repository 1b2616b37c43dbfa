"""The workflows of the service in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.errors import OvertakenError
from dutiful.core.workflow import Workflow, WorkflowEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dutiful.core.workflow import PutWorkflow


class StoredWorkflows(dict[tuple[str, int], Workflow]):
    """All workflows, by id and version."""

    def check(self, wanted: PutWorkflow) -> None:
        """Raise OvertakenError where the store holds something else than was expected."""
        workflow = wanted.workflow
        there = self.get((workflow.workflow_id, workflow.version))
        if (there and there.dag) != wanted.replaces or self.owner(workflow.workflow_id) not in (
            None,
            workflow.owner,
        ):
            raise OvertakenError(workflow.workflow_id, workflow.version, workflow.version)

    def put_all(self, puts: Sequence[PutWorkflow]) -> None:
        """Store these versions."""
        self.update({(put.workflow.workflow_id, put.workflow.version): put.workflow for put in puts})

    def owner(self, workflow_id: str) -> str | None:
        """Return the owner of all versions of a workflow."""
        return next((each.owner for each in self.values() if each.workflow_id == workflow_id), None)

    def listed(self, after: tuple[str, int], limit: int, owner: str | None) -> list[WorkflowEntry]:
        """Return the versions that come after this one, of one owner or of all."""
        found = sorted(place for place in self if place > after and owner in (None, self[place].owner))
        return [_entry(self[place]) for place in found[:limit]]


def _entry(workflow: Workflow) -> WorkflowEntry:
    workflow_id, version, owner, dag, updated_at = workflow
    return WorkflowEntry(workflow_id, version, owner, len(dag.encode()), updated_at)
