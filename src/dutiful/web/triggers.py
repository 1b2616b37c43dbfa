"""The schedules that a DAG declares: its triggers of type `schedule_based`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from dutiful.httpd.problems import InvalidRequestError, problem_of
from dutiful.web.requests import ID_PATTERN, ScheduleRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dutiful.service.types import ScheduleInput

# Where compilers put the settings of a trigger, beside the trigger itself.
_NESTED = ("config", "configuration", "schedule", "parameters")
_CRON_NAMES = ("cron_expr", "cron", "cron_expression", "expression")
_TAKEN = frozenset(ScheduleRequest.model_fields) - {"workflow_id", "version", "schedule_id"}


def schedules_of(
    workflow_id: str, version: int, dag: Mapping[str, Any], owner: str
) -> dict[str, ScheduleInput]:
    """Return one schedule for each trigger, by its place; raises InvalidRequestError with all that is wrong.

    The user is the trigger's, else the DAG's, else `owner`. An id depends on the workflow and on the name
    or place of the trigger, not on the version: the next deploy edits the schedules of the one before.
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
            problems += [problem_of(item, ("triggers", place, *item["loc"])) for item in error.errors()]
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
    """Return what a trigger says about its schedule; a DAG is not ours, so other keys are left alone."""
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
    return f"{workflow_id[:60]}.{hashlib.sha256(readable.encode()).hexdigest()[:32]}"
