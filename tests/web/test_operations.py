"""What operators and their tools ask."""

from __future__ import annotations

import asyncio
import re

import httpx2

from dutiful.service import Service, settings_from
from dutiful.web.app import create_app


def test_it_is_alive(service):
    assert service.get("/healthz") == {"ok": True}


def test_it_is_ready_while_its_passes_are_recent(service):
    service.advance(1)
    health = service.get("/readyz")
    assert {*health} == {"ok", "leading", "last_pass_at", "reason"}
    assert (health["ok"], health["leading"], health["reason"]) == (True, True, None)
    assert health["last_pass_at"].startswith("2026-03-02T09:00:")


def test_it_is_not_ready_without_its_worker(tmp_path):
    async def ask():
        service = Service(settings_from({"DUTIFUL_STORE": f"sqlite:{tmp_path}/service.db"}))
        transport = httpx2.ASGITransport(create_app(service))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/readyz")

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.json()) == (
        503,
        {"ok": False, "leading": False, "last_pass_at": None, "reason": "the worker is not running"},
    )


def metric(service, name):
    text = service.client.get("/metrics").text
    found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
    return None if found is None else float(found[1])


def test_the_metrics_have_their_documented_names(service):
    service.upsert(cron_expr="* * * * *")
    service.put("/workflows/hanging/1", {"hang": True})
    service.upsert(schedule_id="slow", cron_expr="* * * * *", workflow_id="hanging")
    service.advance(121)
    answer = service.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert metric(service, "runs_emitted_total") == 3
    assert metric(service, "runs_skipped_overlap_total") == 1
    assert metric(service, "runs_failed_launch_total") == 0
    assert metric(service, "scheduling_drift_seconds_count") == 3
    assert "schedules_due" in answer.text


def test_the_document_of_the_interface_is_served(service):
    document = service.get("/openapi.json")
    assert document["openapi"].startswith("3.1")
    assert "/schedules/upsert" in document["paths"]


def test_the_summary_has_what_an_overview_shows(service):
    service.put("/workflows/broken/1", {"fail": "x"})
    service.upsert(schedule_id="a", cron_expr="0 10 * * *")
    service.upsert(schedule_id="b", workflow_id="broken")
    service.upsert(schedule_id="c", paused=True)
    service.advance(1801)
    found = service.get("/summary")
    assert (found["schedules"], found["paused"], found["health"]["ok"]) == (3, 1, True)
    assert found["now"] == "2026-03-02T09:30:01Z"
    assert found["next"] == [
        {"schedule_id": "a", "next_run_at": "2026-03-02T10:00:00Z"},
        {"schedule_id": "b", "next_run_at": "2026-03-03T09:30:00Z"},
    ]
    assert [(run["schedule_id"], run["status"]) for run in found["failed"]] == [("b", "FAILED")]
    assert {run["schedule_id"] for run in found["recent"]} <= {"b", "c"}
