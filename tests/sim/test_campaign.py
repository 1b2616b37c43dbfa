"""Hundreds of worlds in `make test`, as many as time allows in `make soak`; no rule may be broken in any."""

from __future__ import annotations

import os
import sys

import pytest
from tests.sim.campaign import campaign
from tests.sim.genesis import world_of
from tests.sim.reach import missing
from tests.sim.shrink import report

WORLDS = 150
SOAK_SECONDS = float(os.environ.get("DUTIFUL_SOAK_SECONDS", "60"))
# A soak goes on where the last one ended when it is told so.
SOAK_SEED = int(os.environ.get("DUTIFUL_SOAK_SEED", "1000000"))


def judge(survey):
    """Fail with the first broken world, made small; fail where a campaign has not been."""
    for seed in sorted(survey.failures):
        pytest.fail(f"{survey}\n{report(world_of(seed))}", pytrace=False)
    assert missing(survey.reach) == [], survey


@pytest.mark.timeout(600)
def test_no_world_of_the_campaign_breaks_a_rule_and_all_was_reached(record_property):
    survey = campaign(0, WORLDS, os.cpu_count() or 1)
    record_property("survey", str(survey))
    judge(survey)
    assert survey.worlds == WORLDS


@pytest.mark.soak
@pytest.mark.timeout(SOAK_SECONDS + 900)
def test_no_world_of_the_soak_breaks_a_rule(capfd):
    survey = campaign(SOAK_SEED, 0, os.cpu_count() or 1, SOAK_SECONDS)
    with capfd.disabled():
        print(f"\nsoak from seed {SOAK_SEED}: {survey}", file=sys.stderr, flush=True)
    judge(survey)
