"""Mistakes in the rules by which nodes share a database are noticed in worlds that try them."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import chain
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.sim import sharded, town
from tests.sim.mutation import patched
from tests.sim.sharded import Face, NodeStore
from tests.sim.town import EDITS, _edit, _fault, plan_of, run_nodes

from dutiful.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


async def never_bumps_the_turn(_self, held):
    held.unsure = False


async def commits_whatever_the_version(self, moves, epoch, original=MemoryStore.commit):
    rows = self._rows
    fresh = [
        move._replace(due=move.due._replace(version=rows[move.due.schedule.id].version))
        for move in moves
        if move.due.schedule.id in rows
    ]
    return await original(self, fresh, epoch)


def puts_a_group_in_many_shards(schedule, shards):
    return sharded.place_of(schedule._replace(policy=type(schedule.policy)()), shards)


def arrives_while_it_is_asked_for(self):
    """Deliver a write a moment after its sender, who tries again after a second, was told that it is not."""
    is_late = self._clock.monotonic() < self.late_until
    return 1 + self._rng.uniform(0, 0.06) if is_late else 0


class Trial(NamedTuple):
    """A mistake, and worlds in which it matters: actions of these kinds, so many of them."""

    mistake: list[tuple[Any, str, Any]]
    kinds: tuple[str, ...]
    count: int
    # A world that is known to show the mistake; where it does not any more, others are tried.
    seed: int
    # Changes to the plan, and to the world itself, with and without the mistake.
    changes: Mapping[str, int] = MappingProxyType({})
    conditions: Sequence[tuple[Any, str, Any]] = ()


TRIALS = {
    "no version check": Trial(
        [(MemoryStore, "commit", commits_whatever_the_version)],
        ("pause", "resume", "edit", "trigger"),
        100,
        20,
    ),
    "no fence": Trial(
        [(Face, "fence", staticmethod(lambda *_: True)), (MemoryStore, "_check", lambda *_: None)],
        ("freeze", "late", "terminate"),
        12,
        6,
    ),
    "no turn bump": Trial(
        [(Face, "_bump_turn", never_bumps_the_turn)],
        ("late",),
        30,
        25,
        conditions=[(NodeStore, "late_by", arrives_while_it_is_asked_for)],
    ),
    "epoch kept after another led": Trial(
        [(Face, "was_kept", staticmethod(lambda *_: True))],
        ("cut", "kill", "terminate"),
        16,
        5,
        {"nodes": 2, "shards": 2},
    ),
    "launch without holds": Trial([(Face, "holds", lambda *_: True)], ("freeze",), 12, 102),
    "group in many shards": Trial([(town, "place_of", puts_a_group_in_many_shards)], ("join",), 2, 4),
}
WORLDS = 150


def plan_for(trial, seed):
    """Return a world of a seed whose actions are those of the trial, done while ticks are decided."""
    plan, rng = plan_of(seed), Random(f"trial:{seed}")
    actions = []
    for kind in rng.choices(trial.kinds, k=trial.count):
        is_edit = kind in EDITS
        action = _edit(rng, plan.world) if is_edit else _fault(rng, kind, plan.world.horizon)
        actions.append(action._replace(kind=kind, at=int(action.at) + rng.uniform(0, 0.05)))
    in_order = tuple(sorted(actions, key=lambda action: action.at))
    return plan._replace(actions=in_order, **trial.changes)


def problems_with(plan, patches):
    with ExitStack() as stack:
        for target, name, value in patches:
            stack.enter_context(patched(target, name, value))
        return run_nodes(plan).problems


def caught(trial):
    """Return the first seed whose world shows the mistake and is right without it, and what is found."""
    for seed in chain([trial.seed], range(WORLDS)):
        plan = plan_for(trial, seed)
        problems = problems_with(plan, [*trial.conditions, *trial.mistake])
        if problems and not problems_with(plan, trial.conditions):
            return seed, problems[0]
    return None


@pytest.mark.parametrize("name", sorted(TRIALS))
@pytest.mark.timeout(600)
def test_a_mistake_in_the_rules_of_nodes_is_noticed(name, record_property):
    found = caught(TRIALS[name])
    record_property("found", str(found))
    assert found is not None
    assert not found[1].startswith("broke"), "the mistake does not fit the code any more"
