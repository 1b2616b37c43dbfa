"""The page of the system: who leads, whether it is on time, the size of the store, expiring certificates."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tests.web.pages.html import page

from dutiful.runtime.ports import Leader
from dutiful.service.cluster import ClusterView, NodeView, ShardView
from dutiful.web.pages.system import Node, expiry_said, leaders_of, nodes_of, size_said

NOW = datetime(2026, 11, 2, 14, 5, tzinfo=UTC)


def node(name, *shards, draining=False):
    return NodeView(f"id of {name}", name, "0.1.0", 7, NOW, draining, shards)


def test_the_machine_room_names_the_leader_and_every_figure_with_its_metric(service):
    service.upsert(cron_expr="* * * * *")
    service.advance(61)
    shown = page(service, "/ui/system")
    assert re.search(r"System working process \d+ leads since .* UTC last pass", shown.text)
    for figure in (
        "Schedules 1",
        "Damaged dutiful_schedules_damaged 0",
        "In flight dutiful_launches_in_flight 0",
        "Last pass dutiful_pass_seconds took 1 ms",
        "Failed passes dutiful_passes_failed_total 0 since the start",
        "Drift scheduling_drift_seconds half within 1 ms, 99 % within 1 ms",
    ):
        assert figure in shown.text
    assert re.search(r"Store dutiful_store_bytes sqlite, [1-9]\d* [kM]B", shown.text)
    assert {own["data-copy"] for own in shown.all("button") if "data-copy" in own} >= {
        "dutiful_store_bytes",
        "scheduling_drift_seconds",
    }
    assert re.search(r"\ndutiful_store_bytes [1-9]", service.client.get("/metrics").text)


def test_the_nodes_of_a_cluster_lead_or_stand_by():
    shards = [ShardView(0, "worker-2", 31, 0), ShardView(1, "worker-2", 4, 0), ShardView(2, "worker-3", 9, 0)]
    nodes = [node("worker-1"), node("worker-2", 0, 1), node("worker-3", 2, draining=True)]
    view = ClusterView(NOW, 0, nodes, shards)
    assert nodes_of(view) == [
        Node("worker-1", "stands by", "0.1.0", NOW),
        Node("worker-2", "leads 2 of 3 shards, epoch 31", "0.1.0", NOW),
        Node("worker-3", "leads 1 of 3 shards, epoch 9, gives them away", "0.1.0", NOW),
    ]
    assert leaders_of(view, None, NOW) == "two of three nodes lead"
    assert leaders_of(ClusterView(NOW, 0, nodes[:2], shards), None, NOW) == "worker-2 leads, one stands by"
    assert leaders_of(ClusterView(NOW, 0, [nodes[1]], shards), None, NOW) == "worker-2 leads"
    assert leaders_of(ClusterView(NOW, 0, [nodes[0]], shards), None, NOW) == "nobody leads, one stands by"


def test_a_store_of_one_machine_has_a_process_that_leads():
    since = round((NOW - timedelta(days=1)).timestamp() * 1000)
    leader = Leader(4242, since, since)
    assert leaders_of(ClusterView(NOW), leader, NOW) == "process 4242 leads since yesterday 14:05 UTC"
    assert leaders_of(ClusterView(NOW), leader, None) == "process 4242 leads"
    assert leaders_of(ClusterView(NOW), None, NOW) == "nobody leads"
    assert leaders_of(ClusterView(NOW), None, NOW, leading=True) == "this process leads"


def test_sizes_and_ends_of_certificates_are_said_in_words():
    sizes = {0: "0 kB", 4096: "4 kB", 999_400: "999 kB", 212_000_000: "212 MB", 5_300_000_000: "5.3 GB"}
    assert {size: size_said(size) for size in sizes} == sizes
    ends = {61 * 24: "61 days", 24: "1 day", 5: "5 h", -1: "expired"}
    assert {h: expiry_said(NOW + timedelta(hours=h), NOW).split(",")[0] for h in ends} == ends
    assert expiry_said(NOW + timedelta(days=61), NOW) == "61 days, until Sat 2 Jan 2027 14:05 UTC"
