"""Commits the moves of a pass: states by version, runs by their unique key.

Nearly all moves are written by one statement, so that no lock is held while this process computes. Moves of a
rare shape are written one by one in a transaction. If a tick turns out to have a row already, the single
statement fails as a whole without changing anything, and all moves are written one by one.
"""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

from collections import Counter
from itertools import compress
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from asyncpg.exceptions import UniqueViolationError

from dutiful.core.run import IN_FLIGHT, Phase, Run, Status, frees_slot
from dutiful.runtime.ports import Committed, Launch
from dutiful.stores.postgres import statements
from dutiful.stores.postgres.statements import (
    LEAD,
    RUN_CHANGING,
    WAKE_GROUP,
    Values,
    assigned_from,
    assigned_values,
    recount,
    sql_type,
    with_queries,
)
from dutiful.stores.rows import (
    RUN_ALL,
    STATE,
    birth_columns,
    inline_run,
    launches_inline,
    listed,
    read_run,
    run_columns,
    state_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dutiful.core.snapshot import Move, Snapshot
    from dutiful.stores.postgres.connections import Session
    from dutiful.stores.postgres.statements import Fence
    from dutiful.stores.rows import Row

_ENDED, _LAUNCHED = Phase.ENDED, Phase.LAUNCHED
_MOVED = (*STATE, "wake_at", "idle_wake_at", "blocked")
_HELD = ("inline_at", "inline_epoch", "open_from", "open_runs", "in_flight")
_MOVES = ("number", "version", *_MOVED, *_HELD)
_INSERTS = ("number", *RUN_ALL)
_CHANGES = ("number", *RUN_ALL[: RUN_ALL.index("backfill")])
_DROPS = ("number", "run_at", "kind", "attempt")
# Inside CASE, so that statistics about phases or versions cannot lead the planner to another index.
_SAME_VERSION = "CASE WHEN states.version = m.version AND states.shard = m.shard THEN true ELSE false END"
_THIS_RUN = "runs.run_at = c.run_at AND runs.schedule = c.number AND runs.kind = c.kind"
# A range of skipped ticks has ended and still grows; no other ended row may change.
_MAY_CHANGE = (
    "CASE WHEN runs.attempt <= c.attempt AND (runs.phase <> 'ended' OR (runs.status = 'SKIPPED'"
    " AND c.status = 'SKIPPED' AND runs.reason = c.reason AND runs.ticks <= c.ticks)) THEN true ELSE false"
    " END"
)
_MAY_DROP = "CASE WHEN runs.attempt <= c.attempt AND runs.phase <> 'ended' THEN true ELSE false END"

_MOVE = (
    f"UPDATE states SET {assigned_from('m', (*_MOVED, *_HELD))}, version = states.version + 1 FROM m"
    f" WHERE states.number = m.number AND {_SAME_VERSION} RETURNING states.number"
)
# Without ON CONFLICT: a tick that has a row makes the statement fail.
_INSERT = (
    f"INSERT INTO runs (schedule, {listed(RUN_ALL)}) SELECT n.number, {listed(RUN_ALL)}"
    " FROM {} AS n JOIN moved USING (number)"
)
_CHANGE = (
    f"UPDATE runs SET {assigned_from('c', RUN_CHANGING)} FROM {{}} AS c JOIN moved USING (number)"
    f" WHERE {_THIS_RUN} AND {_MAY_CHANGE} RETURNING c.number, c.run_at, c.kind"
)
_CHANGED = (
    "(SELECT array_agg(number) FROM changed) AS changed, (SELECT array_agg(run_at) FROM changed) AS"
    " changed_at,"
    " (SELECT array_agg(kind) FROM changed) AS changed_kind"
)
_DROP = f"DELETE FROM runs USING {{}} AS c JOIN moved USING (number) WHERE {_THIS_RUN} AND {_MAY_DROP}"


class _Written(NamedTuple):
    """A run to write, its move, and the index of the move."""

    place: int
    move: Move
    run: Run


class _Parts(NamedTuple):
    """The rows that a set of moves writes, by the parts of the statement."""

    moves: list[Row]
    inserts: list[_Written]
    changes: list[_Written]
    drops: list[_Written]


async def commit(session: Session, fence: Fence, moves: Sequence[Move]) -> Committed:
    """Record the moves made from the present version; return them, and the runs to launch, in order."""
    rare = _rare_places(moves)
    # Lock the schedules in the order of their numbers, as all writers do: any other order may deadlock.
    ordered = sorted(range(len(moves)), key=lambda place: moves[place].due.number)
    usual = [place for place in ordered if place not in rare]
    try:
        if not rare:
            made, launches = await _write_together(session, fence, moves, usual)
        else:
            async with session.transaction():
                made, launches = await _write_together(session, fence, moves, usual)
                slow = [place for place in ordered if place in rare]
                also_made, also = await _write_each(session, fence, moves, slow)
                made, launches = made | also_made, launches + also
    except UniqueViolationError:
        async with session.transaction():
            made, launches = await _write_each(session, fence, moves, ordered)
    launches.sort(key=itemgetter(0))
    chosen = [place in made for place in range(len(moves))]
    return Committed([*compress(moves, chosen)], [launch for _, launch in launches])


def _rare_places(moves: Sequence[Move]) -> set[int]:
    times = Counter(move.due.number for move in moves) if len(moves) > 1 else {}
    repeated = len(times) not in (0, len(moves))
    return {
        place
        for place, move in enumerate(moves)
        if (repeated and times[move.due.number] > 1) or ((move.due.runs or move.changes) and _is_rare(move))
    }


def _is_rare(move: Move) -> bool:
    """Return whether the effect on the move's runs cannot be derived from the loaded rows."""
    due, policy = move.due, move.due.schedule.policy
    if not policy.ledger and any(map(_may_be_inline, due.runs)):
        return True
    if policy.capacity is not None and any(map(frees_slot, move.changes)):
        return True
    attempts = {(run.run_at, run.kind): run.attempt for run in due.runs}
    if any((run.run_at, run.kind) in attempts for run in move.inserts):
        return True
    return not all(
        attempts.get((run.run_at, run.kind), run.attempt + 1) <= run.attempt or _grows(due, run)
        for run in move.changes
    )


def _may_be_inline(run: Run) -> bool:
    """Return whether this run may be inline in the state instead of a row."""
    return run == inline_run(run.schedule_id, run.run_at, run.epoch, run.started_at or 0)


def _grows(due: Snapshot, run: Run) -> bool:
    """Return whether a change extends the growing range of skipped ticks."""
    growing = due.state.skipped
    same = growing is not None and (growing.run_at, growing.reason) == (run.run_at, run.reason)
    return same and run.status is Status.SKIPPED and run.kind == "schedule" and run.phase is _ENDED


# The usual way


async def _write_together(
    session: Session, fence: Fence, moves: Sequence[Move], places: Sequence[int]
) -> tuple[set[int], list[tuple[int, Launch]]]:
    """Write moves with one statement; return the indexes of those made, and the runs to launch."""
    if not places:
        await statements.check(session, fence)
        return set(), []
    parts = _parts(moves, places)
    statement, values = _statement(fence, parts)
    answer = await session.row(statement, *values)
    if not answer["leads"]:
        raise await statements.lost(session, fence)
    numbers = {*(answer["moved"] or ())}
    made = {place for place in places if moves[place].due.number in numbers}
    changed = {
        *zip(answer["changed"] or (), answer["changed_at"] or (), answer["changed_kind"] or (), strict=True)
    }
    launches = [
        (written.place, _launch(written))
        for written in (*parts.inserts, *parts.changes)
        if written.run.phase is _LAUNCHED and written.place in made
    ]
    inserted = {id(written.run) for written in parts.inserts}
    launches = [
        (place, launch)
        for place, launch in launches
        if id(launch.run) in inserted or (launch.number, launch.run.run_at, launch.run.kind) in changed
    ]
    launches += [(place, _inline(moves[place])) for place in made if launches_inline(moves[place])]
    return made, launches


def _launch(written: _Written) -> Launch:
    due = written.move.due
    return tuple.__new__(Launch, (due.schedule, written.run, due.number))


def _inline(move: Move) -> Launch:
    return tuple.__new__(Launch, (move.due.schedule, move.inserts[0], move.due.number))


def _parts(moves: Sequence[Move], places: Iterable[int]) -> _Parts:
    parts = _Parts([], [], [], [])
    for place in places:
        move = moves[place]
        ledger, inline = move.due.schedule.policy.ledger, launches_inline(move)
        parts.moves.append(_move_row(move, inline))
        if not inline:
            new = (run for run in move.inserts if run.phase is not _ENDED or ledger)
            parts.inserts.extend(_Written(place, move, run) for run in new)
        for run in move.changes:
            kept = run.phase is not _ENDED or ledger
            (parts.changes if kept else parts.drops).append(_Written(place, move, run))
    return parts


def _move_row(move: Move, inline: bool) -> Row:
    due, state, wake_at, idle_wake_at, blocked, inserts, changes, _ = move
    moved = (due.number, due.version, *state_columns(state), wake_at, idle_wake_at, blocked)
    if inline:
        return *moved, inserts[0].run_at, inserts[0].epoch, None, 0, 0
    left: dict[tuple[int, str], Phase] = {}
    for run in (*due.runs, *inserts, *changes):
        left[run.run_at, run.kind] = run.phase
    still_open = [(key, phase) for key, phase in left.items() if phase is not _ENDED]
    in_flight = sum(phase in IN_FLIGHT for _, phase in still_open)
    open_from = min((key[0] for key, _ in still_open), default=None)
    return *moved, None, None, open_from, len(still_open), in_flight


def _statement(fence: Fence, parts: _Parts) -> tuple[str, list[object]]:
    values = Values(*fence)
    queries = {
        "lead": LEAD,
        "m": f"SELECT m.*, lead.shard FROM lead, {values.rows(_MOVES, parts.moves)} AS m",
        "moved": _MOVE,
    }
    if parts.inserts:
        queries["new"] = _INSERT.format(values.rows(_INSERTS, map(_insert_row, parts.inserts)))
    changed = "NULL::bigint[] AS changed, NULL::bigint[] AS changed_at, NULL::text[] AS changed_kind"
    if parts.changes:
        queries["changed"] = _CHANGE.format(values.rows(_CHANGES, map(_change_row, parts.changes)))
        changed = _CHANGED
    if parts.drops:
        queries["dropped"] = _DROP.format(values.rows(_DROPS, map(_drop_row, parts.drops)))
    answer = "(SELECT count(*) FROM lead) = 1 AS leads, (SELECT array_agg(number) FROM moved) AS moved"
    return f"{with_queries(queries)} SELECT {answer}, {changed}", values.all


def _insert_row(written: _Written) -> Row:
    run = written.run
    return written.move.due.number, *run_columns(run), *birth_columns(run)


def _change_row(written: _Written) -> Row:
    return written.move.due.number, *run_columns(written.run)


def _drop_row(written: _Written) -> Row:
    run = written.run
    return written.move.due.number, run.run_at, run.kind, run.attempt


# The slow way

_VALUES = {column: f"${n}::{sql_type(column)}" for n, column in enumerate(_CHANGES, 1)}
_MOVE_ONE = (
    f"UPDATE states SET {assigned_values(_MOVED, 4)}, version = version + 1"
    " WHERE number = $1 AND version = $2 AND shard = $3"
)
INSERT_RUN = (
    f"INSERT INTO runs (schedule, {listed(RUN_ALL)})"
    f" VALUES ({listed(f'${n}' for n in range(1, len(RUN_ALL) + 2))}) ON CONFLICT DO NOTHING"
)
_AS_CHANGE = f"(SELECT {listed(f'{value} AS {column}' for column, value in _VALUES.items())}) AS c"
_CHANGE_ONE = (
    f"UPDATE runs SET {assigned_from('c', RUN_CHANGING)} FROM {_AS_CHANGE} WHERE {_THIS_RUN} AND"
    f" {_MAY_CHANGE}"
)
_DROP_ONE = (
    "DELETE FROM runs WHERE schedule = $1 AND run_at = $2 AND kind = $3 AND attempt <= $4 AND phase <>"
    " 'ended'"
)
_DECIDED = f"SELECT {listed(RUN_ALL)} FROM runs WHERE schedule = $1 AND run_at = $2 AND kind = $3"
_GROWING = "UPDATE states SET skipped_at = $3, skipped_ticks = $4 WHERE number = $1 AND skipped_at = $2"
_NOT_GROWING = (
    "UPDATE states SET skipped_at = NULL, skipped_reason = NULL, skipped_ticks = NULL"
    " WHERE number = $1 AND skipped_at = $2"
)


async def _write_each(
    session: Session, fence: Fence, moves: Sequence[Move], places: Iterable[int]
) -> tuple[set[int], list[tuple[int, Launch]]]:
    """Write moves one by one, in this order; return the indexes of those made, and the runs to launch."""
    await statements.check(session, fence)
    made, launches = set[int](), list[tuple[int, Launch]]()
    for place in places:
        move = moves[place]
        if move.due.runs:
            await statements.give_rows(session, [move.due.number])
        values = (*state_columns(move.state), move.wake_at, move.idle_wake_at, move.blocked)
        if await session.run(_MOVE_ONE, move.due.number, move.due.version, fence.shard, *values):
            made.add(place)
            launches += [(place, launch) for launch in await _write_runs(session, move)]
    for place in sorted(made):
        await _wake_for_slots(session, fence, moves[place])
    return made, launches


async def _write_runs(session: Session, move: Move) -> list[Launch]:
    due, ledger = move.due, move.due.schedule.policy.ledger
    launched: dict[tuple[int, str], Run] = {}
    for run in move.inserts:
        if (run.phase is not _ENDED or ledger) and await insert_run(session, due.number, run):
            launched[run.run_at, run.kind] = run
    for run in move.changes:
        if await _change_run(session, due.number, run, ledger):
            launched.pop((run.run_at, run.kind), None)
            launched[run.run_at, run.kind] = run
    written = (*move.inserts, *move.changes)
    if written:
        await recount(session, {due.number: min(run.run_at for run in written)})
    return [Launch(due.schedule, run, due.number) for run in launched.values() if run.phase is _LAUNCHED]


async def _change_run(session: Session, number: int, run: Run, ledger: bool) -> bool:
    if run.phase is _ENDED and not ledger:
        return bool(await session.run(_DROP_ONE, number, run.run_at, run.kind, run.attempt))
    return bool(await session.run(_CHANGE_ONE, number, *run_columns(run)))


async def insert_run(session: Session, number: int, run: Run) -> bool:
    """Insert a run and return whether its tick had no row; otherwise a range begins after that row."""
    if await session.run(INSERT_RUN, number, *run_columns(run), *birth_columns(run)):
        return True
    if run.status is Status.SKIPPED:
        await insert_rest(session, number, run)
    return False


async def insert_rest(session: Session, number: int, run: Run) -> None:
    """Insert the undecided rest of a range of skipped ticks, which is the range that grows from now on."""
    row = await session.row(_DECIDED, number, run.run_at, run.kind)
    rest = run.beyond(read_run(run.schedule_id, tuple(row)))
    if rest is None:
        await session.run(_NOT_GROWING, number, run.run_at)
        return
    await session.run(_GROWING, number, run.run_at, rest.run_at, rest.ticks)
    await insert_run(session, number, rest)


async def _wake_for_slots(session: Session, fence: Fence, move: Move) -> None:
    """Wake the schedules blocked on a group in which the planner may have freed a slot."""
    capacity = move.due.schedule.policy.capacity
    for run in move.changes:
        if capacity is not None and frees_slot(run):
            await session.run(WAKE_GROUP, run.ended_at or 0, fence.shard, capacity.group, move.due.number)
