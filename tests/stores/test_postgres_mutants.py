"""Mistakes in the rules that keep two leaders apart are noticed: each changes the end of a story."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from datetime import UTC, datetime

import pytest
from tests.stores.notation import MINUTE, T0, declare, ending, make_moves, pass_at, put, schedule
from tests.stores.postgres_rig import BACKENDS, execute, over, until

from dutiful.core.changes import Changes
from dutiful.core.errors import LostLeadershipError
from dutiful.core.plan.outcome import Succeeded
from dutiful.core.policy import Capacity
from dutiful.runtime.clock import boottime
from dutiful.runtime.engine import Engine
from dutiful.runtime.ports import Retention
from dutiful.stores.postgres import commit, edits, lock_session, settle, shard_store, statements, upkeep
from dutiful.testing import VirtualClock

pytestmark = pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)


# Stories, each with its right end


async def a_pause_overtakes_a_commit(_url, store, times=1):
    """Schedules are paused just before the write of a commit; return how many runs are launched."""
    await store.lead("me")
    names = [f"s{n}" for n in range(3)]
    await declare(store, *map(schedule, names))
    moves, fence = times * await make_moves(store, T0), store.shard(0)._leading.fence

    async def pause():
        await store.apply(Changes([put(schedule(name, paused=True), wake_at=None) for name in names]))

    async def work(session):
        return await commit.commit(Overtaken(session, pause), fence, moves)

    return len((await store._database.passes.work(work)).launches)


async def a_pause_overtakes_a_slow_commit(url, store):
    """The same with moves that are written one by one, because each comes twice."""
    return await a_pause_overtakes_a_commit(url, store, times=2)


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


async def deposed(first, second, write):
    """Let a leader write that does not know of its successor; return whether it is refused."""
    await first._database.lock.unlock(first._database.shard_class, first.shard(0)._leading.fence.shard)
    await second.lead("you")
    try:
        await write()
    except LostLeadershipError:
        return "refused"
    return "recorded"


async def a_deposed_leader_settles(_url, first, second):
    await first.lead("me")
    await declare(first, schedule())
    [launch] = await pass_at(first, T0)
    return await deposed(first, second, lambda: first.settle([ending(launch, T0)], 1))


async def a_deposed_leader_settles_one_by_one(_url, first, second):
    """Two outcomes of one schedule are not written together."""
    await first.lead("me")
    await declare(first, schedule())
    [launch] = await pass_at(first, T0)
    return await deposed(first, second, lambda: first.settle(2 * [ending(launch, T0)], 1))


async def a_deposed_leader_commits(_url, first, second, times=1):
    await first.lead("me")
    await declare(first, schedule())
    moves = times * await make_moves(first, T0)
    return await deposed(first, second, lambda: first.commit(moves, 1))


async def a_deposed_leader_commits_one_by_one(url, first, second):
    return await a_deposed_leader_commits(url, first, second, times=2)


async def a_deposed_leader_rearms(_url, first, second):
    await first.lead("me")
    await declare(first, schedule())
    return await deposed(first, second, lambda: first.rearm(T0 - 60 * MINUTE, MINUTE))


async def a_deposed_leader_prunes(_url, first, second):
    await first.lead("me")
    await declare(first, schedule())
    [launch] = await pass_at(first, T0)
    await first.settle([ending(launch, T0)], 1)
    return await deposed(first, second, lambda: first.prune(T0 + MINUTE, Retention(0, 0)))


async def a_deposed_leader_declares(_url, first, second):
    await first.lead("me")
    changes = Changes([put(schedule())], under=1)
    return await deposed(first, second, lambda: first.apply(changes))


async def a_lease_ends_after_a_commit(_url, store):
    """A process is frozen between a commit and the launch; return how many runs its engine launches then."""
    await declare(store, schedule())
    clock, launched = VirtualClock(datetime.fromtimestamp(T0 / 1000, UTC).isoformat()), Launched()
    engine = Engine(Overslept(store), launched, clock, lambda _event: None, "me")
    await engine.pass_once()
    # Let the tasks of the launches begin.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    engine.abandon()
    return len(launched.runs)


class Overslept:
    """A store whose lock session is silent for a lease before a commit is answered."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def commit(self, moves, epoch):
        answer = await self._store.commit(moves, epoch)
        self._store._database.lock._believe(boottime() - self._store._lease)
        return answer


class Launched:
    """A launcher that only remembers its runs."""

    in_process = True

    def __init__(self):
        self.runs = []

    async def launch(self, launch):
        self.runs.append(launch.run)
        return Succeeded()


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


DEPOSED = (
    a_deposed_leader_settles,
    a_deposed_leader_settles_one_by_one,
    a_deposed_leader_commits,
    a_deposed_leader_commits_one_by_one,
    a_deposed_leader_rearms,
    a_deposed_leader_prunes,
    a_deposed_leader_declares,
)
RIGHT = {
    a_pause_overtakes_a_commit: 0,
    a_pause_overtakes_a_slow_commit: 0,
    a_lease_ends_after_a_commit: 0,
    **dict.fromkeys(DEPOSED, "refused"),
    a_commit_arrives_late: "refused",
    another_leads_in_between: 3,
    a_group_is_declared: 1,
}


def end_of(story, url):
    given = inspect.signature(story).parameters.values()
    openings = sum(each.default is each.empty for each in given) - 1
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


def no_version_check_one_by_one(patch):
    guard = "version = $2"
    assert guard in commit._MOVE_ONE
    patch(commit, "_MOVE_ONE", commit._MOVE_ONE.replace(guard, "$2::bigint IS NOT NULL"))


OPENED = "SELECT shard FROM shards WHERE shard = $1 AND $2::bigint > 0 AND $3::bigint >= 0"


def no_fence(patch):
    for module in (statements, commit, settle):
        patch(module, "LEAD", OPENED)


def no_fence_in_commits(patch):
    patch(commit, "LEAD", OPENED)


def no_fence_in_settlements(patch):
    patch(settle, "LEAD", OPENED)


def no_fence_in_transactions(patch):
    """Open the fence of what is written one by one, and only that."""
    patch(statements, "check", does_not_check)
    # A settlement has the fence in its own statement, too.
    patch(settle, "LEAD", OPENED)


def no_fence_in_upkeep(patch):
    patch(upkeep, "check", does_not_check)


def no_fence_in_edits(patch):
    patch(shard_store, "check", does_not_check)


async def does_not_check(_session, _fence):
    pass


def launch_without_trust(patch):
    """Believe in the lead for as long as the session was not replaced, however long it was silent."""
    patch(lock_session.LockSession, "is_trusted", True)


def launch_by_epoch_alone(patch):
    patch(shard_store.Shard, "holds", lambda shard, epoch: shard._leading.fence.epoch == epoch)


def launch_without_holds(patch):
    async def is_certain(_engine, _run):
        return True

    patch(Engine, "_is_certain", is_certain)


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
        (no_version_check_one_by_one, a_pause_overtakes_a_slow_commit, 3),
        *((no_fence, story, "recorded") for story in DEPOSED[:4]),
        (no_fence_in_settlements, a_deposed_leader_settles, "recorded"),
        (no_fence_in_transactions, a_deposed_leader_settles_one_by_one, "recorded"),
        (no_fence_in_commits, a_deposed_leader_commits, "recorded"),
        (no_fence_in_transactions, a_deposed_leader_commits_one_by_one, "recorded"),
        (no_fence_in_upkeep, a_deposed_leader_rearms, "recorded"),
        (no_fence_in_upkeep, a_deposed_leader_prunes, "recorded"),
        (no_fence_in_edits, a_deposed_leader_declares, "recorded"),
        (launch_without_trust, a_lease_ends_after_a_commit, 1),
        (launch_by_epoch_alone, a_lease_ends_after_a_commit, 1),
        (launch_without_holds, a_lease_ends_after_a_commit, 1),
        (no_turn_bump, a_commit_arrives_late, "recorded"),
        (epoch_kept_after_another_led, another_leads_in_between, 1),
        (group_not_in_one_shard, a_group_is_declared, 4),
    ],
)
def test_a_mistake_changes_the_end_of_its_story(mistake, story, wrong, postgres_url, monkeypatch):
    mistake(monkeypatch.setattr)
    assert end_of(story, postgres_url) == wrong != RIGHT[story]
