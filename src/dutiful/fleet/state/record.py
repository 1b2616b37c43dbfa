"""One record of `state.yaml`, from and to the texts it is made of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, get_args

from dutiful.core.errors import InvalidArgumentError, quoted
from dutiful.fleet.file.yaml_tree import Node
from dutiful.fleet.types import ScheduleState, ScheduleStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

_STATUSES = get_args(ScheduleStatus)
_TIMES = ("last_run_at", "next_run_at")


def read_record(record: Node) -> ScheduleState:
    """Return the state that a record describes; keys of others are passed over. Raises ValueError."""
    entries = record.value
    if entries is None:
        return ScheduleState()
    if not isinstance(entries, dict):
        raise ValueError("is not a mapping with `status`")  # noqa: TRY004 - problems are ValueErrors
    found = {key: entries[key].value for key in ScheduleState._fields if key in entries}
    status, error = found.get("status", "idle"), found.get("last_error")
    if status not in _STATUSES:
        raise ValueError(f"status is {quoted(status)}; write one of {', '.join(_STATUSES)}")
    if not isinstance(error, str | None):
        raise ValueError("last_error is no text")  # noqa: TRY004 - problems are ValueErrors
    times = {key: _instant(key, found[key]) for key in _TIMES if found.get(key) is not None}
    return ScheduleState(status, last_error=error, **times)


def read_changes(changes: Mapping[str, object]) -> dict[str, Node]:
    """Return changes as they are to stand in the file, or raise InvalidArgumentError."""
    return {key: _written(key, value) for key, value in changes.items()}


def _written(key: str, value: object) -> Node:
    if key not in ScheduleState._fields:
        raise InvalidArgumentError("changes", key, f"change one of {', '.join(ScheduleState._fields)}")
    if key == "status" and value not in _STATUSES:
        raise InvalidArgumentError("status", value, f"choose from {', '.join(_STATUSES)}")
    if value is None:
        return Node(None)
    if key in _TIMES:
        return Node(_iso(key, value))
    if not isinstance(value, str):
        raise InvalidArgumentError(key, value, "must be a text or None")
    # A message may hold what no file can.
    return Node(value.encode("utf-8", "backslashreplace").decode())


def _iso(key: str, value: object) -> str:
    try:
        instant = _instant(key, value.isoformat() if isinstance(value, datetime) else value)
    except ValueError as error:
        raise InvalidArgumentError(key, value, "must be a time with its zone") from error
    return instant.isoformat().replace("+00:00", "Z")


def _instant(key: str, value: object) -> datetime:
    advice = "write a time with its zone, such as 2026-03-08T02:30:00Z"
    try:
        instant = datetime.fromisoformat(value) if isinstance(value, str) else None
        if instant is not None and instant.tzinfo is not None:
            return instant.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{key} is {quoted(value)}; {advice}")
