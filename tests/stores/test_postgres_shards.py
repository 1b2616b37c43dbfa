"""Shards and members: several processes share a namespace, each schedule belongs to one shard."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from tests.stores.notation import (
    MINUTE,
    T0,
    declare,
    pass_at,
    put,
    schedule,
)
from tests.stores.postgres_rig import BACKENDS, execute, ignore, me, over, until

from dutiful.core.changes import Changes
from dutiful.core.errors import StoreError
from dutiful.core.policy import Capacity
from dutiful.runtime.cluster_ports import Sharded
from dutiful.stores.postgres import PostgresStore
from dutiful.stores.postgres.lock_session import LockSession

pytestmark = pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)


def test_a_shard_loads_only_its_own_schedules_and_a_group_shares_a_shard(postgres_url):
    async def story(store):
        assert isinstance(store, Sharded)
        grouped = [schedule(f"g{n}", capacity=Capacity("agents", 2)) for n in range(6)]
        alone = [schedule(f"s{n}") for n in range(12)]
        await declare(store, *grouped, *alone)
        assert [await store.shard(place).lead("me") for place in range(4)] == [1, 1, 1, 1]
        loaded = [
            {due.schedule.id for due in (await store.shard(place).load(T0, 99)).batch.due}
            for place in range(4)
        ]
        assert set.union(*loaded) == {each.id for each in (*grouped, *alone)}
        assert sum(map(len, loaded)) == 18
        assert [len(ids & {each.id for each in grouped}) for ids in loaded].count(0) == 3
        assert all(loaded), "a hash that leaves a shard empty with twelve schedules is no hash"

    over(postgres_url, story, 1, shards=4)


def test_an_edit_of_the_group_moves_a_schedule_and_its_run_is_adopted_there(postgres_url):
    async def story(store):
        await declare(store, schedule("a"))
        places = await store._database.places()
        old = places.place_of(schedule("a"))
        group = next(
            f"g{n}" for n in range(99) if places.place_of(schedule("a", capacity=Capacity(f"g{n}", 1))) != old
        )
        moved = schedule("a", capacity=Capacity(group, 1))
        new = places.place_of(moved)
        assert [await store.shard(place).lead("me") for place in (old, new)] == [1, 1]
        [launch] = await pass_at(store.shard(old), T0)
        await store.apply(Changes([put(moved, T0 + 1, T0)]))
        assert (await store.shard(old).load(T0 + MINUTE, 9)).batch.due == []
        [due] = (await store.shard(new).load(T0 + 1, 9)).batch.due
        assert [run.epoch for run in due.runs] == [0]
        assert launch.run.epoch == 1
        [again] = await pass_at(store.shard(new), T0 + 1)
        assert (again.run.run_at, again.run.attempt) == (launch.run.run_at, 2)

    over(postgres_url, story, 1, shards=4)


def test_members_owners_and_wakes_are_seen_by_all(postgres_url):
    async def story(first, second, onlooker):
        heard = []
        await first.join(me("1"), heard.append)
        await second.join(me("2"), ignore)
        await declare(first, *(schedule(f"s{n}") for n in range(12)))
        assert await first.shard(0).lead("1") == 1
        assert await second.shard(1).lead("2") == 1
        assert await second.shard(0).lead("2") is None
        mine, theirs, all_of_it = [await each.look() for each in (first, second, onlooker)]
        assert [member.owner for member in mine.members] == ["1", "2"]
        assert mine.owners == theirs.owners == all_of_it.owners == ("1", "2", None)
        assert mine.claims == ("1", "2", None)
        assert mine.epochs == (1, 1, 0)
        assert (mine.wakes, theirs.wakes) == ({0: T0}, {1: T0})
        assert all_of_it.wakes == {0: T0, 1: T0, 2: T0}
        await second.shard(1).close()
        released = await first.look()
        assert (released.owners, released.claims) == (("1", None, None), ("1", None, None))
        assert await second.shard(1).lead("2") == 2
        assert await onlooker.drain("2", True)
        assert not await onlooker.drain("nobody", True)
        assert [member.draining for member in (await first.look()).members] == [False, True]
        await second.leave()
        left = await first.look()
        assert ([member.owner for member in left.members], left.owners) == (["1"], ("1", None, None))

        async def was_told():
            return [] in heard and any(heard)

        await until(was_told)

    over(postgres_url, story, 3, shards=3)


def test_a_member_whose_session_was_lost_joins_again_as_the_same(postgres_url):
    async def story(first, second):
        await first.join(me("1"), ignore)
        assert await first.shard(0).lead("1") == 1
        await second.join(me("2"), ignore)
        # Of the two members only the first one leads.
        await execute(postgres_url, BACKENDS, first._database.shard_class)

        async def is_back():
            return [member.owner for member in (await second.look()).members] == ["1", "2"]

        await until(is_back)
        gone = await second.look()
        assert (gone.claims[0], gone.epochs[0]) == ("1", 1)

        async def leads_on():
            with contextlib.suppress(StoreError):
                return await first.shard(0).lead("1") == 1
            return False

        await until(leads_on)

    over(postgres_url, story, shards=2)


def test_a_member_whose_old_session_still_holds_its_node_tries_until_it_is_back(postgres_url, monkeypatch):
    refused = []

    async def story(first, second):
        await first.join(me("1"), ignore)
        await first.shard(0).lead("1")
        real = LockSession.try_lock

        async def try_lock(self, kind, key):
            if self is first._database.lock and kind == nodes and len(refused) < 2:
                refused.append(key)
                return None
            return await real(self, kind, key)

        nodes = first._database.node_class
        monkeypatch.setattr(LockSession, "try_lock", try_lock)
        await execute(postgres_url, BACKENDS, first._database.shard_class)

        async def is_back():
            return len(refused) == 2 and [each.owner for each in (await second.look()).members] == ["1"]

        await until(is_back)

    over(postgres_url, story, shards=2)


def test_an_epoch_that_was_seen_and_then_lost_by_the_database_is_not_used_again(postgres_url, caplog):
    async def story(first, second):
        assert [await first.shard(0).lead("1"), await first.shard(1).lead("1")] == [1, 1]
        await first.shard(0).close()
        assert await first.shard(0).lead("1") == 2
        assert (await second.look()).epochs == (2, 1)
        await first.leave()
        # A failover to a standby that had not received the last commit.
        await execute(postgres_url, "UPDATE shards SET epoch = 1")
        assert await second.shard(1).lead("2") == 2
        assert caplog.messages == []
        assert await second.shard(0).lead("2") == 3
        [message] = caplog.messages
        assert message.startswith("StoreRolledBack: ")
        assert "its epoch is 1 after it was 2" in message

    with caplog.at_level("ERROR", "dutiful.stores"):
        over(postgres_url, story, shards=2)


def test_an_edit_hints_at_the_shards_that_it_wrote_to(postgres_url):
    async def story(first, second):
        heard = asyncio.Queue()
        await first.join(me("1"), heard.put_nowait)
        places = await second._database.places()
        while not heard.empty():
            heard.get_nowait()
        await declare(second, schedule("a"))
        async with asyncio.timeout(30):
            while True:
                hint = await heard.get()
                if hint:
                    return hint == [places.place_of(schedule("a"))]

    assert over(postgres_url, story, shards=4)


def test_the_number_of_shards_is_that_with_which_the_namespace_was_made(postgres_url):
    async def story(store):
        await store.claim("service")
        other = PostgresStore(postgres_url, shards=7)
        await other.open()
        try:
            return len((await other.look()).owners)
        finally:
            await other.close()

    assert over(postgres_url, story, 1, shards=3) == 3
