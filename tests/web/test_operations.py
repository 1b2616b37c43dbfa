"""The endpoints for operators and their tools."""

from __future__ import annotations

import asyncio
import re

import httpx2
from tests.web.running import SCHEDULE

from dutiful.service import Service, settings_from
from dutiful.web.app import create_app


def test_it_is_alive(service):
    assert service.get("/healthz") == {"ok": True}


def test_it_is_ready_while_its_passes_are_recent(service):
    service.advance(1)
    health = service.get("/readyz")
    cluster = dict.fromkeys(("shards_free", "lag_s", "clock_offset_ms"))
    assert {*health} == {"ok", "leading", "last_pass_at", "reason", *cluster}
    assert {name: health[name] for name in cluster} == cluster
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
        {
            "ok": False,
            "leading": False,
            "last_pass_at": None,
            "reason": "the worker is not running",
            **dict.fromkeys(("shards_free", "lag_s", "clock_offset_ms")),
        },
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


def test_the_summary_accounts_for_every_tick_of_a_day(service):
    service.put("/workflows/broken/1", {"fail": "x"})
    service.upsert(schedule_id="a", cron_expr="0,10,20,30 * * * *")
    service.upsert(schedule_id="b", workflow_id="broken", cron_expr="15 * * * *")
    service.upsert(schedule_id="c", cron_expr="20 * * * *", paused=True)
    service.advance(1801)
    found = service.get("/summary")
    assert (found["needs"], found["running"]) == (1, 0)
    account = {key: value for key, value in found["account"].items() if not key.startswith("drift")}
    assert account == {
        "due": 5,
        "ran": 3,
        "failed": 1,
        "skipped": {"paused": 1},
        "skipped_since": {"paused": "2026-03-02T09:20:00Z"},
        "open": 0,
        "unaccounted": 0,
    }
    buckets = {bucket.pop("at"): bucket for bucket in found["day"]}
    assert buckets["2026-03-02T09:10:00Z"] == {"ran": 1, "failed": 1, "skipped": 0, "to_come": 0}
    assert buckets["2026-03-02T10:00:00Z"] == {"ran": 0, "failed": 0, "skipped": 0, "to_come": 1}


def test_the_revision_of_the_summary_does_not_count_the_writes_of_others(service):
    seen = []
    for version in (1, 2):
        service.upsert(schedule_id=f"s{version}")
        seen.append(service.get("/summary")["revision"])
    assert [re.fullmatch(r"[0-9a-f]{16}\.[01]\.[0-9]{4}", revision) is not None for revision in seen] == [
        True
    ] * 2
    assert seen[0] != seen[1]


def test_the_summary_is_204_until_something_is_written_or_a_minute_is_over(service):
    service.upsert()
    first = service.get("/summary")
    assert (first["leaders"], first["standby"]) == ([], 0)

    def asked(revision):
        answer = service.client.get("/summary", headers={"dutiful-revision": revision})
        return answer.status_code, answer.headers.get("dutiful-last-pass"), answer.content

    assert asked(first["revision"]) == (204, first["health"]["last_pass_at"], b"")
    assert asked("another")[0] == 200
    service.upsert(schedule_id="other")
    assert asked(first["revision"])[0] == 200
    second = service.get("/summary")["revision"]
    assert asked(second)[0] == 204
    service.advance(60)
    assert asked(second)[0] == 200


def test_the_schedules_of_a_view_come_with_their_latest_ticks(service):
    service.put("/workflows/broken/1", {"fail": "x"})
    service.upsert(schedule_id="a", cron_expr="0,10,20,30 * * * *")
    service.upsert(schedule_id="b", workflow_id="broken", cron_expr="15 * * * *", timezone="Europe/Berlin")
    service.upsert(schedule_id="c", paused=True)
    service.advance(1801)
    assert service.get("/summary/schedules")["schedules"] == [
        {
            "schedule_id": "b",
            "state": "failed",
            "meaning": "At minute 15 of every hour",
            "timezone": "Europe/Berlin",
            "past": ["failed"],
            "to_come": 3,
            "last_at": "2026-03-02T09:15:00Z",
            "last_status": "FAILED",
            "next_run_at": "2026-03-02T10:15:00Z",
            "note": "task_failed",
        }
    ]
    every = service.get("/summary/schedules", view="all")["schedules"]
    assert [(one["schedule_id"], one["state"], len(one["past"])) for one in every] == [
        *(("a", "ran", 3), ("b", "failed", 1), ("c", "paused", 1))
    ]
    soon = service.get("/summary/schedules", view="next", limit=1)["schedules"]
    assert [one["schedule_id"] for one in soon] == ["a"]
    assert service.get("/summary/schedules", view="all", find="zz")["schedules"] == []
    assert service.get("/summary/schedules", view="running")["schedules"] == []


def test_a_part_of_an_id_is_found_with_other_filters_behind_a_thousand_ids(service):
    many = [{**SCHEDULE, "schedule_id": f"job-{number:04}"} for number in range(1001)]
    service.post("/schedules/bulk", [*many, {**SCHEDULE, "schedule_id": "job-last", "paused": True}])
    found = service.get("/summary/schedules", view="all", find="job", paused="true")["schedules"]
    assert [one["schedule_id"] for one in found] == ["job-last"]


def test_the_schedules_of_a_view_are_filtered_and_come_in_pages(service):
    service.put("/workflows/broken/1", {"fail": "x"})
    service.upsert(schedule_id="a", labels={"team": "red"}, cron_expr="0 10 * * *")
    service.upsert(schedule_id="b", workflow_id="broken", labels={"team": "red"}, user_id="bob")
    service.upsert(schedule_id="c", workflow_id="broken", paused=True)
    service.upsert(schedule_id="d", workflow_id="broken")
    service.advance(1801)

    def listed(**query):
        found = service.get("/summary/schedules", **query)["schedules"]
        return [one["schedule_id"] for one in found]

    assert listed(view="all", find="team=red") == ["a", "b"]
    assert listed(view="needs") == ["b", "d"]
    assert listed(view="needs", find="team=red") == ["b"]
    assert listed(view="next", label="team=red") == ["a", "b"]
    assert listed(view="all", find="workflow:broken", user_id="ada") == ["c", "d"]
    assert listed(view="all", workflow_id="broken", paused="false") == ["b", "d"]
    assert listed(view="all", find="a", label="team=red") == ["a"]
    first = service.get("/summary/schedules", view="all", limit=3)
    assert [one["schedule_id"] for one in first["schedules"]] == ["a", "b", "c"]
    assert listed(view="all", cursor=first["next_cursor"]) == ["d"]
    assert service.get("/summary/schedules", view="all", limit=4)["next_cursor"] is None
