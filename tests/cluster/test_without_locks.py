"""Locks only save work: real workers without them, and without the fence, make no attempt twice."""

from __future__ import annotations

import signal
import time
from collections import Counter
from types import SimpleNamespace

import pytest
from tests.cluster.judge import STEPS, ticks_of
from tests.cluster.nodes import until
from tests.cluster.site import SCHEDULES, Site

SECONDS = 5


def compete(site):
    """Let all workers lead all shards for some seconds, then one alone; return the seconds to judge."""

    def all_lead():
        return all(shard["epoch"] >= 3 for shard in site.api.ask("GET", "/cluster")["shards"])

    until(all_lead, "each of three workers has led each shard")
    first = int(time.time()) + 1
    time.sleep(SECONDS)
    for worker in site.workers:
        worker.end(signal.SIGKILL)
    last = int(time.time())
    # Workers that depose each other all the time may leave runs open, which the next leader adopts.
    site.workers[0].variables["NEMESIS_WITHOUT"] = ""
    site.workers[0].start()
    site.until_decided(last)
    return range(first, last + 1)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("without", [pytest.param("locks", marks=pytest.mark.soak), "locks,fence"])
@pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)
def test_no_key_is_doubled_by_workers_that_all_lead_everything(
    postgres_port, postgres_url, without, record_property
):
    shared = SimpleNamespace(port=postgres_port)
    with Site(shared, ["webhook"] * 3, DUTIFUL_STORE=postgres_url, NEMESIS_WITHOUT=without) as site:
        seconds = compete(site)
        log = [*site.outside.log]
        ledgers = {name: site.ledger(name) for name in SCHEDULES}
    record_property("seen", f"{len(log)} calls, {sum(seen.attempt > 1 for seen in log)} of them repeats")
    made = Counter((seen.key, seen.attempt) for seen in log)
    assert [call for call, count in made.items() if count > 1] == []
    once = Counter(seen.key for seen in log if seen.schedule.startswith("once"))
    assert [key for key, count in once.items() if count > 1] == []
    for name, ledger in ledgers.items():
        covered = Counter(tick for row in ledger for tick in ticks_of(row))
        step = STEPS.get(name.partition("-")[0], 1)
        assert [covered[tick] for tick in seconds] == [int(tick % step == 0) for tick in seconds], name
    keys = {row["idempotency_key"] for ledger in ledgers.values() for row in ledger}
    assert [seen for seen in log if seen.tick < seconds[-1] and seen.key not in keys] == []
