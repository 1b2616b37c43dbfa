"""Writes caused by users: declarations, edits, removals, requests; and the marking of damaged rows."""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from dutiful.core.errors import OvertakenError
from dutiful.core.run import Phase, Status
from dutiful.stores.codec import (
    row_checksum,
    shared_checksum,
)
from dutiful.stores.rows import (
    DECLARED,
    NOTE,
    RUN,
    RUN_ALL,
    STATE,
    Known,
    Row,
    assigned,
    birth_columns,
    check_versions,
    declared_over,
    listed,
    run_columns,
    state_columns,
)
from dutiful.stores.sqlite import inline_runs
from dutiful.stores.sqlite.commit import insert_rest, wake_groups
from dutiful.stores.sqlite.figures import put_workflow
from dutiful.stores.sqlite.file import raise_number, stored_number
from dutiful.stores.sqlite.interned_texts import StoredTexts
from dutiful.stores.sqlite.reads import find_run

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

    from dutiful.core.changes import Changes, Put
    from dutiful.core.run import Run
    from dutiful.core.schedule import Schedule
    from dutiful.stores.rows import Damage

    T = TypeVar("T")

_DECLARED = (*DECLARED, "checksum")
_STATE = (*STATE, "wake_at", "capacity_group")


def _insert(table: str, columns: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({listed(columns)}) VALUES ({listed('?' * len(columns))})"


def _update(table: str, columns: Sequence[str]) -> str:
    # Name the columns, so that columns added by a later release keep their values.
    return f"UPDATE {table} SET {assigned(columns)}"


_INSERT_SCHEDULE = _insert("declarations", (*_DECLARED, "number", "namespace", "id"))
_UPDATE_SCHEDULE = _update("declarations", _DECLARED) + ", damage = NULL WHERE number = ?"
_INSERT_STATE = _insert("states", (*_STATE, "number", "namespace", "version"))
_UPDATE_STATE = _update("states", _STATE) + ", idle_wake_at = NULL, version = version + 1 WHERE number = ?"
# LEFT JOIN keeps declarations whose text row is missing.
_KNOWN = (
    "SELECT id, declarations.number, cadences.text, policies.text, capacity_group, version,"
    " damage IS NOT NULL FROM declarations JOIN states ON states.number = declarations.number"
    " LEFT JOIN texts AS cadences ON cadences.number = cadence_number"
    " LEFT JOIN texts AS policies ON policies.number = policy_number"
    " WHERE declarations.namespace = ? AND id IN (SELECT value FROM json_each(?))"
)
_REGROUP = "UPDATE runs SET capacity_group = ? WHERE schedule = ? AND phase <> 'ended'"
_WRITE_RUN = (
    _insert("runs", (*RUN_ALL, "schedule", "capacity_group"))
    + " ON CONFLICT (schedule, run_at, kind) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in RUN if column not in ("run_at", "kind"))
    # As in a commit: insert a new row or extend a range of skipped ticks; never replace another row.
    + " WHERE attempt <= excluded.attempt AND (phase <> 'ended'"
    " OR (status = 'SKIPPED' AND excluded.status = 'SKIPPED' AND reason = excluded.reason"
    " AND ticks <= excluded.ticks))"
)
# Match the range as it was read; it may have grown or been pruned since.
_DROP_SKIPPED = (
    "DELETE FROM runs WHERE schedule = ? AND run_at = ? AND kind = ? AND phase = 'ended'"
    " AND status = 'SKIPPED' AND attempt = ? AND ticks = ?"
)
_NOTE = (
    f"INSERT INTO notes ({listed(NOTE)}, number) SELECT {listed('?' * len(NOTE))}, number FROM declarations"
    " WHERE namespace = ? AND id = ?"
    f" ON CONFLICT DO UPDATE SET {', '.join(f'{column} = excluded.{column}' for column in NOTE)}"
)
_DROP_RUN = "DELETE FROM runs WHERE schedule = ? AND run_at = ? AND kind = ? AND phase <> 'ended'"


_DROP_FACETS = (
    "DELETE FROM facets WHERE number = (SELECT number FROM declarations WHERE namespace = ? AND id = ?)"
)
_ADD_FACET = (
    "INSERT INTO facets (namespace, name, value, id, number)"
    " SELECT namespace, ?, ?, id, number FROM declarations WHERE namespace = ? AND id = ?"
)
_NUMBER = "SELECT number FROM declarations WHERE namespace = ? AND id = ? AND damage IS NULL"
_LATEST_MANUAL = "SELECT max(run_at) FROM runs WHERE schedule = ? AND run_at >= ? AND kind = 'manual'"
_REQUEST = (
    f"INSERT INTO runs ({listed(RUN_ALL)}, schedule, capacity_group) SELECT {listed('?' * len(RUN_ALL))},"
    " number, capacity_group FROM states WHERE number = ?"
)
_WAKE_BY = (
    "UPDATE states SET wake_at = min(coalesce(wake_at, ?1), ?1), version = version + 1 WHERE number = ?2"
)


def apply(connection: sqlite3.Connection, namespace: str, changes: Changes) -> None:
    """Write and delete schedules, and write the ledger rows that belong to the edits."""
    removed = _remove(connection, namespace, changes.removes)
    # The last put of an id counts, as if the puts were applied one after the other.
    puts = {put.schedule.id: put for put in changes.puts}
    known = _find(connection, namespace, puts)
    check_versions(changes.puts, {**known, **removed})
    columns = _Columns(connection)
    if known:
        inline_runs.give_rows(connection, [each.number for each in known.values()])
        _overwrite(connection, namespace, [(puts[id_], each) for id_, each in known.items()], columns)
    if new := {id_: put for id_, put in puts.items() if id_ not in known}:
        _add(connection, namespace, [*new.values()], columns)
    concerned = {run.schedule_id for run in (*changes.drops, *changes.rows)}
    numbers = {id_: each.number for id_, each in _find(connection, namespace, concerned).items()}
    for run in changes.drops:
        _drop(connection, numbers[run.schedule_id], run)
    for run in changes.rows:
        _write_run(connection, numbers[run.schedule_id], run, puts[run.schedule_id])
    notes = [(*note, namespace, schedule_id) for schedule_id, note in changes.notes]
    connection.executemany(_NOTE, notes)
    for workflow in changes.workflows:
        put_workflow(connection, namespace, workflow)
    _drop_facets(connection, namespace, [id_ for id_, _ in changes.facets if id_ not in new])
    _add_facets(connection, namespace, changes.facets)


def _drop_facets(connection: sqlite3.Connection, namespace: str, ids: Sequence[str]) -> None:
    if ids:
        connection.executemany(_DROP_FACETS, [(namespace, schedule_id) for schedule_id in ids])


def _add_facets(
    connection: sqlite3.Connection, namespace: str, facets: Sequence[tuple[str, Sequence[tuple[str, str]]]]
) -> None:
    rows = [(name, value, namespace, id_) for id_, pairs in facets for name, value in dict.fromkeys(pairs)]
    connection.executemany(_ADD_FACET, rows)


def request(connection: sqlite3.Connection, namespace: str, run: Run) -> Run | None:
    """Record a manual run at an instant of its own and make its schedule due; None: no such schedule."""
    known = find_run(connection, namespace, bytes.fromhex(run.key))
    number = connection.execute(_NUMBER, (namespace, run.schedule_id)).fetchone()
    if known is not None or number is None:
        return known
    (latest,) = connection.execute(_LATEST_MANUAL, (*number, run.run_at)).fetchone()
    run = run if latest is None else run._replace(run_at=latest + 1)
    connection.execute(_REQUEST, (*run_columns(run), *birth_columns(run), *number))
    connection.execute(_WAKE_BY, (run.fire_at, *number))
    return run


def _drop(connection: sqlite3.Connection, number: int, run: Run) -> None:
    values = number, run.run_at, run.kind, run.attempt, run.ticks
    if connection.execute(_DROP_SKIPPED, values).rowcount == 0:
        raise OvertakenError(run.schedule_id, 0, 0)


def _find(connection: sqlite3.Connection, namespace: str, ids: Collection[str]) -> dict[str, Known]:
    if not ids:
        return {}
    rows = connection.execute(_KNOWN, (namespace, json.dumps(list(ids))))
    return {schedule_id: Known(*rest) for schedule_id, *rest in rows}


def _remove(connection: sqlite3.Connection, namespace: str, ids: Sequence[str]) -> dict[str, Known]:
    known = _find(connection, namespace, ids)
    if not known:
        return {}
    # A schedule that is declared anew starts above this version, so that no move made on the old one applies.
    raise_number(connection, namespace, "version floor", max(each.version for each in known.values()))
    wake_groups(
        connection, namespace, [(each.group, 0, each.number) for each in known.values() if each.group]
    )
    # A trigger of the schema deletes the dependent rows.
    numbers = [(each.number,) for each in known.values()]
    connection.executemany("DELETE FROM declarations WHERE number = ?", numbers)
    return known


class _Columns:
    """Computes the values of _DECLARED, and stores the texts that they refer to.

    One schedule at a time: the values of a million schedules at once would be this process's largest use of
    memory.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._numbers = StoredTexts(connection)
        self._shared: dict[tuple[str, str], tuple[int, int, int]] = {}

    def of(self, schedule: Schedule, known: Known | None = None) -> Row:
        task, payload, cadence, policy, start, end, paused, until = declared_over(known, schedule)
        *numbers, shared = self._shared.get((cadence, policy)) or self._store(cadence, policy)
        checksum = row_checksum(shared, schedule.id, task, payload, start, end, paused, until)
        return task, payload, *numbers, start, end, paused, until, checksum

    def _store(self, cadence: str, policy: str) -> tuple[int, int, int]:
        shared = self._numbers[cadence], self._numbers[policy], shared_checksum(cadence, policy)
        self._shared[cadence, policy] = shared
        return shared


def _add(connection: sqlite3.Connection, namespace: str, puts: Sequence[Put], columns: _Columns) -> None:
    found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'declarations'").fetchone()
    first = 1 + (found[0] if found is not None else 0)
    version = 1 + stored_number(connection, namespace, "version floor", 0)
    connection.executemany(
        _INSERT_SCHEDULE,
        ((*columns.of(put.schedule), n, namespace, put.schedule.id) for n, put in enumerate(puts, first)),
    )
    connection.executemany(
        _INSERT_STATE, ((*_state(put), n, namespace, version) for n, put in enumerate(puts, first))
    )


def _overwrite(
    connection: sqlite3.Connection, namespace: str, pairs: Sequence[tuple[Put, Known]], columns: _Columns
) -> None:
    connection.executemany(
        _UPDATE_SCHEDULE, ((*columns.of(put.schedule, each), each.number) for put, each in pairs)
    )
    connection.executemany(_UPDATE_STATE, ((*_state(put), each.number) for put, each in pairs))
    left = [(put, each) for put, each in pairs if put.schedule.policy.group != each.group]
    connection.executemany(_REGROUP, [(put.schedule.policy.group, each.number) for put, each in left])
    wake_groups(connection, namespace, [(each.group, 0, each.number) for _, each in left if each.group])


def _state(put: Put) -> Row:
    return *state_columns(put.state), put.wake_at, put.schedule.policy.group


def _write_run(connection: sqlite3.Connection, number: int, run: Run, put: Put) -> None:
    if run.phase is not Phase.ENDED or put.schedule.policy.ledger:
        values = (*run_columns(run), *birth_columns(run), number, put.schedule.policy.group)
        written = connection.execute(_WRITE_RUN, values)
        if written.rowcount == 0 and run.status is Status.SKIPPED:
            insert_rest(connection, number, put.schedule.policy.group, run)
    else:
        connection.execute(_DROP_RUN, (number, run.run_at, run.kind))


def mark(connection: sqlite3.Connection, damage: Sequence[Damage]) -> None:
    """Record why these schedules cannot be read, and never wake them until they are repaired.

    A schedule that was written since it was read is left alone: the write may have repaired it.
    """
    for each in damage:
        stopped = connection.execute(
            "UPDATE states SET wake_at = NULL, version = version + 1 WHERE number = ? AND version IS ?",
            (each.number, each.version),
        )
        if stopped.rowcount:
            connection.execute(
                "UPDATE declarations SET damage = ? WHERE number = ? AND damage IS NULL",
                (each.problem, each.number),
            )


def unmark(connection: sqlite3.Connection, repaired: Sequence[int]) -> None:
    """Clear the marks of schedules that were repaired, and make them due."""
    numbers = [(number,) for number in repaired]
    connection.executemany("UPDATE declarations SET damage = NULL WHERE number = ?", numbers)
    connection.executemany("UPDATE states SET wake_at = 0, version = version + 1 WHERE number = ?", numbers)
