"""The public home of the error classes: `from dutiful.errors import InvalidCronExpressionError`."""

from dutiful.core.errors import (
    CronCalculationError,
    DutifulError,
    FieldParseError,
    IntervalParseError,
    InvalidArgumentError,
    InvalidCronExpressionError,
    LostLeadershipError,
    SchedulerError,
    StoreError,
)

__all__ = [
    "CronCalculationError",
    "DutifulError",
    "FieldParseError",
    "IntervalParseError",
    "InvalidArgumentError",
    "InvalidCronExpressionError",
    "LostLeadershipError",
    "SchedulerError",
    "StoreError",
]
