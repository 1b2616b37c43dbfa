"""Commits the moves of a pass: states by version, runs by their unique key."""

# ruff: noqa: S608 - the statements are made of column names and conditions written down here, never of values

from __future__ import annotations

import json
from collections import defaultdict
from itertools import compress
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from dutiful.core.run import Phase, Run, Status, frees_slot
from dutiful.runtime.ports import Committed, Launch
from dutiful.stores.rows import (
    RUN,
    RUN_ALL,
    STATE,
    assigned,
    birth_columns,
    listed,
    read_run,
    run_columns,
    state_columns,
)
from dutiful.stores.sqlite import inline_runs

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.schedule import Schedule
    from dutiful.core.snapshot import Move
    from dutiful.stores.rows import Row
    from dutiful.stores.sqlite.inline_runs import Own


Write: TypeAlias = "tuple[str, Row]"
"""A statement that changes at most one row, with its values. A plain tuple, as there are thousands."""


def hits(connection: sqlite3.Connection, writes: Sequence[Write]) -> list[bool]:
    """Execute all writes, and return for each whether it changed its row.

    Writes with the same statement run as one executemany, after which SQLite reports only the total of
    changed rows. That total is nearly always complete; otherwise the writes are rolled back and executed one
    by one, in order.
    """
    if not writes:
        return []
    connection.execute("SAVEPOINT bulk")
    answers = [True] * len(writes)
    if not _all_hit(connection, writes):
        connection.execute("ROLLBACK TO bulk")
        answers = [connection.execute(*write).rowcount == 1 for write in writes]
    connection.execute("RELEASE bulk")
    return answers


def _all_hit(connection: sqlite3.Connection, writes: Sequence[Write]) -> bool:
    values: defaultdict[str, list[Row]] = defaultdict(list)
    for statement, row in writes:
        values[statement].append(row)
    return all(
        connection.executemany(statement, rows).rowcount == len(rows) for statement, rows in values.items()
    )


def hits_alike(connection: sqlite3.Connection, statement: str, writes: Sequence[Own]) -> list[bool]:
    """Execute one statement for all writes, and return for each whether it changed its row.

    The last value of the statement is a JSON object that maps row numbers to their own values. Schedules that
    fall due together share all other values, so one execution covers many rows.
    """
    if not writes:
        return []
    alike: defaultdict[Row, dict[int, int | None]] = defaultdict(dict)
    for values, number, own in writes:
        alike[values][number] = own
    connection.execute("SAVEPOINT alike")
    hit = sum(
        connection.execute(statement, (*values, json.dumps(rows))).rowcount for values, rows in alike.items()
    )
    answers = [True] * len(writes)
    if hit < len(writes):
        connection.execute("ROLLBACK TO alike")
        one_by_one = ((*values, json.dumps({number: own})) for values, number, own in writes)
        answers = [connection.execute(statement, write).rowcount == 1 for write in one_by_one]
    connection.execute("RELEASE alike")
    return answers


_ANY_BLOCKED = "SELECT 1 FROM states INDEXED BY states_blocked WHERE namespace = ? AND blocked = 1 LIMIT 1"
_WAKE = "UPDATE states SET wake_at = ?, version = version + 1 WHERE number = ? AND blocked = 1"
_WAKE_GROUP = (
    "UPDATE states INDEXED BY states_blocked SET wake_at = ?, version = version + 1"
    " WHERE namespace = ? AND capacity_group = ? AND blocked = 1 AND number <> ?"
)
_GROUPS = (
    "SELECT number, capacity_group FROM states WHERE capacity_group IS NOT NULL"
    " AND number IN (SELECT value FROM json_each(?))"
)


def wake_blocked(connection: sqlite3.Connection, namespace: str, ended: Mapping[int, Instant]) -> None:
    """Make due the schedules that are blocked on a run of these schedules, or on one of their groups."""
    if not ended or connection.execute(_ANY_BLOCKED, (namespace,)).fetchone() is None:
        return
    connection.executemany(_WAKE, [(ended_at, number) for number, ended_at in ended.items()])
    groups = dict(connection.execute(_GROUPS, (json.dumps(list(ended)),)).fetchall())
    # Dict order is the order in which runs ended, so the last end of a group wins.
    latest = {groups[number]: ended_at for number, ended_at in ended.items() if number in groups}
    nobody = 0
    connection.executemany(
        _WAKE_GROUP, [(ended_at, namespace, group, nobody) for group, ended_at in latest.items()]
    )


def wake_groups(
    connection: sqlite3.Connection, namespace: str, freed: Iterable[tuple[str, Instant, int]]
) -> None:
    """Wake the schedules blocked on these groups, except the one that freed the slot."""
    connection.executemany(
        _WAKE_GROUP, [(ended_at, namespace, group, number) for group, ended_at, number in freed]
    )


ONCE = "ON CONFLICT (schedule, run_at, kind) DO NOTHING"
INSERT = (
    f"INSERT INTO runs ({listed(RUN_ALL)}, schedule, capacity_group)"
    f" VALUES ({listed('?' * len(RUN_ALL))}, ?, ?) {ONCE}"
)
_DECIDED = f"SELECT {listed(RUN_ALL)} FROM runs WHERE schedule = ? AND run_at = ? AND kind = ?"
_GROWING = "UPDATE states SET skipped_at = ?, skipped_ticks = ? WHERE number = ? AND skipped_at = ?"
_NOT_GROWING = (
    "UPDATE states SET skipped_at = NULL, skipped_reason = NULL, skipped_ticks = NULL"
    " WHERE number = ? AND skipped_at = ?"
)


def insert_rest(connection: sqlite3.Connection, number: int, group: str | None, run: Run) -> None:
    """Insert the undecided rest of a range of skipped ticks, which is the range that grows from now on."""
    row = connection.execute(_DECIDED, (number, run.run_at, run.kind)).fetchone()
    rest = run.beyond(read_run(run.schedule_id, row))
    if rest is None:
        connection.execute(_NOT_GROWING, (number, run.run_at))
        return
    connection.execute(_GROWING, (rest.run_at, rest.ticks, number, run.run_at))
    values = (*run_columns(rest), *birth_columns(rest), number, group)
    if connection.execute(INSERT, values).rowcount == 0:
        insert_rest(connection, number, group, rest)


_STATE = assigned(STATE)
_MOVED = "version = version + 1 WHERE number = ? AND version = ?"
_MOVE = f"UPDATE states SET {_STATE}, wake_at = ?, idle_wake_at = ?, blocked = ?, {_MOVED}"
# Binding None takes three times as long as binding a number, and most moves change no other columns.
_MOVE_ON = (
    "UPDATE states SET cursor = ?, runs_started = ?, attempted_at = ?, wake_at = ?, idle_wake_at = NULL,"
    f" blocked = 0, {_MOVED}"
)
_MOVE_ON_TIMED = _MOVE_ON.replace("idle_wake_at = NULL", "idle_wake_at = ?")

_LAUNCHED_COLUMNS = "phase, attempt, ticks, kind, run_at, status, fire_at, epoch, started_at, schedule"
_INSERT_LAUNCHED = (
    f"INSERT INTO runs ({_LAUNCHED_COLUMNS}) VALUES ('launched', 1, 1, 'schedule', ?, ?, ?, ?, ?, ?) {ONCE}"
)
_INSERT_LAUNCHED_KEPT = (
    f"INSERT INTO runs ({_LAUNCHED_COLUMNS}, key, created_at, updated_at)"
    f" VALUES ('launched', 1, 1, 'schedule', ?, ?, ?, ?, ?, ?, ?, ?, ?) {ONCE}"
)
_RUN = assigned(RUN)
_KEY = "WHERE schedule = ? AND run_at = ? AND kind = ?"
_CHANGE = f"UPDATE runs SET {_RUN} {_KEY} AND attempt <= ? AND phase <> 'ended'"
# A range of skipped ticks has ended and still grows; no other ended row may change.
_GROW = (
    f"UPDATE runs SET {_RUN} {_KEY} AND attempt <= ?"
    " AND (phase <> 'ended' OR (status = 'SKIPPED' AND reason = ? AND ticks <= ?))"
)
_DROP = f"DELETE FROM runs {_KEY} AND attempt <= ? AND phase <> 'ended'"

_ENDED, _LAUNCHED = Phase.ENDED, Phase.LAUNCHED


# Plain strings: binding an enum takes four times as long, and reading its `value` is slow too.
_STATUS = {status: status.value for status in Status}


_Written: TypeAlias = "tuple[int, Schedule, int, Run]"
"""A run to write: the index of its move, its schedule, the schedule's number, and the run."""


def commit(connection: sqlite3.Connection, namespace: str, moves: Sequence[Move]) -> Committed:
    """Record the moves made from the present version; return them, and the runs to launch, in order."""
    # A move may change the inline run of its schedule, so give these runs rows first.
    inline_runs.give_rows(connection, [move.due.number for move in moves if move.due.runs])
    alone = [*map(inline_runs.launch, moves)]
    hit = iter(hits_alike(connection, inline_runs.LAUNCH, [write for write in alone if write is not None]))
    moved = [write is not None and next(hit) for write in alone]
    launches = [(place, _inline_launch(moves[place])) for place, there in enumerate(moved) if there]
    others = [place for place, write in enumerate(alone) if write is None]
    if others:
        states = hits(connection, [_state_write(moves[place]) for place in others])
        for place, there in zip(others, states, strict=True):
            moved[place] = there
        launches += _write_runs(connection, namespace, [(at, moves[at]) for at in others if moved[at]])
        launches.sort(key=itemgetter(0))
    return Committed([*compress(moves, moved)], [launch for _, launch in launches])


def _inline_launch(move: Move) -> Launch:
    due = move.due
    return tuple.__new__(Launch, (due.schedule, move.inserts[0], due.number))


def _state_write(move: Move) -> Write:
    (_, before, _, version, _, _, _, number), state, wake_at, idle_wake_at, blocked, _, _, _ = move
    if state[3:] == before[3:] and not blocked and wake_at is not None and state.attempted_at is not None:
        if idle_wake_at is None:
            return _MOVE_ON, (*state[:3], wake_at, number, version)
        return _MOVE_ON_TIMED, (*state[:3], wake_at, idle_wake_at, number, version)
    return _MOVE, (*state_columns(state), wake_at, idle_wake_at, int(blocked), number, version)


def _write_runs(
    connection: sqlite3.Connection, namespace: str, made: Sequence[tuple[int, Move]]
) -> list[tuple[int, Launch]]:
    """Write the runs of committed moves, given with their index; return the launches with their index."""
    inserts, changes = list[_Written](), list[_Written]()
    for place, ((schedule, _, _, _, _, _, _, number), _, _, _, _, new, altered, _) in made:
        for run in new:
            if run.phase is not _ENDED or schedule.policy.ledger:
                inserts.append((place, schedule, number, run))
        for run in altered:
            changes.append((place, schedule, number, run))
    inserted = hits(connection, [*map(_insert_write, inserts)])
    for (_, schedule, number, run), there in zip(inserts, inserted, strict=True):
        if not there and run.status is Status.SKIPPED:
            insert_rest(connection, number, schedule.policy.group, run)
    launches = _launches(inserts, inserted)
    if changes:
        changed = hits(connection, [*map(_change_write, changes)])
        launches = _still_launched(launches, changes) + _launches(changes, changed)
        wake_groups(connection, namespace, _freed(changes))
    return launches


def _insert_write(written: _Written) -> Write:
    _, schedule, number, run = written
    if schedule.policy.capacity is not None or not _is_first_attempt(run):
        return INSERT, (*run_columns(run), *birth_columns(run), number, schedule.policy.group)
    launched = run.run_at, _STATUS[run.status], run.fire_at, run.epoch, run.started_at, number
    if run.created_at is None:
        return _INSERT_LAUNCHED, launched
    return _INSERT_LAUNCHED_KEPT, (*launched, bytes.fromhex(run.key), run.created_at, run.created_at)


# The fields that _INSERT_LAUNCHED_KEPT takes from a run; all others must be those of a first attempt.
_TAKEN = ("schedule_id", "run_at", "status", "fire_at", "epoch", "started_at", "created_at", "updated_at")
_others_of = itemgetter(*(place for place, name in enumerate(Run._fields) if name not in _TAKEN))
_FIRST_ATTEMPT = _others_of(Run.launched("", 0, 0, 0, 0, Status.STARTED, None))


def _is_first_attempt(run: Run) -> bool:
    """Return whether the run is the first attempt of a tick, with no other values to store."""
    if run.started_at is None or run.updated_at != run.created_at:
        return False
    return bool(_others_of(run) == _FIRST_ATTEMPT)


def _change_write(written: _Written) -> Write:
    _, schedule, number, run = written
    key = number, run.run_at, run.kind, run.attempt
    if run.phase is _ENDED and not schedule.policy.ledger:
        return _DROP, key
    if run.status is Status.SKIPPED and run.reason is not None:
        return _GROW, (*run_columns(run), *key, run.reason.value, run.ticks)
    return _CHANGE, (*run_columns(run), *key)


def _launches(writes: Sequence[_Written], hit: Sequence[bool]) -> list[tuple[int, Launch]]:
    return [
        (place, tuple.__new__(Launch, (schedule, run, number)))
        for (place, schedule, number, run), there in zip(writes, hit, strict=True)
        if there and run.phase is _LAUNCHED
    ]


def _still_launched(
    launches: Sequence[tuple[int, Launch]], changes: Sequence[_Written]
) -> list[tuple[int, Launch]]:
    """Return the launches without the runs that their own move has also ended."""
    ended = {(place, run.run_at, run.kind) for place, _, _, run in changes if run.phase is _ENDED}
    return [each for each in launches if (each[0], each[1].run.run_at, each[1].run.kind) not in ended]


def _freed(changes: Sequence[_Written]) -> list[tuple[str, int, int]]:
    """Return (group, ended_at, number) for the runs that the planner ended or set to retry."""
    return [
        (schedule.policy.capacity.group, run.ended_at or 0, number)
        for _, schedule, number, run in changes
        if schedule.policy.capacity is not None and frees_slot(run)
    ]
