"""A few words for the tests of the stores: schedules, passes and endings in one line each."""

from __future__ import annotations

import asyncio
from functools import wraps
from typing import TYPE_CHECKING

from dutiful.core.changes import Changes, Put
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.outcome import Report, Settlement, Succeeded, hear, settlement
from dutiful.core.plan.planner import plan
from dutiful.core.policy import Policy
from dutiful.core.run import Status
from dutiful.core.schedule import Schedule, State, Task
from dutiful.core.snapshot import Limits
from dutiful.stores.codec import read_shared, revive, row_checksum, shared_checksum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dutiful.core.cadence import Cadence, Instant
    from dutiful.core.plan.outcome import Outcome
    from dutiful.core.run import Run
    from dutiful.core.snapshot import Move
    from dutiful.runtime.ports import Launch, Store
    from dutiful.stores.codec import Declaration

MINUTE = 60_000
# 2023-11-14T22:14:00Z, a whole minute.
T0 = 1_700_000_040_000
PLAIN = Policy()
MINUTELY = Cron.parse("* * * * *")


def stored(test):
    """Turn a coroutine function over a store into a test that makes, opens and closes one."""

    @wraps(test)
    def run(self, tmp_path):
        async def scenario():
            store = self.new_store(tmp_path)
            await store.open()
            try:
                await test(self, store)
            finally:
                await store.close()

        asyncio.run(scenario())

    # Not the wrapped function's arguments: pytest would look for a fixture named `store`.
    del run.__wrapped__
    return run


def schedule(id_: str = "a", cadence: Cadence = MINUTELY, paused: bool = False, **policy) -> Schedule:
    return Schedule(id_, Task("greet", f"hello {id_}"), cadence, Policy(**policy), paused=paused)


def put(what: Schedule, wake_at: Instant | None = T0, cursor: Instant = T0 - MINUTE, **state) -> Put:
    return Put(what, State(cursor, **state), wake_at)


async def declare(store: Store, *schedules: Schedule) -> None:
    """Store schedules that owe the tick at T0."""
    await store.apply(Changes([put(each) for each in schedules]))


async def make_moves(store: Store, now: Instant, epoch: int = 1, limit: int = 10_000) -> list[Move]:
    loaded = await store.load(now, limit)
    return plan(loaded.batch, now, Limits(epoch))


async def pass_at(store: Store, now: Instant, epoch: int = 1) -> Sequence[Launch]:
    return (await store.commit(await make_moves(store, now, epoch), epoch)).launches


def ending(launch: Launch, now: Instant, outcome: Outcome | None = None) -> Settlement:
    return settlement(launch.run, outcome or Succeeded(), launch.schedule.policy, now, launch.number)


async def end(store: Store, launch: Launch, now: Instant, outcome: Outcome | None = None) -> bool:
    [applied] = await store.settle([ending(launch, now, outcome)], launch.run.epoch)
    return applied


async def report(
    store: Store, run: Run, now: Instant, status: Status = Status.SUCCESS, policy: Policy = PLAIN, **said
) -> bool:
    """Tell the store what an executor says of a run that it was found to have."""
    became = hear(run, Report(status, **said), policy, now)
    assert became is not None
    return await store.report(run, Settlement(became, keep=True))


async def wake_of(store: Store, id_: str, until: Instant = T0 + 10**12) -> Instant | None:
    """Return when a schedule is due, found by asking for what is due at more and more instants."""
    low, high = -1, until
    if id_ not in await due_at(store, high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if id_ in await due_at(store, middle) else (middle, high)
    return high


async def due_at(store: Store, now: Instant) -> list[str]:
    loaded = await store.load(now, 10_000)
    return [each.schedule.id for each in loaded.batch.due]


async def rows(store: Store, id_: str = "a") -> list[tuple[Instant, str, str]]:
    """Return (minutes after T0, status, phase) of the ledger, newest first."""
    return [
        ((run.run_at - T0) // MINUTE, run.status.value, run.phase.value)
        for run in await store.ledger(id_, None, 1000)
    ]


async def open_run(store: Store, id_: str = "a") -> Run:
    due = await store.get(id_)
    assert due is not None
    [run] = due.runs
    return run


def checksum(id_: str, declaration: Declaration) -> int:
    """Return the checksum that the row of a declaration has."""
    task, payload, cadence, policy, *rest = declaration
    return row_checksum(shared_checksum(cadence, policy), id_, task, payload, *rest)


def revived(id_: str, declaration: Declaration, expected: int) -> Schedule:
    """Return the schedule that a row with this checksum means."""
    task, payload, cadence, policy, *rest = declaration
    return revive(id_, read_shared(cadence, policy), task, payload, *rest, expected)
