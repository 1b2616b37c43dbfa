"""The workflow store: DAGs go in as JSON and come out as they went in."""

from __future__ import annotations

import pytest
from tests.service.rig import play

from dutiful.core.errors import InvalidArgumentError

DAG = {"nodes": [{"id": "é日", "retries": 3, "ratio": 0.1, "next": None, "ok": True}], "triggers": []}


def test_a_dag_is_read_back_as_it_was():
    async def story(rig):
        workflows = rig.service.workflows
        await workflows.save_dag("w", 1, {"old": 1})
        await workflows.save_dag("w", 1, DAG, replace=True)
        return [await workflows.load_dag("w", version) for version in (1, 2)]

    assert play(story) == [DAG, None]


@pytest.mark.parametrize(
    ("workflow_id", "version", "dag", "field"),
    [
        ("", 1, {}, "workflow_id"),
        ("a/b", 1, {}, "workflow_id"),
        ("w", -1, {}, "version"),
        ("w", True, {}, "version"),
        ("w", 1, [], "dag"),
        ("w", 1, {"x": float("nan")}, "dag"),
        ("w", 1, {"x": object()}, "dag"),
    ],
)
def test_what_is_no_workflow_is_refused(workflow_id, version, dag, field):
    async def story(rig):
        with pytest.raises(InvalidArgumentError) as caught:
            await rig.service.workflows.save_dag(workflow_id, version, dag)
        return caught.value.details["argument"]

    assert play(story) == field
