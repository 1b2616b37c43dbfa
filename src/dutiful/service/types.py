"""The inputs and results of the service: plain values with the names of its public interface.

Instants are aware datetimes, in UTC unless a field says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from dutiful.core.cron.cron import Cron

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from dutiful.core.plan.gates import Step

T = TypeVar("T")


class ScheduleInput(NamedTuple):
    """The declaration of a schedule in a deploy.

    None takes the default of the settings; for `paused` it leaves an existing schedule as it is.
    """

    workflow_id: str
    version: int
    user_id: str
    cron_expr: str
    schedule_id: str | None = None
    timezone: str = "UTC"
    start_at: datetime | None = None
    end_at: datetime | None = None
    jitter_ms: int | None = None
    overlap_policy: str | None = None
    catchup_policy: str | None = None
    paused: bool | None = None
    dialect: str | None = None
    gap: str | None = None
    fold: str | None = None
    dst: str | None = None
    grace_s: float | None = None
    delivery: str | None = None
    run_timeout_s: float | None = None
    queue_limit: int | None = None
    labels: Mapping[str, str] | None = None
    # Any JSON value of at most 16 KiB, handed to the executor.
    input: Any = None
    # A failed task is retried this often, after this delay, each time `retry_backoff` times longer.
    retry_limit: int | None = None
    retry_delay_s: float | None = None
    retry_backoff: int | None = None
    retention_days: int | None = None
    retention_rows: int | None = None
    executor: str | None = None
    # Seconds after its fire time by which a tick should start and its run end; and how often a run should
    # succeed.
    start_within_s: float | None = None
    finish_within_s: float | None = None
    succeed_every_s: float | None = None
    # Days without ticks: 2026-12-25, 2026-12-24/2027-01-01, or 12-25 for every year.
    calendar: Sequence[str] | None = None
    # When a pause ends by itself; only beside `paused=True`.
    pause_until: datetime | None = None


class Upserted(NamedTuple):
    """The id of a stored schedule, its next fire time, and the names of its changed fields."""

    schedule_id: str
    next_run_at: datetime | None
    created: bool = True
    changed: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as it stands. `preview` is in the schedule's own zone, all else in UTC."""

    schedule_id: str
    workflow_id: str
    version: int
    user_id: str
    cron_expr: str
    timezone: str
    start_at: datetime | None
    end_at: datetime | None
    next_run_at: datetime | None
    paused: bool
    jitter_ms: int
    overlap_policy: str
    catchup_policy: str
    updated_at: datetime
    pause_note: str | None
    # When the schedule was paused, and by whom; None while it is not paused, and where it was not recorded.
    paused_at: datetime | None
    paused_by: str | None
    # When the pause ends by itself; None: only a user ends it.
    pause_until: datetime | None
    labels: Mapping[str, str]
    delivery: str
    dialect: str
    gap: str
    fold: str
    grace_s: float
    run_timeout_s: float | None
    queue_limit: int
    input: Any
    retry_limit: int
    retry_delay_s: float
    retry_backoff: int
    retention_days: int | None
    retention_rows: int | None
    executor: str | None
    start_within_s: float | None
    finish_within_s: float | None
    succeed_every_s: float | None
    calendar: Sequence[str]
    # Why the schedule is quarantined, or None.
    quarantine: str | None
    # Entries of ticks up to here may have been deleted; None where none was.
    pruned_until: datetime | None
    preview: list[datetime]

    @property
    def cron(self) -> Cron:
        """Return the cron of the schedule as it is stored."""
        settings = self.dialect, self.timezone, self.gap, self.fold
        return Cron.parse(self.cron_expr, *settings, calendar=self.calendar)  # type: ignore[arg-type]


class Damaged(NamedTuple):
    """A schedule whose row cannot be read, and why: it does not run until it is stored again."""

    schedule_id: str
    problem: str


@dataclass(frozen=True, slots=True)
class RunView:
    """One row of the ledger: a run, or a range of skipped ticks (`run_until`, `ticks`)."""

    idempotency_key: str
    schedule_id: str
    run_at: datetime
    fire_at: datetime
    status: str
    reason: str | None
    attempt: int
    run_id: str | None
    # schedule, manual or backfill
    trigger: str
    run_until: datetime | None
    ticks: int
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    detail: str | None
    # The input given to a manual run, in place of the input of its schedule.
    input: Any
    # How many attempts ended because the task failed; in the other attempts it did not end.
    task_failures: int = 0


class WorkflowView(NamedTuple):
    """A stored version of a workflow, with the size of its DAG in bytes."""

    workflow_id: str
    version: int
    user_id: str
    size: int
    updated_at: datetime


class Page(NamedTuple, Generic[T]):
    """One page of a list, and the cursor of the next page."""

    items: list[T]
    next_cursor: str | None


class Explanation(NamedTuple):
    """Why the tick at `at` ran, did not run, or will run."""

    schedule_id: str
    at: datetime
    due: bool
    run: RunView | None
    text: str
    # A status, a reason, or a code that only a verdict has, such as not_due.
    code: str = ""
    # The setting that decided, as name=value.
    setting: str | None = None
    steps: Sequence[Step] = ()


class Triggered(NamedTuple):
    """The manual run that was requested."""

    idempotency_key: str
    run_at: datetime


class Backfilled(NamedTuple):
    """How many past ticks will run, and how many will not, by cause."""

    accepted: int
    already_recorded: int
    # Ticks whose rows were pruned, so that it is unknown whether they ran; `force` runs them.
    unknown: int = 0
    # Ticks that another tick of the same request would skip or cancel.
    overlapping: int = 0


class NextTick(NamedTuple):
    """The next tick of a schedule."""

    schedule_id: str
    next_run_at: datetime | None


class Summary(NamedTuple):
    """An overview: the number of schedules, the next ticks, and the runs that failed within a day."""

    now: datetime
    schedules: int
    paused: int
    next: Sequence[NextTick]
    failed: Sequence[RunView]
    recent: Sequence[RunView]


class Health(NamedTuple):
    """Whether the worker is healthy; `reason` says why not."""

    ok: bool
    leading: bool
    last_pass_at: datetime | None
    reason: str | None
    # The error of the store or the engine; for operators, not for probes.
    error: str | None = None
