"""Several openings of one database, as processes have it: one leads, sessions are lost, writes come late."""

from __future__ import annotations

import asyncio
import contextlib

import asyncpg
import pytest
from tests.servers.pooler import pooler_to
from tests.servers.proxy import proxy_to
from tests.stores.notation import (
    MINUTE,
    T0,
    declare,
    ending,
    make_moves,
    pass_at,
    schedule,
)
from tests.stores.postgres_rig import BACKENDS, depose, execute, over, until

from dutiful.core.errors import LostLeadershipError, StoreError
from dutiful.stores.postgres import PostgresStore
from dutiful.stores.postgres.commit import commit
from dutiful.stores.postgres.connections import PASSES, Deadlines
from dutiful.stores.postgres.lock_session import LockSession
from dutiful.stores.postgres.migration import lock_class
from dutiful.stores.schema import migrations

pytestmark = pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)


def test_a_process_that_waited_for_the_migration_of_another_finds_its_tables(postgres_url):
    async def story():
        other = await asyncpg.connect(postgres_url)
        try:
            schema = await other.fetchval("SELECT current_schema()")
            lock, store = lock_class("migration", schema), PostgresStore(postgres_url)
            async with other.transaction():
                await other.execute(f"SELECT pg_advisory_xact_lock({lock}, 0)")
                database = asyncio.create_task(store.open())

                async def waits():
                    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND classid = $1::bigint::oid"
                    return await execute(postgres_url, waiting, lock)

                await until(waits)
                # Longer than any other statement waits for a lock.
                await other.execute("SELECT pg_sleep(2.1)")
                [migration] = migrations("postgres")
                await other.execute(migration.sql)
                recorded = "INSERT INTO migrations (number, name, checksum) VALUES ($1, $2, $3)"
                await other.execute(recorded, migration.number, migration.name, migration.checksum)
            await database
            assert await store.every() == []
            await store.close()
        finally:
            await other.close()

    asyncio.run(story())


# Sessions


def test_a_lost_session_keeps_its_epoch_where_no_other_process_led_meanwhile(postgres_url):
    async def story(store):
        assert await store.lead("me") == 1
        await declare(store, schedule())
        [launch] = await pass_at(store, T0)
        generation = store._database.lock.generation
        await execute(postgres_url, BACKENDS, store._database.shard_class)

        async def regained():
            return store._database.lock.generation > generation

        await until(regained)
        assert not store.holds(1), "the lock of the lost session is not held"
        assert await store.lead("me") == 1
        assert store.holds(1)
        assert await store.settle([ending(launch, T0 + 1)], 1) == [True]

    over(postgres_url, story, 1)


def test_a_session_that_is_lost_while_another_takes_over_has_lost_its_epoch(postgres_url):
    async def story(first, second):
        assert await first.lead("me") == 1
        await execute(postgres_url, BACKENDS, first._database.shard_class)
        assert await second.lead("you") == 2
        generation = first._database.lock.generation

        async def knows():
            with contextlib.suppress(StoreError):
                return await first.lead("me") is None
            return False

        await until(knows)
        assert first._database.lock.generation >= generation
        assert not first.holds(1)

    over(postgres_url, story)


def test_a_leader_that_is_cut_off_is_in_doubt_and_loses_its_lock_after_a_lease(postgres_url, postgres_port):
    async def story(proxy):
        address = postgres_url.replace(f":{postgres_port}/", f":{proxy.port}/")
        first, second = PostgresStore(address, lease=1.0), PostgresStore(postgres_url, lease=1.0)
        await first.open()
        await second.open()
        try:
            assert await first.lead("me") == 1
            proxy.drop_answers = True

            async def takes_over():
                return await second.lead("you") == 2

            await until(takes_over)
            assert not first.holds(1), "it stopped believing before the server stopped waiting"
            with pytest.raises(StoreError):
                await first.lead("me")
        finally:
            proxy.drop_answers = False
            proxy.cut()
            for store in (first, second):
                with contextlib.suppress(StoreError):
                    await store.close()

    with proxy_to(postgres_port) as proxy:
        asyncio.run(story(proxy))


def test_a_store_whose_database_has_gone_can_be_closed(postgres_url, postgres_port):
    async def story(proxy):
        store = PostgresStore(postgres_url.replace(f":{postgres_port}/", f":{proxy.port}/"))
        await store.open()
        await store.lead("me")
        proxy.refuse = True
        proxy.cut()
        await store.close()
        assert not store.holds(1)

    with proxy_to(postgres_port) as proxy:
        asyncio.run(story(proxy))


def test_a_commit_that_arrives_after_it_was_given_up_changes_nothing(postgres_url, postgres_port):
    async def story(proxy):
        store = PostgresStore(postgres_url.replace(f":{postgres_port}/", f":{proxy.port}/"))
        await store.open()
        try:
            await store.lead("me")
            await declare(store, schedule())
            # The same statement once before, so that the connection has prepared it and sends it at once.
            [launch] = await pass_at(store, T0)
            await store.settle([ending(launch, T0)], 1)
            moves = await make_moves(store, T0 + MINUTE)
            store._database.passes._deadlines = Deadlines(4, 0.2)
            backend = store._database.passes._idle[-1].get_server_pid()
            proxy.hold_requests = True
            with pytest.raises(StoreError):
                await store.commit(moves, 1)
            proxy.hold_requests = False
            store._database.passes._deadlines = PASSES
            assert [*(await store.get("a")).runs] == []
            # The statement is delivered after its sender was told that it had not arrived.
            proxy.deliver()
            await until_gone(postgres_url, backend)
            assert [*(await store.get("a")).runs] == []
            assert len((await store.commit(moves, 1)).launches) == 1
        finally:
            proxy.deliver()
            await store.close()

    with proxy_to(postgres_port) as proxy:
        asyncio.run(story(proxy))


async def until_gone(url, backend):
    """Return once a session has ended, which it does after the server has done what was asked."""

    async def is_gone():
        return not await execute(url, "SELECT 1 FROM pg_stat_activity WHERE pid = $1", backend)

    await until(is_gone)


def test_a_write_whose_answer_is_lost_is_of_unknown_fate_until_the_turn_has_changed(
    postgres_url, postgres_port
):
    async def story(proxy):
        address = postgres_url.replace(f":{postgres_port}/", f":{proxy.port}/")
        store = PostgresStore(address)
        await store.open()
        try:
            await store.lead("me")
            await declare(store, schedule())
            moves = await make_moves(store, T0)
            shard = store.shard(0)
            turn = shard._leading.fence.turn
            proxy.requests.clear()
            proxy.drop_answers = True
            commit = asyncio.create_task(store.commit(moves, 1))
            await asyncio.to_thread(proxy.wait_for_request, b"moved")
            proxy.cut()
            with pytest.raises(StoreError):
                await commit
            assert shard._in_transit
            proxy.drop_answers = False
            [due] = await store.some(["a"])
            assert (shard._in_transit, shard._leading.fence.turn) == (False, turn + 1)
            assert len(due.runs) in (0, 1)
        finally:
            proxy.drop_answers = False
            with contextlib.suppress(StoreError):
                await store.close()

    with proxy_to(postgres_port) as proxy:
        asyncio.run(story(proxy))


def test_a_new_leadership_waits_for_a_commit_under_way_which_is_then_refused(postgres_url):
    async def story(first, second):
        await first.lead("me")
        await declare(first, schedule())
        moves = await make_moves(first, T0)
        await depose(first)
        fence = first.shard(0)._leading.fence
        connection = await asyncpg.connect(postgres_url)
        try:
            transaction = connection.transaction()
            await transaction.start()
            await connection.fetch("SELECT 1 FROM shards WHERE shard = $1 FOR SHARE", fence.shard)
            taking = asyncio.create_task(second.lead("you"))
            done, _ = await asyncio.wait([taking], timeout=0.1)
            assert not done, "it began to lead beside a commit under way"
            await transaction.rollback()
            assert await taking == 2
        finally:
            await connection.close()
        for write in (first.commit(moves, 1), first.rearm(T0, 0)):
            with pytest.raises(LostLeadershipError):
                await write

    over(postgres_url, story)


# Safety without locks


async def compete(stores, moments):
    """Let every store lead, plan and commit at each moment; return the keys of all that was launched."""
    launched = []

    async def pass_of(store, now):
        with contextlib.suppress(LostLeadershipError):
            epoch = await store.lead(f"owner of {id(store)}")
            moves = await make_moves(store, now, epoch)
            # All have planned before one commits.
            await asyncio.sleep(0)
            launches = (await store.commit(moves, epoch)).launches
            launched.extend((each.run.key, each.run.attempt) for each in launches)
            await store.settle([ending(each, now) for each in launches], epoch)

    for now in moments:
        await asyncio.gather(*(pass_of(store, now) for store in stores))
    return launched


def test_without_locks_processes_depose_each_other_and_no_tick_is_launched_twice(postgres_url, monkeypatch):
    """Locks only save work: versions, keys and the fence keep every tick to one launch of each attempt."""

    async def always(lock, *_):
        return lock.generation

    monkeypatch.setattr(LockSession, "try_lock", always)

    async def story(*stores):
        await declare(stores[0], *(schedule(f"s{n}") for n in range(5)))
        launched = await compete(stores, [T0 + minute * MINUTE for minute in range(4)])
        ledger = [run for n in range(5) for run in await stores[0].ledger(f"s{n}", None, 99)]
        return launched, ledger, (await stores[0].look()).epochs

    launched, ledger, (epoch,) = over(postgres_url, story, 3)
    assert epoch > 3, "they have not deposed each other"
    assert len({*launched}) == len(launched) >= 5
    assert len({(run.schedule_id, run.run_at, run.kind) for run in ledger}) == len(ledger)


def test_without_fence_a_schedule_is_moved_once(postgres_url):
    """Two engines under one epoch: the version of the state lets one of them pass."""

    async def story(first, second):
        await first.lead("me")
        await declare(first, *(schedule(f"s{n}") for n in range(9)))
        moves = await make_moves(first, T0)
        fence = first.shard(0)._leading.fence
        answers = await asyncio.gather(
            *(
                store._database.passes.work(lambda session: commit(session, fence, moves))
                for store in (first, second)
            )
        )
        return sorted(len(answer.launches) for answer in answers)

    assert over(postgres_url, story) == [0, 9]


# Poolers


@pytest.mark.parametrize(
    ("manner", "problem"),
    [
        # Which statement meets a session without it first is chance.
        ({}, r"a pooler (that )?gives (each transaction another session|one connection several sessions)"),
        (
            {"keeps_statements": True},
            "a pooler gives one connection several sessions, and locks belong to a session: name the",
        ),
        ({"refused": b"jit"}, "is behind a pooler that refuses dutiful's settings: name the server's own"),
    ],
    ids=["forgets statements", "keeps statements", "refuses settings"],
)
def test_a_pooler_in_transaction_mode_is_refused_with_advice(postgres_url, postgres_port, manner, problem):
    async def story():
        async with pooler_to(postgres_port, **manner) as port:
            store = PostgresStore(postgres_url.replace(f":{postgres_port}/", f":{port}/"))
            try:
                await store.open()
                await store.lead("me")
            finally:
                await store.close()

    with pytest.raises(StoreError, match=problem):
        asyncio.run(story())


class Ending:
    """A connection whose end the server has announced, while its socket is still open."""

    def __init__(self, connection, error):
        self._connection, self._error, self.is_terminated = connection, error, False

    async def fetch(self, *_):
        raise self._error

    fetchrow = fetchval = execute = fetch

    def terminate(self):
        self.is_terminated = True
        self._connection.terminate()

    def __getattr__(self, name):
        return getattr(self._connection, name)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress"),
        RuntimeError("dictionary changed size during iteration"),
    ],
    ids=["state", "cache"],
)
def test_a_connection_that_is_about_to_close_is_dropped_and_its_work_is_tried_again(postgres_url, error):
    async def story(store):
        await store.every()
        idle = store._database.edits._idle
        idle[:] = [ending := Ending(idle[-1], error)]
        with pytest.raises(StoreError, match="cannot be reached") as caught:
            await store.every()
        assert (ending.is_terminated, caught.value.details["unknown"]) == (True, True)
        assert await store.every() == []

    over(postgres_url, story, 1)
