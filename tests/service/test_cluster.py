"""Services that share one PostgreSQL: nodes and shards as operators see them, drains, and a stop."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.servers.proxy import proxy_to

from dutiful.runtime.cluster_ports import Member, View
from dutiful.service.cluster import cluster_view, member_named
from dutiful.service.errors import AmbiguousNodeError, UnknownNodeError
from dutiful.service.settings import settings_from
from dutiful.service.wiring import Service

newest = pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)


def service_of(url, name, **changes):
    variables = {"DUTIFUL_STORE": url, "DUTIFUL_NODE": name, "DUTIFUL_SHARDS": "4", **changes}
    return Service(settings_from(variables))


async def until(service, loads, draining=()):
    """Return when the nodes lead so many shards each; fails after half a minute."""
    deadline = time.monotonic() + 30
    while True:
        view = await service.cluster()
        found = {node.name: len(node.shards) for node in view.nodes}
        asked = {node.name for node in view.nodes if node.draining}
        if (found, asked) == (loads, {*draining}):
            return view
        assert time.monotonic() < deadline, (found, asked)
        await asyncio.sleep(0.05)


@newest
def test_workers_share_the_shards_of_one_database_and_take_over_from_each_other(postgres_url):
    async def story():
        first, second = [await service_of(postgres_url, name).start() for name in ("first", "second")]
        try:
            view = await until(first, {"first": 2, "second": 2})
            assert {shard.node for shard in view.shards} == {"first", "second"}
            assert [shard.shard for shard in view.shards] == [0, 1, 2, 3]
            assert all(shard.epoch >= 1 and shard.lag_s == 0 for shard in view.shards)
            assert abs(view.clock_offset_ms) < 1000
            assert (await first.health()).ok
            await second.drain_node("first")
            await until(first, {"first": 0, "second": 4}, draining=["first"])
            await first.rebalance()
            await until(first, {"first": 2, "second": 2})
            await first.count_damaged()
            metrics = first.metrics()
            assert "\ndutiful_cluster_nodes 2.0\n" in metrics
            for shard in view.shards:
                assert (
                    metrics.count(f'dutiful_shard_leader{{node="first",shard="{shard.shard}"}} 1.0')
                    + (metrics.count(f'dutiful_shard_leader{{node="second",shard="{shard.shard}"}} 1.0'))
                    == 1
                )
                assert f'\ndutiful_shard_overdue_seconds{{shard="{shard.shard}"}} ' in metrics
            # An engine reports in its next pass that it leads, after the lock is seen.
            while "\ndutiful_shards_led 2.0\n" not in first.metrics():
                await first.count_damaged()
        finally:
            await second.stop()
        try:
            await until(first, {"first": 4})
        finally:
            await first.stop()

    asyncio.run(story())


@newest
def test_an_api_node_answers_for_a_cluster_that_it_does_not_belong_to(postgres_url):
    async def story():
        api = await Service(service_of(postgres_url, "api").settings, worker=False).start()
        try:
            view = await api.cluster()
            assert [(shard.node, shard.epoch) for shard in view.shards] == [(None, 0)] * 4
            assert [*view.nodes] == []
            with pytest.raises(UnknownNodeError, match="no worker has joined"):
                await api.drain_node("first")
        finally:
            await api.stop()

    asyncio.run(story())


async def turned(service, ok):
    """Return the readiness of a service once it is so."""
    async with asyncio.timeout(30):
        while (found := await service.readiness()).ok is not ok:  # noqa: ASYNC110 - a server is waited for
            await asyncio.sleep(0.05)
    return found


def test_an_api_node_is_ready_while_it_reaches_the_database(newest_postgres, newest_postgres_url):
    async def story(proxy):
        url = newest_postgres_url.replace(f":{newest_postgres}/", f":{proxy.port}/")
        api = await Service(service_of(url, "api").settings, worker=False).start()
        try:
            ready = await api.readiness()
            proxy.refuse = True
            proxy.cut()
            unready = await turned(api, False)
            proxy.refuse = False
            again = await turned(api, True)
        finally:
            await api.stop()
        return ready, unready, again

    with proxy_to(newest_postgres) as proxy:
        ready, unready, again = asyncio.run(asyncio.wait_for(story(proxy), 60))
    assert ready[:6] == again[:6] == (True, False, None, None, 4, 0.0)
    assert abs(ready.clock_offset_ms) < 1000
    reason = "the store cannot be reached; the log says why"
    assert unready == (False, False, None, reason, None, None, None)


def test_a_store_of_one_machine_has_no_nodes_and_no_shards():
    async def story():
        service = await service_of("memory:", "alone").start()
        try:
            view = await service.rebalance()
            assert ([*view.nodes], [*view.shards], view.clock_offset_ms) == ([], [], None)
            with pytest.raises(UnknownNodeError, match="There is no node 'alone'"):
                await service.drain_node("alone")
        finally:
            await service.stop()

    asyncio.run(story())


MEMBERS = (Member("1f", "ada", "1.0", 7, 1000), Member("2f", "bob", "1.0", 8, 2000, draining=True))
VIEW = View(9000, MEMBERS, ("1f", None, "gone"), ("1f", "2f", "gone"), (3, 1, 2), {0: 7500, 1: None, 2: 9500})


def test_a_view_names_the_nodes_and_says_how_late_each_shard_is():
    view = cluster_view(VIEW, -5)
    assert [(node.name, node.draining, node.shards) for node in view.nodes] == [
        ("ada", False, (0,)),
        ("bob", True, ()),
    ]
    assert [tuple(shard) for shard in view.shards] == [(0, "ada", 3, 1.5), (1, None, 1, 0), (2, "gone", 2, 0)]
    assert view.clock_offset_ms == -5


def test_a_node_is_found_by_its_name_and_by_its_id():
    assert member_named(VIEW, "bob") == member_named(VIEW, "2f") == MEMBERS[1]
    with pytest.raises(UnknownNodeError, match="There is no node 'eve'; there are ada, bob"):
        member_named(VIEW, "eve")


def test_a_name_that_several_nodes_have_is_refused_with_their_ids():
    """One of them would be drained, and perhaps not the one that is to be stopped."""
    twins = VIEW._replace(members=[member._replace(name="ada") for member in MEMBERS])
    with pytest.raises(AmbiguousNodeError, match=f"named 'ada'; name one by its id: {MEMBERS[0].owner}, 2f"):
        member_named(twins, "ada")
    assert member_named(twins, "2f").owner == "2f"
