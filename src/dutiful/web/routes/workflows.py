"""Workflows: the DAGs that runs are started with, and the schedules that they declare."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query

from dutiful.httpd.problems import UnknownWorkflowError, WorkflowExistsError
from dutiful.httpd.strict_route import StrictRoute
from dutiful.web import requests, responses
from dutiful.web.authorized_service import AuthorizedService, Reader, Writer
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
    query: Annotated[requests.RegisterQuery, Query()],
) -> responses.WorkflowAnswer:
    """Store a DAG; with `register=true` also a schedule for each of its `schedule_based` triggers."""
    await _demand_new(authorized, workflow_id, version, dag)
    owner = authorized.caller.user_id
    inputs = schedules_of(workflow_id, version, dag, owner) if query.register_ else []
    for schedule in inputs:
        authorized.demand_user(schedule.user_id)
    authorized.intend("save_workflow", workflow_id=workflow_id, version=version)
    await authorized.service.workflows.save_dag(workflow_id, version, dag)
    stored = await authorized.upsert(inputs) if inputs else []
    ids = [one.schedule_id for one in stored]
    authorized.record("save_workflow", workflow_id=workflow_id, version=version, schedules=ids)
    schedules = [responses.UpsertedAnswer.model_validate(one) for one in stored]
    return responses.WorkflowAnswer(workflow_id=workflow_id, version=version, schedules=schedules)


async def _demand_new(
    authorized: AuthorizedService, workflow_id: str, version: int, dag: dict[str, Any]
) -> None:
    """Refuse to let one user change what the schedules of another run."""
    if authorized.tenant is not None:
        known = await authorized.service.workflows.load_dag(workflow_id, version)
        if known not in (None, dag):
            raise WorkflowExistsError(workflow_id, version)


@router.get("/{workflow_id}/{version}")
async def load_workflow(authorized: Reader, workflow_id: WorkflowId, version: Version) -> dict[str, Any]:
    """Return a stored DAG."""
    dag = await authorized.service.workflows.load_dag(workflow_id, version)
    if dag is None:
        raise UnknownWorkflowError(workflow_id, version)
    return dag
