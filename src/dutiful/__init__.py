"""dutiful: a scheduler that keeps its obligations."""

from dutiful.core.cron import Cron
from dutiful.core.errors import (
    CronCalculationError,
    DutifulError,
    FieldParseError,
    InvalidArgumentError,
    InvalidCronExpressionError,
)

__all__ = [
    "Cron",
    "CronCalculationError",
    "DutifulError",
    "FieldParseError",
    "InvalidArgumentError",
    "InvalidCronExpressionError",
]
