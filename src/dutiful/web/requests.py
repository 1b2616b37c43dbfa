"""The models of requests; they are strict, so that nothing is guessed and typing errors are reported."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BeforeValidator, Field, create_model

from dutiful.core.policy import Overlap
from dutiful.httpd.fields import (
    ID_PATTERN,
    INTEGER_MAX,
    KEY_PATTERN,
    Id,
    Instant,
    LocalInstant,
    QueryModel,
    StrictModel,
    Text,
    User,
    Version,
    fields_of,
    one_of,
)
from dutiful.service.declaration import ScheduleInput

BULK_MAX, PREVIEW_MAX = 10_000, 100

# The id of a schedule in the path of a route.
ScheduleId = Annotated[str, Path(pattern=ID_PATTERN)]
OverlapPolicy = Annotated[str, one_of(*Overlap)]

# The fields of a schedule are written once, in service/declaration.py.
_declared = fields_of(ScheduleInput, ScheduleInput._field_defaults)
_Declared = create_model("_Declared", __base__=StrictModel, **_declared)


class ScheduleRequest(_Declared, StrictModel):  # type: ignore[misc,valid-type]
    """A schedule as a deploy declares it. Fields that are left out take the defaults of the settings."""

    def as_input(self) -> ScheduleInput:
        """Return the schedule in the form that the service takes."""
        return ScheduleInput(**self.__dict__)

    def as_json(self) -> dict[str, Any]:
        """Return the fields that the request has, without those that were left out."""
        return self.model_dump(mode="json", exclude_unset=True)


def _under_key(given: Any) -> Any:
    """Return a bulk request as an object; it may be a bare list."""
    if isinstance(given, list):
        return {"schedules": given}
    if not isinstance(given, dict) or "schedules" not in given:
        raise ValueError("write a list of schedules, bare or under the key 'schedules'")
    return given


class BulkBody(StrictModel):
    """Schedules to store, all or none; only if each schedule in `revisions` is as its preview found it."""

    schedules: Annotated[list[ScheduleRequest], Field(min_length=1, max_length=BULK_MAX)]
    revisions: dict[Id, Annotated[str, Field(max_length=64)] | None] | None = None


BulkRequest = Annotated[BulkBody, BeforeValidator(_under_key)]


class PreviewManyBody(StrictModel):
    """Schedules whose upserts to preview; the answer lists fire times of each, so there is a bound."""

    schedules: Annotated[list[ScheduleRequest], Field(min_length=1, max_length=PREVIEW_MAX)]


PreviewManyRequest = Annotated[PreviewManyBody, BeforeValidator(_under_key)]


class PauseRequest(StrictModel):
    """Pause or resume one schedule; `until` is when it is resumed by itself."""

    schedule_id: Id
    paused: bool
    note: Text | None = None
    until: Instant | None = None


class PauseManyRequest(StrictModel):
    """Pause or resume every schedule that all given filters match; at least one filter.

    A resumption with a `pause_note` leaves alone what was paused with another note.
    """

    paused: bool
    note: Text | None = None
    until: Instant | None = None
    workflow_id: Id | None = None
    user_id: User | None = None
    label: Text | None = None
    pause_note: Text | None = None


class DrainRequest(StrictModel):
    """The name or id of the worker that should give its shards away."""

    node: Annotated[str, Field(min_length=1, max_length=256)]


class BackfillRequest(StrictModel):
    """The past ticks in [start, end); `force` also runs ticks whose rows were pruned."""

    start: Instant
    end: Instant
    overlap_policy: OverlapPolicy | None = None
    force: bool = False


class StartRequest(StrictModel):
    """One run, as a worker requests it from the launcher."""

    workflow_id: Id
    version: Version
    user_id: User
    scheduled_for: Instant
    idempotency_key: Annotated[str, Field(pattern=KEY_PATTERN)]


class ReportRequest(StrictModel):
    """The report of an executor on a run."""

    status: Literal["STARTED", "SUCCESS", "FAILED"]
    attempt: Annotated[int, Field(ge=1, le=INTEGER_MAX)] | None = None
    run_id: Text | None = None
    # As long as the body may be: a run whose end is refused for a long traceback would count as lost.
    error: str | None = None


class ListQuery(QueryModel):
    """Filters and paging of the list of schedules."""

    workflow_id: Id | None = None
    user_id: User | None = None
    paused: bool | None = None
    label: Text | None = None
    find: Text | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    cursor: Annotated[str, Field(max_length=1000)] | None = None


class PageQuery(QueryModel):
    """Paging of the runs of one schedule."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    cursor: Annotated[str, Field(max_length=1000)] | None = None


class RunsQuery(QueryModel):
    """Filters and paging of the runs of all schedules; ticks are in [since, until)."""

    status: Literal["ENQUEUED", "STARTED", "SUCCESS", "FAILED", "SKIPPED"] | None = None
    reason: Annotated[str, Field(max_length=64)] | None = None
    trigger: Literal["schedule", "manual", "backfill"] | None = None
    schedule_id: Id | None = None
    user_id: User | None = None
    since: Instant | None = None
    until: Instant | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    cursor: Annotated[str, Field(max_length=1000)] | None = None


class TriggerRequest(StrictModel):
    """The input of one run by hand, in place of the schedule's own; any JSON value of at most 16 KiB."""

    input: Any = None


class LinesQuery(QueryModel):
    """Which schedules an overview lists; `find` is a part of an id, `name=value` or `workflow:NAME`.

    Only the view `all` has pages.
    """

    view: Literal["needs", "running", "next", "all"] = "needs"
    find: Annotated[str, Field(max_length=200)] = ""
    workflow_id: Id | None = None
    user_id: User | None = None
    paused: bool | None = None
    label: Text | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Annotated[str, Field(max_length=1000)] | None = None


class NextQuery(QueryModel):
    """How many fire times to show."""

    count: Annotated[int, Field(ge=1, le=1000)] = 5


class ExplainQuery(QueryModel):
    """The instant of the tick to explain."""

    at: LocalInstant


class SaveWorkflowQuery(QueryModel):
    """How a DAG is stored.

    `register` also stores the schedules that the DAG declares, `replace` overwrites a stored version, and
    `user_id` is the owner of a new workflow.
    """

    register_: Annotated[bool, Field(alias="register")] = False
    replace: bool = False
    user_id: User | None = None


class WorkflowsQuery(QueryModel):
    """Filter and paging of the list of workflows."""

    user_id: User | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    cursor: Annotated[str, Field(max_length=1000)] | None = None
