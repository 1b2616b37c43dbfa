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
    from dutiful.core.cadence import Instant
    from dutiful.runtime.ports import Retention
    from dutiful.stores.postgres.connections import Session
    from dutiful.stores.postgres.interned_texts import Texts
    from dutiful.stores.postgres.statements import Fence

# Schedules that are looked at together, and whose rows are deleted together: few enough that the commits of
# a pass do not wait long.
_SLICE, _DELETED_TOGETHER = 2000, 200
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
# may have grown.
_NEXT_SLICE = (
    "SELECT number, cadence_number, policy_number, greatest(cursor, ended_at) >= $4 AS grown,"
    " (SELECT run_at FROM runs WHERE schedule = number ORDER BY run_at LIMIT 1) AS oldest"
    " FROM states JOIN declarations USING (number) WHERE shard = $1 AND number > $2 ORDER BY number LIMIT $3"
)
_PRUNE = (
    "WITH asked AS (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS asked (number, keep,"
    " before)),"
    " ranked AS (SELECT run_at, schedule, kind, coalesce(run_until, run_at) AS last, keep, before,"
    " row_number() OVER (PARTITION BY schedule ORDER BY run_at DESC, kind DESC) AS rank"
    " FROM asked JOIN runs ON schedule = number"
    " WHERE phase = 'ended' AND kind = 'schedule' AND backfill IS NULL),"
    " expendable AS (SELECT run_at, schedule, kind, last FROM ranked JOIN states ON number = schedule"
    " WHERE last <= cursor AND run_at IS DISTINCT FROM skipped_at AND (rank > keep OR last < before)),"
    " deleted AS (DELETE FROM runs USING expendable AS e WHERE runs.run_at = e.run_at"
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
        await give_rows_to_shard(session, fence.shard)
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
        """Return since when a ledger must have grown to be looked into."""
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
    pairs = {(row[1], row[2]) for row in slice_}
    await texts.learn(session, pairs)
    kept = {pair: _retention(texts, pair, retention) for pair in pairs}
    asked = [
        (row["number"], kept[row[1], row[2]].rows, now - kept[row[1], row[2]].age)
        for row in slice_
        if row["oldest"] is not None and (row["grown"] or row["oldest"] < now - kept[row[1], row[2]].age)
    ]
    deleted = 0
    for first in range(0, len(asked), _DELETED_TOGETHER):
        async with session.transaction():
            await check(session, fence)
            columns = map(list, zip(*asked[first : first + _DELETED_TOGETHER], strict=True))
            deleted += await session.value(_PRUNE, *columns)
    return deleted, slice_[-1][0]


def _retention(texts: Texts, pair: tuple[int, int], retention: Retention) -> Retention:
    try:
        return retention.of(texts[pair][1])
    except CodecError:
        return retention
