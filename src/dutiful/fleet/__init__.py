"""Door 2: a fleet of agents with named schedules in YAML."""

from dutiful.fleet.agents import agent_from
from dutiful.fleet.config import Fleet, load_fleet
from dutiful.fleet.cron import calculate_next_cron_trigger, is_valid_cron_expression, parse_cron_expression
from dutiful.fleet.errors import (
    AgentNotFoundError,
    ConcurrencyLimitError,
    CronParseError,
    FleetConfigError,
    FleetManagerError,
    IntervalParseError,
    ScheduleNotFoundError,
    SchedulerError,
    SchedulerShutdownError,
    ScheduleTriggerError,
    StateFileError,
)
from dutiful.fleet.interval import calculate_next_trigger, is_schedule_due, parse_interval
from dutiful.fleet.prompt import build_schedule_prompt
from dutiful.fleet.runner import run_schedule
from dutiful.fleet.scheduler import FleetScheduler
from dutiful.fleet.state_file import get_agent_schedule_states, get_schedule_state, update_schedule_state
from dutiful.fleet.types import (
    Agent,
    AgentSchedule,
    JobExecutor,
    JobRequest,
    JobResult,
    NextWorkItem,
    ScheduleCheckResult,
    ScheduleInfo,
    SchedulerState,
    SchedulerStatus,
    SchedulerTriggerCallback,
    ScheduleRunResult,
    ScheduleSkipReason,
    ScheduleState,
    TriggerInfo,
    WorkItem,
    WorkSourceManager,
)

__all__ = [
    "Agent",
    "AgentNotFoundError",
    "AgentSchedule",
    "ConcurrencyLimitError",
    "CronParseError",
    "Fleet",
    "FleetConfigError",
    "FleetManagerError",
    "FleetScheduler",
    "IntervalParseError",
    "JobExecutor",
    "JobRequest",
    "JobResult",
    "NextWorkItem",
    "ScheduleCheckResult",
    "ScheduleInfo",
    "ScheduleNotFoundError",
    "ScheduleRunResult",
    "ScheduleSkipReason",
    "ScheduleState",
    "ScheduleTriggerError",
    "SchedulerError",
    "SchedulerShutdownError",
    "SchedulerState",
    "SchedulerStatus",
    "SchedulerTriggerCallback",
    "StateFileError",
    "TriggerInfo",
    "WorkItem",
    "WorkSourceManager",
    "agent_from",
    "build_schedule_prompt",
    "calculate_next_cron_trigger",
    "calculate_next_trigger",
    "get_agent_schedule_states",
    "get_schedule_state",
    "is_schedule_due",
    "is_valid_cron_expression",
    "load_fleet",
    "parse_cron_expression",
    "parse_interval",
    "run_schedule",
    "update_schedule_state",
]
