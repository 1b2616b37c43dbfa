"""The same worlds on a SQLite file: what the reference store decides and keeps, it decides and keeps too."""

from __future__ import annotations

import os
import sys

import pytest
from tests.sim.campaign import campaign
from tests.sim.genesis import world_of
from tests.sim.mutation import patched
from tests.sim.runner import run
from tests.sim.shrink import report
from tests.sim.stages import STAGES, differences, on_both, on_file

from dutiful.stores.sqlite import commit, inline_runs, settle

SOAK_SECONDS = float(os.environ.get("DUTIFUL_SOAK_SECONDS", "60"))
SOAK_SEED = int(os.environ.get("DUTIFUL_SOAK_SEED", "1000000"))
# None of these takes long; some, where a full engine looks every second, take a hundred times as long.
SLICE = range(31, 47)
# On the file alone a run of this world once began beside another in a group of one place.
FOUND = 1_000_098


@pytest.mark.parametrize("seed", [*SLICE, FOUND])
def test_a_world_takes_the_same_course_in_memory_and_on_a_file(seed):
    if on_both(world_of(seed)).problems:
        pytest.fail(report(world_of(seed), on_both), pytrace=False)


@pytest.mark.parametrize("seed", SLICE[:6])
def test_a_world_on_a_file_that_answers_in_its_time_breaks_no_rule(seed):
    assert on_file(world_of(seed)).problems == []


def test_the_first_event_in_which_two_stores_differ_is_reported():
    result = run(world_of(3))
    other = result._replace(trace=[*result.trace[:-1], "something else"], left=[])
    told = f"stores: {result.trace[-1]} in memory, something else on the file"
    assert list(differences(result, other)) == [told]


def test_what_is_left_and_what_was_found_may_differ_too():
    result = run(world_of(3))
    kept, judged = result._replace(left=[*result.left, 1]), result._replace(problems=["a rule"])
    assert list(differences(result, kept)) == ["stores: None is left in memory, 1 on the file"]
    assert list(differences(result, judged)) == ["stores: [] were found in memory, ['a rule'] on the file"]
    assert list(differences(result, result)) == []


# Mistakes of the SQLite store alone.
MISTAKES = {
    "wakes nobody when a run ends": (settle, "wake_blocked", lambda *_: None),
    "takes each move for made": (commit, "hits", lambda *args: [True for _ in HITS(*args)]),
    "takes each inline run for launched": (commit, "hits_alike", lambda *args: [True for _ in ALIKE(*args)]),
    "forgets inline runs when a process dies": (inline_runs, "give_rows_to_all", lambda *_: None),
    "forgets a inline run that fails": (inline_runs, "give_rows", lambda *_: None),
    "looks at a run that has ended": (
        settle,
        "_REST",
        "UPDATE states SET wake_at = wake_at WHERE number = ?",
    ),
}
# Shown by few worlds.
RARE = {"takes each inline run for launched", "forgets inline runs when a process dies"}
HITS, ALIKE = commit.hits, commit.hits_alike


@pytest.mark.parametrize(
    "mistake",
    [pytest.param(mistake, marks=[pytest.mark.soak] * (mistake in RARE)) for mistake in MISTAKES],
)
def test_a_mistake_of_one_store_is_noticed(mistake, record_property):
    for seed in range(300):
        if world_of(seed).in_flight_max is None:
            with patched(*MISTAKES[mistake]):
                found = on_both(world_of(seed)).problems
            if found:
                record_property("found", f"seed {seed}: {found[0]}")
                return
    pytest.fail(f"No world shows that one store {mistake}")


@pytest.mark.soak
@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "memory"])
@pytest.mark.timeout(SOAK_SECONDS + 900)
def test_no_world_of_the_soak_breaks_a_rule_on_a_file(stage, capfd):
    survey = campaign(SOAK_SEED, 0, os.cpu_count() or 1, SOAK_SECONDS, stage)
    with capfd.disabled():
        print(f"\nsoak of {stage} from seed {SOAK_SEED}: {survey}", file=sys.stderr, flush=True)
    for seed in sorted(survey.failures):
        pytest.fail(f"{survey}\n{report(world_of(seed), STAGES[stage])}", pytrace=False)
