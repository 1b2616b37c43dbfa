"""Replay worlds by hand: `python -m tests.sim 1234` shows what a seed broke, `0-999` runs many.

`--store` says where: `memory`, `sqlite`, or `both`, where a difference between the two is a problem.
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.sim.campaign import campaign
from tests.sim.genesis import world_of
from tests.sim.reach import missing
from tests.sim.shrink import report
from tests.sim.stages import STAGES


def main(wanted: str, stage: str) -> int:
    first, _, last = wanted.partition("-")
    if not last:
        world, run = world_of(int(first)), STAGES[stage]
        problems = run(world).problems
        print(report(world, run) if problems else f"seed {first} breaks no rule")
        return bool(problems)
    survey = campaign(int(first), int(last) - int(first) + 1, os.cpu_count() or 1, stage=stage)
    print(survey, f"not reached: {missing(survey.reach)}", sep="\n")
    for seed, problems in survey.failures.items():
        print(f"seed {seed}: {problems[0]}")
    return bool(survey.failures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("seeds")
    parser.add_argument("--store", choices=STAGES, default="memory")
    asked = parser.parse_args()
    sys.exit(main(asked.seeds, asked.store))
