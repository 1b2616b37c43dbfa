"""Workflows: the DAGs that runs are started with, and the schedules that they declare."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Response
from pydantic import ValidationError

from dutiful.httpd.fields import ID_PATTERN
from dutiful.httpd.problems import InvalidRequestError, problems_of
from dutiful.httpd.strict_route import StrictRoute
from dutiful.service.errors import UnknownWorkflowError
from dutiful.service.workflows import WorkflowInput
from dutiful.web import requests, responses
from dutiful.web.authorized_service import MADE_ID_HAS, Reader, Writer
from dutiful.web.requests import ScheduleRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dutiful.service.declaration import ScheduleInput


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

    A stored version is changed only if its owner requests `replace=true`. Either everything is stored or
    nothing.
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
    """Delete one version of a workflow that no schedule starts; runs already launched from it go on."""
    await authorized.demand_unused(workflow_id, version)
    authorized.intend("delete_workflow", workflow_id=workflow_id, version=version)
    await authorized.service.workflows.delete_dag(workflow_id, version, authorized.demand_user)
    authorized.record("delete_workflow", workflow_id=workflow_id, version=version)


# Keys of a trigger under which compilers nest its settings.
_NESTED = ("config", "configuration", "schedule", "parameters")
_CRON_NAMES = ("cron_expr", "cron", "cron_expression", "expression")
_TAKEN = frozenset(ScheduleRequest.model_fields) - {"workflow_id", "version", "schedule_id"}


def schedules_of(
    workflow_id: str, version: int, dag: Mapping[str, Any], owner: str
) -> dict[str, ScheduleInput]:
    """Return one schedule for each trigger, by its place; raises InvalidRequestError with every problem.

    The user is the trigger's, else the DAG's, else `owner`. An id depends on the workflow and on the name or
    place of the trigger, not on the version, so the next deploy edits the schedules of the one before.
    """
    inputs: dict[str, ScheduleInput] = {}
    problems, ids = list[dict[str, str]](), set[str]()
    for place, trigger in _schedule_triggers(dag):
        settings = {"user_id": dag.get("user_id", owner), **_settings(trigger)}
        schedule_id = _stable_id(workflow_id, trigger, place)
        if schedule_id in ids:
            problems.append({"at": f"triggers.{place}", "problem": "has the name of another trigger"})
        ids.add(schedule_id)
        fixed = {"workflow_id": workflow_id, "version": version, "schedule_id": schedule_id}
        try:
            inputs[f"triggers.{place}"] = ScheduleRequest.model_validate(settings | fixed).as_input()
        except ValidationError as error:
            problems += problems_of(error.errors(), ScheduleRequest, "triggers", place)
    if problems:
        raise InvalidRequestError(problems)
    return inputs


def _schedule_triggers(dag: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    triggers = dag.get("triggers", [])
    if not isinstance(triggers, list):
        raise InvalidRequestError([{"at": "triggers", "problem": "must be a list of objects"}])
    for place, trigger in enumerate(triggers):
        if isinstance(trigger, Mapping) and trigger.get("type") == "schedule_based":
            yield place, trigger


def _settings(trigger: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a trigger's schedule; other keys of the DAG are ignored."""
    nested = [trigger[name] for name in _NESTED if isinstance(trigger.get(name), Mapping)]
    merged: dict[str, Any] = {}
    for part in (*nested, trigger):
        merged |= {key: value for key, value in part.items() if key in _TAKEN}
        for name in _CRON_NAMES:
            if isinstance(part.get(name), str):
                merged.setdefault("cron_expr", part[name])
    return merged


def _stable_id(workflow_id: str, trigger: Mapping[str, Any], place: int) -> str:
    name = next((trigger[key] for key in ("id", "name") if isinstance(trigger.get(key), str)), str(place))
    readable = f"{workflow_id}.{name}"
    if re.fullmatch(ID_PATTERN, readable) and "\n" not in readable:
        return readable
    return f"{workflow_id[:MADE_ID_HAS]}.{hashlib.sha256(readable.encode()).hexdigest()[:32]}"
