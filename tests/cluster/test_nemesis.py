"""Workers are killed, frozen, cut off and restarted, and so is their database: no tick is lost or doubled."""

from __future__ import annotations

import os
import signal
import statistics
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from tests.cluster.nemesis import LEASE, SCHEDULES, Site, judged
from tests.cluster.timeline import timeline
from tests.crash.service_observer import Seen, expected_key
from tests.servers import program

PICTURE = Path(__file__).resolve().parents[2] / "build" / "nemesis.svg"
SOAK_SECONDS = float(os.environ.get("DUTIFUL_NEMESIS_SECONDS", "1800"))


@pytest.fixture
def server():
    """A PostgreSQL of the test's own, which it may kill."""
    # Not in `tmp_path`: the server runs as another user, who may not enter that folder.
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        started = program.postgres(Path(folder))
        started.start()
        try:
            yield started
        finally:
            started.close()


def torment(server, workers, seconds, seed):
    """Return what was wrong after so many seconds, and how many deeds and calls there were."""
    rng = Random(seed)
    with Site(server, workers) as site:
        first = int(time.time()) + 2
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            site.harm(rng)
            time.sleep(rng.uniform(0.2, 2))
        last = int(time.time())
        site.until_led()
        site.until_decided(last)
        ledger = {name: site.ledger(name) for name in SCHEDULES}
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(timeline(site.observer.log, site.deeds, first, last), encoding="utf-8")
        return [*judged(site.observer.log, ledger, first, last)], len(site.deeds), len(site.observer.log)


@pytest.mark.timeout(300)
def test_no_tick_is_missing_doubled_or_early_whatever_is_done_to_the_nodes(server, record_property):
    problems, deeds, calls = torment(server, workers=3, seconds=25, seed=7)
    record_property("seen", f"{deeds} deeds, {calls} calls")
    assert problems == []
    assert calls > 100


@pytest.mark.soak
@pytest.mark.timeout(SOAK_SECONDS + 900)
def test_no_tick_is_missing_doubled_or_early_for_half_an_hour(server, capfd):
    problems, deeds, calls = torment(server, workers=5, seconds=SOAK_SECONDS, seed=11)
    with capfd.disabled():
        print(f"\nnemesis: {deeds} deeds, {calls} calls, {len(problems)} problems; {PICTURE}")
    assert problems == []


# How long a shard has no leader


def seconds_without_leader(site, harm):
    """Return how long it took until others led all shards of a worker to which something was done."""
    victim = site.workers[0]
    began = time.monotonic()
    harm(victim)

    def is_led():
        shards = site.api.ask("GET", "/cluster")["shards"]
        return all(shard["node"] not in (None, victim.name) for shard in shards)

    while not is_led():
        assert time.monotonic() < began + 60
        time.sleep(0.005)
    return time.monotonic() - began


def failovers(site, harm, mend, count):
    found = []
    for _ in range(count):
        found.append(seconds_without_leader(site, harm))
        mend(site.workers[0])
        site.until_led()
    return found


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_failover_is_fast(server, capfd):
    def again(worker):
        worker.end(signal.SIGKILL)
        worker.start()

    with Site(server, 3) as site:
        killed = failovers(site, lambda worker: worker.send(signal.SIGKILL), again, 10)
        stopped = failovers(site, lambda worker: worker.send(signal.SIGTERM), again, 10)
        frozen = failovers(site, lambda worker: worker.send(signal.SIGSTOP), again, 5)
    with capfd.disabled():
        for name, found in (("kill", killed), ("SIGTERM", stopped), ("SIGSTOP", frozen)):
            print(f"\n{name}: p50 {statistics.median(found):.3f} s, most {max(found):.3f} s of {len(found)}")
    assert statistics.median(killed) <= 1
    assert max(frozen) <= LEASE + 2


# The judge can say no


def call(schedule, tick, attempt=1, at=None):
    return Seen(tick + 0.1 if at is None else at, schedule, tick, expected_key(schedule, tick), attempt)


def row(schedule, tick, status="SUCCESS"):
    moment = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(tick))
    key = expected_key(schedule, tick)
    return {"run_at": moment, "run_until": None, "status": status, "idempotency_key": key}


@pytest.mark.parametrize(
    ("log", "rows", "rule"),
    [
        ([call("s", 100), call("s", 101)], [row("s", 100), row("s", 101)], None),
        ([call("s", 100), call("s", 101), call("s", 101, 2)], [row("s", 100), row("s", 101)], None),
        ([call("s", 100)], [row("s", 100), row("s", 101, "SKIPPED")], None),
        ([call("s", 100)], [row("s", 100)], "missing"),
        ([call("s", 100)], [row("s", 100), row("s", 101)], "missing"),
        ([call("s", 100), call("s", 101), call("s", 101)], [row("s", 100), row("s", 101)], "repeated"),
        (
            [call("once-1", 100), call("once-1", 100, 2)],
            [row("once-1", 100), row("once-1", 101, "SKIPPED")],
            "repeated",
        ),
        ([call("s", 100, at=99.9)], [row("s", 100), row("s", 101, "SKIPPED")], "early"),
        ([call("s", 100), call("s", 101)], [row("s", 100), row("s", 100), row("s", 101)], "extra"),
        ([call("s", 100), call("s", 101), call("s", 102)], [row("s", 100), row("s", 101)], None),
        ([call("s", 99), call("s", 100), call("s", 101)], [row("s", 100), row("s", 101)], "without a row"),
    ],
)
def test_what_is_wrong_is_told(log, rows, rule):
    schedule = log[0].schedule
    found = {problem.partition(":")[0] for problem in judged(log, {schedule: rows}, 100, 101)}
    assert found == ({rule} if rule else set())
