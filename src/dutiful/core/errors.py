"""Every exception dutiful raises, with its English and its details.

DutifulError
├── InvalidArgumentError          a setting that is not one of the allowed values (also a ValueError)
├── InvalidCronExpressionError    a cron text that is refused, and which field is to blame
├── FieldParseError               why one field was refused; the cause of the error above
├── CronCalculationError          no occurrence within the years a datetime can hold
├── ScheduleFileError             a schedule file with everything that is wrong in it
├── UnknownScheduleError          there is no schedule with that id (also a LookupError)
├── StoreError                    the store cannot be used; the message says what to do
│   └── LostLeadershipError       another instance leads now; nothing was written
└── SchedulerError                root of the fleet's errors
    └── IntervalParseError        "5x" is not an interval
"""

from __future__ import annotations

from typing import Any

# Texts from outside are quoted in messages at most this long; `details` keeps them whole.
_QUOTE_LIMIT = 80


def quoted(text: object) -> str:
    """Return `text` fit for one line of a message: short, and without control characters."""
    shown = text if isinstance(text, str) else repr(text)
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown[: _QUOTE_LIMIT + 1])
    return shown if len(shown) <= _QUOTE_LIMIT else shown[: _QUOTE_LIMIT - 1] + "…"


class DutifulError(Exception):
    """Root of all errors of dutiful; `details` holds the facts of the message under stable keys."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details: dict[str, Any] = details

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses take facts, not a message: rebuild from state so that errors cross processes.
        return _revive, (type(self), self.args, self.__dict__)


def _revive(cls: type[DutifulError], args: tuple[Any, ...], state: dict[str, Any]) -> DutifulError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class InvalidArgumentError(DutifulError, ValueError):
    """A setting has a value that is not allowed; the reason says which are."""

    def __init__(self, argument: str, value: object, reason: str) -> None:
        super().__init__(
            f"Invalid {argument} {quoted(value)!r}: {reason}",
            argument=argument,
            value=value,
            reason=reason,
        )


class InvalidCronExpressionError(DutifulError):
    """A cron text was refused. `field` is `expression` when the text as a whole is wrong."""

    def __init__(self, expression: object, field: str, reason: str) -> None:
        super().__init__(
            f'Invalid cron expression "{quoted(expression)}": {field} field {reason}',
            expression=expression,
            field=field,
            reason=reason,
        )
        self.expression = expression
        self.field = field
        self.reason = reason


class FieldParseError(DutifulError):
    """One field of a cron text was refused; the message is the reason."""

    def __init__(self, reason: str, field_value: str, field_name: str) -> None:
        super().__init__(reason, fieldValue=field_value, fieldName=field_name)
        self.reason = reason


class CronCalculationError(DutifulError):
    """A cron has no occurrence before the end, or after the start, of what a datetime can hold."""

    def __init__(self, expression: str, current_time: str, cause: Exception) -> None:
        super().__init__(
            f"Failed to calculate next occurrence: {cause}",
            expression=expression,
            currentTime=current_time,
            cause=cause,
        )


class ScheduleFileError(DutifulError):
    """A schedule file cannot be used; `problems` lists everything that is wrong in it."""

    def __init__(self, path: str, problems: list[str]) -> None:
        listed = "".join(f"\n  {problem}" for problem in problems)
        super().__init__(f"{path} cannot be used:{listed}", path=path, problems=problems)


class UnknownScheduleError(DutifulError, LookupError):
    """There is no schedule with that id."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__(f'There is no schedule "{quoted(schedule_id)}"', scheduleId=schedule_id)


class StoreError(DutifulError):
    """The store cannot be read or written; nothing was launched because of it."""

    def __init__(self, problem: str, advice: str, **details: Any) -> None:
        super().__init__(f"{problem}: {advice}", **details)


class LostLeadershipError(StoreError):
    """A write carried an epoch that is no longer the current one."""

    def __init__(self, epoch: int, current: int) -> None:
        problem = f"Leadership under epoch {epoch} is over"
        super().__init__(problem, f"epoch {current} leads now", epoch=epoch, current=current)


class SchedulerError(DutifulError):
    """Root of the fleet's errors."""


class IntervalParseError(SchedulerError, ValueError):
    """A text such as "5x" is not an interval; the message says what to write."""

    def __init__(self, reason: str, text: object) -> None:
        super().__init__(reason, input=text)
        self.input = text
