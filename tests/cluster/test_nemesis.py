"""Nodes are killed, frozen, cut off and restarted, and so is their database: no tick is lost or doubled."""

from __future__ import annotations

import os
import signal
import statistics
from pathlib import Path
from random import Random

import pytest
from tests.cluster import judge
from tests.cluster.nemesis import KINDS, LEASE, Site, seconds_without_leader, torment
from tests.cluster.timeline import timeline

PICTURE = Path(__file__).resolve().parents[2] / "build" / "nemesis.svg"
SOAK_SECONDS = float(os.environ.get("DUTIFUL_NEMESIS_SECONDS", "1800"))


def account(site, evidence):
    """Return what was done and seen, in one line; draw the picture."""
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(timeline(evidence, site.deeds), encoding="utf-8")
    again = sum(seen.attempt > 1 for seen in evidence.log)
    return f"{len(site.deeds)} deeds, {len(evidence.log)} calls, {again} of them repeats"


@pytest.mark.timeout(400)
def test_no_tick_is_missing_extra_early_or_late_whatever_is_done_to_the_nodes(server, record_property):
    with Site(server, workers=5) as site:
        evidence = torment(site, Random(7), seconds=105)
        record_property("seen", account(site, evidence))
        assert [*judge.problems(evidence)] == []
        assert {deed.kind for deed in site.deeds} == {*KINDS}
        assert len(evidence.log) > 100
        for victim, how in zip(site.workers, (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM), strict=False):
            record_property(how.name, f"{seconds_without_leader(site, victim, how):.3f} s without a leader")


@pytest.mark.soak
@pytest.mark.timeout(SOAK_SECONDS + 900)
def test_no_tick_is_missing_extra_early_or_late_for_half_an_hour(server, capfd):
    with Site(server, workers=5) as site:
        evidence = torment(site, Random(11), SOAK_SECONDS)
    problems = [*judge.problems(evidence)]
    with capfd.disabled():
        print(f"\nnemesis: {account(site, evidence)}, {len(problems)} problems; {PICTURE}")
    assert problems == []


def failovers(site, how, count):
    """Return how many seconds the shards of a worker had no leader, for so many workers, in order."""
    found = []
    for _ in range(count):
        victim = site.workers[0]
        found.append(seconds_without_leader(site, victim, how))
        victim.end(signal.SIGKILL)
        victim.start()
        site.until_led()
    return sorted(found)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_failover_is_fast(server, capfd):
    with Site(server, workers=3) as site:
        site.until_led()
        found = {
            how: failovers(site, how, count)
            for how, count in ((signal.SIGKILL, 20), (signal.SIGTERM, 20), (signal.SIGSTOP, 10))
        }
    with capfd.disabled():
        for how, times in found.items():
            middle, most = statistics.median(times), times[-1]
            print(f"\n{how.name}: p50 {middle:.3f} s, most {most:.3f} s of {len(times)}")
    assert found[signal.SIGKILL][-1] <= 1
    assert statistics.median(found[signal.SIGTERM]) <= 0.2
    assert found[signal.SIGSTOP][-1] <= LEASE + 1
