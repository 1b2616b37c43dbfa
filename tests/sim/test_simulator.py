"""The simulator itself: one seed is one trace, what fails is made small, and every judge can say no."""

from __future__ import annotations

import pytest
from tests.core.plan.planner_notation import MINUTE, at, run, schedule
from tests.sim.checkers import check
from tests.sim.genesis import EVENTS, world_of
from tests.sim.mutants import MUTANTS
from tests.sim.reach import LEAST, WANTED, missing
from tests.sim.recorder import Era, Record, Seen, key_of
from tests.sim.runner import run as run_world
from tests.sim.shrink import report, rules, shrink
from tests.sim.world import Entry, World

from dutiful.core.policy import OnOrphan, Policy, Reason
from dutiful.core.run import Phase, Status


@pytest.mark.parametrize("seed", [3, 14, 15, 92, 65])
def test_a_seed_decides_everything(seed):
    assert world_of(seed) == world_of(seed)
    assert run_world(world_of(seed)).digest() == run_world(world_of(seed)).digest()


def test_different_seeds_are_different_worlds():
    digests = {run_world(world_of(seed)).digest() for seed in range(8)}
    assert len(digests) == 8


def test_every_class_of_events_is_drawn():
    drawn = {action.kind for seed in range(100) for action in world_of(seed).actions}
    assert drawn >= set(EVENTS) - {"far"} | {"resume"}


def test_a_failing_case_is_made_smaller_and_still_fails_the_same_way():
    broken = world_of(2)
    assert (len(broken.entries), len(broken.actions)) == (5, 4)
    with MUTANTS["counts_one_tick_too_many"]():
        small = shrink(broken)
        shared = rules(run_world(small)) & rules(run_world(broken))
        assert shared
        assert len(small.entries) == 1
        assert (len(small.actions), small.horizon) < (len(broken.actions), broken.horizon)
        assert f"seed {broken.seed}" in report(broken)
    assert not rules(run_world(small)) & shared


def test_a_campaign_that_has_not_been_somewhere_says_where():
    reach = dict.fromkeys(WANTED, 1) | LEAST
    from collections import Counter

    assert missing(Counter(reach)) == []
    assert missing(Counter(reach | {"crash led": 0})) == ["crash led"]
    assert missing(Counter(reach | {"axiom S2": 199})) == ["axiom S2"]


def test_an_idle_world_is_quiet():
    idle = World(0, at("10:00"), 3600, (Entry(schedule(), ("quick",), 1),))
    result = run_world(idle)
    assert result.problems == []
    assert len(result.calls) == 60


# What the judges are shown: a schedule of every minute, its rows, and what they must say of it.


def judged(*rows, policy=None, opened="10:00", closed="10:03", calls=()):
    declared = schedule()._replace(policy=policy or Policy())
    record = Record()
    record.eras["s"].append(Era(declared, at(opened), at(closed)))
    for row in rows:
        record.history[key_of(row)].append(Seen(at("10:03"), 0, row))
    return {problem.partition(":")[0] for problem in check(record, calls, {}, at("10:03"))}


def ended(tick, status=Status.SUCCESS, **changes):
    return run(tick, Phase.ENDED, status=status, **changes)


def skipped(tick, until, ticks, reason=Reason.OVERLAP):
    return ended(tick, Status.SKIPPED, run_until=at(until), ticks=ticks, reason=reason)


GOOD = [ended("10:01"), ended("10:02"), ended("10:03")]


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        (GOOD, set()),
        ([ended("10:01"), skipped("10:02", "10:03", 2)], set()),
        (GOOD[:2], {"complete"}),
        ([*GOOD, skipped("10:02", "10:03", 2, Reason.MISSED)], {"complete", "grace"}),
        ([ended("10:01"), skipped("10:02", "10:03", 3)], {"complete", "genuine"}),
        ([*GOOD, ended("10:02:30")], {"genuine"}),
        ([*GOOD[:2], ended("10:03", reason=Reason.OVERLAP)], {"reasons"}),
        ([*GOOD[:2], ended("10:03", Status.FAILED)], {"reasons"}),
        ([*GOOD[:2], ended("10:03", Status.FAILED, reason=Reason.TASK_FAILED)], {"failed"}),
        ([*GOOD[:2], ended("10:03", Status.SKIPPED, reason=Reason.MISSED)], {"grace"}),
    ],
)
def test_the_ledger_is_judged_against_the_oracle(rows, rule):
    assert {name for name in judged(*rows) if name != "jitter"} == rule


@pytest.mark.parametrize("jitter", [0, 5_000])
def test_a_fire_time_is_judged_against_the_hash(jitter):
    rows = [run("10:01", Phase.LAUNCHED, fire_at=at("10:01:01"))]
    assert "jitter" in judged(*rows, policy=Policy(jitter=jitter), closed="10:01")


@pytest.mark.parametrize(
    ("attempts", "policy", "rules_broken"),
    [
        ([1, 2], Policy(), set()),
        ([1, 1], Policy(), {"attempts"}),
        ([2, 1], Policy(), {"attempts"}),
        ([1, 2], Policy(on_orphan=OnOrphan.GIVE_UP), {"at_most_once"}),
    ],
)
def test_calls_are_judged(attempts, policy, rules_broken):
    from tests.sim.executor import Call

    calls = [Call(0, 0, 1, key_of(GOOD[0]), attempt, "quick") for attempt in attempts]
    assert judged(*GOOD, policy=policy, calls=calls) == rules_broken


def test_more_runs_than_allowed_are_noticed():
    from tests.sim.executor import Call

    calls = [Call(0, 0, 1, key_of(row), 1, "quick") for row in GOOD]
    assert judged(*GOOD, policy=Policy(max_runs=2), calls=calls) == {"limit"}


__all__ = ["MINUTE"]
