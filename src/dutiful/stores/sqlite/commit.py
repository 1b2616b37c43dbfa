"""The moves of a pass, written down: states by version, runs by their unique key."""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.run import Phase, Run, Status
from dutiful.ports import Launch
from dutiful.stores.sqlite.bulk import Write, hits
from dutiful.stores.sqlite.rows import RUN_COLUMNS, STATE_COLUMNS, run_columns, state_columns
from dutiful.stores.sqlite.wake import wake_groups

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from dutiful.core.draft import Move

_STATE = ", ".join(f"{column} = ?" for column in STATE_COLUMNS.split(", ")[1:])
_MOVED = "wake_at = ?, blocked = ?, version = version + 1 WHERE number = ? AND version = ?"
_MOVE = f"UPDATE states SET {_STATE}, {_MOVED}"
# Binding None costs three times as much as binding a number, and most moves change no more than this.
_MOVE_ON = f"UPDATE states SET cursor = ?, runs_started = ?, attempted_at = ?, {_MOVED}"

_ONCE = "ON CONFLICT (schedule, run_at, kind) DO NOTHING"
_INSERT = (
    f"INSERT INTO runs ({RUN_COLUMNS}, schedule, capacity_group)"
    f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) {_ONCE}"
)
_INSERT_LAUNCHED = (
    "INSERT INTO runs (run_at, kind, status, phase, fire_at, attempt, epoch, started_at, ticks, schedule)"
    f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?) {_ONCE}"
)
# What a run has from `ended_at` on when it is launched for the first time.
_NOTHING_YET = Run("", 0, "schedule", Status.STARTED, Phase.LAUNCHED, 0)[10:]

_RUN = ", ".join(f"{column} = ?" for column in RUN_COLUMNS.split(", "))
_KEY = "WHERE schedule = ? AND run_at = ? AND kind = ?"
_CHANGE = f"UPDATE runs SET {_RUN} {_KEY} AND phase <> 'ended'"
# A range of skipped ticks has ended, and still grows.
_GROW = f"UPDATE runs SET {_RUN} {_KEY}"
_DROP = f"DELETE FROM runs {_KEY} AND phase <> 'ended'"


class _Numbered(NamedTuple):
    place: int
    number: int
    move: Move


def commit(
    connection: sqlite3.Connection, namespace: str, moves: Sequence[Move], numbers: Sequence[int]
) -> list[Launch]:
    """Record the moves that were made on the present version; return the runs to launch, in order."""
    moved = hits(connection, [*map(_state_write, moves, numbers)])
    current = [
        _Numbered(place, number, move)
        for place, (number, move, hit) in enumerate(zip(numbers, moves, moved, strict=True))
        if hit
    ]
    launches = _insert(connection, current) + _change(connection, current)
    wake_groups(connection, namespace, [freed for each in current for freed in _freed(each)])
    launches.sort(key=lambda launch: launch[0])
    return [launch for _, launch in launches]


def _state_write(move: Move, number: int) -> Write:
    due, state, wake_at, blocked, *_ = move
    if state[3:] == due.state[3:] and wake_at is not None and state.attempted_at is not None:
        moved = state[0], state[1], state[2], wake_at, int(blocked), number, due.version
        return Write(_MOVE_ON, moved)
    return Write(_MOVE, (*state_columns(state), wake_at, int(blocked), number, due.version))


def _insert(connection: sqlite3.Connection, current: Sequence[_Numbered]) -> list[tuple[int, Launch]]:
    pairs = [(each, run) for each in current for run in each.move.inserts if _stays(each, run)]
    written = hits(connection, [_insert_write(each, run) for each, run in pairs])
    return _launches(pairs, written)


def _insert_write(each: _Numbered, run: Run) -> Write:
    capacity = each.move.due.schedule.policy.capacity
    if capacity is None and run.reason is None and run.started_at is not None and run[10:] == _NOTHING_YET:
        _, run_at, kind, status, phase, fire_at, _, attempt, epoch, started_at, *_ = run
        values = run_at, kind, status.value, phase.value, fire_at, attempt, epoch, started_at, each.number
        return Write(_INSERT_LAUNCHED, values)
    return Write(_INSERT, (*run_columns(run), each.number, None if capacity is None else capacity.group))


def _change(connection: sqlite3.Connection, current: Sequence[_Numbered]) -> list[tuple[int, Launch]]:
    pairs = [(each, run) for each in current for run in each.move.changes]
    written = hits(connection, [_change_write(each, run) for each, run in pairs])
    return _launches(pairs, written)


def _change_write(each: _Numbered, run: Run) -> Write:
    if not _stays(each, run):
        return Write(_DROP, (each.number, run.run_at, run.kind))
    statement = _GROW if run.status is Status.SKIPPED else _CHANGE
    return Write(statement, (*run_columns(run), each.number, run.run_at, run.kind))


def _stays(each: _Numbered, run: Run) -> bool:
    return run.phase is not Phase.ENDED or each.move.due.schedule.policy.ledger


def _launches(pairs: Sequence[tuple[_Numbered, Run]], written: Sequence[bool]) -> list[tuple[int, Launch]]:
    return [
        (each.place, Launch(each.move.due.schedule, run))
        for (each, run), hit in zip(pairs, written, strict=True)
        if hit and run.phase is Phase.LAUNCHED and not _ended_again(each.move, run)
    ]


def _ended_again(move: Move, run: Run) -> bool:
    return any(
        later.phase is Phase.ENDED and (later.run_at, later.kind) == (run.run_at, run.kind)
        for later in move.changes
    )


def _freed(each: _Numbered) -> list[tuple[str, int, int]]:
    """Return (group, ended_at, number) for each run that the planner ended and that may have held a place."""
    capacity = each.move.due.schedule.policy.capacity
    if capacity is None:
        return []
    return [
        (capacity.group, run.ended_at or 0, each.number)
        for run in each.move.changes
        if run.phase is Phase.ENDED and run.status is Status.FAILED
    ]
