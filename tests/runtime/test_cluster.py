"""The worker of a cluster: a run in flight keeps its shard, and is not dropped while the process is alive."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.sim.nodes import NodeClock
from tests.sim.sharded import LEASE, Database, NodeStore

from dutiful.core.cadence import Once
from dutiful.core.changes import Changes, Put
from dutiful.core.cron.cron import Cron
from dutiful.core.errors import StoreError
from dutiful.core.schedule import Schedule, State, Task
from dutiful.launchers.callback import CallbackLauncher
from dutiful.runtime.cluster import Cluster
from dutiful.runtime.cluster_ports import Member
from dutiful.testing import VirtualClock

START = "2030-01-01T00:00:00"
SECONDLY = Cron.parse("* * * * * *", "seconds")
# Longer than the two leases after which a shard without progress is released.
LONG_S = 4 * LEASE


class Workplace:
    """Nodes over one shard with a schedule that is due every second, and one with a single long run."""

    def __init__(self):
        self.clock = VirtualClock(START)
        self.database = Database(self.clock, 1, lambda *_: None)
        self.quick, self.long, self.clusters = 0, [], []

    async def declare(self, long_at):
        now = self.clock.epoch_ms()
        quick = Schedule("quick", Task("quick"), SECONDLY)
        long = Schedule("long", Task("long"), Once(now + long_at))
        puts = [Put(quick, State(now), now + 1000), Put(long, State(now - 1), now + long_at)]
        await self.database.shards[0].witness.apply(Changes(puts))

    async def join(self, lease_s=LEASE):
        number = len(self.clusters)
        store = NodeStore(self.database, Random(number))
        launcher = CallbackLauncher({"quick": self._be_quick, "long": self._take_long})
        me = Member(f"owner-{number}", f"node-{number}", "1", number)
        clock = NodeClock(self.clock, 0)
        cluster = Cluster("service", store, launcher, clock, lambda _: None, me, lease_s=lease_s)
        self.clusters.append(cluster)
        await asyncio.gather(cluster.open(), self.clock.advance(0.1))
        cluster.start()
        return cluster, store

    async def _be_quick(self):
        self.quick += 1

    async def _take_long(self):
        began = self.clock.monotonic()
        try:
            await self.clock.sleep(LONG_S)
        finally:
            self.long.append(round(self.clock.monotonic() - began))

    def owner(self):
        return self.database.view(None).owners[0]

    async def statuses(self):
        return [run.status.value for run in await self.database.shards[0].memory.ledger("long", None, 9)]

    def close(self):
        for cluster in self.clusters:
            cluster.abandon()


def in_workplace(story):
    async def run():
        place = Workplace()
        try:
            await story(place)
        finally:
            place.close()

    asyncio.run(run())


@pytest.mark.parametrize("patience", [None, 2 * LONG_S])
def test_a_drain_waits_as_long_as_it_was_told_also_while_the_shard_is_overdue(patience):
    async def story(place):
        await place.declare(long_at=0)
        cluster, _ = await place.join()
        await place.clock.advance(5)
        first = asyncio.create_task(cluster.drain(within=0))
        await place.clock.advance(1)
        assert [run.schedule_id for run in (await first).in_flight] == ["long"]
        drain = asyncio.create_task(cluster.drain(patience))
        await place.clock.advance(LONG_S - 6 - 1)
        assert not drain.done()
        await place.clock.advance(3)
        assert await drain == ([], [], None)
        assert (place.long, await place.statuses()) == ([LONG_S], ["SUCCESS"])
        assert place.owner() is None

    in_workplace(story)


def hold_commits(store):
    """Return an event that the commits of a node wait for."""
    face, may_go_on = store.shard(0), asyncio.Event()

    async def commit(*args):
        await may_go_on.wait()
        return await face._write("commit", *args)

    face.commit = commit
    return may_go_on


def test_a_long_run_that_begins_during_a_hand_over_keeps_its_shard_and_its_neighbours_run_on():
    async def story(place):
        await place.declare(long_at=20_500)
        cluster, store = await place.join()
        await place.join()
        await place.clock.advance(20.2)
        assert place.owner() == "owner-0"
        may_go_on = hold_commits(store)
        # Now the pass that launches the long run is under way.
        await place.clock.advance(0.3)
        await store.drain("owner-0", True)
        await place.clock.advance(0.1)
        assert 0 in cluster._leaving
        may_go_on.set()
        await place.clock.advance(LONG_S - 3)
        assert (place.long, place.owner()) == ([], "owner-0")
        assert place.quick >= 20 + LONG_S - 8, "the shard that could not be handed over stood still"
        await place.clock.advance(6)
        assert (place.long, place.owner()) == ([LONG_S], "owner-1")
        assert await place.statuses() == ["SUCCESS"]

    in_workplace(story)


def fail_commits(store):
    """Have the commits of a node fail, as in a database that cannot be written to, until the event is set."""
    face, works = store.shard(0), asyncio.Event()

    async def commit(*args):
        if not works.is_set():
            raise StoreError("The database is locked by another program", "let that one finish")
        return await face._write("commit", *args)

    face.commit = commit
    return works


def test_a_shard_without_progress_goes_to_another_node():
    async def story(place):
        await place.declare(long_at=10_000_000)
        _, store = await place.join()
        await place.join()
        fail_commits(store)
        await place.clock.advance(2 * LEASE)
        assert (place.quick, place.owner()) == (0, "owner-0")
        await place.clock.advance(LEASE)
        assert (place.quick > 0, place.owner()) == (True, "owner-1")

    in_workplace(story)


def test_nodes_that_all_make_no_progress_lead_again_soon_after_the_trouble_is_over():
    async def story(place):
        await place.declare(long_at=10_000_000)
        works = [fail_commits((await place.join())[1]) for _ in range(2)]
        owners = set()
        for _ in range(round(6 * LEASE)):
            await place.clock.advance(1)
            owners.add(place.owner())
        assert (place.quick, owners) == (0, {"owner-0", "owner-1", None})
        for each in works:
            each.set()
        await place.clock.advance(5)
        assert place.quick > 0

    in_workplace(story)


def test_a_node_that_is_alone_keeps_its_runs_while_it_makes_no_progress():
    async def story(place):
        await place.declare(long_at=0)
        _, store = await place.join()
        await place.clock.advance(1)
        works = fail_commits(store)
        await place.clock.advance(LONG_S - 3)
        assert place.long == []
        works.set()
        await place.clock.advance(5)
        assert (place.long, await place.statuses()) == ([LONG_S], ["SUCCESS"])

    in_workplace(story)


def test_a_drain_does_not_wait_for_a_store_that_does_not_answer():
    async def story(place):
        await place.declare(long_at=10_000_000)
        cluster, store = await place.join(lease_s=0.2)
        await place.clock.advance(2)
        store.shard(0).close = asyncio.Event().wait
        drain = asyncio.create_task(cluster.drain(within=0))
        async with asyncio.timeout(5):
            while not drain.done():
                await place.clock.advance(0.1)
        assert await drain == ([], [], None)

    in_workplace(story)
