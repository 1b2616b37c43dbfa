"""The public home of the error classes: `from dutiful.errors import InvalidCronExpressionError`."""

from dutiful.core.errors import (
    CronCalculationError,
    DutifulError,
    FieldParseError,
    IntervalParseError,
    InvalidArgumentError,
    InvalidCronExpressionError,
    LostLeadershipError,
    ScheduleFileError,
    SchedulerError,
    StoreError,
    UnknownScheduleError,
)

__all__ = [
    "CronCalculationError",
    "DutifulError",
    "FieldParseError",
    "IntervalParseError",
    "InvalidArgumentError",
    "InvalidCronExpressionError",
    "LostLeadershipError",
    "ScheduleFileError",
    "SchedulerError",
    "StoreError",
    "UnknownScheduleError",
]
