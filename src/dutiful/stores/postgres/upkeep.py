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

# Schedules per prune statement: small enough that the commits of a pass do not wait long.
_SLICE = 200
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
_NEXT_SLICE = (
    "SELECT number, cadence_number, policy_number FROM states JOIN declarations USING (number)"
    " WHERE shard = $1 AND number > $2 ORDER BY number LIMIT $3"
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


async def prune(
    session: Session, texts: Texts, fence: Fence, after: int, now: Instant, retention: Retention
) -> tuple[int, int | None]:
    """Prune the next schedules of a shard; return the number of deleted rows, and where to continue."""
    slice_ = await session.rows(_NEXT_SLICE, fence.shard, after, _SLICE)
    if not slice_:
        return 0, None
    pairs = {(row[1], row[2]) for row in slice_}
    await texts.learn(session, pairs)
    kept = {pair: _retention(texts, pair, retention) for pair in pairs}
    of_each = [kept[row[1], row[2]] for row in slice_]
    async with session.transaction():
        await check(session, fence)
        keep, before = [each.rows for each in of_each], [now - each.age for each in of_each]
        deleted = await session.value(_PRUNE, [row[0] for row in slice_], keep, before)
    return deleted, slice_[-1][0]


def _retention(texts: Texts, pair: tuple[int, int], retention: Retention) -> Retention:
    try:
        return retention.of(texts[pair][1])
    except CodecError:
        return retention
