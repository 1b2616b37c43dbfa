"""The values of the fleet: agents and their schedules, work items, jobs and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from dutiful.core.name import exact

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

ScheduleType: TypeAlias = Literal["interval", "cron", "webhook", "chat"]
TriggerType: TypeAlias = Literal["interval", "cron", "manual"]
SchedulerStatus: TypeAlias = Literal["stopped", "running", "stopping"]
ScheduleStatus: TypeAlias = Literal["idle", "running", "disabled"]
# What a fleet file says about a work source or a job: `type` and what that type takes.
Config: TypeAlias = Mapping[str, Any]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class ScheduleSkipReason(StrEnum):
    """Why a schedule is not triggered in a pass."""

    UNSUPPORTED_TYPE = "unsupported_type"
    DISABLED = "disabled"
    ALREADY_RUNNING = "already_running"
    AT_CAPACITY = "at_capacity"
    NOT_DUE = "not_due"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class AgentSchedule:
    """One entry under an agent's `schedules`, as it was written; texts are parsed when they are used."""

    type: str
    interval: str | None = None
    expression: str | None = None
    prompt: str | None = None
    enabled: bool = True
    # Up to so much of the interval is added to it, at most 10.
    jitter_percent: float = 0
    work_source: Config | None = None
    # A work source with nothing to do means no job; with this the plain prompt is run.
    run_without_work: bool = False
    job: Config | None = None
    # What could not be read of the document it comes from; paths begin inside the schedule.
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Agent:
    """Somebody who does jobs: a name, its schedules, and how many jobs it can do at once."""

    name: str
    schedules: Mapping[str, AgentSchedule] = field(default_factory=lambda: _NOTHING)
    default_prompt: str | None = None
    max_concurrent: int = 1
    work_source: Config | None = None
    job: Config | None = None

    def __post_init__(self) -> None:
        """Make all names exact texts, so that a member of a `str` enum is stored under its value."""
        object.__setattr__(self, "name", exact(self.name))
        if any(type(name) is not str for name in self.schedules):
            named = {exact(name): written for name, written in self.schedules.items()}
            object.__setattr__(self, "schedules", named)


class ScheduleState(NamedTuple):
    """What `state.yaml` says of one schedule."""

    status: ScheduleStatus = "idle"
    last_run_at: datetime | None = None
    next_run_at: datetime | None = None
    last_error: str | None = None


class ScheduleCheckResult(NamedTuple):
    """Whether a schedule would be triggered now, and if not, why not."""

    should_trigger: bool
    skip_reason: ScheduleSkipReason | None = None


class ScheduleInfo(NamedTuple):
    """A schedule as it is shown to people."""

    agent_name: str
    name: str
    type: str
    status: ScheduleStatus
    last_run_at: datetime | None
    next_run_at: datetime | None
    last_error: str | None
    # Why it did not run in the last pass, and since when that has been so.
    skip_reason: ScheduleSkipReason | None = None
    skipped_since: datetime | None = None


class SchedulerState(NamedTuple):
    """What the scheduler says of itself."""

    status: SchedulerStatus
    started_at: datetime | None
    check_count: int
    trigger_count: int
    last_check_at: datetime | None


class WorkItem(NamedTuple):
    """One piece of work from a work source; `id` is the source's name for it within this process."""

    id: str
    source: str
    external_id: str
    title: str
    description: str = ""
    priority: str | None = None
    labels: tuple[str, ...] = ()
    url: str | None = None


class NextWorkItem(NamedTuple):
    """The answer of a work source: an item that is claimed, or why there is none."""

    item: WorkItem | None
    claimed: bool
    reason: str | None = None


class JobRequest(NamedTuple):
    """What a job executor is asked to do."""

    agent: Agent
    schedule_name: str
    schedule: AgentSchedule
    prompt: str
    work_item: WorkItem | None = None


class JobResult(NamedTuple):
    """How a job went."""

    success: bool
    summary: str | None = None
    error: str | None = None


class TriggerInfo(NamedTuple):
    """What `on_trigger` is told."""

    agent: Agent
    schedule_name: str
    schedule: AgentSchedule
    prompt: str
    trigger_type: TriggerType


class ScheduleRunResult(NamedTuple):
    """How one run of a schedule went; `ran` is False where the work source had nothing to do."""

    success: bool
    summary: str | None = None
    error: str | None = None
    work_item: WorkItem | None = None
    ran: bool = True


class Problem(NamedTuple):
    """Something wrong in a document: where (keys and list positions from its root), what, and the value."""

    path: tuple[str | int, ...]
    message: str
    value: object = None


class JobExecutor(Protocol):
    """Does jobs."""

    async def execute(self, request: JobRequest) -> JobResult:
        """Return how the job went; raising is a failure too."""


class WorkSourceManager(Protocol):
    """Hands out work items, each to one taker at a time."""

    async def get_next_work_item(self, agent: Agent, work_source: Config) -> NextWorkItem:
        """Claim the next item of this source for the agent."""

    async def report_outcome(self, item_id: str, result: JobResult) -> None:
        """Tell the source how the work on a claimed item went."""

    async def release_work_item(self, item_id: str, reason: str) -> None:
        """Give a claimed item back."""


class Claim(NamedTuple):
    """A claimed work item; `token` is what its source needs to find the claim again."""

    item: WorkItem
    token: Any = None


class WorkSource(Protocol):
    """One place that work items come from."""

    async def claim(self, agent_name: str) -> Claim | str:
        """Return an item that no other process has claimed, or why there is none."""

    async def report(self, claim: Claim, result: JobResult) -> None:
        """Record how the work on a claimed item went; the item is never handed out again."""

    async def release(self, claim: Claim, reason: str) -> None:
        """Give a claimed item back, so that it is handed out again."""


SchedulerTriggerCallback: TypeAlias = "Callable[[TriggerInfo], Awaitable[ScheduleRunResult | None]]"
