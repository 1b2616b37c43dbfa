"""The values of the fleet: agents and their schedules, work items, jobs and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Required, TypeAlias, TypedDict

from dutiful.core.name import exact

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime, timedelta
    from pathlib import Path

    from dutiful.runtime.ports import Clock, Retention

ScheduleType: TypeAlias = Literal["interval", "cron", "webhook", "chat"]
TriggerType: TypeAlias = Literal["interval", "cron", "manual"]
SchedulerStatus: TypeAlias = Literal["stopped", "running", "stopping"]
ScheduleStatus: TypeAlias = Literal["idle", "running", "disabled"]
# The settings of a work source or a job in a fleet file: `type`, and the keys of that type.
Config: TypeAlias = Mapping[str, Any]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class ScheduleSkipReason(StrEnum):
    """Why a pass does not trigger a schedule."""

    UNSUPPORTED_TYPE = "unsupported_type"
    DISABLED = "disabled"
    ALREADY_RUNNING = "already_running"
    AT_CAPACITY = "at_capacity"
    NOT_DUE = "not_due"
    QUARANTINED = "quarantined"

    @property
    def for_people(self) -> str:
        """The reason as tables and pages show it: a schedule that waits to be triggered is no error."""
        return "manual_only" if self is ScheduleSkipReason.UNSUPPORTED_TYPE else self.value


@dataclass(frozen=True, slots=True)
class AgentSchedule:
    """One entry under an agent's `schedules`, as declared; texts are parsed where they are used."""

    type: str
    interval: str | None = None
    expression: str | None = None
    prompt: str | None = None
    enabled: bool = True
    # Up to this percentage of the interval is added to it; at most 10.
    jitter_percent: float = 0
    work_source: Config | None = None
    # If true, a run without a work item still does its job, with the plain prompt.
    run_without_work: bool = False
    job: Config | None = None
    # IANA name; None is the zone of the fleet's clock.
    timezone: str | None = None
    # A failed run is retried this often, `retry_delay` later, `retry_backoff` times longer each time.
    retries: int = 0
    retry_delay: str = "1m"
    retry_backoff: int = 1
    # A job that runs after a run of the schedule has failed for good.
    on_failure: Config | None = None
    # The keys that could not be read; paths begin inside the schedule.
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that does jobs: its name, its schedules, and how many jobs it can do at once."""

    name: str
    schedules: Mapping[str, AgentSchedule] = field(default_factory=lambda: _NOTHING)
    default_prompt: str | None = None
    max_concurrent: int = 1
    work_source: Config | None = None
    job: Config | None = None
    on_failure: Config | None = None

    def __post_init__(self) -> None:
        """Make all names exact texts, so that a member of a `str` enum is stored under its value."""
        object.__setattr__(self, "name", exact(self.name))
        if any(type(name) is not str for name in self.schedules):
            named = {exact(name): written for name, written in self.schedules.items()}
            object.__setattr__(self, "schedules", named)


class AgentScheduleInfo(NamedTuple):
    """One schedule of one agent, as it was declared."""

    agent: Agent
    schedule_name: str
    schedule: AgentSchedule


class ScheduleState(NamedTuple):
    """The record of one schedule in `state.yaml`."""

    status: ScheduleStatus = "idle"
    last_run_at: datetime | None = None
    next_run_at: datetime | None = None
    last_error: str | None = None


class ScheduleCheckResult(NamedTuple):
    """Whether a schedule would be triggered now, and why not."""

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
    # Why the last pass did not trigger the schedule, and since when that is the reason.
    skip_reason: ScheduleSkipReason | None = None
    skipped_since: datetime | None = None
    # Why it is quarantined.
    problem: str | None = None
    # When it runs, in words: "every 5 min from completion", "At 09:00, Monday to Friday, in Berlin".
    when: str = ""


class SchedulerState(NamedTuple):
    """The state of the scheduler itself."""

    status: SchedulerStatus
    started_at: datetime | None
    check_count: int
    trigger_count: int
    last_check_at: datetime | None
    # Why passes fail at present, and since when; no job is triggered meanwhile.
    problem: str | None = None
    problem_since: datetime | None = None


class WorkItem(NamedTuple):
    """One piece of work from a work source; `id` is unique within this process."""

    id: str
    source: str
    external_id: str
    title: str
    description: str = ""
    priority: str | None = None
    labels: tuple[str, ...] = ()
    url: str | None = None


class NextWorkItem(NamedTuple):
    """The answer of a work source: a claimed item, or why there is none."""

    item: WorkItem | None
    claimed: bool
    reason: str | None = None


class TriggerMetadata(NamedTuple):
    """The run of a job: when it was due, its trigger, and the attempt."""

    due_at: datetime
    trigger_type: TriggerType
    attempt: int = 1


class JobRequest(NamedTuple):
    """One job for an executor. `error` is set for a job that reports a failure."""

    agent: Agent
    schedule_name: str
    schedule: AgentSchedule
    prompt: str
    work_item: WorkItem | None = None
    metadata: TriggerMetadata | None = None
    error: str | None = None


class JobResult(NamedTuple):
    """The result of a job."""

    success: bool
    summary: str | None = None
    error: str | None = None


class TriggerInfo(NamedTuple):
    """The argument of `on_trigger`."""

    agent: Agent
    schedule_name: str
    schedule: AgentSchedule
    prompt: str
    trigger_type: TriggerType
    metadata: TriggerMetadata | None = None


class ScheduleRunResult(NamedTuple):
    """The result of one run of a schedule; `ran` is False if no job was done, as when there was no work."""

    success: bool
    summary: str | None = None
    error: str | None = None
    work_item: WorkItem | None = None
    ran: bool = True


class Problem(NamedTuple):
    """A problem in a document: its path (keys and list positions from the root), what is wrong, the value."""

    path: tuple[str | int, ...]
    message: str
    value: object = None


class JobExecutor(Protocol):
    """Does jobs."""

    async def execute(self, request: JobRequest) -> JobResult:
        """Return the result of the job; an exception counts as a failure."""


class WorkSourceManager(Protocol):
    """Hands out work items, each to one claimer at a time."""

    async def get_next_work_item(self, agent: Agent, work_source: Config) -> NextWorkItem:
        """Claim the next item of this source for the agent."""

    async def report_outcome(self, item_id: str, result: JobResult) -> None:
        """Report the result of the work on a claimed item to its source."""

    async def release_work_item(self, item_id: str, reason: str) -> None:
        """Release a claimed item."""


class Claim(NamedTuple):
    """A claimed work item; its source finds the claim by `token`."""

    item: WorkItem
    token: Any = None


class WorkSource(Protocol):
    """A source of work items."""

    async def claim(self, agent_name: str) -> Claim | str:
        """Return an item that no other process has claimed, or why there is none."""

    async def report(self, claim: Claim, result: JobResult) -> None:
        """Record the result of the work on a claimed item; the item is never handed out again."""

    async def release(self, claim: Claim, reason: str) -> None:
        """Release a claimed item, so that it is handed out again."""


class SchedulerLogger(Protocol):
    """The methods of a `logging.Logger` that the fleet calls."""

    def debug(self, msg: str, /, *args: object) -> None:
        """Log a detail."""

    def info(self, msg: str, /, *args: object) -> None:
        """Log an event."""

    def warning(self, msg: str, /, *args: object) -> None:
        """Log a problem."""

    def error(self, msg: str, /, *args: object) -> None:
        """Log a failure."""


ScheduleRunnerLogger: TypeAlias = SchedulerLogger
SchedulerTriggerCallback: TypeAlias = "Callable[[TriggerInfo], Awaitable[ScheduleRunResult | None]]"


class SchedulerOptions(TypedDict, total=False):
    """The arguments of `FleetScheduler`."""

    state_dir: Required[str | Path]
    check_interval: float | timedelta
    logger: SchedulerLogger | None
    on_trigger: Callable[[TriggerInfo], Any] | None
    on_failure: Callable[[TriggerInfo, str], Any] | None
    clock: Clock | None
    reload: Callable[[], Sequence[Agent] | None] | None
    retention: Retention


class StopOptions(TypedDict, total=False):
    """The arguments of `FleetScheduler.stop`."""

    wait_for_jobs: bool
    timeout: float | timedelta


class RunScheduleOptions(TypedDict, total=False):
    """The arguments of `run_schedule`."""

    agent: Required[Agent]
    schedule: Required[AgentSchedule]
    schedule_name: Required[str]
    state_dir: Required[str | Path]
    job_executor: Required[JobExecutor]
    work_source_manager: WorkSourceManager | None
    logger: ScheduleRunnerLogger | None
    clock: Clock | None
