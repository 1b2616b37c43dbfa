"""Writes caused by users: declarations, edits, removals, requests; and the marking of damaged rows."""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

import hashlib
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

from dutiful.core.errors import OvertakenError
from dutiful.core.run import Phase, Status
from dutiful.core.schedule import owner_of
from dutiful.stores.codec import (
    row_checksum,
    shared_checksum,
    text_number,
)
from dutiful.stores.postgres import interned_texts, workflows
from dutiful.stores.postgres.commit import INSERT_RUN, insert_rest
from dutiful.stores.postgres.connections import storable
from dutiful.stores.postgres.copied import refuse_copied
from dutiful.stores.postgres.reads import find_run
from dutiful.stores.postgres.statements import (
    RUN_CHANGING,
    WAKE_GROUP,
    Values,
    assigned_from,
    give_rows,
    recount,
)
from dutiful.stores.rows import (
    DECLARED,
    NOTE,
    RUN_ALL,
    STATE,
    Known,
    Row,
    birth_columns,
    check_versions,
    declared_over,
    listed,
    run_columns,
    state_columns,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from dutiful.core.changes import Changes, Note, Put
    from dutiful.core.run import Run
    from dutiful.core.schedule import Schedule
    from dutiful.stores.postgres.connections import Session
    from dutiful.stores.rows import Damage

    T = TypeVar("T")

# Schedules per statement.
_CHUNK = 5000
_DECLARED = (*DECLARED, "checksum", "owner")
_STATE = (*STATE, "wake_at", "capacity_group", "shard")
# LEFT JOIN keeps declarations whose text row is missing. All statements lock state rows in the same order.
_KNOWN = (
    "SELECT id, declarations.number, cadences.text, policies.text, capacity_group, version,"
    " damage IS NOT NULL, shard FROM declarations JOIN states ON states.number = declarations.number"
    " LEFT JOIN texts AS cadences ON cadences.number = cadence_number"
    " LEFT JOIN texts AS policies ON policies.number = policy_number"
    " WHERE namespace = $1 AND id = ANY($2::text[]) ORDER BY declarations.number FOR UPDATE OF states"
)
_ADD = (
    f"INSERT INTO declarations (namespace, id, {listed(_DECLARED)}) SELECT $1, id, {listed(_DECLARED)}"
    " FROM {rows} AS new ORDER BY number RETURNING number, id"
)
_ADD_STATES = (
    f"INSERT INTO states (number, version, {listed(_STATE)}) SELECT number, version, {listed(_STATE)}"
    " FROM {rows} AS new"
)
_OVERWRITE = (
    f"UPDATE declarations SET {assigned_from('new', _DECLARED)}, damage = NULL"
    " FROM {rows} AS new WHERE declarations.number = new.number"
)
_OVERWRITE_STATES = (
    f"UPDATE states SET {assigned_from('new', _STATE)}, idle_wake_at = NULL, version = states.version + 1"
    " FROM {rows} AS new WHERE states.number = new.number"
)
# The leader of the new shard adopts the runs of a schedule that moves there: 0 is below all its epochs.
_ORPHAN = "UPDATE runs SET epoch = 0 WHERE schedule = ANY($1::bigint[]) AND phase = 'launched'"
_FLOOR = "UPDATE namespaces SET version_floor = greatest(version_floor, $2) WHERE namespace = $1"
# As in a commit: insert a new row or extend a range of skipped ticks; never replace another row.
_WRITE_RUNS = (
    f"INSERT INTO runs (schedule, {listed(RUN_ALL)}) SELECT schedule, {listed(RUN_ALL)} FROM {{rows}} AS new"
    f" ON CONFLICT (run_at, schedule, kind) DO UPDATE SET {assigned_from('excluded', RUN_CHANGING)}"
    " WHERE runs.attempt <= excluded.attempt AND (runs.phase <> 'ended' OR (runs.status = 'SKIPPED'"
    " AND excluded.status = 'SKIPPED' AND runs.reason = excluded.reason AND runs.ticks <= excluded.ticks))"
    " RETURNING schedule"
)
_THIS_RUN = "schedule = $1 AND run_at = $2 AND kind = $3"
# Match the range as it was read; it may have grown or been pruned since.
_DROP_SKIPPED = (
    f"DELETE FROM runs WHERE {_THIS_RUN} AND phase = 'ended' AND status = 'SKIPPED' AND attempt = $4 AND"
    f" ticks = $5"
)
_DROP_RUN = f"DELETE FROM runs WHERE {_THIS_RUN} AND phase <> 'ended'"
_NOTES = (
    f"INSERT INTO notes ({listed(NOTE)}, number) SELECT {listed(NOTE)}, declarations.number"
    " FROM {rows} AS new JOIN declarations USING (id) WHERE namespace = $1"
    f" ON CONFLICT (number) DO UPDATE SET {assigned_from('excluded', NOTE)}"
)
_DROP_FACETS = (
    "DELETE FROM facets USING declarations WHERE facets.number = declarations.number"
    " AND declarations.namespace = $1 AND declarations.id = ANY($2::text[])"
)
_ADD_FACETS = (
    "INSERT INTO facets (namespace, name, value, id, number) SELECT namespace, new.name, new.value, id,"
    " number"
    " FROM unnest($2::text[], $3::text[], $4::text[]) AS new (id, name, value)"
    " JOIN declarations USING (id) WHERE namespace = $1"
)
_LOCK = (
    "SELECT states.number, shard FROM declarations JOIN states ON states.number = declarations.number"
    " WHERE namespace = $1 AND id = $2 AND damage IS NULL FOR UPDATE OF states"
)
_LATEST_MANUAL = "SELECT max(run_at) FROM runs WHERE schedule = $1 AND run_at >= $2 AND kind = 'manual'"
_WAKE_BY = (
    "UPDATE states SET wake_at = least(wake_at, $2), version = version + 1, open_runs = open_runs + 1,"
    " open_from = least(open_from, $3) WHERE number = $1"
)


class Places:
    """The shards of a namespace, and the mapping from schedules to shards."""

    def __init__(self, shards: Sequence[int]) -> None:
        self.shards = tuple(shards)

    def of(self, schedule: Schedule) -> int:
        """Return the shard of a schedule: that of its capacity group, else that of its id."""
        return self.shards[self.place_of(schedule)]

    def place_of(self, schedule: Schedule) -> int:
        """Return the place of the shard of a schedule."""
        return self.place(schedule.id, schedule.policy.group)

    def place(self, schedule_id: str, group: object) -> int:
        """Return the place of the shard for this schedule id and capacity group."""
        name = f"s:{schedule_id}" if group is None else f"g:{group}"
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) % len(self.shards)


async def apply(session: Session, namespace: str, places: Places, changes: Changes) -> None:
    """Write and delete schedules, and the ledger rows of the edits; call it inside a transaction."""
    await refuse_copied(session, namespace)
    removed = await _remove(session, namespace, changes.removes)
    # The last put of an id counts, as if the puts were applied one after the other.
    puts = {put.schedule.id: put for put in changes.puts}
    known = await _find(session, namespace, puts)
    check_versions(changes.puts, {**known, **removed})
    await give_rows(session, [each.number for each in known.values()])
    await _overwrite(session, places, [(puts[schedule_id], each) for schedule_id, each in known.items()])
    await _add(session, namespace, places, [put for id_, put in puts.items() if id_ not in known])
    await _write_runs(session, namespace, changes, puts)
    await _write_notes(session, namespace, changes.notes)
    for workflow in changes.workflows:
        await workflows.put(session, namespace, workflow)
    await _write_facets(session, namespace, changes.facets)


async def _write_runs(session: Session, namespace: str, changes: Changes, puts: Mapping[str, Put]) -> None:
    concerned = {run.schedule_id for run in (*changes.drops, *changes.rows)}
    if not concerned:
        return
    numbers = {id_: each.number for id_, each in (await _find(session, namespace, concerned)).items()}
    for run in changes.drops:
        values = run.run_at, run.kind, run.attempt, run.ticks
        if not await session.run(_DROP_SKIPPED, numbers.get(run.schedule_id, 0), *values):
            raise OvertakenError(run.schedule_id, 0, 0)
    rows: dict[int, list[Run]] = {}
    for run in changes.rows:
        rows.setdefault(numbers[run.schedule_id], []).append(run)
    # The rows of one schedule are written in their order, and one row of every schedule at once.
    for one_of_each in zip_longest(*rows.values()):
        some = {number: run for number, run in zip(rows, one_of_each, strict=True) if run is not None}
        kept = {run.schedule_id for run in some.values() if puts[run.schedule_id].schedule.policy.ledger}
        await _write_one_of_each(session, some, kept)
    await recount(session, {number: min(run.run_at for run in own) for number, own in rows.items()})


async def _write_one_of_each(session: Session, runs: Mapping[int, Run], kept: Collection[str]) -> None:
    """Write one run of each of these schedules, by number; ended runs only of those whose ledger is kept."""
    dropped = {n: run for n, run in runs.items() if run.phase is Phase.ENDED and run.schedule_id not in kept}
    for number, run in dropped.items():
        await session.run(_DROP_RUN, number, run.run_at, run.kind)
    for chunk in _chunks([(number, run) for number, run in runs.items() if number not in dropped]):
        values = Values()
        rows = [(number, *run_columns(run), *birth_columns(run)) for number, run in chunk]
        statement = _WRITE_RUNS.format(rows=values.rows(("schedule", *RUN_ALL), rows, "schedule"))
        written = {number for (number,) in await session.rows(statement, *values.all)}
        for number, run in chunk:
            if number not in written and run.status is Status.SKIPPED:
                await insert_rest(session, number, run)


async def _write_notes(session: Session, namespace: str, notes: Iterable[tuple[str, Note]]) -> None:
    # The last note of an id counts.
    for chunk in _chunks([*dict(notes).items()]):
        values = Values(namespace)
        rows = values.rows(("id", *NOTE), [(schedule_id, *note) for schedule_id, note in chunk], "id")
        await session.run(_NOTES.format(rows=rows), *values.all)


async def _write_facets(
    session: Session, namespace: str, facets: Sequence[tuple[str, Sequence[tuple[str, str]]]]
) -> None:
    if not facets:
        return
    await session.run(_DROP_FACETS, namespace, [schedule_id for schedule_id, _ in facets])
    rows = [(id_, name, value) for id_, pairs in dict(facets).items() for name, value in dict.fromkeys(pairs)]
    if rows:
        await session.run(_ADD_FACETS, namespace, *map(list, zip(*rows, strict=True)))


async def request(session: Session, namespace: str, run: Run) -> tuple[Run | None, int | None]:
    """Record a manual run at an instant of its own and make its schedule due; None: no such schedule.

    Also returns the shard that must look at the schedule.
    """
    await refuse_copied(session, namespace)
    # The lock makes two requests with the same key wait for each other.
    found = await session.row(_LOCK, namespace, run.schedule_id)
    known = await find_run(session, namespace, bytes.fromhex(run.key))
    if known is not None or found is None:
        return known, None
    number, shard = found
    latest = await session.value(_LATEST_MANUAL, number, run.run_at)
    run = run if latest is None else run._replace(run_at=latest + 1)
    await session.run(INSERT_RUN, number, *run_columns(run), *birth_columns(run))
    await session.run(_WAKE_BY, number, run.fire_at, run.run_at)
    return run, shard


async def _find(session: Session, namespace: str, ids: Collection[str]) -> dict[str, Known]:
    if not ids:
        return {}
    rows = await session.rows(_KNOWN, namespace, storable(ids))
    return {schedule_id: Known(*rest) for schedule_id, *rest in rows}


async def _remove(session: Session, namespace: str, ids: Sequence[str]) -> dict[str, Known]:
    known = await _find(session, namespace, ids)
    if not known:
        return {}
    # A schedule that is declared anew starts above this version, so that no move made on the old one applies.
    await session.run(_FLOOR, namespace, max(each.version for each in known.values()))
    # A trigger of the schema deletes the dependent rows.
    await session.run(
        "DELETE FROM declarations WHERE number = ANY($1::bigint[])", [e.number for e in known.values()]
    )
    await _wake_left(session, known.values())
    return known


async def _wake_left(session: Session, left: Iterable[Known]) -> None:
    """Wake the schedules blocked on a group that these schedules have left."""
    for shard, group in sorted({(each.shard, each.group) for each in left if each.group is not None}):
        await session.run(WAKE_GROUP, 0, shard, group, 0)


async def _add(session: Session, namespace: str, places: Places, puts: Sequence[Put]) -> None:
    if not puts:
        return
    floor = await session.value("SELECT version_floor FROM namespaces WHERE namespace = $1", namespace)
    for chunk in _chunks(puts):
        declared = await _declared(session, [(put.schedule, None) for put in chunk])
        values = Values(namespace)
        # The index in the declaration, so that numbers are assigned in its order.
        rows = [(n, put.schedule.id, *row) for n, (put, row) in enumerate(zip(chunk, declared, strict=True))]
        statement = _ADD.format(rows=values.rows(("number", "id", *_DECLARED), rows))
        numbers = {schedule_id: number for number, schedule_id in await session.rows(statement, *values.all)}
        states = [(numbers[put.schedule.id], floor + 1, *_state(put, places)) for put in chunk]
        values = Values()
        await session.run(
            _ADD_STATES.format(rows=values.rows(("number", "version", *_STATE), states)), *values.all
        )


async def _overwrite(session: Session, places: Places, pairs: Sequence[tuple[Put, Known]]) -> None:
    for chunk in _chunks(pairs):
        declared = await _declared(session, [(put.schedule, each) for put, each in chunk])
        values = Values()
        rows = [(each.number, *row) for (_, each), row in zip(chunk, declared, strict=True)]
        await session.run(_OVERWRITE.format(rows=values.rows(("number", *_DECLARED), rows)), *values.all)
        values = Values()
        rows = [(each.number, *_state(put, places)) for put, each in chunk]
        await session.run(_OVERWRITE_STATES.format(rows=values.rows(("number", *_STATE), rows)), *values.all)
    moved = [each.number for put, each in pairs if places.of(put.schedule) != each.shard]
    if moved:
        await session.run(_ORPHAN, moved)
    await _wake_left(session, [each for put, each in pairs if put.schedule.policy.group != each.group])


def _chunks(rows: Sequence[T]) -> Iterable[Sequence[T]]:
    return (rows[at : at + _CHUNK] for at in range(0, len(rows), _CHUNK))


async def _declared(session: Session, schedules: Iterable[tuple[Schedule, Known | None]]) -> list[Row]:
    """Return the values of _DECLARED for schedules, after storing the texts that they refer to."""
    shared: dict[tuple[str, str], tuple[int, int, int]] = {}
    rows: list[Row] = []
    for schedule, known in schedules:
        task, payload, cadence, policy, start, end, paused, until = declared_over(known, schedule)
        found = shared.get((cadence, policy))
        if found is None:
            found = text_number(cadence), text_number(policy), shared_checksum(cadence, policy)
            shared[cadence, policy] = found
        checksum = row_checksum(found[2], schedule.id, task, payload, start, end, paused, until)
        rows.append((task, payload, *found[:2], start, end, paused, until, checksum, owner_of(schedule)))
    await interned_texts.store(session, {text for pair in shared for text in pair})
    return rows


def _state(put: Put, places: Places) -> Row:
    return *state_columns(put.state), put.wake_at, put.schedule.policy.group, places.of(put.schedule)


_STOP = (
    "UPDATE states SET wake_at = NULL, version = states.version + 1"
    " FROM unnest($1::bigint[], $2::bigint[]) AS found (number, version)"
    " WHERE states.number = found.number AND states.version = found.version RETURNING states.number"
)


async def mark(session: Session, damage: Sequence[Damage]) -> None:
    """Record why these schedules cannot be read, and never wake them until they are repaired.

    A schedule that was written since it was read is left alone: the write may have repaired it.
    """
    by_number = {each.number: each for each in sorted(damage)}
    versions = [each.version for each in by_number.values()]
    stopped = [by_number[row[0]] for row in await session.rows(_STOP, [*by_number], versions)]
    marks: list[tuple[Any, ...]] = [(each.problem.replace("\0", "\\x00"), each.number) for each in stopped]
    await session.run_each("UPDATE declarations SET damage = $1 WHERE number = $2 AND damage IS NULL", marks)


async def unmark(session: Session, repaired: Sequence[int]) -> None:
    """Clear the marks of schedules that were repaired, and make them due."""
    if not repaired:
        return
    # The state before the declaration, as an edit locks them.
    await session.run(
        "UPDATE states SET wake_at = 0, version = version + 1 WHERE number = ANY($1::bigint[])", repaired
    )
    await session.run("UPDATE declarations SET damage = NULL WHERE number = ANY($1::bigint[])", repaired)
