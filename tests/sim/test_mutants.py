"""The test of the checkers: they notice every mistake in the list, each within a minute.

A mutant that does not fit the code any more breaks the engine, which any checker notices. Such a one
proves nothing, so it is refused.
"""

from __future__ import annotations

import time
from itertools import chain
from typing import TYPE_CHECKING

import pytest
from tests.sim.gate import Gate
from tests.sim.genesis import world_of
from tests.sim.mutants import MUTANTS
from tests.sim.mutation import patched
from tests.sim.runner import run

from dutiful.core.plan import planner
from dutiful.runtime import engine
from dutiful.runtime.engine import Engine
from dutiful.stores.memory import MemoryStore

if TYPE_CHECKING:
    from tests.sim.mutation import Mutant

# A minute is the promise; here it is bounded by worlds, so that a busy machine changes nothing.
WORLDS = 600
# A world that is known to show the mistake; where it does not any more, others are tried.
QUICK = {
    "launches_before_it_commits": 3,
    "never_asks_after_a_lost_answer": 18,
    "moves_the_cursor_outside_the_claim": 0,
    "sees_no_run_in_flight": 9,
    "drops_what_it_should_queue": 2,
    "has_no_grace": 2,
    "retries_too_early": 4,
    "counts_completions": 4,
    "stops_without_waiting": 27,
    "catches_up_with_nothing": 4,
    "forgets_a_run_that_was_asked_for": 9,
    "backfills_what_has_run": 10,
    "prunes_runs_that_wait": 69,
    "drops_what_is_owed_by_an_edit": 22,
    "forgets_the_end_of_a_run_whose_schedule_is_locked": 0,
    "records_the_cancellation_of_what_it_dropped": 88,
}

# What breaks which axiom of the formal model, and no other rule.
ONLY_THE_MODEL = {
    "retries_too_early": "S1",
    "makes_up_for_what_an_orphan_missed": "S1",
    "counts_completions": "S2",
    "stops_without_waiting": "S3",
    "catches_up_with_nothing": "L1",
    "owes_nothing_in_the_first_minute": "L1",
}


class BrokenMutantError(Exception):
    """The mutant makes another mistake than it says."""


def caught(make: Mutant, known: int = 0) -> tuple[int, list[str]] | None:
    """Return the first seed whose world shows the mistake, and what was found."""
    for seed in chain([known], range(WORLDS)):
        with make():
            problems = run(world_of(seed)).problems
        if problems and problems[0].startswith("broke: "):
            raise BrokenMutantError(f"seed {seed}: {problems[0]}")
        if problems and not run(world_of(seed)).problems:
            return seed, problems
    return None


def check(name, record_property):
    began = time.process_time()
    found = caught(MUTANTS[name], QUICK.get(name, 0))
    record_property("seconds", round(time.process_time() - began, 1))
    assert found is not None, f"{WORLDS} worlds did not show that the mutant {name}"
    seed, problems = found
    record_property("found", f"seed {seed}: {problems[0]}")
    if name in ONLY_THE_MODEL:
        assert problems[0].startswith(f"model: {ONLY_THE_MODEL[name]} "), problems


@pytest.mark.parametrize("name", QUICK)
def test_a_mistake_is_noticed(name, record_property):
    check(name, record_property)


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in QUICK])
def test_every_mistake_is_noticed(name, record_property):
    check(name, record_property)


def stale():
    """Take no arguments, unlike everything that this is put in place of."""


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (Engine, "_settle_finished"),
        (Engine, "_sleep"),
        (Engine, "stop"),
        (planner, "take_ticks"),
        (engine, "plan"),
        (MemoryStore, "commit"),
        (MemoryStore, "report"),
        (Gate, "_call"),
    ],
)
def test_a_mutant_that_breaks_the_engine_is_refused(target, name):
    with pytest.raises(BrokenMutantError, match="TypeError"):
        caught(lambda: patched(target, name, lambda *_args: stale(0)))
