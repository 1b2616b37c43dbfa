"""The models of responses, which are also the schemas of the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, create_model

from dutiful.httpd.fields import Instant, fields_of
from dutiful.service.declaration import ScheduleView


class Answer(BaseModel):
    """A model that is filled from the attributes of the service's values."""

    model_config = ConfigDict(from_attributes=True)


class Problem(Answer):
    """A problem: a stable code, a sentence for people, and details for programs."""

    code: str
    message: str
    details: dict[str, Any]


class ErrorAnswer(Answer):
    """The one shape of every error."""

    error: Problem


class UpsertedAnswer(Answer):
    """A stored schedule, its next tick (null if there is none), which facts changed, and warnings."""

    schedule_id: str
    next_run_at: Instant | None
    created: bool
    changed: list[str]
    warnings: list[str] = []


class FindingAnswer(Answer):
    """A remark on a cron text."""

    code: str
    level: Literal["warning", "note"]
    message: str


class MovedAnswer(Answer):
    """A fire time that takes the place of another one on the same day."""

    before: Instant
    after: Instant


class CountsAnswer(Answer):
    """How many fire times there are before and after an upsert, up to `compared_until`."""

    before: int
    after: int


class UpsertPreviewAnswer(Answer):
    """The changes that an upsert would make.

    Fire times are in the schedule's zone, and compared up to `compared_until`. `updated_at` and `revision`
    are those of the stored schedule, null for a new one. `warnings` are as of an upsert.
    """

    schedule_id: str | None
    created: bool
    changed: list[str]
    meaning: str
    findings: list[FindingAnswer]
    preview: list[Instant]
    compared_until: Instant | None
    counts: CountsAnswer
    updated_at: Instant | None
    revision: str | None
    added: list[Instant]
    removed: list[Instant]
    moved: list[MovedAnswer]
    warnings: list[str] = []


class PreviewManyAnswer(Answer):
    """The previews of several upserts, in the order in which they were given."""

    schedules: list[UpsertPreviewAnswer]


class BulkAnswer(Answer):
    """All schedules of a bulk, in the order in which they were given."""

    schedules: list[UpsertedAnswer]


class PausedAnswer(Answer):
    """A schedule that was paused or resumed."""

    schedule_id: str
    paused: bool


class PausedManyAnswer(Answer):
    """How many schedules changed."""

    changed: int


# The fields of a schedule are written once, in service/declaration.py; a page alone needs `pruned_until`.
_shown = {name: field for name, field in fields_of(ScheduleView).items() if name != "pruned_until"}
_Shown = create_model("_Shown", __base__=Answer, **_shown)


class ScheduleAnswer(_Shown, Answer):  # type: ignore[misc,valid-type]
    """A schedule as it stands, with its next five fire times in its own zone."""


class DamagedAnswer(Answer):
    """A schedule whose row cannot be read, and why."""

    schedule_id: str
    problem: str


class SchedulesAnswer(Answer):
    """One page of schedules; the first page also has schedules that cannot be read, whatever the filters."""

    schedules: list[ScheduleAnswer]
    next_cursor: str | None
    damaged: list[DamagedAnswer]


class PreviewAnswer(Answer):
    """The next fire times of a schedule, in its own zone."""

    schedule_id: str
    preview: list[Instant]


class RunAnswer(Answer):
    """A run, or a stretch of skipped ticks from `run_at` to `run_until`."""

    idempotency_key: str
    schedule_id: str
    run_at: Instant
    fire_at: Instant
    status: Literal["ENQUEUED", "STARTED", "SUCCESS", "FAILED", "SKIPPED"]
    reason: str | None
    attempt: int
    run_id: str | None
    trigger: Literal["schedule", "manual", "backfill"]
    run_until: Instant | None
    ticks: int
    created_at: Instant
    updated_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    detail: str | None
    input: Any


class OutputAnswer(Answer):
    """The output of a run, or its end if it is long, without control characters for terminals."""

    idempotency_key: str
    output: str
    truncated: bool


class RunsAnswer(Answer):
    """One page of runs, the newest first."""

    runs: list[RunAnswer]
    next_cursor: str | None


class StepAnswer(Answer):
    """One check of a tick, whether it was passed, and why; `passed` is null while that is open."""

    name: str
    passed: bool | None
    fact: str


class ExplanationAnswer(Answer):
    """Why the tick at that instant ran, did not run, or will run.

    `code` is a status, a reason, or a code that only a verdict has. `setting` decided, as name=value. `steps`
    are the checks in their order, up to the one that decided.
    """

    schedule_id: str
    at: Instant
    due: bool
    run: RunAnswer | None
    text: str
    code: str
    setting: str | None
    steps: list[StepAnswer]


class TriggeredAnswer(Answer):
    """The run that was requested."""

    idempotency_key: str
    run_at: Instant


class BackfilledAnswer(Answer):
    """How many past ticks will run, and how many will not: recorded before, unknown, overlapping."""

    accepted: int
    already_recorded: int
    unknown: int
    overlapping: int


class WorkflowAnswer(Answer):
    """A stored workflow, and the schedules that were registered with it.

    `kept` are schedules of earlier versions whose triggers this DAG no longer has: they go on, until deleted.
    """

    workflow_id: str
    version: int
    schedules: list[UpsertedAnswer]
    kept: list[str] = []


class WorkflowEntryAnswer(Answer):
    """A stored version of a workflow; `size` is that of its DAG, in bytes."""

    workflow_id: str
    version: int
    user_id: str
    size: int
    updated_at: Instant


class WorkflowsAnswer(Answer):
    """One page of stored versions, by id and version."""

    workflows: list[WorkflowEntryAnswer]
    next_cursor: str | None


class StartedAnswer(Answer):
    """Whether the executor accepted the run; `duplicate` if a run with this key was started before."""

    started: bool
    duplicate: bool = False


class HealthAnswer(Answer):
    """Whether this process does its work; `reason` says why not."""

    ok: bool
    leading: bool
    last_pass_at: Instant | None
    reason: str | None


class ReadyAnswer(HealthAnswer):
    """Whether this process does its work, and the state of the cluster; null on one machine."""

    shards_free: int | None
    lag_s: float | None
    clock_offset_ms: int | None


class NodeAnswer(Answer):
    """A worker of the cluster, and the shards that it leads."""

    node_id: str
    name: str
    release: str
    pid: int
    joined_at: Instant
    draining: bool
    shards: list[int]


class ShardAnswer(Answer):
    """A shard: the node that leads it, its epoch, and how long its most overdue schedule has waited."""

    shard: int
    node: str | None
    epoch: int
    lag_s: float


class ClusterAnswer(Answer):
    """The cluster; a store for one machine has neither nodes nor shards."""

    now: Instant
    clock_offset_ms: int | None
    nodes: list[NodeAnswer]
    shards: list[ShardAnswer]


class NextTickAnswer(Answer):
    """The next tick of a schedule."""

    schedule_id: str
    next_run_at: Instant | None


class AccountAnswer(Answer):
    """The ticks of the last 24 hours: due = ran + failed + skipped + open + unaccounted.

    `skipped_since` has the ten minutes of the first skipped tick, by reason.
    """

    due: int
    ran: int
    failed: int
    skipped: dict[str, int]
    skipped_since: dict[str, Instant]
    open: int
    unaccounted: int
    drift_p50_s: float | None
    drift_p99_s: float | None


class BucketAnswer(Answer):
    """The ticks of the ten minutes from `at` on."""

    at: Instant
    ran: int
    failed: int
    skipped: int
    to_come: int


class LineAnswer(Answer):
    """One schedule of a list: its state, its latest ticks, oldest first, and its next tick."""

    schedule_id: str
    state: Literal["ran", "failed", "skipped", "running", "to_come", "paused", "aside"]
    meaning: str
    timezone: str
    past: list[Literal["ran", "failed", "skipped", "running", "hand", "backfilled"]]
    to_come: int
    last_at: Instant | None
    last_status: str | None
    next_run_at: Instant | None
    note: str


class LinesAnswer(Answer):
    """The schedules of a view of the overview, as of `now`; the view `all` comes in pages."""

    now: Instant
    schedules: list[LineAnswer]
    next_cursor: str | None


class SummaryAnswer(Answer):
    """The facts of an overview: the worker's health, counts, next ticks, and the failures of a day.

    `leaders` are the names of the workers of a cluster that lead, `standby` is the number of the others.
    """

    now: Instant
    revision: str
    health: HealthAnswer
    leaders: list[str]
    standby: int
    schedules: int
    paused: int
    next: list[NextTickAnswer]
    failed: list[RunAnswer]
    recent: list[RunAnswer]
    needs: int
    running: int
    account: AccountAnswer
    day: list[BucketAnswer]


class AliveAnswer(Answer):
    """This process answers."""

    ok: bool
