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
    from dutiful.declarative.scheduler import Scheduler

__all__ = [
    "Cron",
    "CronCalculationError",
    "DutifulError",
    "FieldParseError",
    "InvalidArgumentError",
    "InvalidCronExpressionError",
    "Scheduler",
]


def __getattr__(name: str) -> Any:
    # The scheduler brings asyncio and logging; who only asks a cron text should not wait for them.
    if name == "Scheduler":
        from dutiful.declarative.scheduler import Scheduler

        return Scheduler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
