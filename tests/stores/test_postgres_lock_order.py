"""Every statement locks a schedule before its runs, and several schedules in the order of their numbers.

Any other order may end in a deadlock, which the server notices after a second.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import asyncpg
import pytest
from tests.stores.notation import MINUTE, PLAIN, T0, declare, ending, pass_at, schedule
from tests.stores.postgres_rig import execute, over, until

from dutiful.core.plan.outcome import Report, Settlement, hear
from dutiful.core.run import Status
from dutiful.runtime.ports import Retention
from dutiful.stores.postgres import settle
from dutiful.stores.postgres.connections import Session
from dutiful.stores.postgres.edits import unmark

pytestmark = pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)


@contextlib.asynccontextmanager
async def sessions(url, count):
    connections = [await asyncpg.connect(url) for _ in range(count)]
    try:
        yield connections
    finally:
        for connection in connections:
            connection.terminate()


async def waits_for(url, connection):
    """Return once a statement of a connection waits for a lock."""
    pid = connection.get_server_pid()
    await until(partial(execute, url, "SELECT 1 FROM pg_locks WHERE NOT granted AND pid = $1", pid))


def test_a_settle_and_a_report_of_one_run_do_not_end_in_a_deadlock(postgres_url):
    async def story(store):
        await store.lead("me")
        await declare(store, schedule("a"), schedule("b"))
        launches = await pass_at(store, T0)
        ended = [ending(launch, T0 + 5) for launch in launches]
        heard = Settlement(hear(launches[0].run, Report(Status.SUCCESS), PLAIN, T0 + 4), keep=True)
        fence = store.shard(0)._leading.fence
        async with sessions(postgres_url, 3) as (other, of_engine, of_api):
            async with other.transaction():
                await other.execute("SELECT 1 FROM runs WHERE schedule = 2 FOR UPDATE")
                settling = asyncio.create_task(settle.settle(Session(of_engine, 30), fence, ended))
                await waits_for(postgres_url, of_engine)
                reporting = asyncio.create_task(
                    settle.report(Session(of_api, 30), "default", launches[0].run, heard)
                )
                await waits_for(postgres_url, of_api)
            assert (await settling, (await reporting)[0]) == ([True, True], False)

    over(postgres_url, story, 1)


def test_a_prune_passes_over_a_locked_schedule_and_keeps_none_of_its_runs_locked(postgres_url):
    """An edit that holds the schedule and removes an old row would wait for the prune, and this for it."""

    async def story(store):
        await store.lead("me")
        await declare(store, schedule("a"), schedule("b"))
        for n in range(2):
            launches = await pass_at(store, T0 + n * MINUTE)
            await store.settle([ending(launch, T0 + n * MINUTE + 5) for launch in launches], 1)
        async with sessions(postgres_url, 1) as (other,), other.transaction():
            await other.execute("SELECT 1 FROM states WHERE number = 1 FOR UPDATE")
            assert await store.prune(T0 + 2 * MINUTE, Retention(10**9, 1)) == 1
            await other.execute("SELECT 1 FROM runs WHERE schedule = 1 FOR UPDATE NOWAIT")
        assert await store.prune(T0 + 2 * MINUTE, Retention(10**9, 0)) == 3

    over(postgres_url, story, 1)


def test_a_repair_locks_the_schedule_before_its_declaration_as_an_edit_does(postgres_url):
    async def story(store):
        await declare(store, schedule("a"))
        async with sessions(postgres_url, 2) as (other, of_leader), of_leader.transaction():
            async with other.transaction():
                await other.execute("SELECT 1 FROM states FOR UPDATE")
                repairing = asyncio.create_task(unmark(Session(of_leader, 30), [1]))
                await waits_for(postgres_url, of_leader)
                await other.execute("SELECT 1 FROM declarations FOR UPDATE NOWAIT")
            await repairing

    over(postgres_url, story, 1)
