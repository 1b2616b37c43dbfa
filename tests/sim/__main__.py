"""Replay worlds by hand: `python -m tests.sim 1234` shows what a seed broke, `0-999` runs many."""

from __future__ import annotations

import os
import sys

from tests.sim.campaign import campaign
from tests.sim.genesis import world_of
from tests.sim.reach import missing
from tests.sim.runner import run
from tests.sim.shrink import report


def main(wanted: str) -> int:
    first, _, last = wanted.partition("-")
    if not last:
        result = run(world_of(int(first)))
        print(report(world_of(int(first))) if result.problems else f"seed {first} breaks no rule")
        return bool(result.problems)
    survey = campaign(int(first), int(last) - int(first) + 1, os.cpu_count() or 1)
    print(survey, f"not reached: {missing(survey.reach)}", sep="\n")
    for seed, problems in survey.failures.items():
        print(f"seed {seed}: {problems[0]}")
    return bool(survey.failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
