"""Mistakes in the rules that keep two leaders apart are noticed: each changes the end of a story."""

from __future__ import annotations

import hashlib
import inspect

import pytest
from tests.stores.notation import T0, declare, ending, make_moves, pass_at, put, schedule
from tests.stores.postgres_rig import BACKENDS, execute, over, until

from dutiful.core.changes import Changes
from dutiful.core.errors import LostLeadershipError
from dutiful.core.policy import Capacity
from dutiful.stores.postgres import commit, edits, settle, shard_store, statements

pytestmark = pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)


# Stories, each with its right end


async def a_pause_overtakes_a_commit(_url, store):
    """Schedules are paused just before the write of a commit; return how many runs are launched."""
    await store.lead("me")
    names = [f"s{n}" for n in range(3)]
    await declare(store, *map(schedule, names))
    moves, fence = await make_moves(store, T0), store.shard(0)._leading.fence

    async def pause():
        await store.apply(Changes([put(schedule(name, paused=True), wake_at=None) for name in names]))

    async def work(session):
        return await commit.commit(Overtaken(session, pause), fence, moves)

    return len((await store._database.passes.work(work)).launches)


class Overtaken:
    """A session in which something else happens just before the first write of states."""

    def __init__(self, session, happens):
        self._session, self._happens = session, happens

    def __getattr__(self, name):
        method = getattr(self._session, name)

        async def run(statement, *values):
            if "UPDATE states" in statement and self._happens is not None:
                happens, self._happens = self._happens, None
                await happens()
            return await method(statement, *values)

        return method if name == "transaction" else run


async def a_deposed_leader_settles(_url, first, second):
    """A leader that does not know of its successor records an outcome; return whether it is refused."""
    await first.lead("me")
    await declare(first, schedule())
    [launch] = await pass_at(first, T0)
    await first._database.lock.unlock(first._database.shard_class, first.shard(0)._leading.fence.shard)
    await second.lead("you")
    try:
        await first.settle([ending(launch, T0)], 1)
    except LostLeadershipError:
        return "refused"
    return "recorded"


async def a_commit_arrives_late(_url, store):
    """A commit arrives after its sender has asked whether it did; return whether it is refused."""
    await store.lead("me")
    await declare(store, schedule())
    moves, only = await make_moves(store, T0), store.shard(0)
    sent_under, only._in_transit = only._leading.fence, True
    assert [*(await store.get("a")).runs] == []
    try:
        await store._database.passes.work(lambda session: commit.commit(session, sent_under, moves))
    except LostLeadershipError:
        return "refused"
    return "recorded"


async def another_leads_in_between(url, first, second):
    """A leader loses its session, another leads and stops; return the epoch with which the first goes on."""
    await first.lead("me")
    generation = first._database.lock.generation
    await execute(url, BACKENDS, first._database.shard_class)
    await second.lead("you")
    await second.close()

    async def regained():
        return first._database.lock.generation > generation

    await until(regained)
    return await first.lead("me")


async def a_group_is_declared(_url, store):
    """Return in how many shards the schedules of one capacity group are due."""
    await declare(store, *(schedule(f"g{n}", capacity=Capacity("agents", 2)) for n in range(8)))
    loaded = [await store.shard(place).load(T0, 99) for place in range(4)]
    return sum(bool(each.batch.due) for each in loaded)


RIGHT = {
    a_pause_overtakes_a_commit: 0,
    a_deposed_leader_settles: "refused",
    a_commit_arrives_late: "refused",
    another_leads_in_between: 3,
    a_group_is_declared: 1,
}


def end_of(story, url):
    openings = len(inspect.signature(story).parameters) - 1
    shards = 4 if story is a_group_is_declared else 1
    return over(url, lambda *stores: story(url, *stores), openings, shards=shards)


# Mistakes


def no_version_check(patch):
    patch(commit, "_MOVE", without_guard())


def without_guard():
    assert commit._SAME_VERSION in commit._MOVE
    return commit._MOVE.replace(commit._SAME_VERSION, "states.shard = m.shard")


def guard_outside_the_statement(patch):
    """Compare versions in a statement of its own, before the one that writes."""
    patch(commit, "_MOVE", without_guard())
    original = commit.commit

    async def compares_first(session, fence, moves):
        found = await session.rows("SELECT number, version FROM states")
        versions = dict(found)
        fresh = [move for move in moves if versions[move.due.number] == move.due.version]
        return await original(session, fence, fresh)

    patch(commit, "commit", compares_first)


def no_fence(patch):
    opened = "SELECT shard FROM shards WHERE shard = $1 AND $2::bigint > 0 AND $3::bigint >= 0"
    for module in (statements, commit, settle):
        patch(module, "LEAD", opened)


def no_turn_bump(patch):
    async def does_nothing(_shard):
        pass

    patch(shard_store.Shard, "end_transit", does_nothing)


def epoch_kept_after_another_led(patch):
    kept = "UPDATE shards SET turn = turn + 1 WHERE shard = $1 AND $2::text <> '' AND $3::bigint > 0"
    patch(shard_store, "_NEW_TURN", f"{kept} RETURNING turn")


def group_not_in_one_shard(patch):
    def by_id(places, schedule_id, _group):
        return int.from_bytes(hashlib.sha256(schedule_id.encode()).digest()[:4]) % len(places.shards)

    patch(edits.Places, "place", by_id)


@pytest.mark.parametrize("story", RIGHT)
def test_each_story_ends_as_it_should(story, postgres_url):
    assert end_of(story, postgres_url) == RIGHT[story]


@pytest.mark.parametrize(
    ("mistake", "story", "wrong"),
    [
        (no_version_check, a_pause_overtakes_a_commit, 3),
        (guard_outside_the_statement, a_pause_overtakes_a_commit, 3),
        (no_fence, a_deposed_leader_settles, "recorded"),
        (no_turn_bump, a_commit_arrives_late, "recorded"),
        (epoch_kept_after_another_led, another_leads_in_between, 1),
        (group_not_in_one_shard, a_group_is_declared, 4),
    ],
)
def test_a_mistake_changes_the_end_of_its_story(mistake, story, wrong, postgres_url, monkeypatch):
    mistake(monkeypatch.setattr)
    assert end_of(story, postgres_url) == wrong != RIGHT[story]
