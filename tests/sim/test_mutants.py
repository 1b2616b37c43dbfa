"""Who tests the tester: every mistake in the list is noticed by the checkers, each within a minute."""

from __future__ import annotations

import time

import pytest
from tests.sim.genesis import world_of
from tests.sim.mutants import MUTANTS
from tests.sim.runner import run

# A minute is the promise; here it is bounded by worlds, so that a busy machine changes nothing.
WORLDS = 600
QUICK = (
    "launches_before_it_commits",
    "never_asks_after_a_lost_answer",
    "moves_the_cursor_outside_the_claim",
    "sees_no_run_in_flight",
    "drops_what_it_should_queue",
    "has_no_grace",
)


def caught(name: str) -> tuple[int, list[str]] | None:
    """Return the first seed whose world shows the mistake, and what was found."""
    for seed in range(WORLDS):
        with MUTANTS[name]():
            problems = run(world_of(seed)).problems
        if problems:
            return seed, problems
    return None


def check(name, record_property):
    began = time.process_time()
    found = caught(name)
    record_property("seconds", round(time.process_time() - began, 1))
    assert found is not None, f"{WORLDS} worlds did not show that the mutant {name}"
    seed, problems = found
    record_property("found", f"seed {seed}: {problems[0]}")
    assert run(world_of(seed)).problems == []


@pytest.mark.parametrize("name", QUICK)
def test_a_mistake_is_noticed(name, record_property):
    check(name, record_property)


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in QUICK])
def test_every_mistake_is_noticed(name, record_property):
    check(name, record_property)
