"""Lists, runs, calendar, cron lab, editor and the rest: each answers its question."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from tests.web.pages.html import Page, page
from tests.web.pages.test_forms import csrf, post
from tests.web.running import SCHEDULE

from dutiful.core.cron.cron import Cron
from dutiful.web.pages import words
from dutiful.web.pages.fire_time_changes import compare

NOW = datetime(2026, 11, 2, 14, 5, 12, tzinfo=UTC)


def test_schedules_are_found_by_part_of_an_id_label_and_workflow(service):
    service.upsert(schedule_id="billing.dunning", labels={"team": "billing"})
    service.upsert(schedule_id="search.index", workflow_id="other")
    for asked, found in [("dunn", True), ("team=billing", True), ("workflow:report", True), ("index", False)]:
        text = page(service, f"/ui/schedules?q={asked}").text
        assert ("billing.dunning" in text) is found, asked


def test_a_list_has_fifty_and_a_next_page(service):
    service.post("/schedules/bulk", [{**SCHEDULE, "schedule_id": f"s{n:03}"} for n in range(120)])
    for first in ("/ui/schedules", "/ui/schedules?q=s"):
        seen, path = [], first
        while path:
            found = page(service, path)
            seen += [link.rsplit("/", 1)[1] for link in found.links if "/ui/schedules/s" in link]
            path = next((own["href"] for own in found.all("a") if own.get("rel") == "next"), None)
        assert seen == [f"s{n:03}" for n in range(120)]


def test_schedules_in_trouble_are_a_filter(service):
    service.put("/workflows/broken/1", {"fail": "no such table"})
    service.upsert(schedule_id="bad", cron_expr="* * * * *", workflow_id="broken")
    service.upsert(schedule_id="good", cron_expr="* * * * *")
    service.advance(61)
    found = page(service, "/ui/schedules?state=failed")
    assert "failed 1" in found.text
    assert "/ui/schedules/bad" in found.links
    assert "/ui/schedules/good" not in found.links


def test_a_filter_that_matches_nothing_says_so(service):
    service.upsert()
    assert "Nothing matches zzz. Clear" in page(service, "/ui/schedules?q=zzz").text


def test_runs_are_grouped_by_cause_trouble_first(service):
    service.put("/workflows/broken/1", {"fail": "disk full"})
    for name in ("a", "b"):
        service.upsert(schedule_id=name, cron_expr="* * * * *", workflow_id="broken")
    service.upsert(schedule_id="good", cron_expr="* * * * *")
    service.advance(121)
    text = page(service, "/ui/runs").text
    assert text.index("4 failed task_failed a, b RuntimeError: disk full") < text.index("2 ran good")
    only = page(service, "/ui/runs?status=FAILED&view=each").text
    assert "disk full" in only
    assert "good" not in only


def test_a_group_of_skipped_ticks_says_from_when_to_when(service):
    service.upsert(schedule_id="idle", cron_expr="* * * * *")
    service.post("/schedules/pause", {"schedule_id": "idle", "paused": True})
    service.advance(301)
    service.post("/schedules/pause", {"schedule_id": "idle", "paused": False})
    text = page(service, "/ui/runs").text
    assert "5 skipped paused idle Mon 2 Mar 09:01 to 09:05" in text


def test_runs_of_one_time_are_a_link(service):
    service.upsert(schedule_id="good", cron_expr="* * * * *")
    service.advance(301)
    path = "/ui/runs?since=2026-03-02T09:02:00Z&until=2026-03-02T09:04:00Z"
    assert "2 ran good" in page(service, path).text


def test_one_run_is_told_from_its_tick_to_its_end(service):
    service.upsert(schedule_id="good", cron_expr="* * * * *")
    service.advance(61)
    [run] = service.get("/schedules/good/runs")["runs"]
    text = page(service, f"/ui/runs/{run['idempotency_key']}").text
    assert "Tick 09:01:00.000 planned Launched 09:01:00.000 attempt 1, 0 ms after its time" in text
    assert "Ended 09:01:00.000 ran, in 0 ms" in text
    assert page(service, f"/ui/runs/{'0' * 64}", 404)


def test_the_calendar_counts_a_day_and_imagines_an_outage(service):
    service.upsert(schedule_id="hourly", cron_expr="0 * * * *")
    service.upsert(schedule_id="owed", cron_expr="30 * * * *", catchup_policy="latest")
    text = page(service, "/ui/calendar?day=2026-03-03&down=02:00&hours=3").text
    assert "48 ticks" in text
    assert "7 ticks fall into it, of 2 schedules." in text
    assert "run afterwards 2" in text
    assert "skipped as missed 3" in text
    assert "skipped as coalesced 2" in text


def test_the_cron_lab_says_what_a_text_means(service):
    text = page(service, "/ui/cron?e=30+2+*+*+*&tz=America/New_York").text
    assert "At 02:30, every day, in New York" in text
    assert "365 fire times" in text
    wrong = page(service, "/ui/cron?e=61+2+*+*+*").text
    assert "61" in wrong
    assert "Next fire times" not in wrong


def test_why_answers_for_any_schedule_and_names_near_ids(service):
    service.upsert()
    assert "NO TICK not_due" in page(service, "/ui/why?schedule=nightly&at=today+10:00").text
    assert "Near: nightly" in page(service, "/ui/why?schedule=nightl&at=today+10:00", 404).text


def test_the_page_of_an_unknown_schedule_names_those_that_are_spelled_alike(service):
    for schedule_id in ("nightly", "nightly.us", "weekly"):
        service.upsert(schedule_id=schedule_id)
    told = page(service, "/ui/schedules/nightly-us", 404)
    assert "Near: nightly.us, nightly Code unknown_schedule" in told.text


def test_the_editor_shows_what_changes_and_keeps_what_it_does_not_show(service):
    service.upsert(start_at="2026-01-01T00:00:00Z", labels={"team": "ops"}, jitter_ms=5)
    path = "/ui/schedules/nightly/edit"
    field = csrf(service, path)
    shown = post(service, path, field, do="preview", cron_expr="45 9 * * *")
    assert "365 move" in shown.text
    assert service.get("/schedules/nightly")["cron_expr"] == "30 9 * * *"
    assert post(service, path, field, do="save", cron_expr="45 9 * * *").status_code == 303
    stored = service.get("/schedules/nightly")
    kept = {name: stored[name] for name in ("cron_expr", "start_at", "labels", "jitter_ms")}
    assert kept == {
        "cron_expr": "45 9 * * *",
        "start_at": "2026-01-01T00:00:00Z",
        "labels": {"team": "ops"},
        "jitter_ms": 5,
    }


def test_the_json_of_the_editor_stores_what_the_form_would_store(service):
    service.upsert(start_at="2026-01-01T00:00:00Z", calendar=["12-25"], labels={"team": "ops"}, jitter_ms=5)
    before = service.get("/schedules/nightly")
    text = html.unescape(service.client.get("/ui/schedules/nightly/edit").text)
    url, body = re.search(r"curl -X POST (\S+) --json @- <<'END'\n(.*?)\nEND</pre>", text, re.DOTALL).groups()
    service.upsert(cron_expr="1 1 * * *")
    assert service.client.post(url, json=json.loads(body)).status_code == 200
    assert service.get("/schedules/nightly") == before


def test_the_editor_tells_how_crowded_the_next_minute_is(service):
    for schedule_id, cron in (
        ("a", "30 9 * * *"),
        ("b", "30 9 * * *"),
        ("c", "* * * * *"),
        ("d", "45 9 * * *"),
    ):
        service.upsert(schedule_id=schedule_id, cron_expr=cron)
    shown = page(service, "/ui/schedules/d/edit").text
    assert "2 ticks of the stored schedules at 09:45; 3 at 09:30, the fullest minute" in shown
    assert "1 tick of the stored schedules at 12:00." in page(service, "/ui/schedules/new?e=0+12+*+*+*").text


def test_an_edit_that_another_overtook_shows_both_and_is_saved_when_asked_again(service):
    service.upsert()
    path = "/ui/schedules/nightly/edit"

    def form():
        shown = service.client.get(path).text
        return {name: re.search(rf'name="{name}" value="(\w+)"', shown)[1] for name in ("csrf", "seen")}

    loaded = form()
    service.upsert(cron_expr="15 9 * * *")
    preview = post(service, path, loaded["csrf"], do="preview", seen=loaded["seen"], cron_expr="45 9 * * *")
    assert f'name="seen" value="{loaded["seen"]}"' in preview.text
    answer = post(service, path, loaded["csrf"], do="save", seen=loaded["seen"], cron_expr="45 9 * * *")
    assert answer.status_code == 409
    assert "cron_expr 15 9 * * * 45 9 * * *" in Page(answer).text
    assert service.get("/schedules/nightly")["cron_expr"] == "15 9 * * *"
    again = re.search(r'name="seen" value="(\w+)"', answer.text)[1]
    saved = post(service, path, loaded["csrf"], do="save", seen=again, cron_expr="45 9 * * *")
    assert (saved.status_code, service.get("/schedules/nightly")["cron_expr"]) == (303, "45 9 * * *")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cron_expr": "0 0 30 2 *"}, "30"),
        ({"version": "one"}, "write a number"),
        ({"labels": "team"}, "name=value"),
        ({"timezone": "Europe/Kiew"}, "Europe/Kiew"),
    ],
)
def test_what_cannot_be_stored_keeps_the_form_and_says_why(service, changes, said):
    service.upsert()
    path = "/ui/schedules/nightly/edit"
    answer = post(service, path, csrf(service, path), do="save", **changes)
    assert answer.status_code == 422
    assert "It was not saved" in answer.text
    assert said in answer.text


def test_a_new_schedule_is_stored_from_the_form(service):
    path = "/ui/schedules/new"
    given = {
        "schedule_id": "fresh",
        "workflow_id": "report",
        "version": "1",
        "user_id": "ada",
        "cron_expr": "5 4 * * *",
    }
    assert post(service, path, csrf(service, path), do="save", **given).status_code == 303
    assert service.get("/schedules/fresh")["cron_expr"] == "5 4 * * *"


def test_the_account_of_an_edit_is_the_difference_of_the_fire_times():
    for old, new in [
        ("30 1 * * *", "15 2 * * 0-5"),
        ("0 * * * *", "0 */2 * * *"),
        ("0 9 * * 1", "0 9 * * 2"),
        ("* * * * *", "*/2 * * * *"),
    ]:
        before, after = (Cron.parse(text, "standard", "America/New_York") for text in (old, new))
        told = compare(before, after, NOW)
        end, begin = NOW + told.within, NOW + timedelta(seconds=1)
        gone, come = {*before.between(begin, end)}, {*after.between(begin, end)}
        assert told.moved + told.removed == len(gone - come)
        assert told.moved + told.added == len(come - gone)


def test_the_foot_leads_to_the_keys_and_to_the_sentence_of_every_reason(service):
    links = page(service, "/ui/me").links
    assert {"/ui/me#keys", "/ui/why#reasons", "/metrics", "/openapi.json"} <= {*links}
    told = page(service, "/ui/why").text
    assert [name for name, said in words.REASONS.items() if f"{name} {said}" not in told] == []
