"""`state.yaml`: the last run of every schedule, in a file that people read and other programs edit.

A writer holds an advisory lock on a file beside it and replaces the file by a complete new one. Readers need
no lock: they see either the old file or the new one. Unknown keys are kept.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

from dutiful.core.cron.zone import rfc_3339
from dutiful.core.errors import InvalidArgumentError, quoted
from dutiful.fleet.errors import StateFileError
from dutiful.fleet.types import Problem, ScheduleState, ScheduleStatus
from dutiful.fleet.yaml_tree import Node, compose, to_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeAlias

    StateDir: TypeAlias = str | os.PathLike[str]
    Change: TypeAlias = Mapping[str, object] | Callable[[ScheduleState], Mapping[str, object]]

FILE_NAME = "state.yaml"
# Beyond any honest file: enough for a hundred thousand schedules.
_VALUES_MAX = 1_000_000
_STATUSES = get_args(ScheduleStatus)
_TIMES = ("last_run_at", "next_run_at")
_MEND = "mend it, or move it away to start afresh"


class States(NamedTuple):
    """The records of a state file by (agent, schedule), and the problems of unreadable records."""

    records: dict[tuple[str, str], ScheduleState]
    # An agent whose schedules cannot be read at all is listed under (agent, "").
    problems: dict[tuple[str, str], Problem]

    def of(self, agent: str, schedule: str) -> ScheduleState | Problem:
        """Return the state of a schedule, a fresh one if it has no record, or the problem of its record."""
        damaged = self.problems.get((agent, schedule)) or self.problems.get((agent, ""))
        return damaged or self.records.get((agent, schedule), ScheduleState())


def signature(state_dir: StateDir) -> tuple[int, ...] | None:
    """Return a value that changes with the file; None while there is no file."""
    try:
        found = os.stat(Path(state_dir, FILE_NAME))
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def read_states(state_dir: StateDir) -> States:
    """Return all records of a state file; none if there is no file. Raises StateFileError."""
    return _states(_read(_file(state_dir)))


def write_states(state_dir: StateDir, changes: Mapping[tuple[str, str], Change]) -> States:
    """Merge changes into the records of many schedules in one write, and return the new content of the file.

    A change is a mapping, or a function from the present record to one. Records and agents that cannot be
    read are left as they are; they are among the `problems`. Raises StateFileError if the file cannot be read
    or written, InvalidArgumentError for invalid changes.
    """
    read = {key: change if callable(change) else read_changes(change) for key, change in changes.items()}
    file = _file(state_dir)
    with _locked(file):
        root = _read(file)
        before = _states(root)
        for (agent, schedule), change in read.items():
            known = before.of(agent, schedule)
            if isinstance(known, ScheduleState):
                values = read_changes(change(known)) if callable(change) else change
                _record(root, agent, schedule).update(values)
        _replace(file, to_yaml(root))
    return _states(root)


def begun(at: datetime) -> Change:
    """Return the change that records the start of a run.

    `last_run_at` is the start for now, so that an interrupted interval run counts from its start.
    """
    return unless_disabled({"status": "running", "last_run_at": at})


def ended(
    at: datetime, next_run_at: datetime | None, error: str | None, *, still_running: bool = False
) -> Change:
    """Return the change that records the end of a run; another run of the schedule may still be running."""
    status = "running" if still_running else "idle"
    return unless_disabled(
        {"status": status, "last_run_at": at, "next_run_at": next_run_at, "last_error": error}
    )


def found_no_work(at: datetime, next_run_at: datetime | None) -> Change:
    """Return the change that records a poll without work; the error of the last job stays."""
    return unless_disabled({"status": "idle", "last_run_at": at, "next_run_at": next_run_at})


def move_aside(state_dir: StateDir, at: datetime) -> Path:
    """Rename a damaged state file, so that its content is not lost; return its new path."""
    file = _file(state_dir)
    with _locked(file):
        stamp = f"{file}.damaged-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}"
        names = (Path(stamp if number == 1 else f"{stamp}-{number}") for number in count(1))
        aside = next(name for name in names if not name.exists())
        try:
            os.rename(file, aside)
        except OSError as error:
            raise _unwritable(file, error) from error
    return aside


def unless_disabled(changes: Mapping[str, object]) -> Change:
    """Return a change that keeps the status of a disabled schedule."""
    others = {key: value for key, value in changes.items() if key != "status"}
    return lambda known: others if known.status == "disabled" else changes


def get_schedule_state(state_dir: StateDir, agent: str, schedule: str) -> ScheduleState:
    """Return the record of one schedule, or a fresh state. Raises StateFileError."""
    return checked_state(state_dir, read_states(state_dir), agent, schedule)


def update_schedule_state(state_dir: StateDir, agent: str, schedule: str, changes: Change) -> ScheduleState:
    """Merge changes into the record of one schedule and return its new state.

    Times are aware datetimes or ISO 8601 texts. Raises as `write_states`, and StateFileError if the record
    cannot be read.
    """
    states = write_states(state_dir, {(agent, schedule): changes})
    return checked_state(state_dir, states, agent, schedule)


def get_agent_schedule_states(state_dir: StateDir, agent: str) -> dict[str, ScheduleState]:
    """Return the states of the schedules of an agent by name. Raises StateFileError."""
    states = read_states(state_dir)
    names = [schedule for owner, schedule in (*states.records, *states.problems) if owner == agent]
    return {schedule: checked_state(state_dir, states, agent, schedule) for schedule in names}


def checked_state(state_dir: StateDir, states: States, agent: str, schedule: str) -> ScheduleState:
    """Return the state of one schedule. Raises StateFileError if its record cannot be read."""
    found = states.of(agent, schedule)
    if isinstance(found, Problem):
        place = ".".join(map(str, found.path))
        raise StateFileError(str(_file(state_dir)), f"{place}: {found.message}", _MEND)
    return found


def _file(state_dir: StateDir) -> Path:
    # Resolve a symlink, so that the file is replaced and not the link.
    return Path(os.path.realpath(Path(state_dir, FILE_NAME)))


def _read(file: Path) -> Node:
    """Return the tree in the file, after checking its top level."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return Node({"agents": Node({})})
    except OSError as error:
        raise StateFileError(
            str(file), f"cannot be read ({error.strerror})", "check its permissions"
        ) from error
    except UnicodeDecodeError as error:
        raise StateFileError(str(file), f"is not UTF-8 at byte {error.start}", _MEND, damaged=True) from error
    composed = compose(text, _VALUES_MAX)
    for line, _, said in composed.flaws:
        raise StateFileError(f"{file}:{line}", said, _MEND, damaged=True)
    root = composed.root
    if root is None or not isinstance(root.value, dict):
        raise StateFileError(str(file), "is not a mapping with `agents`", _MEND, damaged=True)
    if not isinstance(root.value.setdefault("agents", Node({})).value, dict | None):
        raise StateFileError(str(file), "`agents` is not a mapping", _MEND, damaged=True)
    return root


def _states(root: Node) -> States:
    states = States({}, {})
    for agent, node in (root.value["agents"].value or {}).items():
        path = ("agents", agent)
        schedules = _below(node, "schedules")
        if schedules is None:
            states.problems[agent, ""] = Problem(path, "is not a mapping with `schedules`")
            continue
        for schedule, record in schedules.items():
            try:
                states.records[agent, schedule] = read_record(record)
            except ValueError as error:
                at = (*path, "schedules", schedule)
                states.problems[agent, schedule] = Problem(at, str(error))
    return states


def _below(node: Node, key: str) -> dict[str, Node] | None:
    """Return the mapping under a key, empty if there is none, or None if another value is there."""
    if not isinstance(node.value, dict):
        return {} if node.value is None else None
    found = node.value.get(key, Node({})).value
    return found if isinstance(found, dict) else {} if found is None else None


def _record(root: Node, agent: str, schedule: str) -> dict[str, Node]:
    """Return the mapping of a record, created if there is none."""
    level = root.value
    for key in ("agents", agent, "schedules", schedule):
        if level.get(key, Node(None)).value is None:
            level[key] = Node({})
        level = level[key].value
    found: dict[str, Node] = level
    return found


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold the lock of the file, which every writer takes."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unwritable(file, error) from error
    try:
        _wait_for(lock, file)
        yield
    finally:
        os.close(lock)


def _wait_for(lock: int, file: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        # Some network file systems have no locks.
        raise _unwritable(file, error) from error


def _replace(file: Path, text: str) -> None:
    """Replace the file by a complete new one, or leave it as it is."""
    # A fixed name, so that the next writer replaces a file left by a crash.
    fresh = f"{file}.new"
    try:
        try:
            _write(fresh, text.encode(), _mode(file))
            os.replace(fresh, file)
        except BaseException:
            Path(fresh).unlink(missing_ok=True)
            raise
        _sync_directory(file.parent)
    except OSError as error:
        raise _unwritable(file, error) from error


def _write(path: str, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as opened:
        os.fchmod(descriptor, mode)
        opened.write(content)
        opened.flush()
        os.fsync(descriptor)


def _mode(file: Path) -> int:
    """Return the permissions of the file; a new file is for its owner only, as it holds error messages."""
    try:
        return file.stat().st_mode & 0o777
    except FileNotFoundError:
        return 0o600


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(file: Path, error: OSError) -> StateFileError:
    advice = "nothing was changed; make room or check the permissions"
    return StateFileError(str(file), f"cannot be written ({error.strerror})", advice)


def read_record(record: Node) -> ScheduleState:
    """Return the state in a record; unknown keys are ignored. Raises ValueError."""
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
    """Return changes in the form of the file, or raise InvalidArgumentError."""
    return {key: _written_value(key, value) for key, value in changes.items()}


def _written_value(key: str, value: object) -> Node:
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
    # A message may hold characters that UTF-8 cannot encode.
    return Node(value.encode("utf-8", "backslashreplace").decode())


def _iso(key: str, value: object) -> str:
    try:
        instant = _instant(key, value.isoformat() if isinstance(value, datetime) else value)
    except ValueError as error:
        raise InvalidArgumentError(key, value, "must be a time with its zone") from error
    return rfc_3339(instant)


def _instant(key: str, value: object) -> datetime:
    advice = "write a time with its zone, such as 2026-03-08T02:30:00Z"
    try:
        instant = datetime.fromisoformat(value) if isinstance(value, str) else None
        if instant is not None and instant.tzinfo is not None:
            return instant.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{key} is {quoted(value)}; {advice}")
