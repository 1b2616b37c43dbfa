"""Task… errors for stored tasks that cannot be read, or that have impossible times.

A store describes a damaged row in the words of the codec. A row that can be read may still hold times that no
history can have, because a person edited it.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dutiful.core.cron.zone import EPOCH, epoch_ms
from dutiful.core.errors import (
    TaskInvalidStructureError,
    TaskInvalidTypeError,
    TaskInvalidValueError,
    TaskMissingFieldError,
    TaskTryDeserializeError,
    quoted,
)
from dutiful.core.run import Phase
from dutiful.stores.task_record import TIMES, check_order, kind_of

if TYPE_CHECKING:
    from dutiful.core.snapshot import Snapshot

# Path in the store -> name of the field in a task record.
_FIELDS = {
    "cadence.text": "cronExpression",
    "policy.retry": "retryDelayMs",
    "policy.retry.delay": "retryDelayMs",
}
_KINDS = {"str": "string", "int": "number", "bool": "boolean", "dict": "object"}
_MISSING = re.compile(r"(.+): the key '(\w+)' is missing")
_MISTYPED = re.compile(r"(.+): '(\w+)' must be (\w+), not \w+: (.+)")
_REFUSED = re.compile(r"cadence: Invalid cron expression \"(.*)\": (.+)")
_UNKNOWN = re.compile(r"(.+): the (\w+) '(.+?)' (?:of '(\w+)' )?is unknown")
# The range of a datetime, in epoch milliseconds.
_EARLIEST, _LATEST = epoch_ms(datetime.min.replace(tzinfo=UTC)), epoch_ms(datetime.max.replace(tzinfo=UTC))


def unreadable(name: str, problem: str) -> TaskTryDeserializeError:
    """Return the Task… error for a store's description of a damaged row."""
    return _noted(name, _error(name, problem))


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


def _error(name: str, problem: str) -> TaskTryDeserializeError:
    if found := _MISSING.fullmatch(problem):
        return TaskMissingFieldError(_field(found[1], found[2]))
    if found := _MISTYPED.fullmatch(problem):
        value, expected = _value(found[4]), _KINDS.get(found[3], found[3])
        return TaskInvalidTypeError(_field(found[1], found[2]), value, expected, kind_of(value))
    if found := _REFUSED.fullmatch(problem):
        return TaskInvalidValueError("cronExpression", found[1], found[2])
    if found := _UNKNOWN.fullmatch(problem):
        return TaskInvalidValueError(_field(found[1], found[4] or found[2]), found[3], "is unknown")
    return TaskInvalidStructureError(name, f"{name}: {problem}")


def _field(where: str, key: str) -> str:
    path = f"{where}.{key}".replace(" key '", ".").replace("'", "")
    return _FIELDS.get(path, path)


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        # The text was cut because it was too long.
        return text
