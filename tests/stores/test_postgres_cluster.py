"""Several openings of one database, as many processes have it: shards, members, sessions that are lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os

import asyncpg
import pytest
from tests.servers.proxy import proxy_to
from tests.stores.notation import (
    MINUTE,
    T0,
    declare,
    ending,
    make_moves,
    open_run,
    pass_at,
    put,
    report,
    schedule,
)

from dutiful.core.errors import LostLeadershipError, OvertakenError, StoreError
from dutiful.core.plan.reconcile import Changes
from dutiful.core.policy import Capacity
from dutiful.runtime.ports import Member, Sharded
from dutiful.stores.postgres import PostgresStore
from dutiful.stores.postgres import session as session_module
from dutiful.stores.postgres.commit import commit
from dutiful.stores.postgres.connections import PASSES, Deadlines
from dutiful.stores.postgres.session import LockSession

pytestmark = pytest.mark.parametrize("postgres_port", ["18"], indirect=True)


def over(url, scenario, count=2, **settings):
    """Run a scenario over so many openings of one database."""

    async def run():
        stores = [PostgresStore(url, **settings) for _ in range(count)]
        for store in stores:
            await store.open()
        try:
            return await scenario(*stores)
        finally:
            for store in stores:
                with contextlib.suppress(StoreError):
                    await store.close()

    return asyncio.run(run())


async def until(condition):
    """Return once a condition holds; the shared server may be busy."""
    async with asyncio.timeout(30):
        while not await condition():  # noqa: ASYNC110 - what it waits for is in another process
            await asyncio.sleep(0.01)


async def execute(url, statement, *values):
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(statement, *values)
    finally:
        await connection.close()


def ignore(_places):
    """Take a hint without doing anything."""


def me(owner):
    return Member(owner, f"host-{owner}", "1.0", os.getpid())


# Two openings


def test_the_second_stands_by_and_takes_over_with_a_higher_epoch(postgres_url):
    async def story(first, second):
        assert (await first.lead("me"), await second.lead("you")) == (1, None)
        assert not second.holds(1)
        await declare(first, schedule())
        [launch] = await pass_at(first, T0)
        await first.close()
        assert await second.lead("you") == 2
        assert [due.schedule.id for due in (await second.load(0, 10)).batch.due] == ["a"]
        [again] = await pass_at(second, T0 + 1, epoch=2)
        await first.open()
        assert (launch.run.attempt, again.run.attempt) == (1, 2)

    over(postgres_url, story)


def test_the_one_that_was_deposed_writes_nothing_and_holds_nothing(postgres_url):
    async def story(first, second):
        await first.lead("me")
        await declare(first, schedule())
        [launch] = await pass_at(first, T0)
        await depose(first)
        assert await second.lead("you") == 2
        for write in (
            first.settle([ending(launch, T0)], 1),
            first.commit([], 1),
            first.apply(Changes([put(schedule("b"))], under=1)),
            first.rearm(T0, 0),
        ):
            with pytest.raises(LostLeadershipError):
                await write
        assert not first.holds(1)
        assert await open_run(second) == launch.run

    over(postgres_url, story)


async def depose(store):
    """Take the locks of a store away without a word, as a network that lost its session would."""
    lock = store._opening.lock
    await lock.unlock(store._opening.shard_class, store.shard(0)._leading.fence.shard)


def test_of_two_that_add_one_id_at_once_one_is_overtaken(postgres_url):
    async def story(first, second):
        new = Changes([put(schedule())._replace(version=0)])
        answers = await asyncio.gather(first.apply(new), second.apply(new), return_exceptions=True)
        assert sorted(map(type, answers), key=str) == [type(None), OvertakenError]
        assert len(await first.every()) == 1

    over(postgres_url, story)


def test_a_report_may_come_by_the_other_opening(postgres_url):
    async def story(first, second):
        await first.lead("me")
        await declare(first, schedule())
        [launch] = await pass_at(first, T0)
        assert await report(second, launch.run, T0 + 5)
        return (await first.find(launch.run.key)).run.status

    assert over(postgres_url, story) == "SUCCESS"


# Sessions


BACKENDS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid IN"
    " (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = $1::bigint::oid)"
)


def test_a_session_that_is_lost_and_regained_with_nobody_between_keeps_its_epoch(postgres_url):
    async def story(store):
        assert await store.lead("me") == 1
        await declare(store, schedule())
        [launch] = await pass_at(store, T0)
        generation = store._opening.lock.generation
        await execute(postgres_url, BACKENDS, store._opening.shard_class)

        async def regained():
            return store._opening.lock.generation > generation

        await until(regained)
        assert not store.holds(1), "the lock of the lost session is not held"
        assert await store.lead("me") == 1
        assert store.holds(1)
        assert await store.settle([ending(launch, T0 + 1)], 1) == [True]

    over(postgres_url, story, 1)


def test_a_session_that_is_lost_while_another_takes_over_has_lost_its_epoch(postgres_url):
    async def story(first, second):
        assert await first.lead("me") == 1
        await execute(postgres_url, BACKENDS, first._opening.shard_class)
        assert await second.lead("you") == 2
        generation = first._opening.lock.generation

        async def knows():
            with contextlib.suppress(StoreError):
                return await first.lead("me") is None
            return False

        await until(knows)
        assert first._opening.lock.generation >= generation
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
            store._opening.passes._deadlines = Deadlines(4, 0.2)
            backend = store._opening.passes._idle[-1].get_server_pid()
            proxy.hold_requests = True
            with pytest.raises(StoreError):
                await store.commit(moves, 1)
            proxy.hold_requests = False
            store._opening.passes._deadlines = PASSES
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
        with pytest.raises(LostLeadershipError):
            await first.commit(moves, 1)

    over(postgres_url, story)


# Shards


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
        places = await store._opening.places()
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
        await execute(postgres_url, BACKENDS, first._opening.shard_class)

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


def test_an_edit_hints_at_the_shards_that_it_wrote_to(postgres_url):
    async def story(first, second):
        heard = asyncio.Queue()
        await first.join(me("1"), heard.put_nowait)
        places = await second._opening.places()
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

    async def always(*_):
        return True

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
                store._opening.passes.work(lambda session: commit(session, fence, moves))
                for store in (first, second)
            )
        )
        return sorted(len(answer.launches) for answer in answers)

    assert over(postgres_url, story) == [0, 9]


class Pooler:
    """A connection whose statements alternate between two sessions, as those of a transaction pooler may."""

    def __init__(self, *sessions):
        self._sessions, self._turns = sessions, itertools.count()

    def __getattr__(self, name):
        if name in ("fetch", "fetchrow", "fetchval", "execute"):
            return getattr(self._sessions[next(self._turns) % 2], name)
        return getattr(self._sessions[0], name)


def test_a_pooler_that_changes_sessions_is_refused_with_advice(postgres_url, monkeypatch):
    real, sessions = session_module.connect, []

    async def pooled(address, settings):
        sessions.extend([await real(address, settings), await real(address, settings)])
        return Pooler(*sessions)

    monkeypatch.setattr(session_module, "connect", pooled)

    async def story(store):
        with pytest.raises(StoreError, match="a pooler gives one connection several sessions") as caught:
            await store.lead("me")
        for session in sessions:
            session.terminate()
        assert str(caught.value).endswith("name the address of the server itself")

    over(postgres_url, story, 1)
