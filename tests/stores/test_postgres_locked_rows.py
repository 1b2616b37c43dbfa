"""Rows that another transaction keeps locked: the other schedules of the shard are written all the same."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import asyncpg
import pytest
from tests.stores.notation import MINUTE, T0, declare, ending, make_moves, pass_at, schedule
from tests.stores.postgres_rig import execute, ignore, me, over

from dutiful.core.cadence import Once
from dutiful.core.event import PassFailed, RunLaunched
from dutiful.core.plan.outcome import Succeeded
from dutiful.core.policy import Capacity, CatchUp
from dutiful.core.run import Status
from dutiful.runtime.clock import SystemClock
from dutiful.runtime.engine import Engine

pytestmark = pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)


@contextlib.asynccontextmanager
async def locked(url, statement):
    """Keep the rows of a statement locked by an open transaction, as a forgotten psql does."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            assert await connection.fetch(statement)
            yield
    finally:
        await connection.close()


STATE = (
    "SELECT number FROM states JOIN declarations USING (number) WHERE id = '{}' FOR UPDATE OF states".format
)
RUN = "SELECT 1 FROM runs JOIN declarations ON number = schedule WHERE id = '{}' FOR UPDATE OF runs".format


def made(committed):
    return [move.due.schedule.id for move in committed.made], committed.locked


def lockouts(caplog):
    return [record.getMessage() for record in caplog.records if "ScheduleLocked" in record.getMessage()]


def test_a_commit_writes_the_schedules_beside_a_locked_one_and_names_that_once(postgres_url, caplog):
    async def story(store):
        await store.lead("me")
        await declare(store, *(schedule(id_) for id_ in "abc"))
        async with locked(postgres_url, STATE("b")):
            moves = await make_moves(store, T0)
            first = await store.commit(moves, 1)
            assert (made(first), [each.number for each in first.launches]) == ((["a", "c"], 1), [1, 3])
            # Known to be locked, so nothing waits for it again.
            began = SystemClock().monotonic()
            assert made(await store.commit(moves, 1)) == ([], 1)
            assert SystemClock().monotonic() - began < 1
        assert [line[:67] for line in lockouts(caplog)] == [
            "ScheduleLocked: another transaction keeps rows of the schedules 'b'"
        ]
        assert made(await store.commit(await make_moves(store, T0), 1)) == (["b"], 0)

    over(postgres_url, story, 1)


def test_locked_schedules_take_no_places_of_others_in_a_pass(postgres_url):
    """Enough of them would else fill every batch, and no other schedule of the shard would fire."""

    async def due(store, now=T0):
        loaded = await store.load(now, 2)
        return [due.schedule.id for due in loaded.batch.due], loaded.next_wake

    async def first_wake(store):
        return (await store.look()).wakes

    async def story(store):
        await store.join(me("me"), ignore)
        await store.lead("me")
        await declare(store, *(schedule(id_) for id_ in "abcd"))
        launches = await pass_at(store, T0)
        assert len(launches) == 4
        async with locked(postgres_url, STATE("a")), locked(postgres_url, RUN("b")):
            ended = [ending(launch, T0 + 1) for launch in launches[:2]]
            assert await store.settle(ended, 1) == [None, None]
            # The leader knows that they are locked, and looks again after a second.
            assert await due(store, T0 + MINUTE) == (["c", "d"], T0 + MINUTE + 1000)
            await store.commit(await make_moves(store, T0 + MINUTE), 1)
            assert (await due(store, T0 + MINUTE), await first_wake(store)) == (
                ([], T0 + MINUTE + 1000), {0: T0 + 2 * MINUTE},
            )  # fmt: skip
        assert await due(store, T0 + MINUTE) == (["a", "b"], T0 + 2 * MINUTE)
        assert await first_wake(store) == {0: T0 + MINUTE}

    over(postgres_url, story, 1)


def test_the_end_of_a_run_is_recorded_beside_a_locked_schedule_and_beside_a_locked_run(postgres_url):
    async def story(store):
        await store.lead("me")
        await declare(store, *(schedule(id_) for id_ in "abc"))
        ended = [ending(launch, T0 + 1) for launch in await pass_at(store, T0)]
        async with locked(postgres_url, STATE("b")), locked(postgres_url, RUN("c")):
            assert await store.settle(ended, 1) == [True, None, None]
        assert await store.settle(ended[1:], 1) == [True, True]
        assert {run.status for id_ in "abc" for run in await store.ledger(id_, None, 9)} == {Status.SUCCESS}

    over(postgres_url, story, 1)


def test_the_end_of_a_run_waits_for_a_locked_schedule_that_it_would_wake(postgres_url):
    """Its group would never hear of the free slot otherwise."""

    async def story(store):
        await store.lead("me")
        group = Capacity("g", 1)
        await declare(store, *(schedule(id_, capacity=group) for id_ in "ab"), schedule("c"))
        launches = await pass_at(store, T0)
        ended = [ending(launch, T0 + 1) for launch in launches]
        assert [launch.schedule.id for launch in launches] == ["a", "c"]
        async with locked(postgres_url, STATE("b")):
            assert await store.settle(ended, 1) == [None, True]
        assert await store.settle(ended[:1], 1) == [True]
        assert [launch.schedule.id for launch in await pass_at(store, T0 + 1)] == ["b"]

    over(postgres_url, story, 1)


def test_a_takeover_begins_beside_a_locked_schedule_and_adopts_its_run_later(postgres_url):
    async def story(one, other):
        await one.lead("1")
        await declare(one, *(schedule(id_) for id_ in "ab"))
        await pass_at(one, T0)
        async with locked(postgres_url, STATE("a")):
            await one.close()
            assert await other.lead("2") == 2
            loaded = await other.load(T0 + 1, 9)
            assert ([due.schedule.id for due in loaded.batch.due], loaded.next_wake) == (["b"], T0 + 1001)
        loaded = await other.load(T0 + 1, 9)
        assert [due.schedule.id for due in loaded.batch.due] == ["a", "b"]

    over(postgres_url, story)


def test_a_takeover_beside_a_locked_schedule_repairs_another(postgres_url):
    """It is not asked for again until the next takeover, so it would sleep until then."""

    async def story(one, other):
        await one.lead("1")
        await declare(one, *(schedule(id_) for id_ in "ab"))
        await pass_at(one, T0)
        for payload in ("'spoilt'", "(SELECT payload FROM saved)"):
            await execute(
                postgres_url,
                "CREATE TABLE IF NOT EXISTS saved AS SELECT payload FROM declarations WHERE id = 'b'",
            )
            await execute(postgres_url, f"UPDATE declarations SET payload = {payload} WHERE id = 'b'")
            await one.some(["b"])
        assert [id_ for id_, _ in await one.damaged()] == ["b"]
        async with locked(postgres_url, STATE("a")):
            await one.close()
            await other.lead("2")
            assert await other.damaged() == []
            assert [due.schedule.id for due in (await other.load(T0 + 1, 9)).batch.due] == ["b"]

    over(postgres_url, story)


class Noting:
    """Notes which schedules were launched."""

    in_process = True

    def __init__(self):
        self.noted = []

    async def launch(self, launch):
        self.noted.append(launch.schedule.id)
        return Succeeded()


def test_an_engine_fires_beside_a_locked_schedule_and_fires_that_when_it_is_free(postgres_url):
    async def story(store):
        launcher, events, clock = Noting(), [], SystemClock()
        engine = Engine(store, launcher, clock, events.append, "me")
        now = clock.epoch_ms()
        # One tick each: the pass waits two seconds for the lock, and a minute may begin meanwhile.
        await declare(store, *(schedule(id_, Once(T0), catch_up=CatchUp.LATEST) for id_ in "abc"))
        async with locked(postgres_url, STATE("b")):
            wake = await engine.pass_once()
            await engine.idle(0.01)
            assert (sorted(launcher.noted), wake - now > 500, wake - clock.epoch_ms() <= 1000) == (
                ["a", "c"], True, True,
            )  # fmt: skip
        await engine.pass_once()
        await asyncio.sleep(0)
        assert sorted(launcher.noted) == ["a", "b", "c"]
        assert [event for event in events if isinstance(event, PassFailed)] == []
        assert len([event for event in events if isinstance(event, RunLaunched)]) == 3
        await engine.stop()

    over(postgres_url, story, 1)


def test_a_locked_shard_row_still_fails_the_write(postgres_url, caplog):
    """The fence is no row of a schedule: without it nothing may be written."""

    async def story(store):
        await store.lead("me")
        await declare(store, schedule("a"))
        moves = await make_moves(store, T0)
        async with locked(postgres_url, "SELECT 1 FROM shards FOR UPDATE"):
            with pytest.raises(Exception, match="is locked by another program"):
                await store.commit(moves, 1)
        assert made(await store.commit(moves, 1)) == (["a"], 0)
        assert (lockouts(caplog), await make_moves(store, T0 + MINUTE) != []) == ([], True)

    with caplog.at_level(logging.WARNING):
        over(postgres_url, story, 1)
