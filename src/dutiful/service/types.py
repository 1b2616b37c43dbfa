"""The inputs and results of the service: plain values with the names of its public interface.

Instants are aware datetimes, in UTC unless a field says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from dutiful.core.plan.verdict_steps import Step

T = TypeVar("T")


class Upserted(NamedTuple):
    """The id of a stored schedule, its next fire time, and the names of its changed fields."""

    schedule_id: str
    next_run_at: datetime | None
    created: bool = True
    changed: Sequence[str] = ()


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


class Readiness(NamedTuple):
    """The health of this process, and the state of the cluster as it sees it; None on one machine."""

    ok: bool
    leading: bool
    last_pass_at: datetime | None
    reason: str | None
    shards_free: int | None = None
    lag_s: float | None = None
    clock_offset_ms: int | None = None
