"""Every exception dutiful raises, with its English and its details.

DutifulError
├── InvalidArgumentError          a setting that is not one of the allowed values (also a ValueError)
├── InvalidCronExpressionError    a cron text that is refused, and which field is to blame
├── FieldParseError               why one field was refused; the context of the error above
├── CronCalculationError          no occurrence within the years a datetime can hold
├── ScheduleFileError             a schedule file with everything that is wrong in it
├── UnknownScheduleError          there is no schedule with that id (also a LookupError)
├── UnknownRunError               there is no run with that key (also a LookupError)
├── OversizedBackfillError        a backfill of more ticks than are taken at a time
├── CodecError                    a stored text that cannot be read, or a value that cannot be stored
├── StoreError                    the store cannot be used; the message says what to do
│   ├── LostLeadershipError       another instance leads now; nothing was written
│   └── NamespaceOwnedError       another door keeps its schedules there
├── RegistrationsNotArrayError    initialize() wants a list
├── RegistrationShapeError        of 4-tuples
├── InvalidRegistrationError      with usable values
├── ScheduleDuplicateTaskError    under different names
├── CronExpressionInvalidError    with valid cron texts
├── NegativeRetryDelayError       and delays that are not negative
├── SchedulerAlreadyActiveError   by a scheduler that is not active yet
├── ScheduleTaskError             initialize() failed unexpectedly; the cause is in details
├── StopSchedulerError            so did stop()
├── UnrecordedRunsError           its cause where ended runs could not be recorded
├── TaskTryDeserializeError       a stored task record cannot be read
│   ├── TaskMissingFieldError
│   ├── TaskInvalidTypeError
│   ├── TaskInvalidValueError
│   └── TaskInvalidStructureError
└── SchedulerError                root of the fleet's errors; the others are in fleet/errors.py
    └── IntervalParseError        "5x" is not an interval
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection

# Messages quote at most this many characters of a text from outside; `details` keeps the whole text.
_QUOTE_LIMIT = 80
# Messages list at most this many names.
_LISTED_MAX = 50
# Lines of the log quote this many.
LOGGED_MAX = 1000


def as_text(value: object) -> str:
    """Return the text of a value; its class for an exception without a text, or where rendering fails."""
    name = type(value).__name__
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - a user defines the text, which may raise anything
        return f"{name}, which cannot be shown"
    return text or (name if isinstance(value, BaseException) else "")


def quoted(text: object, limit: int = _QUOTE_LIMIT) -> str:
    """Return `text` fit for one line of a message: short, and without control characters."""
    shown = text if isinstance(text, str) else repr(text)
    shown = shown[: limit + 1]
    # Nearly all texts are printable, and every line of the log quotes several.
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def listing(known: Collection[str]) -> str:
    """Return the known names for the message of an unknown one."""
    if not known:
        return "there is none"
    names = sorted(known)[:_LISTED_MAX]
    more = f" and {len(known) - _LISTED_MAX} more" if len(known) > _LISTED_MAX else ""
    return f"known: {', '.join(map(quoted, names))}{more}"


def redacted(url: str) -> str:
    """Return a URL for messages, without its user and passwords. Misspelt URLs are accepted."""
    before, at, rest = url.rpartition("@")
    kind, colon, _ = before.partition(":")
    shown = f"{kind if colon else ''}://…@{rest}" if at else url
    return re.sub(r"(?i)\b(password=)[^&#\s]*", r"\1…", shown)


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
    """A cron has no occurrence within the years that a datetime can hold."""

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


class UnknownRunError(DutifulError, LookupError):
    """There is no run with that key; it may have been pruned."""

    def __init__(self, key: str) -> None:
        super().__init__(f'There is no run with the key "{quoted(key)}"', idempotencyKey=key)


class OversizedBackfillError(DutifulError):
    """A backfill covers more ticks than one request may."""

    def __init__(self, ticks: int, limit: int) -> None:
        message = f"A backfill of {ticks} ticks is too large: ask for at most {limit} at a time"
        super().__init__(message, ticks=ticks, limit=limit)


class MissingKey(NamedTuple):
    """A stored value lacks a key; paths are such as "policy.retry.delay"."""

    path: str


class MistypedKey(NamedTuple):
    """A key of a stored value holds a value of another type than `expected`."""

    path: str
    value: object
    expected: type


class ImpossibleKey(NamedTuple):
    """A key of a stored value holds a value of the right type that means nothing."""

    path: str
    value: object
    reason: str


FaultyKey: TypeAlias = MissingKey | MistypedKey | ImpossibleKey


class CodecError(DutifulError, ValueError):
    """A stored text cannot be read back, or a value has no form in which it could be stored.

    `key` is the key that is to blame; None where the whole text is, or another column.
    """

    def __init__(self, subject: str, reason: str, key: FaultyKey | None = None) -> None:
        super().__init__(f"{subject}: {reason}", subject=subject, reason=reason)
        self.subject, self.reason, self.key = subject, reason, key


class StoreError(DutifulError):
    """The store cannot be read or written; nothing was launched because of it."""

    def __init__(self, problem: str, advice: str, **details: Any) -> None:
        super().__init__(f"{problem}: {advice}", **details)


class LostLeadershipError(StoreError):
    """A write carried an epoch that is no longer the current one."""

    def __init__(self, epoch: int, current: int) -> None:
        problem = f"Leadership under epoch {epoch} is over"
        super().__init__(problem, f"epoch {current} leads now", epoch=epoch, current=current)


class NamespaceOwnedError(StoreError):
    """A namespace belongs to another door; nothing was written."""

    def __init__(self, store: str, namespace: str, door: str) -> None:
        problem = f"The namespace {namespace!r} of {store} belongs to the {door}"
        advice = "name another namespace, or another file; nothing was changed"
        super().__init__(problem, advice, store=store, namespace=namespace, door=door)


class OvertakenError(StoreError):
    """An edit was made from a version of a schedule that another writer has replaced meanwhile."""

    def __init__(self, schedule_id: str, version: int, present: int) -> None:
        problem = f"Schedule {quoted(schedule_id)!r} was changed meanwhile"
        advice = "read it again and repeat the edit"
        super().__init__(problem, advice, id=schedule_id, version=version, present=present)


class SchedulerError(DutifulError):
    """Root of the fleet's errors."""


class IntervalParseError(SchedulerError, ValueError):
    """A text such as "5x" is not an interval; the message says what to write."""

    def __init__(self, reason: str, text: object) -> None:
        super().__init__(reason, input=text)
        self.input = text


class RegistrationsNotArrayError(DutifulError):
    """`initialize` was given something other than a list or tuple."""

    def __init__(self) -> None:
        super().__init__("Registrations must be an array")


class RegistrationShapeError(DutifulError):
    """A registration is not a 4-tuple of name, cron text, callable and retry delay."""

    def __init__(self, index: int, received: object) -> None:
        message = "Invalid registration shape: expected [string, string, function, Duration]"
        super().__init__(message, registrationIndex=index, received=received)


class InvalidRegistrationError(DutifulError):
    """A registration has the right shape and an unusable value."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        super().__init__(f"Invalid registration: {field} {reason}", field=field, value=value, reason=reason)


class ScheduleDuplicateTaskError(DutifulError):
    """Two registrations have the same name."""

    def __init__(self, name: str) -> None:
        super().__init__(f'Task with name "{quoted(name)}" is already scheduled', taskName=name)


class CronExpressionInvalidError(DutifulError):
    """A registration has a cron text that is refused; the context is the InvalidCronExpressionError.

    The reason names the `dialect` of the scheduler in which the text would be legal, if there is one.
    """

    def __init__(self, refused: InvalidCronExpressionError, dialect: str | None = None) -> None:
        hint = "" if dialect is None else f' (legal with dialect="{dialect}")'
        super().__init__(f"{refused}{hint}", **refused.details | {"reason": f"{refused.reason}{hint}"})


class NegativeRetryDelayError(DutifulError):
    """A retry delay is below zero."""

    def __init__(self, retry_delay_ms: float) -> None:
        super().__init__("Retry delay must be non-negative", retryDelayMs=retry_delay_ms)


class SchedulerAlreadyActiveError(DutifulError):
    """`initialize` was called on a scheduler that is initializing, running or stopping."""

    def __init__(self, state: str) -> None:
        message = f"Cannot initialize scheduler: scheduler is already {state}"
        super().__init__(message, currentState=state)


class ScheduleTaskError(DutifulError):
    """`initialize` failed unexpectedly; nothing was changed."""

    def __init__(self, name: str, cron_expression: str, cause: BaseException) -> None:
        message = f"Failed to schedule task '{quoted(name)}': {quoted(str(cause))}"
        super().__init__(message, name=name, cronExpression=cron_expression, cause=cause)


class StopSchedulerError(DutifulError):
    """`stop` failed unexpectedly."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"Failed to stop scheduler: {quoted(str(cause))}", cause=cause)


class UnrecordedRunsError(DutifulError):
    """Runs ended and the store could not be written; the runs start again next time."""

    def __init__(self, names: list[str], cause: BaseException | None) -> None:
        shown = ", ".join(repr(quoted(name)) for name in names[:5])
        more = "" if len(names) <= 5 else f" and {len(names) - 5} more"
        message = (
            f"{len(names)} ended runs could not be recorded and will start again: {shown}{more} ({cause})"
        )
        super().__init__(message, tasks=names, cause=cause)


class TaskTryDeserializeError(DutifulError):
    """A stored task record cannot be read."""


class TaskMissingFieldError(TaskTryDeserializeError):
    """A required field is not there."""

    def __init__(self, field: str) -> None:
        super().__init__(f"Missing required field: {field}", field=field)


class TaskInvalidTypeError(TaskTryDeserializeError):
    """A field has the wrong type."""

    def __init__(self, field: str, value: object, expected: str, actual: str) -> None:
        message = f"Invalid type for field '{field}': expected {expected}, got {actual}"
        super().__init__(message, field=field, value=value, expectedType=expected, actualType=actual)


class TaskInvalidValueError(TaskTryDeserializeError):
    """A field has an impossible value."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        super().__init__(
            f"Invalid value for field '{field}': {reason}", field=field, value=value, reason=reason
        )


class TaskInvalidStructureError(TaskTryDeserializeError):
    """The record is not a mapping, or not readable at all."""

    def __init__(self, value: object, problem: str) -> None:
        super().__init__(f"Invalid task record: {problem}", value=value)
