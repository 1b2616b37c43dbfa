"""The public home of the error classes: `from dutiful.errors import InvalidCronExpressionError`."""

from dutiful.core.errors import (
    CronCalculationError,
    DutifulError,
    FieldParseError,
    IntervalParseError,
    InvalidArgumentError,
    InvalidCronExpressionError,
    SchedulerError,
)

__all__ = [
    "CronCalculationError",
    "DutifulError",
    "FieldParseError",
    "IntervalParseError",
    "InvalidArgumentError",
    "InvalidCronExpressionError",
    "SchedulerError",
]
