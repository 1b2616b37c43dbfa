"""Answers of the database that never arrive: nothing waits for ever, and a leadership goes on or ends."""

from __future__ import annotations

import pytest
from tests.stores.notation import T0, declare, make_moves, schedule
from tests.stores.postgres_rig import execute, over

from dutiful.core.errors import LostLeadershipError

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


def test_a_read_of_the_namespace_leaves_the_turns_of_its_shards_alone(postgres_url):
    async def story(store):
        await store.shard(0).lead("me")
        store.shard(0)._in_transit = True
        assert (await store.every(), await store.shard(1).every()) == ([], [])
        assert store.shard(0)._in_transit
        assert (await store.shard(0).every(), store.shard(0)._in_transit) == ([], False)

    over(postgres_url, story, 1, shards=2)
