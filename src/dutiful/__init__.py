"""dutiful: a scheduler that keeps its obligations."""

from typing import TYPE_CHECKING, Any

from dutiful.core.cron.cron import Cron
from dutiful.core.errors import (
    CronCalculationError,
    DutifulError,
    FieldParseError,
    InvalidArgumentError,
    InvalidCronExpressionError,
)

if TYPE_CHECKING:
    from dutiful.declarative.callback import in_thread
    from dutiful.declarative.observe import SchedulerEvent
    from dutiful.declarative.registration import Registration, task
    from dutiful.declarative.running import BackgroundScheduler, in_background, running
    from dutiful.declarative.scheduler import Scheduler

    __version__: str

__all__ = [
    "BackgroundScheduler",
    "Cron",
    "CronCalculationError",
    "DutifulError",
    "FieldParseError",
    "InvalidArgumentError",
    "InvalidCronExpressionError",
    "Registration",
    "Scheduler",
    "SchedulerEvent",
    "in_background",
    "in_thread",
    "running",
    "task",
]

# Imported on first use: the scheduler needs asyncio and logging, and parsing a cron does not.
_MODULES = {
    "BackgroundScheduler": "running",
    "Registration": "registration",
    "Scheduler": "scheduler",
    "SchedulerEvent": "observe",
    "in_background": "running",
    "in_thread": "callback",
    "running": "running",
    "task": "registration",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"dutiful.declarative.{_MODULES[name]}"), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("dutiful")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
