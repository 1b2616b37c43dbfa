"""Whatever is done to nodes, connections and the database of a cluster: no tick is lost or doubled."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from tests.cluster import judge
from tests.cluster.excuses import LEASE, Excuses
from tests.cluster.nemesis import KINDS, seconds_without_leader, torment
from tests.cluster.site import SCHEDULES, Site
from tests.cluster.timeline import timeline

PICTURE = Path(__file__).resolve().parents[2] / "build" / "nemesis.svg"
SOAK_SECONDS = float(os.environ.get("DUTIFUL_NEMESIS_SECONDS", "1800"))
# How the runs of each worker end.
MODES = ("webhook", "webhook", "webhook", "report", "command")
# Within how many seconds other workers must lead the shards of one that is killed, stopped or frozen.
BOUNDS = {signal.SIGKILL: 1.0, signal.SIGTERM: 0.2, signal.SIGSTOP: LEASE + 1.0}
# In `make test` other tests use the same two cores, and an answer that tells the leaders takes its time.
BUSY = 2.0


def account(evidence, found):
    """Return what was done and seen, in one line; draw the picture, and write the problems beside it."""
    counted = Counter(problem.partition(":")[0] for problem in found)
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(timeline(evidence, evidence.deeds), encoding="utf-8")
    told = [*found, *map(str, sorted(evidence.deeds))] if found else []
    PICTURE.with_suffix(".txt").write_text("\n".join(told), encoding="utf-8")
    kinds = ", ".join(f"{count} {kind}" for kind, count in counted.items())
    again = sum(seen.attempt > 1 for seen in evidence.log)
    return (
        f"{len(evidence.deeds)} deeds, {len(evidence.log)} calls, {again} of them repeats,"
        f" {strict_share(evidence):.0%} of ticks without an excuse, problems: {kinds or 'none'}; {PICTURE}"
    )


def strict_share(evidence):
    """Return the share of ticks that no deed excuses from being on time."""
    excuses = Excuses(evidence.deeds, evidence.led)
    judged = [(schedule, tick) for schedule in SCHEDULES for tick in evidence.seconds]
    return sum(not excuses.excuses(*each) for each in judged) / len(judged)


def failovers(site, how, count):
    """Return how many seconds the shards of a worker had no leader, for so many workers, in order."""
    found = []
    for _ in range(count):
        victim = site.workers[0]
        found.append(seconds_without_leader(site, victim, how))
        victim.restart(signal.SIGKILL)
        site.until_led()
    return sorted(found)


def told(found):
    """Return the middle and the greatest of the times, by signal; the greatest of 20 is above their p95."""
    return [
        f"{how.name}: p50 {times[len(times) // 2]:.3f} s, most {times[-1]:.3f} s of {len(times)}"
        for how, times in found.items()
    ]


@pytest.mark.timeout(400)
def test_no_tick_is_missing_extra_early_or_late_whatever_is_done_to_the_nodes(server, capfd):
    with Site(server, MODES) as site:
        evidence = torment(site, Random(7), seconds=105)
        problems = [*judge.problems(evidence)]
        found = {
            how: [seconds_without_leader(site, victim, how)]
            for victim, how in zip(site.workers, (signal.SIGTERM, signal.SIGKILL), strict=False)
        }
    with capfd.disabled():
        print("", account(evidence, problems), *told(found), sep="\nnemesis: ")
    assert problems == []
    assert {deed.kind for deed in evidence.deeds} == {*KINDS}
    assert strict_share(evidence) > 0.1
    assert {how.name: times for how, times in found.items() if times[-1] > BOUNDS[how] + BUSY} == {}


@pytest.mark.soak
@pytest.mark.timeout(SOAK_SECONDS + 900)
def test_no_tick_is_missing_extra_early_or_late_for_half_an_hour(server, capfd):
    with Site(server, MODES) as site:
        evidence = torment(site, Random(11), SOAK_SECONDS)
    problems = [*judge.problems(evidence)]
    with capfd.disabled():
        print("", account(evidence, problems), sep="\nnemesis: ")
    assert problems == []
    assert strict_share(evidence) > 0.1


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_failover_is_fast(server, capfd):
    tries = {signal.SIGKILL: 20, signal.SIGTERM: 20, signal.SIGSTOP: 10}
    with Site(server, ["webhook"] * 3) as site:
        site.until_led()
        found = {how: failovers(site, how, count) for how, count in tries.items()}
    with capfd.disabled():
        print("", *told(found), sep="\nfailover of ")
    assert {how.name: times for how, times in found.items() if times[-1] > BOUNDS[how]} == {}
