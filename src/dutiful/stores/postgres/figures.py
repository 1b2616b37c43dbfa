"""Figures of all schedules at once: counts, a few rows, and runs by filter at a bounded cost."""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.tally import tallied
from dutiful.runtime.ports import RunPage, RunPlace
from dutiful.stores.postgres.reads import ID_AND_RUN, some
from dutiful.stores.rows import (
    NEWEST_FIRST,
    OLDEST_FIRST,
    RUN_ALL,
    SCAN_MAX,
    listed,
    readable_cadences,
    readable_run,
    scan_range,
)

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.run import Run
    from dutiful.core.schedule import Alike
    from dutiful.core.tally import Tally
    from dutiful.runtime.ports import RunFilter
    from dutiful.stores.postgres.connections import Session
    from dutiful.stores.postgres.interned_texts import Texts
    from dutiful.stores.postgres.reads import Read

# $1 is the namespace and $2 the owner; NULL stands for all owners.
_OWNED = "namespace = $1 AND ($2::text IS NULL OR owner = $2)"
_OF_ITS_SCHEDULE = f"JOIN declarations ON number = schedule WHERE {_OWNED}"
_TALLIES = (
    f"SELECT run_at - run_at % $5 AS at, status, reason, sum(ticks)::bigint FROM runs {_OF_ITS_SCHEDULE}"
    " AND run_at >= $3 AND run_at < $4 AND run_until IS NULL AND created_at IS NOT NULL GROUP BY 1, 2, 3"
)
# A range of skipped ticks may have begun long before the period asked for.
_STRETCHES = (
    f"SELECT status, reason, run_at, run_until, ticks FROM runs {_OF_ITS_SCHEDULE}"
    " AND run_until >= $3 AND run_at < $4 AND created_at IS NOT NULL"
)
_OPEN = (
    " FROM states JOIN declarations USING (number) JOIN runs ON schedule = number AND run_at >= open_from"
    " AND phase <> 'ended' WHERE open_runs > 0"
)
_OPEN_RUNS = (
    f"SELECT {ID_AND_RUN}{_OPEN} AND {_OWNED} AND created_at IS NOT NULL"
    " ORDER BY runs.run_at, id, runs.kind LIMIT $3"
)
_OPEN_COUNTS = f"SELECT phase, count(*){_OPEN} AND namespace = $1 GROUP BY phase"
_TROUBLED = (
    "troubled AND shard IN (SELECT shard FROM shards WHERE shards.namespace = $1)"
    " AND ($2::text IS NULL OR owner = $2) ORDER BY id LIMIT $3"
)
_CADENCES = (
    "SELECT cadence_number, policy_number, window_start, window_end, count(*), min(id) FROM declarations"
    f" WHERE damage IS NULL AND paused = 0 AND {_OWNED} GROUP BY 1, 2, 3, 4"
)
_FIND_IDS = (
    f"SELECT id FROM declarations WHERE {_OWNED} AND id > $3 AND strpos(id, $4) > 0 AND damage IS NULL"
    " ORDER BY id LIMIT $5"
)


async def tallies(
    session: Session, namespace: str, owner: str | None, since: Instant, until: Instant, width: int
) -> list[Tally]:
    """Return the number of recorded ticks by status and reason, in buckets of time."""
    counted = await session.rows(_TALLIES, namespace, owner, since, until, width)
    stretches = await session.rows(_STRETCHES, namespace, owner, since, until)
    return tallied(stretches, since, until, width, counted)


async def open_runs(session: Session, namespace: str, owner: str | None, limit: int) -> list[Run]:
    """Return runs that have not ended, oldest first."""
    rows = await session.rows(_OPEN_RUNS, namespace, owner, limit)
    return [readable_run(schedule_id, tuple(row)) for schedule_id, *row in rows]


async def open_counts(session: Session, namespace: str) -> dict[str, int]:
    """Return how many open runs are in each phase."""
    return dict(await session.rows(_OPEN_COUNTS, namespace))


async def find_ids(
    session: Session, namespace: str, owner: str | None, part: str, after: str, limit: int
) -> list[str]:
    """Return ids that contain a text and come after another id."""
    return [row[0] for row in await session.rows(_FIND_IDS, namespace, owner, after, part, limit)]


async def troubled(session: Session, texts: Texts, namespace: str, owner: str | None, limit: int) -> Read:
    """Return schedules that need attention, and schedules found damaged."""
    return await some(session, texts, namespace, _TROUBLED, owner, limit)


async def cadences(session: Session, texts: Texts, namespace: str, owner: str | None) -> list[Alike]:
    """Return the schedules that are not paused, those that are alike together."""
    rows = await session.rows(_CADENCES, namespace, owner)
    await texts.learn(session, {(row[0], row[1]) for row in rows})
    return readable_cadences(rows, texts)


# Runs by filter

# Scan along the primary key, or along the index of one schedule. Rows of schedules without a ledger have no
# `created_at`.
_SCANNED = (
    "FROM runs JOIN declarations ON number = schedule WHERE namespace = $1 AND created_at IS NOT NULL"
    " AND (run_at, schedule, kind) {after} ($2, $3, $4) AND run_at {within} $5 AND {of_schedule}{failed}"
    " ORDER BY run_at {order}, schedule {order}, kind {order}"
)
_RUN = listed(f"runs.{column}" for column in RUN_ALL)
_MATCHING = (
    f"SELECT * FROM (SELECT schedule, id, {_RUN}, owner {_SCANNED} LIMIT $7) AS scanned"
    " WHERE ($8::text IS NULL OR status = $8) AND ($9::text IS NULL OR reason = $9)"
    " AND ($10::text IS NULL OR owner = $10)"
    " AND ($11::text IS NULL OR $11 = CASE WHEN kind = 'manual' THEN kind"
    " WHEN backfill IS NULL THEN 'schedule' ELSE 'backfill' END)"
    " ORDER BY run_at {order}, schedule {order}, kind {order} LIMIT $12"
)
_LAST_SCANNED = f"SELECT run_at, schedule, kind {_SCANNED} LIMIT 1 OFFSET $7 - 1"
_OF_ONE = "schedule = (SELECT number FROM declarations WHERE namespace = $1 AND id = $6)"


async def matching(
    session: Session,
    namespace: str,
    wanted: RunFilter,
    after: RunPlace | None,
    limit: int,
    oldest_first: bool,
) -> RunPage:
    """Return the runs that match and come after a position, and where to continue."""
    place, bound = scan_range(wanted, after, oldest_first)
    words = {
        **(OLDEST_FIRST if oldest_first else NEWEST_FIRST),
        # The index of failed runs finds those of a long ledger; no other status has one.
        "failed": " AND failed" if wanted.status == "FAILED" else "",
        "of_schedule": "$6::text IS NULL" if wanted.schedule_id is None else _OF_ONE,
    }
    scanned = (namespace, *place, bound, wanted.schedule_id, SCAN_MAX)
    rest = (wanted.status, wanted.reason, wanted.owner, wanted.trigger, limit)
    rows = await session.rows(_MATCHING.format(**words), *scanned, *rest)
    runs = [readable_run(schedule_id, tuple(row)) for _, schedule_id, *row, _ in rows]
    if len(rows) == limit:
        return RunPage(runs, RunPlace(runs[-1].run_at, rows[-1][0], runs[-1].kind))
    last = await session.row(_LAST_SCANNED.format(**words), *scanned)
    return RunPage(runs, None if last is None else RunPlace._make(last))
