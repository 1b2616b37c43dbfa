"""Read-only queries. Rows found damaged are returned as such, and marked by a later write."""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dutiful.core.changes import Note
from dutiful.core.errors import CodecError
from dutiful.core.plan.planner import Batch
from dutiful.core.snapshot import Snapshot
from dutiful.runtime.ports import Found, Loaded
from dutiful.stores.rows import (
    END_OF_TIME,
    NOTE,
    READ,
    RUN_ALL,
    SCHEDULE,
    Damage,
    faulty_key,
    listed,
    pause_condition,
    read_due,
    read_schedule,
    readable_run,
    stored_and_parts,
    with_runs,
)
from dutiful.stores.sqlite.inline_runs import AS_ROW

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.errors import FaultyKey
    from dutiful.core.run import Kind, Run
    from dutiful.runtime.ports import Facets, PausedUntil
    from dutiful.stores.rows import Row
    from dutiful.stores.sqlite.interned_texts import Texts

# Read along the index, so that the cost depends on the rows returned and not on the rows stored.
_DUE = (
    f"SELECT {listed(READ)} FROM states INDEXED BY states_due CROSS JOIN declarations USING (number)"
    " WHERE states.namespace = ? AND wake_at <= ? ORDER BY wake_at, number LIMIT ?"
)
_NEXT_WAKE = (
    "SELECT wake_at FROM states INDEXED BY states_due WHERE namespace = ? AND wake_at IS NOT NULL"
    " ORDER BY wake_at, number LIMIT 1 OFFSET ?"
)
_UNDECLARED = (
    "SELECT number, version FROM states INDEXED BY states_due WHERE namespace = ? AND wake_at <= ?"
    " AND NOT EXISTS (SELECT 1 FROM declarations WHERE declarations.number = states.number)"
)
_STORED = (
    f"SELECT {listed(READ)} FROM declarations JOIN states USING (number) WHERE declarations.namespace = ?"
)
# Read along the primary keys of both tables: any other order would read a large file at random.
_ALL = (
    f"SELECT {listed(READ)} FROM declarations NOT INDEXED CROSS JOIN states USING (number)"
    " WHERE declarations.namespace = ? AND damage IS NULL ORDER BY number"
)
_NUMBERED = (
    f"SELECT {listed(READ)} FROM declarations NOT INDEXED CROSS JOIN states USING (number)"
    " WHERE number IN (SELECT value FROM json_each(?)) ORDER BY number"
)
_OPEN = f"SELECT schedule, {listed(RUN_ALL)} FROM runs INDEXED BY runs_open WHERE phase <> 'ended'"
_ANY_OPEN = "SELECT 1 FROM runs INDEXED BY runs_open WHERE phase <> 'ended' LIMIT 1"
_OPEN_ORDER = "ORDER BY schedule, run_at, kind"
_IN_FLIGHT = (
    "SELECT runs.capacity_group, count(*) FROM runs INDEXED BY runs_capacity"
    " CROSS JOIN declarations ON declarations.number = runs.schedule"
    " WHERE runs.capacity_group IN (SELECT value FROM json_each(?))"
    " AND runs.phase IN ('launched', 'accepted') AND namespace = ? AND damage IS NULL GROUP BY 1"
)
_OF_SCHEDULE = (
    "schedule = (SELECT number FROM declarations WHERE namespace = ?2 AND id = ?3) AND run_at <= ?1"
    " AND kind = ifnull(?5, kind)"
)
_LEDGER = (
    f"SELECT {listed(RUN_ALL)} FROM runs INDEXED BY runs_open WHERE phase <> 'ended' AND {_OF_SCHEDULE}"
    f" UNION ALL SELECT {AS_ROW} FROM states WHERE inline_at IS NOT NULL AND inline_at <= ?1"
    " AND number = (SELECT number FROM declarations WHERE namespace = ?2 AND id = ?3)"
    " AND ifnull(?5, 'schedule') = 'schedule'"
    f" UNION ALL SELECT * FROM (SELECT {listed(RUN_ALL)} FROM runs INDEXED BY runs_ended"
    f" WHERE phase = 'ended' AND {_OF_SCHEDULE} ORDER BY run_at DESC, kind DESC LIMIT ?4)"
    " ORDER BY run_at DESC, kind DESC LIMIT ?4"
)
ID_AND_RUN = f"id, {listed(f'runs.{column}' for column in RUN_ALL)} FROM runs"
_SCHEDULE = listed(f"declarations.{column}" for column in SCHEDULE)
_ITS_SCHEDULE = "CROSS JOIN declarations ON declarations.number = runs.schedule WHERE namespace = ?"
# Along the primary key. Rows of schedules without a ledger have no `created_at`.
_RECENT = (
    f"SELECT {ID_AND_RUN} {_ITS_SCHEDULE} AND created_at IS NOT NULL"
    " ORDER BY runs.run_at DESC, runs.schedule DESC, runs.kind DESC LIMIT ?"
)
# A range of skipped ticks may begin in the same second as a tick that has run: prefer the run.
_OF_KEY = (
    f"SELECT {_SCHEDULE}, {ID_AND_RUN} INDEXED BY runs_key {_ITS_SCHEDULE} AND runs.key = ?"
    " ORDER BY runs.attempt DESC, runs.run_at LIMIT 1"
)
_DECLARED = "SELECT 1 FROM declarations WHERE declarations.number = facets.number"
_HAS_FACET = (
    "EXISTS (SELECT 1 FROM facets AS other WHERE other.namespace = {0}.namespace AND other.name = ?"
    " AND other.value = ? AND other.id = {0}.id)"
)
_WAKING = (
    "FROM states INDEXED BY states_due CROSS JOIN declarations USING (number)"
    " WHERE states.namespace = ? AND wake_at IS NOT NULL AND paused = 0 AND damage IS NULL"
)
# A subquery, so that the ids are searched once, along their index, and not for each row that wakes.
_WITH_PART = (
    " AND states.number IN (SELECT number FROM declarations WHERE namespace = ? AND instr(id, ?) > 0)"
)
_NOTES = (
    f"SELECT id, {listed(NOTE)} FROM notes JOIN declarations USING (number)"
    " WHERE namespace = ? AND id IN (SELECT value FROM json_each(?))"
)


def load(
    connection: sqlite3.Connection,
    texts: Texts,
    namespace: str,
    now: Instant,
    limit: int,
    also: Collection[str],
) -> tuple[Loaded, list[Damage]]:
    """Return the due schedules and the schedules with these ids, and the schedules that cannot be read."""
    rows = connection.execute(_DUE, (namespace, now, max(limit, 0))).fetchall()
    stored, damage = _read(texts, rows)
    due = _with_open_runs(connection, stored, damage)
    following = connection.execute(_NEXT_WAKE, (namespace, len(rows))).fetchone()
    next_wake = None if following is None else following[0]
    if len(rows) < limit and next_wake is not None and next_wake <= now:
        damage += _undeclared(connection, namespace, now)
    if also:
        ids = {*also}.difference(each.schedule.id for each in due)
        beside, damaged = with_ids(connection, texts, namespace, ids)
        due, damage = due + beside, damage + damaged
    known = tuple(marked(connection, namespace))
    return Loaded(Batch(due, _used(connection, namespace, due)), next_wake, known), damage


def _undeclared(connection: sqlite3.Connection, namespace: str, now: Instant) -> list[Damage]:
    """Return the due states without a declaration: no commit would ever change their wake."""
    rows = connection.execute(_UNDECLARED, (namespace, now))
    return [Damage(number, "", "has no declaration", version) for number, version in rows]


def _used(connection: sqlite3.Connection, namespace: str, due: Iterable[Snapshot]) -> Mapping[str, int]:
    policies = {id(each.schedule.policy): each.schedule.policy for each in due}
    capacities = [policy.capacity.group for policy in policies.values() if policy.capacity is not None]
    if not capacities:
        return {}
    groups = json.dumps(capacities)
    return dict(connection.execute(_IN_FLIGHT, (groups, namespace)).fetchall())


def some(
    connection: sqlite3.Connection, texts: Texts, namespace: str, condition: str, values: Sequence[object]
) -> tuple[list[Snapshot], list[Damage]]:
    """Return the readable schedules that meet a condition, and the schedules found damaged."""
    query = f"{_STORED} AND damage IS NULL AND {condition}"
    stored, damage = _read(texts, connection.execute(query, (namespace, *values)))
    return _with_open_runs(connection, stored, damage), damage


def with_ids(
    connection: sqlite3.Connection, texts: Texts, namespace: str, ids: Iterable[str]
) -> tuple[list[Snapshot], list[Damage]]:
    """Return the readable schedules with these ids, ordered by id, and the schedules found damaged."""
    listed = "id IN (SELECT value FROM json_each(?)) ORDER BY id"
    return some(connection, texts, namespace, listed, [json.dumps([*ids])])


def having(facets: Facets, paused: bool | PausedUntil | None, after: str) -> tuple[str, list[object]]:
    """Return the query for the numbers of schedules with these facets after an id, and its values.

    The first value, the namespace, is left to the caller.
    """
    stored, parts = stored_and_parts(facets)
    conditions = ["namespace = ?", "id > ?", *("instr(id, ?) > 0" for _ in parts)]
    values: list[object] = [after, *parts]
    source = "declarations"
    if stored:
        # The first facet selects the range of the table to read; the other facets are looked up per row.
        source, conditions = "facets", [*conditions, "name = ?", "value = ?"]
        values += stored[0]
    for facet in stored[1:]:
        conditions.append(_HAS_FACET.format(source))
        values += facet
    shown = f"damage IS NULL AND {pause_condition(paused)}"
    conditions.append(f"EXISTS ({_DECLARED} AND {shown})" if stored else shown)
    return f"SELECT number FROM {source} WHERE {' AND '.join(conditions)}", values


def count(
    connection: sqlite3.Connection, namespace: str, facets: Facets, paused: bool | PausedUntil | None
) -> int:
    """Return how many schedules have these facets."""
    stored, parts = stored_and_parts(facets)
    if paused is None and len(stored) == 1 and not parts:
        return _count_with_facet(connection, namespace, *stored[0])
    if paused is None and not stored:
        return _count_with(connection, namespace, parts) if parts else _count_all(connection, namespace)
    query, values = having(facets, paused, "")
    found = connection.execute(f"SELECT count(*) FROM ({query})", (namespace, *values)).fetchone()
    return int(found[0])


def _count_all(connection: sqlite3.Connection, namespace: str) -> int:
    """Return how many schedules can be read.

    Counts all rows and subtracts those of other namespaces and the damaged ones: SQLite counts a whole table
    by its pages, and a condition would make it look at every row.
    """
    found = connection.execute(
        "SELECT (SELECT count(*) FROM declarations)"
        " - (SELECT count(*) FROM declarations WHERE namespace < ?1)"
        " - (SELECT count(*) FROM declarations WHERE namespace > ?1)"
        " - (SELECT count(*) FROM declarations WHERE namespace = ?1 AND damage IS NOT NULL)",
        (namespace,),
    ).fetchone()
    return int(found[0])


def _count_with(connection: sqlite3.Connection, namespace: str, parts: Sequence[str]) -> int:
    """Return how many schedules can be read and have these parts in their ids.

    All of them minus the damaged ones: each count reads one index; `damage IS NULL` would read every row.
    """
    counted = "SELECT count(*) FROM declarations WHERE namespace = ?" + " AND instr(id, ?) > 0" * len(parts)
    query = f"SELECT ({counted}) - ({counted} AND damage IS NOT NULL)"
    found = connection.execute(query, (namespace, *parts, namespace, *parts)).fetchone()
    return int(found[0])


def _count_with_facet(connection: sqlite3.Connection, namespace: str, name: str, value: str) -> int:
    """Return how many schedules can be read and have this facet: as above, all minus the damaged ones."""
    held = f"damage IS NOT NULL AND {_HAS_FACET.format('declarations')}"
    found = connection.execute(
        "SELECT (SELECT count(*) FROM facets WHERE namespace = ?1 AND name = ?2 AND value = ?3)"
        f" - (SELECT count(*) FROM declarations WHERE namespace = ?1 AND {held})",
        (namespace, name, value, name, value),
    ).fetchone()
    return int(found[0])


def page(
    connection: sqlite3.Connection,
    texts: Texts,
    namespace: str,
    facets: Facets,
    paused: bool | PausedUntil | None,
    after: str,
    limit: int,
) -> tuple[list[Snapshot], list[Damage]]:
    """Return the schedules with these facets that come after an id, and the schedules found damaged."""
    query, values = having(facets, paused, after)
    return found_by(connection, texts, f"{query} ORDER BY id LIMIT ?", (namespace, *values, limit))


def found_by(
    connection: sqlite3.Connection, texts: Texts, query: str, values: Sequence[object]
) -> tuple[list[Snapshot], list[Damage]]:
    """Return the schedules whose numbers a query finds, by id, and the schedules found damaged.

    The numbers are found first: in a single statement SQLite would scan all ids in order instead.
    """
    numbers = [number for (number,) in connection.execute(query, values)]
    found, damage = numbered(connection, texts, numbers)
    return sorted(found, key=lambda due: due.schedule.id), damage


def soonest(
    connection: sqlite3.Connection, texts: Texts, namespace: str, limit: int, facets: Facets
) -> tuple[list[Snapshot], list[Damage]]:
    """Return the schedules with the earliest wakes, and the schedules found damaged."""
    found, values = _waking(namespace, facets)
    query = f"SELECT {listed(READ)} {found} ORDER BY wake_at, number LIMIT ?"
    stored, damage = _read(texts, connection.execute(query, (*values, limit)))
    return _with_open_runs(connection, stored, damage), damage


def count_due(
    connection: sqlite3.Connection, namespace: str, until: Instant, limit: int, facets: Facets
) -> int:
    """Return how many schedules wake in time, up to a limit."""
    found, values = _waking(namespace, facets)
    query = f"SELECT count(*) FROM (SELECT 1 {found} AND wake_at <= ? LIMIT ?)"
    return int(connection.execute(query, (*values, until, limit)).fetchone()[0])


def _waking(namespace: str, facets: Facets) -> tuple[str, list[object]]:
    """Return the source and the condition of schedules that wake, and the values."""
    stored, parts = stored_and_parts(facets)
    found = _WAKING + _WITH_PART * len(parts)
    found += "".join(f" AND {_HAS_FACET.format('declarations')}" for _ in stored)
    with_part = [value for part in parts for value in (namespace, part)]
    return found, [namespace, *with_part, *(value for facet in stored for value in facet)]


def every(
    connection: sqlite3.Connection, texts: Texts, namespace: str
) -> tuple[list[Snapshot], list[Damage]]:
    """Return all readable schedules, and the schedules found damaged."""
    stored, damage = _read(texts, connection.execute(_ALL, (namespace,)))
    return with_runs(stored, connection.execute(f"{_OPEN} {_OPEN_ORDER}"), damage), damage


def numbered(
    connection: sqlite3.Connection, texts: Texts, numbers: Sequence[int]
) -> tuple[list[Snapshot], list[Damage]]:
    """Return the readable schedules with these numbers, and the schedules found damaged."""
    stored, damage = _read(texts, connection.execute(_NUMBERED, (json.dumps(numbers),)))
    return _with_open_runs(connection, stored, damage), damage


def marked(connection: sqlite3.Connection, namespace: str) -> list[tuple[str, str]]:
    """Return (id, problem) of the schedules that are known to be damaged, ordered by id."""
    query = (
        "SELECT id, damage FROM declarations INDEXED BY declarations_damaged"
        " WHERE namespace = ? AND damage IS NOT NULL ORDER BY id"
    )
    return connection.execute(query, (namespace,)).fetchall()


def faulty(
    connection: sqlite3.Connection, texts: Texts, namespace: str, schedule_id: str
) -> FaultyKey | None:
    """Return the key for which a schedule cannot be read; None where no key is to blame."""
    row = connection.execute(f"{_STORED} AND id = ?", (namespace, schedule_id)).fetchone()
    return None if row is None else faulty_key(row, texts)


def repaired(connection: sqlite3.Connection, texts: Texts, namespace: str) -> list[int]:
    """Return the numbers of schedules that were damaged and can be read again."""
    rows = connection.execute(f"{_STORED} AND damage IS NOT NULL", (namespace,))
    stored, _ = _read(texts, rows)
    return list(stored)


def ledger(
    connection: sqlite3.Connection,
    namespace: str,
    schedule_id: str,
    until: Instant | None,
    limit: int,
    kind: Kind | None,
) -> list[Run]:
    """Return rows of the ledger, newest first; raise StoreError for a row that cannot be read."""
    latest = END_OF_TIME if until is None else min(until, END_OF_TIME)
    rows = connection.execute(_LEDGER, (latest, namespace, schedule_id, limit, kind))
    return [readable_run(schedule_id, row) for row in rows]


def latest(
    connection: sqlite3.Connection, namespace: str, ids: Iterable[str], limit: int
) -> dict[str, list[Run]]:
    """Return the newest rows of each of these schedules; schedules without rows are left out.

    One statement per schedule: a single statement for all would read every row of each, not only the newest.
    """
    found = {each: ledger(connection, namespace, each, None, limit, None) for each in ids}
    return {each: rows for each, rows in found.items() if rows}


def recent(connection: sqlite3.Connection, namespace: str, limit: int) -> list[Run]:
    """Return rows of all schedules, newest first."""
    rows = connection.execute(_RECENT, (namespace, limit))
    return [readable_run(schedule_id, row) for schedule_id, *row in rows]


def find_run(connection: sqlite3.Connection, namespace: str, key: bytes) -> Run | None:
    """Return the row with this key, whether its schedule can be read or not."""
    found = connection.execute(_OF_KEY, (namespace, key)).fetchone()
    return None if found is None else readable_run(found[len(SCHEDULE)], found[len(SCHEDULE) + 1 :])


def find(connection: sqlite3.Connection, texts: Texts, namespace: str, key: bytes) -> Found | None:
    """Return the row with this key, and its schedule; None where the schedule cannot be read."""
    found = connection.execute(_OF_KEY, (namespace, key)).fetchone()
    if found is None:
        return None
    columns, (schedule_id, *row) = found[: len(SCHEDULE)], found[len(SCHEDULE) :]
    try:
        return Found(readable_run(schedule_id, row), read_schedule(columns, texts))
    except CodecError:
        return None


def notes(connection: sqlite3.Connection, namespace: str, ids: Iterable[str]) -> dict[str, Note]:
    """Return the notes of these schedules."""
    rows = connection.execute(_NOTES, (namespace, json.dumps([*ids])))
    return {schedule_id: Note._make(note) for schedule_id, *note in rows}


def _read(texts: Texts, rows: Iterable[Row]) -> tuple[dict[int, Snapshot], list[Damage]]:
    """Return the readable schedules by number, without open runs, and the schedules found damaged."""
    stored, damage = dict[int, Snapshot](), list[Damage]()
    for row in rows:
        try:
            stored[row[0]] = read_due(row, texts)
        except CodecError as error:
            damage.append(Damage(row[0], row[1], str(error), row[READ.index("version")]))
    return stored, damage


def _with_open_runs(
    connection: sqlite3.Connection, stored: dict[int, Snapshot], damage: list[Damage]
) -> list[Snapshot]:
    if connection.execute(_ANY_OPEN).fetchone() is None:
        return list(stored.values())
    query = f"{_OPEN} AND schedule IN (SELECT value FROM json_each(?)) {_OPEN_ORDER}"
    return with_runs(stored, connection.execute(query, (json.dumps(list(stored)),)), damage)
