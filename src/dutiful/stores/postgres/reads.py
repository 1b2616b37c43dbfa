"""Queries. None of them writes: damaged rows are returned beside the others, and marked later."""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from dutiful.core.changes import Note
from dutiful.core.errors import CodecError
from dutiful.core.plan.planner import Batch
from dutiful.core.plan.reconcile import Survey
from dutiful.core.policy import Reason
from dutiful.core.snapshot import Snapshot
from dutiful.runtime.clock import boottime
from dutiful.runtime.ports import Found, Loaded
from dutiful.stores.codec import encode_cadence, encode_policy, row_checksum, shared_checksum, text_number
from dutiful.stores.postgres import interned_texts
from dutiful.stores.postgres.connections import storable
from dutiful.stores.postgres.statements import INLINE_AS_ROW
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

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.errors import FaultyKey
    from dutiful.core.run import Kind, Run
    from dutiful.core.schedule import Schedule
    from dutiful.runtime.ports import Facets, PausedUntil
    from dutiful.stores.postgres.connections import Session
    from dutiful.stores.postgres.due_index import DueFrom
    from dutiful.stores.postgres.interned_texts import Texts
    from dutiful.stores.rows import Row

_CADENCE, _POLICY = READ.index("cadence_number"), READ.index("policy_number")
_VERSION = READ.index("version")
# The columns of `read_due`, and the tick of the first open run.
_READ = f"{listed(READ)}, open_from"
_DUE = (
    f"SELECT next.wake_at AS next_wake, next.damaged, due.* FROM (SELECT"
    " (SELECT wake_at FROM states WHERE shard = $1 AND wake_at > $2 ORDER BY wake_at, number LIMIT 1) AS"
    " wake_at,"
    " EXISTS (SELECT 1 FROM declarations WHERE namespace = $4 AND damage IS NOT NULL) AS damaged) AS next"
    " LEFT JOIN LATERAL ("
    f" SELECT {_READ}, wake_at FROM (SELECT * FROM states WHERE shard = $1 AND wake_at BETWEEN $5 AND $2"
    " AND number NOT IN (SELECT unnest($6::bigint[])) ORDER BY wake_at, number LIMIT $3) AS states"
    " LEFT JOIN declarations USING (number)) AS due ON true"
    " ORDER BY due.wake_at, due.number"
)
_STORED = f"SELECT {_READ} FROM declarations JOIN states USING (number) WHERE namespace = $1"
# The first of each shard by the index of due schedules, and the first of those: the cost does not grow with
# the number of schedules.
_SOONEST = (
    "SELECT first.* FROM shards CROSS JOIN LATERAL ("
    f" SELECT {_READ}, wake_at FROM states JOIN declarations USING (number)"
    " WHERE states.shard = shards.shard AND wake_at IS NOT NULL AND damage IS NULL{condition}"
    " ORDER BY wake_at, number LIMIT $2) AS first"
    " WHERE shards.namespace = $1 ORDER BY first.wake_at, first.number LIMIT $2"
)
_OPEN = (
    f"SELECT schedule, {listed(RUN_ALL)} FROM unnest($1::bigint[], $2::bigint[]) AS asked (number, since)"
    " JOIN runs ON schedule = asked.number AND run_at >= asked.since"
    " WHERE CASE WHEN phase <> 'ended' THEN true ELSE false END ORDER BY schedule, run_at, kind"
)
_IN_FLIGHT = (
    "SELECT capacity_group, sum(in_flight)::bigint FROM states JOIN declarations USING (number)"
    " WHERE capacity_group = ANY($2::text[]) AND shard = $1 AND damage IS NULL GROUP BY 1"
)
_NUMBER = "(SELECT number FROM declarations WHERE namespace = $1 AND id = $2)"
_LEDGER = (
    f"SELECT {listed(RUN_ALL)} FROM (SELECT {listed(RUN_ALL)} FROM runs WHERE schedule = {_NUMBER}"
    " AND run_at <= $3 AND ($4::text IS NULL OR kind = $4) ORDER BY schedule, run_at DESC, kind DESC LIMIT"
    " $5) AS rows"
    f" UNION ALL SELECT {INLINE_AS_ROW} FROM states WHERE number = {_NUMBER} AND inline_at <= $3"
    " AND coalesce($4::text, 'schedule') = 'schedule' ORDER BY run_at DESC, kind DESC LIMIT $5"
)
# The same rows for many schedules: $2 is the array of their ids.
_LATEST = (
    f"SELECT asked.id, newest.* FROM declarations AS asked CROSS JOIN LATERAL"
    f" ({_LEDGER.replace(_NUMBER, 'asked.number')}) AS newest"
    " WHERE asked.namespace = $1 AND asked.id = ANY($2::text[]) ORDER BY asked.id, run_at DESC, kind DESC"
)
ID_AND_RUN = f"id, {listed(f'runs.{column}' for column in RUN_ALL)}"
_SCHEDULE = listed(f"declarations.{column}" for column in SCHEDULE)
# Along the primary key. Rows of schedules without a ledger have no `created_at`.
_RECENT = (
    f"SELECT {ID_AND_RUN} FROM runs JOIN declarations ON number = schedule WHERE namespace = $1"
    " AND created_at IS NOT NULL ORDER BY runs.run_at DESC, runs.schedule DESC, runs.kind DESC LIMIT $2"
)
# A range of skipped ticks may begin in the same second as a tick that has run: prefer the run.
_OF_KEY = (
    f"SELECT {_SCHEDULE}, {ID_AND_RUN} FROM runs JOIN declarations ON number = schedule"
    " WHERE namespace = $1 AND key = $2 ORDER BY attempt DESC, run_at, schedule LIMIT 1"
)
_HAS_FACET = (
    "EXISTS (SELECT 1 FROM facets WHERE facets.namespace = declarations.namespace AND facets.name = ${}"
    " AND facets.value = ${} AND facets.id = declarations.id)"
)
_NOTES = (
    f"SELECT id, {listed(NOTE)} FROM notes JOIN declarations USING (number)"
    " WHERE namespace = $1 AND id = ANY($2::text[])"
)


Read: TypeAlias = tuple[list[Snapshot], list[Damage]]
"""The readable schedules, and the schedules found damaged."""


async def load(
    session: Session,
    texts: Texts,
    namespace: str,
    shard: int,
    now: Instant,
    limit: int,
    also: Collection[str],
    due_from: DueFrom,
    without: Sequence[int],
) -> tuple[Loaded, list[Damage]]:
    """Return the due schedules of a shard, the schedules with these ids, and those found damaged.

    Due schedules are left out whose numbers are among those `without`.
    """
    most, began = max(limit, 0), boottime()
    rows = await session.rows(_DUE, shard, now, most + 1, namespace, due_from.at(began), without)
    next_wake, any_damaged, first = rows[0]["next_wake"], rows[0]["damaged"], rows[0]["wake_at"]
    if not without:
        due_from.found(next_wake if first is None else first, now, began, boottime())
    if len(rows) > most and rows[most]["number"] is not None:
        next_wake = rows[most]["wake_at"]
    taken = [tuple(row)[2:-1] for row in rows[:most] if row["number"] is not None]
    due, damage = await _read(session, texts, taken)
    if also:
        ids = {*also}.difference(each.schedule.id for each in due)
        beside, damaged = await with_ids(session, texts, namespace, ids)
        due, damage = due + beside, damage + damaged
    known = await marked(session, namespace) if any_damaged else []
    used = await _used(session, shard, due)
    return Loaded(Batch(due, used), next_wake, tuple(known)), damage


async def _used(session: Session, shard: int, due: Iterable[Snapshot]) -> Mapping[str, int]:
    policies = {id(each.schedule.policy): each.schedule.policy for each in due}
    groups = [policy.capacity.group for policy in policies.values() if policy.capacity is not None]
    return dict(await session.rows(_IN_FLIGHT, shard, groups)) if groups else {}


async def some(session: Session, texts: Texts, namespace: str, condition: str, *values: object) -> Read:
    """Return the schedules that meet a condition, whose parameters are numbered from $2."""
    query = f"{_STORED} AND damage IS NULL AND {condition}"
    return await _read(session, texts, [tuple(row) for row in await session.rows(query, namespace, *values)])


async def with_ids(session: Session, texts: Texts, namespace: str, ids: Iterable[str]) -> Read:
    """Return the schedules among these that are stored, ordered by id."""
    return await some(session, texts, namespace, "id = ANY($2::text[]) ORDER BY id", storable(ids))


def _having(facets: Facets, paused: bool | PausedUntil | None, first: int) -> tuple[str, list[object]]:
    """Return the condition for these facets, and its parameters, numbered from `first`."""
    stored, parts = stored_and_parts(facets)
    conditions = [f"strpos(id, ${place}) > 0" for place in range(first, first + len(parts))]
    places = range(first + len(parts), first + len(parts) + 2 * len(stored), 2)
    conditions += [_HAS_FACET.format(place, place + 1) for place in places]
    conditions.append(pause_condition(paused))
    found = "".join(f" AND {condition}" for condition in conditions)
    return found, [*parts, *(value for facet in stored for value in facet)]


async def page(
    session: Session,
    texts: Texts,
    namespace: str,
    after: str,
    limit: int,
    facets: Facets,
    paused: bool | None,
) -> Read:
    """Return the schedules that come after an id."""
    condition, values = _having(facets, paused, 4)
    return await some(
        session, texts, namespace, f"id > $2{condition} ORDER BY id LIMIT $3", after, limit, *values
    )


async def count(session: Session, namespace: str, facets: Facets, paused: bool | PausedUntil | None) -> int:
    """Return how many schedules have these facets."""
    condition, values = _having(facets, paused, 2)
    query = f"SELECT count(*) FROM declarations WHERE namespace = $1 AND damage IS NULL{condition}"
    return int(await session.value(query, namespace, *values))


async def soonest(session: Session, texts: Texts, namespace: str, limit: int, facets: Facets) -> Read:
    """Return the schedules with the earliest wakes."""
    condition, values = _having(facets, False, 3)
    rows = await session.rows(_SOONEST.format(condition=condition), namespace, limit, *values)
    return await _read(session, texts, [tuple(row)[:-1] for row in rows])


async def count_due(session: Session, namespace: str, until: Instant, limit: int, facets: Facets) -> int:
    """Return how many schedules wake in time, up to a limit."""
    condition, values = _having(facets, False, 4)
    found = (
        "FROM states JOIN declarations USING (number) WHERE namespace = $1 AND damage IS NULL"
        " AND shard IN (SELECT shard FROM shards WHERE shards.namespace = $1)"
    )
    query = f"SELECT count(*) FROM (SELECT 1 {found} AND wake_at <= $2{condition} LIMIT $3) AS due"
    return int(await session.value(query, namespace, until, limit, *values))


async def every(session: Session, texts: Texts, namespace: str) -> Read:
    """Return all schedules, in the order in which they were first stored."""
    return await some(session, texts, namespace, "true ORDER BY number")


async def numbered(session: Session, texts: Texts, namespace: str, numbers: Sequence[int]) -> Read:
    """Return the schedules with these numbers, ordered by number."""
    return await some(session, texts, namespace, "number = ANY($2::bigint[]) ORDER BY number", numbers)


async def marked(session: Session, namespace: str) -> list[tuple[str, str]]:
    """Return (id, problem) of the schedules that are known to be damaged, ordered by id."""
    query = "SELECT id, damage FROM declarations WHERE namespace = $1 AND damage IS NOT NULL ORDER BY id"
    return [(schedule_id, problem) for schedule_id, problem in await session.rows(query, namespace)]


async def faulty(session: Session, texts: Texts, namespace: str, schedule_id: str) -> FaultyKey | None:
    """Return the key for which a schedule cannot be read; None where no key is to blame."""
    row = await session.row(f"{_STORED} AND id = $2", namespace, schedule_id)
    if row is None:
        return None
    await texts.learn(session, [(row["cadence_number"], row["policy_number"])])
    return faulty_key(tuple(row)[:-1], texts)


async def repaired(session: Session, texts: Texts, namespace: str) -> list[int]:
    """Return the numbers of schedules that were damaged and can be read again."""
    rows = await session.rows(f"{_STORED} AND damage IS NOT NULL", namespace)
    due, _ = await _read(session, texts, [tuple(row) for row in rows])
    return [each.number for each in due]


async def ledger(
    session: Session, namespace: str, schedule_id: str, until: Instant | None, limit: int, kind: Kind | None
) -> list[Run]:
    """Return rows of the ledger, newest first; raise StoreError for a row that cannot be read."""
    latest = END_OF_TIME if until is None else min(until, END_OF_TIME)
    rows = await session.rows(_LEDGER, namespace, schedule_id, latest, kind, limit)
    return [readable_run(schedule_id, tuple(row)) for row in rows]


async def latest(session: Session, namespace: str, ids: Iterable[str], limit: int) -> dict[str, list[Run]]:
    """Return the newest rows of each of these schedules; schedules without rows are left out."""
    found: dict[str, list[Run]] = {}
    for schedule_id, *row in await session.rows(_LATEST, namespace, storable(ids), END_OF_TIME, None, limit):
        found.setdefault(schedule_id, []).append(readable_run(schedule_id, tuple(row)))
    return found


async def recent(session: Session, namespace: str, limit: int) -> list[Run]:
    """Return rows of all schedules, newest first."""
    rows = await session.rows(_RECENT, namespace, limit)
    return [readable_run(schedule_id, tuple(row)) for schedule_id, *row in rows]


async def find_run(session: Session, namespace: str, key: bytes) -> Run | None:
    """Return the row with this key, whether its schedule can be read or not."""
    found = await session.row(_OF_KEY, namespace, key)
    return None if found is None else readable_run(found["id"], tuple(found)[len(SCHEDULE) + 1 :])


async def find(session: Session, texts: Texts, namespace: str, key: bytes) -> Found | None:
    """Return the row with this key, and its schedule; None where the schedule cannot be read."""
    found = await session.row(_OF_KEY, namespace, key)
    if found is None:
        return None
    columns, (schedule_id, *row) = tuple(found)[: len(SCHEDULE)], tuple(found)[len(SCHEDULE) :]
    await texts.learn(session, [(columns[_CADENCE], columns[_POLICY])])
    try:
        return Found(readable_run(schedule_id, tuple(row)), read_schedule(columns, texts))
    except CodecError:
        return None


async def notes(session: Session, namespace: str, ids: Iterable[str]) -> dict[str, Note]:
    """Return the notes of these schedules."""
    rows = await session.rows(_NOTES, namespace, storable(ids))
    return {schedule_id: Note._make(note) for schedule_id, *note in rows}


async def _read(session: Session, texts: Texts, rows: Sequence[Row]) -> Read:
    """Return the schedules in rows of the columns _READ, with their open runs."""
    await texts.learn(session, {(row[_CADENCE], row[_POLICY]) for row in rows if row[1] is not None})
    stored, damage, since = dict[int, Snapshot](), list[Damage](), dict[int, int]()
    for row in rows:
        number, schedule_id, version, open_from = row[0], row[1], row[_VERSION], row[-1]
        if schedule_id is None:
            # The declaration was deleted without the trigger; no commit would ever change the state's wake.
            damage.append(Damage(number, "", "has no declaration", version))
            continue
        try:
            stored[number] = read_due(row[:-1], texts)
        except CodecError as error:
            damage.append(Damage(number, schedule_id, str(error), version))
            continue
        if open_from is not None:
            since[number] = open_from
    return await _with_open_runs(session, stored, since, damage), damage


async def _with_open_runs(
    session: Session, stored: dict[int, Snapshot], since: Mapping[int, int], damage: list[Damage]
) -> list[Snapshot]:
    """Return the schedules with their open runs; an unreadable run makes its schedule damaged."""
    rows = await session.rows(_OPEN, [*since], [*since.values()]) if since else []
    return with_runs(stored, rows, damage)


# The stored schedules beside declared ones

# From 1970 to 9999: engines write no other times.
_TIMES = ("attempted_at", "succeeded_at", "failed_at")
_POSSIBLE = " AND ".join(f"coalesce({time}, 0) BETWEEN 0 AND 253402300799999" for time in _TIMES)
_REASONS = ", ".join(f"'{reason.value}'" for reason in Reason)
_AT_REST = (
    "inline_at IS NULL AND open_runs = 0"
    f" AND (skipped_at IS NULL OR coalesce(skipped_reason, '') IN ({_REASONS}))"
    # A schedule without an attempt has no end.
    f" AND coalesce({', '.join(_TIMES)}) IS NOT DISTINCT FROM attempted_at AND {_POSSIBLE}"
)
_SURVEYED = (
    f"SELECT {listed(SCHEDULE)}, NOT ({_AT_REST}) AS busy FROM declarations"
    " JOIN states USING (number) WHERE namespace = $1 AND damage IS NULL ORDER BY number"
)


async def survey(
    session: Session, texts: Texts, namespace: str, declared: Sequence[Schedule]
) -> tuple[Survey, list[Damage]]:
    """Return how the stored schedules differ from the declaration, and the schedules found damaged."""
    # Schedules that are stored as declared are removed from this dict.
    differing = {schedule.id: schedule for schedule in declared}
    shared = await _shared(session, declared)
    numbers: list[int] = []
    for *row, busy in await session.rows(_SURVEYED, namespace):
        schedule = differing.get(row[1])
        if schedule is not None and not busy and _is_declared(schedule, row, shared):
            del differing[row[1]]
        else:
            numbers.append(row[0])
    dues, damage = await numbered(session, texts, namespace, numbers)
    stored = {due.schedule.id: due for due in dues}
    pairs = [(schedule, stored.get(schedule_id)) for schedule_id, schedule in differing.items()]
    return Survey(pairs, [schedule_id for schedule_id in stored if schedule_id not in differing]), damage


async def _shared(
    session: Session, declared: Iterable[Schedule]
) -> dict[tuple[int, int], tuple[int, int, int]]:
    """Return the numbers and the checksum of each cadence and policy whose texts are stored.

    Keyed by identity: hashing a cadence or a policy for each schedule would take longer than all the rest.
    """
    pairs = {(id(each.cadence), id(each.policy)): (each.cadence, each.policy) for each in declared}
    encoded: dict[tuple[int, int], tuple[str, str]] = {}
    for key, (cadence, policy) in pairs.items():
        try:
            encoded[key] = encode_cadence(cadence), encode_policy(policy)
        except CodecError:
            # A value without a text is in no row; writing it raises the same error.
            continue
    there = await interned_texts.stored(session, {text for pair in encoded.values() for text in pair})
    return {
        key: (text_number(pair[0]), text_number(pair[1]), shared_checksum(*pair))
        for key, pair in encoded.items()
        if there.issuperset(pair)
    }


def _is_declared(
    schedule: Schedule, row: Sequence[Any], shared: Mapping[tuple[int, int], tuple[int, int, int]]
) -> bool:
    """Return whether a row is undamaged and holds the declared values, paused or not."""
    _, id_, expected, task, payload, cadence, policy, start, end, paused, until = row
    found = shared.get((id(schedule.cadence), id(schedule.policy)))
    return (
        found is not None
        and found[:2] == (cadence, policy)
        and schedule.task == (task, payload)
        and (schedule.window.start, schedule.window.end) == (start, end)
        and row_checksum(found[2], id_, task, payload, start, end, paused, until) == expected
    )
