"""Ledger rows that decisions need beside a schedule, its state and its open runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.plan.clock_rollback import may_repeat

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.run import Run
    from dutiful.core.snapshot import Snapshot
    from dutiful.runtime.ports import Loaded, Store

# Rows per read of a ledger.
_PAGE = 1000


async def rows_between(store: Store, schedule_id: str, first: Instant, last: Instant) -> list[Run]:
    """Return the rows of ticks in [first, last], and the row before them, which may reach into `first`."""
    rows: list[Run] = []
    until = last
    while True:
        page = await store.ledger(schedule_id, until, _PAGE)
        rows += [row for row in page if row not in rows[-2:]]
        before = any(row.run_at < first and row.kind == "schedule" for row in page)
        if before or len(page) < _PAGE:
            return rows
        until = page[-1].run_at


async def recalled(store: Store, due: Snapshot, now: Instant) -> Snapshot:
    """Return a schedule with the rows of ticks up to `now` that come again after a clock rollback, if any."""
    if not may_repeat(due.schedule, due.state):
        return due
    # Jitter may fire a tick early.
    last = now + due.schedule.policy.jitter
    return due._replace(repeated=await rows_between(store, due.schedule.id, due.state.cursor + 1, last))


async def all_recalled(store: Store, loaded: Loaded, now: Instant) -> Loaded:
    """Return loaded schedules, each with the rows of its ticks that come again after a clock rollback."""
    due = loaded.batch.due
    if not any(each.state.decided_until for each in due):
        return loaded
    due = [await recalled(store, each, now) for each in due]
    return loaded._replace(batch=loaded.batch._replace(due=due))
