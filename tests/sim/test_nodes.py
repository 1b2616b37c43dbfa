"""Worlds with two to five nodes: shards change hands under every fault, and no rule is broken."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context

import pytest
from tests.sim.mutation import patched
from tests.sim.sharded import Face
from tests.sim.town import WANTED, Town, plan_of, run_nodes

from dutiful.core.placement import Placement
from dutiful.runtime import cluster
from dutiful.stores.memory import MemoryStore

# Reached in too few worlds for a slice to depend on it.
RARE = {"late delivery", "late delivery refused", "orphan adopted after hand-over"}
SLICE = 22
SOAK_WORLDS = int(os.environ.get("DUTIFUL_SOAK_NODE_WORLDS", "1000"))


def survey(seeds):
    """Return what broke, by seed, and in how many worlds each thing was reached."""
    problems, reach = {}, Counter()
    for seed in seeds:
        result = run_nodes(plan_of(seed))
        reach.update(name for name, count in result.reach.items() if count)
        problems |= {seed: result.problems} if result.problems else {}
    return problems, reach


def campaign(worlds, chunk=10):
    problems, reach = {}, Counter()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        chunks = [range(first, min(first + chunk, worlds)) for first in range(0, worlds, chunk)]
        for found, reached in pool.map(survey, chunks):
            problems |= found
            reach += reached
    return problems, reach


@pytest.mark.timeout(600)
def test_no_world_of_the_slice_breaks_a_rule():
    problems, reach = campaign(SLICE)
    assert problems == {}
    assert [name for name in WANTED if not reach[name] and name not in RARE] == []


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_no_world_breaks_a_rule_and_all_is_reached(capfd):
    began = time.monotonic()
    problems, reach = campaign(SOAK_WORLDS)
    with capfd.disabled():
        took = time.monotonic() - began
        print(f"\n{SOAK_WORLDS} worlds with nodes, {len(problems)} failures, {took:.0f} s; {dict(reach)}")
    assert problems == {}
    assert [name for name in WANTED if not reach[name]] == []


@pytest.mark.parametrize("seed", [2, 7])
def test_a_seed_decides_everything(seed):
    assert run_nodes(plan_of(seed)).digest() == run_nodes(plan_of(seed)).digest()


def test_a_hanging_run_of_a_schedule_that_was_removed_does_not_keep_its_shard():
    assert run_nodes(plan_of(928)).problems == []


def quiet(**changes):
    """Return a plan of three nodes to which nothing is done, without schedules."""
    plan = plan_of(2)
    world = plan.world._replace(entries=(), actions=())
    return plan._replace(world=world, shards=16, nodes=3, actions=(), **changes)


@pytest.mark.parametrize("leaves", [True, False])
def test_others_lead_the_shards_of_a_stopping_node_within_a_fifth_of_a_second(leaves):
    """Also while it is still a member, because it waits for a run of another shard."""

    async def story():
        nodes = Town(quiet())
        try:
            for _ in range(3):
                await nodes._join()
            await nodes._advance_to(20)
            leaving = nodes.nodes[0]
            owner = leaving.cluster.me.owner
            assert nodes.database.view(None).owners.count(owner) == 5
            stopping = asyncio.create_task(leaving.stop() if leaves else leaving.cluster.drain(0))
            await nodes.clock.advance(0.2)
            assert {*nodes.database.view(None).owners}.isdisjoint({None, owner})
            await stopping
        finally:
            await nodes._end()

    asyncio.run(story())


# Locks only save work


def takes_everything(scene):
    return Placement(take=tuple(range(len(scene.owners))))


def without_locks(seed, *, fence):
    """Return what broke in a world in which every node leads every shard as often as it can."""
    with ExitStack() as stack:
        stack.enter_context(patched(cluster, "place", takes_everything))
        stack.enter_context(patched(Face, "is_free", staticmethod(lambda *_: True)))
        if not fence:
            stack.enter_context(patched(Face, "fence", staticmethod(lambda *_: True)))
            stack.enter_context(patched(MemoryStore, "_check", lambda *_: None))
        return run_nodes(plan_of(seed)).problems


@pytest.mark.parametrize("seed", [1])
def test_without_locks_the_nodes_depose_each_other_and_no_tick_is_lost_or_doubled(seed):
    about_work = ("balance", "settled")
    assert [each for each in without_locks(seed, fence=True) if not each.startswith(about_work)] == []


@pytest.mark.parametrize("seed", [1])
def test_without_locks_and_fence_no_attempt_is_made_twice(seed):
    problems = without_locks(seed, fence=False)
    assert [each for each in problems if each.startswith(("attempts", "complete", "genuine"))] == []
