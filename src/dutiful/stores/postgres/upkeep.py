"""Housekeeping: re-arms schedules after a wrong clock, and deletes expired rows."""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.errors import CodecError
from dutiful.core.plan.clock_rollback import rearmed
from dutiful.stores.postgres.edits import mark
from dutiful.stores.postgres.reads import some
from dutiful.stores.postgres.statements import assigned_values, check, give_rows_to_shard
from dutiful.stores.rows import STATE, state_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.runtime.ports import Retention
    from dutiful.stores.postgres.connections import Session
    from dutiful.stores.postgres.interned_texts import Texts
    from dutiful.stores.postgres.statements import Fence

    # The number of a schedule, how many rows it keeps, and the instant before which a row is too old.
    _Asked = tuple[int, int, Instant]

# Schedules that are looked at together, and whose rows are deleted together; the rows that these may keep,
# and the rows that one statement deletes. Few enough that the commits of a pass do not wait long, and that
# the statement ends in time.
_SLICE, _TOGETHER, _KEPT_TOGETHER, _DELETED_MAX = 2000, 200, 200_000, 10_000
_DAY_MS = 86_400_000
# A tick is decided, and the end of a run recorded, at most this long after its time, or nearly so.
_LATE_MS = 3_600_000
# Candidates only; `rearmed` decides which schedules are ahead.
_AHEAD = (
    "shard = $2 AND (greatest(cursor, ended_at) > $3 OR (open_runs > 0 AND EXISTS (SELECT 1 FROM runs"
    " WHERE schedule = number AND run_at >= open_from AND phase <> 'ended'"
    " AND greatest(fire_at, runs.started_at, runs.ended_at) > $3)))"
)
_REARM_STATE = (
    f"UPDATE states SET {assigned_values(STATE, 3)}, wake_at = $2, version = version + 1 WHERE number = $1"
)
_REARM_RUN = (
    "UPDATE runs SET fire_at = $4, started_at = $5, ended_at = $6 WHERE schedule = $1 AND run_at = $2 AND"
    " kind = $3"
)
# With the first tick in the ledger of each schedule, which is one look into an index, and whether the ledger
# may have grown. The shard is compared inside CASE: by the statistics of an empty table the server would
# rather read and sort all schedules of the shard for every slice than pass over those of other shards.
_NEXT_SLICE = (
    "SELECT number, cadence_number, policy_number, grown,"
    " (SELECT run_at FROM runs WHERE schedule = number ORDER BY run_at LIMIT 1) AS oldest"
    " FROM (SELECT number, greatest(cursor, ended_at) >= $4 AS grown FROM states WHERE number > $2"
    " AND CASE WHEN shard = $1 THEN true ELSE false END ORDER BY number LIMIT $3) AS next"
    " LEFT JOIN declarations USING (number) ORDER BY number"
)
_ENDED = "phase = 'ended' AND kind = 'schedule' AND backfill IS NULL"
# The newest rows of a schedule. With OFFSET 0 the server reads the index of the schedule: without it, the
# server may read the primary key, and pass over the rows of all schedules.
_NEWEST = "(SELECT * FROM runs WHERE schedule = number ORDER BY run_at DESC OFFSET 0) AS newest"
# `cut` is the newest row beyond the rows to keep. Of a ledger with no more rows than are kept, only the index
# and the rows that are too old are read.
_PRUNE = (
    "WITH asked AS MATERIALIZED (SELECT number, before, CASE WHEN"
    " EXISTS (SELECT 1 FROM runs WHERE schedule = number ORDER BY run_at DESC OFFSET keep LIMIT 1)"
    f" THEN (SELECT run_at FROM {_NEWEST} WHERE {_ENDED} OFFSET keep LIMIT 1) END AS cut"
    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS asked (number, keep, before)),"
    " expendable AS MATERIALIZED (SELECT run_at, schedule, kind, coalesce(run_until, run_at) AS last"
    " FROM asked JOIN states USING (number)"
    " JOIN runs ON schedule = number AND run_at <= greatest(cut, before)"
    f" WHERE {_ENDED} AND coalesce(run_until, run_at) <= cursor AND run_at IS DISTINCT FROM skipped_at"
    " AND (run_at <= cut OR coalesce(run_until, run_at) < before) LIMIT $4),"
    # Locks a schedule before its runs, as everything else does; leaves a locked one to a later prune.
    " held AS MATERIALIZED (SELECT number FROM states WHERE number IN (SELECT schedule FROM expendable)"
    " ORDER BY number FOR NO KEY UPDATE SKIP LOCKED),"
    " deleted AS (DELETE FROM runs USING expendable AS e JOIN held ON number = e.schedule"
    " WHERE runs.run_at = e.run_at"
    " AND runs.schedule = e.schedule AND runs.kind = e.kind RETURNING e.schedule, e.last),"
    " marked AS (UPDATE states SET pruned_until = greatest(pruned_until, m.last)"
    " FROM (SELECT schedule, max(last) AS last FROM deleted GROUP BY 1) AS m WHERE number = m.schedule)"
    " SELECT count(*) FROM deleted"
)


async def rearm(
    session: Session, texts: Texts, namespace: str, fence: Fence, now: Instant, beyond: int
) -> int:
    """Re-arm the schedules that a clock more than `beyond` ms ahead has written; return how many."""
    async with session.transaction():
        await check(session, fence)
        await give_rows_to_shard(session, fence.shard, only_free=True)
        maybe, damage = await some(session, texts, namespace, _AHEAD, fence.shard, now + beyond)
        if damage:
            await mark(session, damage)
        ahead = [(due.number, back) for due in maybe if (back := rearmed(due, now, beyond)) is not None]
        await session.run_each(_REARM_STATE, [(n, now, *state_columns(state)) for n, (state, _) in ahead])
        await session.run_each(
            _REARM_RUN,
            [
                (number, run.run_at, run.kind, run.fire_at, run.started_at, run.ended_at)
                for number, (_, runs) in ahead
                for run in runs
            ],
        )
    return len(ahead)


class Pruning:
    """The pruning of one shard, which looks only into ledgers that have grown or grown old.

    A ledger that has not grown since the last prune under the same retention can only have rows that became
    too old. Once a day every ledger is looked into: a schedule may have been given a shorter retention.
    """

    def __init__(self) -> None:
        self._retention: Retention | None = None
        self._pruned_at = self._whole_at = 0

    def grown_since(self, now: Instant, retention: Retention) -> Instant:
        """Return the instant since which a ledger must have grown for the prune to look at it."""
        whole = retention != self._retention or not 0 <= now - self._whole_at < _DAY_MS
        return 0 if whole else self._pruned_at - _LATE_MS

    def finished(self, now: Instant, retention: Retention, since: Instant) -> None:
        """Note a prune that looked at all schedules."""
        self._retention, self._pruned_at = retention, now
        self._whole_at = self._whole_at if since else now


async def prune(
    session: Session,
    texts: Texts,
    fence: Fence,
    after: int,
    now: Instant,
    retention: Retention,
    since: Instant,
) -> tuple[int, int | None]:
    """Prune the next schedules of a shard; return the number of deleted rows, and where to continue.

    Of the ledgers that have not grown `since`, only rows that are too old are deleted.
    """
    slice_ = await session.rows(_NEXT_SLICE, fence.shard, after, _SLICE, since)
    if not slice_:
        return 0, None
    # A state without a declaration is damage that a load notes.
    declared = [row for row in slice_ if row["cadence_number"] is not None]
    pairs = {(row[1], row[2]) for row in declared}
    await texts.learn(session, pairs)
    kept = {pair: _retention(texts, pair, retention) for pair in pairs}
    asked = [
        (row["number"], kept[row[1], row[2]].rows, now - kept[row[1], row[2]].age)
        for row in declared
        if row["oldest"] is not None and (row["grown"] or row["oldest"] < now - kept[row[1], row[2]].age)
    ]
    deleted = sum([await _delete(session, fence, group) for group in _groups(asked)])
    return deleted, slice_[-1][0]


def _groups(asked: Sequence[_Asked]) -> Iterator[list[_Asked]]:
    """Yield the schedules in groups of a bounded size, and of a bounded number of rows to keep."""
    group: list[_Asked] = []
    kept = 0
    for each in asked:
        if group and (len(group) == _TOGETHER or kept + each[1] > _KEPT_TOGETHER):
            yield group
            group, kept = [], 0
        group.append(each)
        kept += each[1]
    if group:
        yield group


async def _delete(session: Session, fence: Fence, group: Sequence[_Asked]) -> int:
    """Delete the expendable rows of these schedules, and return how many there were."""
    columns, deleted = [*map(list, zip(*group, strict=True))], 0
    while True:
        async with session.transaction():
            await check(session, fence)
            count: int = await session.value(_PRUNE, *columns, _DELETED_MAX)
        deleted += count
        if count < _DELETED_MAX:
            return deleted


def _retention(texts: Texts, pair: tuple[int, int], retention: Retention) -> Retention:
    try:
        return retention.of(texts[pair][1])
    except CodecError:
        return retention
