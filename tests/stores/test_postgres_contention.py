"""Processes that get in each other's way: late marks, long migrations, rows locked in one order."""

from __future__ import annotations

import asyncio
from functools import partial

import asyncpg
import pytest
from tests.stores.notation import T0, declare, make_moves, pass_at, report, schedule
from tests.stores.postgres_rig import execute, ignore, me, over, until

from dutiful.core.errors import StoreError
from dutiful.runtime.ports import RunFilter
from dutiful.stores.postgres import reads

pytestmark = pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)

SPOIL = "UPDATE declarations SET payload = 'spoiled' WHERE id = 'a'"


def test_a_mark_that_comes_after_the_repair_of_its_schedule_changes_nothing(postgres_url):
    async def story(store):
        await declare(store, schedule("a"))
        await execute(postgres_url, SPOIL)
        database = store._database
        _, found = await database.edits.work(
            lambda session: reads.every(session, database.texts, database.namespace)
        )
        assert [damage.id for damage in found] == ["a"]
        # Another process repairs the schedule before the one that found it damaged says so.
        await declare(store, schedule("a"))
        await store._mark(found)
        assert ([due.schedule.id for due in await store.every()], await store.damaged()) == (["a"], [])
        await execute(postgres_url, SPOIL)
        assert (await store.every(), [each[0] for each in await store.damaged()]) == ([], ["a"])

    over(postgres_url, story, 1)


def test_a_page_of_runs_names_a_row_that_cannot_be_read(postgres_url):
    async def story(store):
        await store.lead("me")
        await declare(store, schedule("a"))
        await pass_at(store, T0)
        await execute(postgres_url, "UPDATE runs SET phase = 'oops'")
        with pytest.raises(StoreError, match="The ledger of 'a' cannot be read"):
            await store.runs(RunFilter(), None, 9)

    over(postgres_url, story, 1)


def test_a_commit_locks_its_schedules_in_the_order_of_their_numbers(postgres_url):
    """As everything else that locks several: another order would end in a deadlock."""

    async def story(store):
        await store.lead("me")
        await declare(store, *(schedule(id_) for id_ in "abc"))
        moves = await make_moves(store, T0)
        assert [move.due.number for move in moves] == [1, 2, 3]
        other = await asyncpg.connect(postgres_url)
        try:
            async with other.transaction():
                await other.execute("SELECT 1 FROM states WHERE number = 2 FOR UPDATE")
                commit = asyncio.create_task(store.commit(moves[::-1], 1))
                await until(partial(is_waiting, postgres_url))
                free = "SELECT number FROM states FOR UPDATE SKIP LOCKED"
                assert [row[0] for row in await execute(postgres_url, free)] == [3]
            made, launches, _ = await commit
        finally:
            await other.close()
        assert [move.due.number for move in made] == [3, 2, 1]
        assert [launch.number for launch in launches] == [3, 2, 1]

    over(postgres_url, story, 1)


def test_a_report_locks_the_schedule_before_its_run_as_a_commit_does(postgres_url):
    """The other order would end in a deadlock with a commit that changes the same run."""

    async def story(store):
        await store.lead("me")
        await declare(store, schedule("a"))
        [launch] = await pass_at(store, T0)
        other = await asyncpg.connect(postgres_url)
        try:
            async with other.transaction():
                await other.execute("SELECT 1 FROM states FOR UPDATE")
                reported = asyncio.create_task(report(store, launch.run, T0 + 5))
                await until(partial(is_waiting, postgres_url))
                await other.execute("SELECT 1 FROM runs FOR UPDATE NOWAIT")
            assert await reported
        finally:
            await other.close()

    over(postgres_url, story, 1)


async def is_waiting(url):
    """Return whether a session of the database waits for a lock."""
    return await execute(url, "SELECT 1 FROM pg_locks WHERE NOT granted")


def test_a_session_is_kept_alive_also_after_an_unexpected_error(postgres_url, caplog):
    async def story(store):
        await store.join(me("1"), ignore)
        lock, failures = store._database.lock, [ValueError("not expected")]
        again = lock.on_regained

        async def fails_once():
            if failures:
                raise failures.pop()
            await again()

        lock.on_regained = fails_once
        lock._connection.terminate()

        async def is_back():
            return not failures and [each.owner for each in (await store.look()).members] == ["1"]

        async def is_back_or_in_doubt():
            try:
                return await is_back()
            except StoreError:
                return False

        await until(is_back_or_in_doubt)
        assert not lock._keeping.done()

    over(postgres_url, story, 1)
    assert "not expected" in caplog.text
