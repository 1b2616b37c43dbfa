"""Answers of the database that never arrive: nothing waits for ever, and a leadership goes on or ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys

import pytest
from tests.servers.proxy import proxy_to
from tests.stores.notation import T0, declare, make_moves, schedule
from tests.stores.postgres_rig import execute, ignore, me, over, until

from dutiful.core.errors import LostLeadershipError, StoreError
from dutiful.stores.postgres import PostgresStore
from dutiful.stores.postgres.connections import Deadlines

pytestmark = pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)

# What the bump of a turn does whose answer is lost, or which arrives late.
BUMP = "UPDATE shards SET turn = turn + 1"


def test_a_leader_whose_new_turn_was_stored_without_an_answer_leads_on(postgres_url):
    async def story(store):
        await store.lead("me")
        await declare(store, schedule())
        shard = store.shard(0)
        shard._in_transit = True
        await execute(postgres_url, BUMP)
        assert [due.schedule.id for due in await store.some(["a"])] == ["a"]
        assert (shard._in_transit, shard._leading.fence.turn) == (False, 2)
        assert len((await store.commit(await make_moves(store, T0), 1)).launches) == 1

    over(postgres_url, story, 1)


def test_a_turn_that_another_write_of_the_leader_has_moved_costs_one_pass(postgres_url):
    async def story(store):
        await store.lead("me")
        await declare(store, schedule())
        moves = await make_moves(store, T0)
        await execute(postgres_url, BUMP)
        with pytest.raises(LostLeadershipError):
            await store.commit(moves, 1)
        assert await store.lead("me") == 1
        assert len((await store.commit(moves, 1)).launches) == 1

    over(postgres_url, story, 1)


def test_a_leader_that_finds_another_one_when_it_wants_a_new_turn_has_lost_its_shard(postgres_url):
    async def story(first, second):
        await first.lead("me")
        await declare(first, schedule())
        moves = await make_moves(first, T0)
        first.shard(0)._in_transit = True
        await execute(postgres_url, "UPDATE shards SET epoch = 2, turn = 0, owner = 'you'")
        assert len(await first.some(["a"])) == 1, "the fence of a write that is late is no longer valid"
        with pytest.raises(LostLeadershipError):
            await first.commit(moves, 1)
        assert await second.lead("you") == 3, "the lock was not released"

    over(postgres_url, story)


def test_work_of_an_earlier_epoch_is_refused_though_the_process_leads_again_meanwhile(postgres_url):
    async def story(store):
        await store.lead("me")
        await declare(store, schedule())
        shard, moves = store.shard(0), await make_moves(store, T0)
        shard._in_transit = True
        async with shard._turning:
            committing = asyncio.create_task(store.commit(moves, 1))
            await asyncio.sleep(0)
            await shard._depose(1)
            assert await store.lead("me") == 2
        with pytest.raises(LostLeadershipError):
            await committing

    over(postgres_url, story, 1)


def test_a_read_of_the_namespace_leaves_the_turns_of_its_shards_alone(postgres_url):
    async def story(store):
        await store.shard(0).lead("me")
        store.shard(0)._in_transit = True
        assert (await store.every(), await store.shard(1).every()) == ([], [])
        assert store.shard(0)._in_transit
        assert (await store.shard(0).every(), store.shard(0)._in_transit) == ([], False)

    over(postgres_url, story, 1, shards=2)


# Deadlines


def through_proxy(url, port, story, **settings):
    """Run a story over a store whose connections pass a proxy."""

    async def run(proxy):
        store = PostgresStore(url.replace(f":{port}/", f":{proxy.port}/"), **settings)
        await store.open()
        try:
            async with asyncio.timeout(20):
                await story(store, proxy)
        finally:
            proxy.drop_answers = False
            proxy.cut()
            with contextlib.suppress(StoreError):
                await store.close()

    with proxy_to(port) as proxy:
        asyncio.run(run(proxy))


@pytest.mark.parametrize("unanswered", ["BEGIN", "COMMIT", "ROLLBACK"])
def test_a_transaction_gives_up_at_its_deadline_whatever_is_not_answered(
    postgres_url, postgres_port, unanswered
):
    async def story(store, proxy):
        edits = store._database.edits
        edits._deadlines = Deadlines(1, 0.2)
        await edits.work(lambda session: session.value("SELECT 1"))

        async def work(session):
            proxy.drop_answers = unanswered == "BEGIN"
            async with session.transaction():
                proxy.drop_answers = True
                if unanswered == "ROLLBACK":
                    raise LostLeadershipError(1, 2)

        with pytest.raises(LostLeadershipError if unanswered == "ROLLBACK" else StoreError) as caught:
            await edits.work(work)
        assert caught.value.details.get("unknown", False) is (unanswered != "ROLLBACK")
        assert edits._idle == [], "the connection of the late answer was kept"

    through_proxy(postgres_url, postgres_port, story)


# What a pass, a launch or a probe of readiness waits for.
URGENT = {
    "workflow": lambda store: store.load_workflow("etl", 1),
    "some": lambda store: store.some(["a"]),
    "ledger": lambda store: store.ledger("a", None, 1000),
    "of a shard": lambda store: store.shard(0).some(["a"]),
    "leader": lambda store: store.leader(),
    "look": lambda store: store.look(),
}


@pytest.mark.parametrize("read", URGENT.values(), ids=URGENT)
def test_an_urgent_read_has_the_deadline_of_a_pass(postgres_url, postgres_port, read):
    """All launches of a workflow share a read of it: one lost answer kept them waiting for a minute."""

    async def story(store, proxy):
        await declare(store, schedule())
        store._database.passes._deadlines = Deadlines(1, 0.2)
        proxy.drop_answers = True
        with pytest.raises(StoreError):
            await read(store)

    through_proxy(postgres_url, postgres_port, story)


def test_a_session_that_cannot_listen_gives_up_at_its_deadline(postgres_url, postgres_port):
    async def story(store, proxy):
        await store._database.open_lock()
        proxy.drop_answers = True
        with pytest.raises(StoreError, match="is lost"):
            await store._database.lock.listen("channel", ignore)

    through_proxy(postgres_url, postgres_port, story, lease=1.0)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other options")
def test_a_connection_ends_when_its_network_is_silent(postgres_url):
    async def story(store):
        await store.every()
        [connection] = store._database.edits._idle
        options = {name: getattr(socket, name) for name in ("TCP_KEEPIDLE", "TCP_USER_TIMEOUT")}
        found = connection._transport.get_extra_info("socket")
        assert {name: found.getsockopt(socket.IPPROTO_TCP, key) for name, key in options.items()} == {
            "TCP_KEEPIDLE": 5,
            "TCP_USER_TIMEOUT": 20_000,
        }
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1

    over(postgres_url, story, 1)


# Locks


def test_a_lock_that_was_taken_while_the_session_was_replaced_belongs_to_the_new_session(postgres_url):
    async def story(store):
        await store.join(me("1"), ignore)
        lock, shard = store._database.lock, store.shard(0)
        async with lock._turn:
            lock._connection.terminate()
            await until(lambda: are_waiting(lock._turn, 1))
            # The leader begins to ask for its lock while the session is about to be replaced.
            leading = asyncio.create_task(shard.lead("1"))
            await until(lambda: are_waiting(lock._turn, 2))
        assert (await leading, await shard.lead("1"), shard.holds(1)) == (1, 1, True)
        await shard.close()
        assert (await store.look()).owners == (None, None)

    over(postgres_url, story, 1, shards=2)


async def are_waiting(lock, count):
    return len(lock._waiters or ()) == count


def test_a_release_frees_a_lock_however_often_it_was_taken(postgres_url):
    async def story(store):
        await store.join(me("1"), ignore)
        shard = store.shard(0)
        await shard.lead("1")
        number = shard._leading.fence.shard
        for _ in range(2):
            # The second time nothing is led: a release whose unlock failed is repeated.
            await store._database.lock.try_lock(store._database.shard_class, number)
            await shard.close()
            assert (await store.look()).owners == (None, None)

    over(postgres_url, story, 1, shards=2)


def test_a_store_without_answers_is_closed_within_seconds_however_many_shards_it_leads(
    postgres_url, postgres_port
):
    async def story(store, proxy):
        await store.join(me("1"), ignore)
        await asyncio.gather(*(store.shard(place).lead("1") for place in range(16)))
        proxy.drop_answers = proxy.hold_requests = True
        async with asyncio.timeout(5):
            await store.close()

    through_proxy(postgres_url, postgres_port, story, shards=16, lease=0.5)
