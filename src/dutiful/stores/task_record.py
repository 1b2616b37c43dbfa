"""Task records: the stored form of one registered task, as plain values under documented names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from dutiful.core.cron.cron import Cron
from dutiful.core.errors import (
    DutifulError,
    TaskInvalidStructureError,
    TaskInvalidTypeError,
    TaskInvalidValueError,
    TaskMissingFieldError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TaskState: TypeAlias = Literal["AwaitingRun", "Running", "AwaitingRetry"]

# In the order of the fields of `State`.
TIMES = ("lastAttemptAt", "lastSuccessAt", "lastFailureAt", "pendingRetryUntil")
# Python type -> name of the JSON type.
_JSON_TYPES: dict[type, str] = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    type(None): "null",
}


class TaskRecord(NamedTuple):
    """One task as it was stored."""

    name: str
    cron: Cron
    retry_delay_ms: int
    last_attempt_at: datetime | None
    last_success_at: datetime | None
    last_failure_at: datetime | None
    pending_retry_until: datetime | None
    scheduler_identifier: str | None

    @property
    def state(self) -> TaskState:
        """Whether the task runs, waits for its retry, or waits for its next minute."""
        ends = [at for at in (self.last_success_at, self.last_failure_at) if at is not None]
        if self.last_attempt_at is not None and not any(self.last_attempt_at <= end for end in ends):
            return "Running"
        return "AwaitingRun" if self.pending_retry_until is None else "AwaitingRetry"


def task_from_record(record: Any, registrations: Iterable[Any]) -> TaskRecord:
    """Return the task that a record means, or raise the Task… error that says what is wrong with it.

    Its name must be among the registrations, tuples that begin with the name or a mapping by name.
    """
    if not isinstance(record, dict):
        raise TaskInvalidStructureError(record, f"expected object, got {json_type(type(record))}")
    name, cron, delay = _name(record, registrations), _cron(record), _delay(record)
    attempt, success, failure, retry = (_time(record, field) for field in TIMES)
    task = TaskRecord(name, cron, delay, attempt, success, failure, retry, _identifier(record))
    check_order(record)
    return task


def _name(record: Mapping[str, Any], registrations: Iterable[Any]) -> str:
    name = _text(record, "name")
    names = {entry if isinstance(entry, str) else entry[0] for entry in registrations}
    if name not in names:
        raise TaskInvalidValueError("name", name, "is not registered")
    return name


def _cron(record: Mapping[str, Any]) -> Cron:
    text = _text(record, "cronExpression")
    try:
        return Cron.parse(text)
    except DutifulError as error:
        raise TaskInvalidValueError("cronExpression", text, str(error)) from error


def _delay(record: Mapping[str, Any]) -> int:
    value = _get(record, "retryDelayMs")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mistyped("retryDelayMs", value, "number")
    if value < 0:
        raise TaskInvalidValueError("retryDelayMs", value, "must not be negative")
    if value != value // 1:
        raise TaskInvalidValueError("retryDelayMs", value, "must be a whole number")
    return int(value)


def _time(record: Mapping[str, Any], field: str) -> datetime | None:
    value = _get(record, field)
    if value is None:
        return None
    if not isinstance(value, str):
        raise _mistyped(field, value, "string or null")
    try:
        at = datetime.fromisoformat(value)
        if at.tzinfo is None:
            raise TaskInvalidValueError(field, value, "has no UTC offset")
        return at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise TaskInvalidValueError(field, value, "is not an ISO 8601 time") from error


def _identifier(record: Mapping[str, Any]) -> str | None:
    value = _get(record, "schedulerIdentifier")
    if value is not None and not isinstance(value, str):
        raise _mistyped("schedulerIdentifier", value, "string or null")
    if value == "":
        raise TaskInvalidValueError("schedulerIdentifier", value, "must not be empty")
    return value


def check_order(record: Mapping[str, Any]) -> None:
    """Refuse times that no history can have: ends without an attempt, a retry without a failure."""
    attempt, success, failure, retry = (_time(record, field) for field in TIMES)
    if attempt is None:
        for field, at in zip(TIMES[1:], (success, failure, retry), strict=True):
            if at is not None:
                raise TaskInvalidValueError(field, record[field], "there was no attempt")
    if retry is not None and failure is None:
        raise TaskInvalidValueError("pendingRetryUntil", record["pendingRetryUntil"], "there was no failure")
    if retry is not None and failure is not None and retry < failure:
        raise TaskInvalidValueError("pendingRetryUntil", record["pendingRetryUntil"], "is before the failure")


def _text(record: Mapping[str, Any], field: str) -> str:
    value = _get(record, field)
    if not isinstance(value, str):
        raise _mistyped(field, value, "string")
    return value


def _get(record: Mapping[str, Any], field: str) -> Any:
    if field not in record:
        raise TaskMissingFieldError(field)
    return record[field]


def _mistyped(field: str, value: object, expected: str) -> TaskInvalidTypeError:
    return TaskInvalidTypeError(field, value, expected, json_type(type(value)))


def json_type(kind: type) -> str:
    """Return the JSON name of a Python type."""
    return _JSON_TYPES.get(kind, kind.__name__)
