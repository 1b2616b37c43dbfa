"""Task… errors for stored tasks that cannot be read, or that have impossible times.

A store says why a row cannot be read, and which key of it is to blame. A row that can be read may still hold
times that no history can have, because a person edited it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, assert_never

from dutiful.core.cron.zone import EPOCH, epoch_ms
from dutiful.core.errors import (
    ImpossibleKey,
    MissingKey,
    MistypedKey,
    TaskInvalidStructureError,
    TaskInvalidTypeError,
    TaskInvalidValueError,
    TaskMissingFieldError,
    TaskTryDeserializeError,
    quoted,
)
from dutiful.core.run import Phase
from dutiful.stores.task_record import TIMES, check_order, json_type

if TYPE_CHECKING:
    from dutiful.core.errors import FaultyKey
    from dutiful.core.snapshot import Snapshot

# Path in the store -> name of the field in a task record.
_FIELDS = {
    "cadence.text": "cronExpression",
    "policy.retry": "retryDelayMs",
    "policy.retry.delay": "retryDelayMs",
}
# The range of a datetime, in epoch milliseconds.
_EARLIEST, _LATEST = epoch_ms(datetime.min.replace(tzinfo=UTC)), epoch_ms(datetime.max.replace(tzinfo=UTC))


def unreadable(name: str, problem: str, key: FaultyKey | None) -> TaskTryDeserializeError:
    """Return the Task… error for a damaged row; without a key to blame it repeats the store's `problem`."""
    error = TaskInvalidStructureError(name, f"{name}: {problem}") if key is None else _error(key)
    return _noted(name, error)


def check_stored(due: Snapshot) -> None:
    """Raise TaskInvalidValueError for a task with times that no history can have."""
    state = due.state
    retry = None
    if due.runs:
        retry = next((run.fire_at for run in due.runs if run.phase is Phase.RETRY), None)
    times = (state.attempted_at, state.succeeded_at, state.failed_at, retry)
    # The fast check first: a million tasks may wait for a retry, and nearly all have possible times.
    if not _are_possible(*times):
        try:
            check_order({field: _iso(field, at) for field, at in zip(TIMES, times, strict=True)})
        except TaskTryDeserializeError as error:
            raise _noted(due.schedule.id, error) from None


def _are_possible(attempt: int | None, success: int | None, failure: int | None, retry: int | None) -> bool:
    if attempt is None:
        return success is failure is retry is None
    past = (attempt, success or 0, failure or 0)
    is_ordered = retry is None or (failure is not None and failure <= retry)
    return is_ordered and min(past) >= _EARLIEST and max(past) <= _LATEST


def _iso(field: str, at: int | None) -> str | None:
    if at is None:
        return None
    if field == "pendingRetryUntil":
        # A long delay may end after the last year of a datetime.
        at = min(at, _LATEST)
    try:
        return (EPOCH + timedelta(milliseconds=at)).isoformat()
    except OverflowError:
        raise TaskInvalidValueError(field, at, "is beyond the years 1 to 9999") from None


def _noted(name: str, error: TaskTryDeserializeError) -> TaskTryDeserializeError:
    # The message texts are fixed and do not name the task.
    error.add_note(f"in the stored record of the task {quoted(name)!r}")
    return error


def _error(key: FaultyKey) -> TaskTryDeserializeError:
    field = _FIELDS.get(key.path, key.path)
    match key:
        case MissingKey():
            return TaskMissingFieldError(field)
        case MistypedKey(_, value, expected):
            return TaskInvalidTypeError(field, value, json_type(expected), json_type(type(value)))
        case ImpossibleKey(_, value, reason):
            return TaskInvalidValueError(field, value, reason)
        case _:
            assert_never(key)
