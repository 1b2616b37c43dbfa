"""Workflows: the DAGs that runs are started with, and the schedules that they declare."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Response

from dutiful.httpd.strict_route import StrictRoute
from dutiful.service.errors import UnknownWorkflowError, WorkflowInUseError
from dutiful.service.workflows import WorkflowInput
from dutiful.web import requests, responses
from dutiful.web.authorized_service import Reader, Writer
from dutiful.web.triggers import schedules_of

router = APIRouter(prefix="/workflows", tags=["workflows"], route_class=StrictRoute)

WorkflowId = Annotated[str, Path(pattern=requests.ID_PATTERN)]
Version = Annotated[int, Path(ge=0, le=requests.INTEGER_MAX)]


@router.put("/{workflow_id}/{version}")
async def save_workflow(
    authorized: Writer,
    workflow_id: WorkflowId,
    version: Version,
    dag: Annotated[dict[str, Any], Body()],
    query: Annotated[requests.SaveWorkflowQuery, Query()],
) -> responses.WorkflowAnswer:
    """Store a DAG; with `register=true` also a schedule for each of its `schedule_based` triggers.

    A stored version stays as it is, unless its owner says `replace=true`. All is stored, or nothing.
    """
    owner = query.user_id or authorized.caller.user_id
    declared = schedules_of(workflow_id, version, dag, owner) if query.register_ else {}
    workflow = WorkflowInput(workflow_id, version, dag, owner, query.replace)
    authorized.intend("save_workflow", workflow_id=workflow_id, version=version)
    stored = await authorized.deploy(workflow, declared)
    schedules = [responses.UpsertedAnswer.model_validate(one) for one in stored]
    ids = [one.schedule_id for one in stored]
    authorized.record("save_workflow", workflow_id=workflow_id, version=version, schedules=ids)
    kept = await authorized.kept(workflow_id, ids) if query.register_ else []
    return responses.WorkflowAnswer(workflow_id=workflow_id, version=version, schedules=schedules, kept=kept)


@router.get("")
async def list_workflows(
    authorized: Reader, query: Annotated[requests.WorkflowsQuery, Query()]
) -> responses.WorkflowsAnswer:
    """Return one page of the stored versions, by id and version."""
    page = await authorized.service.workflows.list_workflows(
        owner=query.user_id, limit=query.limit, cursor=query.cursor
    )
    listed = [responses.WorkflowEntryAnswer.model_validate(each) for each in page.items]
    return responses.WorkflowsAnswer(workflows=listed, next_cursor=page.next_cursor)


@router.get("/{workflow_id}/{version}")
async def load_workflow(authorized: Reader, workflow_id: WorkflowId, version: Version) -> dict[str, Any]:
    """Return a stored DAG."""
    dag = await authorized.service.workflows.load_dag(workflow_id, version)
    if dag is None:
        raise UnknownWorkflowError(workflow_id, version)
    return dag


@router.delete("/{workflow_id}/{version}", status_code=204, response_class=Response)
async def delete_workflow(authorized: Writer, workflow_id: WorkflowId, version: Version) -> None:
    """Delete one version of a workflow that no schedule starts; runs that it was launched for go on."""
    using = await authorized.service.registrar.schedules_of(workflow_id, version)
    if using:
        raise WorkflowInUseError(workflow_id, version, using)
    authorized.intend("delete_workflow", workflow_id=workflow_id, version=version)
    await authorized.service.workflows.delete_dag(workflow_id, version, authorized.demand_user)
    authorized.record("delete_workflow", workflow_id=workflow_id, version=version)
