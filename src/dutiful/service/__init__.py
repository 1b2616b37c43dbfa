"""The cron service: schedules of workflows, a worker that fires them, and the ledger of every tick."""

from dutiful.launchers.executor import Executor, Meta
from dutiful.service.declaration import ScheduleInput, ScheduleView
from dutiful.service.launcher import RunLauncher
from dutiful.service.registrar import SchedulerRegistrar
from dutiful.service.settings import Settings, SettingsError, settings_from
from dutiful.service.types import (
    Backfilled,
    Damaged,
    Explanation,
    Health,
    Page,
    RunView,
    Triggered,
    Upserted,
)
from dutiful.service.wiring import Service
from dutiful.service.workflows import WorkflowStore

__all__ = [
    "Backfilled",
    "Damaged",
    "Executor",
    "Explanation",
    "Health",
    "Meta",
    "Page",
    "RunLauncher",
    "RunView",
    "ScheduleInput",
    "ScheduleView",
    "SchedulerRegistrar",
    "Service",
    "Settings",
    "SettingsError",
    "Triggered",
    "Upserted",
    "WorkflowStore",
    "settings_from",
]
