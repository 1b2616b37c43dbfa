"""The overview: says in its first line whether it works, and accounts for every tick."""

from __future__ import annotations

import re
from datetime import datetime

import trustme
from tests.web.pages.html import page
from tests.web.running import SCHEDULE, running

from dutiful.service.launcher import NoExecutor

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


def test_a_new_service_works_and_says_how_to_store_a_schedule(service):
    found = page(service)
    assert "Working. Nothing needs you." in found.text
    assert [link.partition("?")[0] for link in found.links if "icon" in link] == ["/static/icon.svg"]
    assert "Store the first schedule" in found.text
    assert "0 were due in 24 h" in found.text
    assert "Nothing is due." in found.text
    assert "Nothing is in flight." in found.text


def test_the_account_adds_up(service):
    service.put("/workflows/broken/1", {"fail": "no such table"})
    service.upsert(schedule_id="good", cron_expr="* * * * *")
    service.upsert(schedule_id="bad", cron_expr="* * * * *", workflow_id="broken")
    service.upsert(schedule_id="still", cron_expr="* * * * *", paused=True)
    service.advance(301)
    text = page(service).text
    assert re.search(r"15 were due in 24 h 5 ran 5 failed 5 skipped \(paused 5\) 0 unaccounted", text), text
    assert "3 schedules" in text
    assert "1 paused" in text


def test_every_number_of_the_account_leads_to_its_entries(service):
    service.put("/workflows/stuck/1", {"hang": True})
    service.upsert(schedule_id="good", cron_expr="* * * * *")
    service.upsert(schedule_id="still", cron_expr="* * * * *", paused=True)
    service.upsert(schedule_id="slow", cron_expr="1 9 * * *", workflow_id="stuck")
    service.advance(121)
    found, since = page(service), "/ui/runs?since=2026-03-01T09%3A02%3A01Z"
    filters = ("", "&status=SUCCESS", "&status=FAILED", "&status=SKIPPED", "&reason=paused")
    assert [one for one in filters if since + one not in found.links] == []
    assert "2 ran good" in page(service, f"{since}&status=SUCCESS").text
    assert "Running now the line is the usual time 1 in flight" in found.text


def test_the_leader_is_named(service):
    assert re.search(r"Nothing needs you\. process \d+ leads 0 schedules", page(service).text)


def test_pauses_of_more_than_thirty_days_lead_to_their_schedules():
    with running(None, tick_ms=86_400_000) as service:
        for name in ("b", "a", "new"):
            service.upsert(schedule_id=name)
        service.post("/schedules/pause", {"schedule_id": "b", "paused": True})
        service.advance(3600)
        service.post("/schedules/pause", {"schedule_id": "a", "paused": True})
        assert "older than 30 days" not in page(service).text
        service.advance(30 * 86_400)
        service.post("/schedules/pause", {"schedule_id": "new", "paused": True})
        service.advance(60)
        found, old = page(service), "/ui/schedules?state=paused&older=30d"
        assert "2 of 3 pauses are older than 30 days" in found.text
        assert old in found.links
        listed = page(service, old)
        assert [own["href"] for own in listed.all("a") if own.get("class") == "id"] == [
            "/ui/schedules/b",
            "/ui/schedules/a",
        ]
        assert "Paused for more than 30 days, the oldest first Any age" in listed.text


class Patient:
    """An executor whose runs take a minute of virtual time."""

    def __init__(self, clock):
        self._clock = clock

    async def run(self, *_):
        await self._clock.sleep(60)


def test_a_backfill_in_flight_says_how_far_it_is():
    with running(None, executor=Patient) as service:
        service.put("/workflows/report/1", {})
        service.upsert(cron_expr="0 9 * * *", start_at="2026-02-01T00:00:00Z", paused=True)
        for day in (10, 20):
            asked = {"start": f"2026-02-{day}T00:00:00Z", "end": f"2026-02-{day + 4}T00:00:00Z"}
            service.post("/schedules/nightly/backfill", asked)
            service.advance(130)
            assert "nightly backfill, 2 of 4 since" in page(service).text
            service.advance(200)


def test_the_first_schedule_is_stored_by_lines_that_name_this_service(service):
    found = page(service)
    assert f"curl -s {service.url}/schedules/upsert" in found.text
    lines, line = (own["data-copy"] for own in found.all("button") if "data-copy" in own)
    assert lines.startswith(f"curl -s -X PUT {service.url}/workflows/report/1 -H 'Content-Type")
    assert line == f"DUTIFUL_URL={service.url} dutiful schedules upsert FILE"


def test_a_schedule_whose_last_run_failed_needs_attention(service):
    service.put("/workflows/broken/1", {"fail": "no such table"})
    service.upsert(schedule_id="bad", cron_expr="* * * * *", workflow_id="broken")
    service.advance(61)
    found = page(service)
    assert "Working. One thing needs you." in found.text
    assert "bad failed The tick of today 09:01 UTC ran and failed: task_failed" in found.text
    assert "RuntimeError: no such table" in found.text
    assert "/ui/schedules/bad?at=2026-03-02T09%3A01%3A00Z#why" in found.links
    assert "1 need you - dutiful" in found.text
    assert [link.partition("?")[0] for link in found.links if "icon" in link] == ["/static/icon-needs.svg"]


def test_every_page_says_how_many_things_need_attention(service):
    service.put("/workflows/broken/1", {"fail": "no such table"})
    for name in ("bad", "worse"):
        service.upsert(schedule_id=name, cron_expr="1 9 * * *", workflow_id="broken")
    service.upsert(schedule_id="good", cron_expr="1 9 * * *")
    paths = ("/ui/schedules", "/ui/schedules/good", "/ui/cron", "/ui/me", "/ui/schedules/new", "/ui/system")
    assert not [path for path in paths if "needs you" in page(service, path).text]
    service.advance(61)
    assert [
        path for path in paths if "Overview, needs you: 2 Schedules" not in page(service, path).text
    ] == []
    service.client.delete("/schedules/bad")
    # Kept for ten seconds, and counted anew by the overview.
    assert "Overview, needs you: 2 " in page(service, "/ui/me").text
    assert "Overview, needs you: 1 " in page(service).text
    assert "Overview, needs you: 1 " in page(service, "/ui/me").text


def test_a_schedule_that_skips_tick_after_tick_names_the_run_in_its_way(service):
    service.put("/workflows/stuck/1", {"hang": True})
    service.upsert(schedule_id="slow", cron_expr="* * * * *", workflow_id="stuck")
    service.advance(301)
    found = page(service)
    assert "slow skipped 4 times in a row" in found.text
    assert "The run of today 09:01 is still in flight, for 4 min 1 s: overlap" in found.text
    assert "It is called lost at today 10:01, decided by run_timeout_s=3600" in found.text
    assert "Running now" in found.text
    assert "since 09:01 UTC, 4 min 1 s" in found.text


def test_a_run_that_takes_much_longer_than_usual_needs_the_reader(service):
    service.put("/workflows/slow/1", {"nodes": []})
    service.upsert(schedule_id="slow", cron_expr="* * * * *", workflow_id="slow", overlap_policy="allow")
    service.advance(61)
    service.put("/workflows/slow/1", {"hang": True}, replace=True)
    service.advance(60)
    assert "Working. Nothing needs you." in page(service).text
    service.upsert(schedule_id="slow", cron_expr="0 0 1 1 *", workflow_id="slow", overlap_policy="allow")
    service.advance(60)
    found = page(service)
    assert "Working. One thing needs you." in found.text
    assert "slow runs long Its run has been in flight for 1 min 1 s; usually it takes 0 ms." in found.text
    [run] = service.get("/runs", status="STARTED")["runs"]
    assert f"/ui/runs/{run['idempotency_key']}" in found.links


def test_an_executor_that_is_not_set_needs_the_operator():
    with running(None, executor=lambda _: NoExecutor()) as service:
        text = page(service).text
    assert "Working. One thing needs you." in text
    assert "The executor is not set Every run is refused. Set DUTIFUL_EXECUTOR" in text


def test_an_executor_that_does_not_answer_needs_the_operator():
    with running(None, executor=lambda _: Silent()) as service:
        text = page(service).text
    assert "Not working: the executor cannot be reached" in text
    assert "The executor does not answer Runs cannot be handed over: http://jobs.test: no answer" in text


class Silent:
    """An executor whose probe fails."""

    async def run(self, *_):
        raise AssertionError("nothing is due in this test")

    async def probe(self):
        return "http://jobs.test: no answer"


def test_a_certificate_close_to_its_end_needs_the_operator(tmp_path):
    end = datetime(2026, 3, 10, 12)  # noqa: DTZ001 - trustme wants UTC without saying so
    leaf = trustme.CA().issue_cert("localhost", not_after=end)
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    leaf.private_key_pem.write_to_path(tmp_path / "key.pem")
    files = {"DUTIFUL_TLS_CERT": f"{tmp_path}/cert.pem", "DUTIFUL_TLS_KEY": f"{tmp_path}/key.pem"}
    with running(None, **files) as service:
        text = page(service).text
    assert "The certificate of the server expires soon It ends on 2026-03-10 12:00 UTC." in text


def test_what_is_next_is_grouped_by_its_minute(service):
    for name in ("a", "b", "c", "d"):
        service.upsert(schedule_id=name, cron_expr="30 9 * * *")
    service.upsert(schedule_id="berlin", cron_expr="0 12 * * *", timezone="Europe/Berlin")
    text = page(service).text
    assert "09:30 4 schedules a, b, c and 1 more in 30 min" in text
    assert "11:00 berlin 12:00 in Berlin in 2 h" in text


def test_ticks_of_one_minute_are_one_group_that_begins_with_the_first(service):
    for name, second in (("a", 30), ("b", 10)):
        service.upsert(schedule_id=name, cron_expr=f"{second} 5 9 * * *")
    assert "09:05:10 2 schedules b, a in 5 min" in page(service).text


def test_what_comes_is_counted_from_the_cadences(service):
    service.post("/schedules/bulk", [{**SCHEDULE, "schedule_id": f"s{n}"} for n in range(40)])
    assert (
        "40 are to come in the next 12 hours, most of them at 09:30, 40 in ten minutes." in page(service).text
    )


def test_more_than_ten_things_that_need_attention_are_counted(service):
    service.put("/workflows/broken/1", {"fail": "no such table"})
    many = [
        {**SCHEDULE, "schedule_id": f"s{number:02}", "workflow_id": "broken", "cron_expr": "* * * * *"}
        for number in range(12)
    ]
    service.post("/schedules/bulk", many)
    service.advance(61)
    text = page(service).text
    assert "Working. 12 things need you." in text
    assert "And 2 more things. All of them" in text


def test_every_instant_is_a_time_element(service):
    service.upsert()
    found = page(service)
    outside = re.sub(r"<time[^>]*>[^<]*</time>|<pre>.*?</pre>", "", found.answer.text, flags=re.DOTALL)
    assert not re.search(r">[^<]*\d{4}-\d\d-\d\dT", outside)
    assert {"2026-03-02T09:00:00Z", "2026-03-02T09:30:00Z"} <= {own["datetime"] for own in found.all("time")}


def test_there_is_nothing_inline_and_nothing_from_elsewhere(service):
    found = page(service)
    assert found.answer.headers["content-security-policy"].startswith("default-src 'self'")
    assert found.answer.headers["cache-control"] == "no-store"
    assert "style=" not in found.answer.text
    assert not [name for _, own in found.elements for name in own if name.startswith("on")]
    assert [own for own in found.all("script") if "src" not in own] == []
    assert [link for link in found.links if not link.startswith(("/", "#"))] == []


def test_hostile_texts_are_shown_and_do_nothing(service):
    service.put("/workflows/broken/1", {"fail": HOSTILE})
    service.upsert(cron_expr="* * * * *", workflow_id="broken", labels={"team": HOSTILE})
    service.advance(61)
    for path in ("/", "/ui/schedules/nightly"):
        found = page(service, path)
        assert found.all("img") == []
        assert [own for own in found.all("script") if "src" not in own] == []
        assert HOSTILE in found.text


def test_static_files_are_named_by_their_bytes(service):
    [style] = [link for link in page(service).links if ".css" in link]
    answer = service.client.get(style)
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert re.fullmatch(r"/static/dutiful\.css\?v=[0-9a-f]{12}", style)


def test_the_pages_are_no_part_of_the_api(service):
    paths = service.get("/openapi.json")["paths"]
    assert not [path for path in paths if path == "/" or path.startswith("/ui")]


def test_the_overview_does_not_wait_while_the_audit_file_is_verified(tmp_path):
    with running(tmp_path, DUTIFUL_AUDIT_LOG=str(tmp_path / "audit.jsonl")) as service:
        service.upsert()
        assert "Chain intact" in page(service).text
        # What the thread holds that reads a large file.
        with service.app.state.audit._watch._turn:
            assert "Chain intact" not in page(service).text
