"""Pausing and resuming all schedules that a filter matches: the effect first, then the change."""

from __future__ import annotations

import re

import pytest
from tests.web.pages.html import Page, page
from tests.web.pages.test_runs import set_aside
from tests.web.running import SCHEDULE

MANY = "/ui/schedules/pause-many"


@pytest.fixture
def teams(service):
    for number in range(3):
        service.upsert(schedule_id=f"billing-{number}", labels={"team": "billing"})
    service.upsert(schedule_id="late", labels={"team": "billing"}, cron_expr="0 23 * * *")
    service.upsert(schedule_id="other", labels={"team": "search"})
    service.post("/schedules/pause", {"schedule_id": "billing-0", "paused": True})
    return service


def send(service, path=MANY, **form):
    field = re.search(r'name="csrf" value="([0-9a-f]+)"', service.client.get(path).text)[1]
    return service.client.post(path, data={"csrf": field, **form}, headers={"Origin": service.url})


def paused(service):
    return {view["schedule_id"] for view in service.get("/schedules")["schedules"] if view["paused"]}


def test_the_list_of_a_filter_offers_to_change_all_that_match(teams):
    listed = page(teams, "/ui/schedules?q=team=billing")
    assert "4 schedules match Pause 3… Resume 1…" in listed.text
    assert f"{MANY}?q=team%3Dbilling" in listed.links


@pytest.mark.parametrize("query", ["", "q=none", "q=team=billing&state=failed"])
def test_without_a_filter_or_a_match_nothing_is_offered(teams, query):
    assert not [link for link in page(teams, f"/ui/schedules?{query}").links if MANY in link]


def test_the_question_says_what_would_change(teams):
    asked = page(teams, f"{MANY}?q=team=billing").text
    assert "3 change, 1 is paused already, 2 fire in the next hour." in asked
    assert "Pause 3 schedules" in asked


def test_all_that_match_are_paused_with_a_note_and_resumed_by_the_same_filter(teams):
    done = send(teams, q="team=billing", paused="true", note="moving house")
    assert done.status_code == 303
    told = page(teams, done.headers["location"]).text
    assert "3 schedules paused. Undo…" in told
    assert paused(teams) == {"billing-0", "billing-1", "billing-2", "late"}
    assert teams.get("/schedules/late")["pause_note"] == "moving house"
    assert send(teams, q="team=billing", paused="false").status_code == 303
    assert paused(teams) == set()


def test_undo_resumes_what_was_paused_with_its_note_and_nothing_else(teams):
    done = page(teams, send(teams, q="team=billing", paused="true", note="moving house").headers["location"])
    [undo] = [link for link in done.links if "pause_note" in link]
    assert undo == f"{MANY}?q=team%3Dbilling&paused=false&pause_note=moving+house&state=all"
    asked = page(teams, undo)
    assert "only those paused with the note moving house" in asked.text
    assert "3 run again from their next tick on." in asked.text
    form = {
        own["name"]: own["value"] for own in asked.all("input") if "value" in own and own["name"] != "csrf"
    }
    resumed = send(teams, **form)
    assert "3 schedules resumed." in page(teams, resumed.headers["location"]).text
    assert "Undo" not in page(teams, resumed.headers["location"]).text
    assert paused(teams) == {"billing-0"}
    assert "Nothing would change." in Page(send(teams, **form)).text


def test_undo_of_selected_schedules_resumes_those(teams):
    done = send(teams, ids="late other billing-0", paused="true", note="moving house")
    [undo] = [link for link in page(teams, done.headers["location"]).links if "pause_note" in link]
    assert "2 run again" in page(teams, undo).text
    assert (
        send(teams, ids="late other billing-0", paused="false", pause_note="moving house").status_code == 303
    )
    assert paused(teams) == {"billing-0"}


def test_a_change_of_many_returns_to_the_state_of_the_list(teams):
    listed = page(teams, "/ui/schedules?q=team%3Dbilling&state=paused")
    [resume] = [link for link in listed.links if "paused=false" in link]
    assert resume == f"{MANY}?q=team%3Dbilling&paused=false&state=paused"
    assert "/ui/schedules?q=team%3Dbilling&state=paused" in page(teams, resume).links
    done = send(teams, q="team=billing", paused="false", state="paused")
    assert done.headers["location"].startswith("/ui/schedules?q=team%3Dbilling&state=paused&done=")


def test_a_pause_without_a_note_changes_nothing(teams):
    refused = send(teams, q="team=billing", paused="true")
    assert refused.status_code == 422
    assert "why they are paused" in Page(refused).text
    assert paused(teams) == {"billing-0"}


def test_all_whose_ids_have_a_part_are_paused_and_resumed(teams):
    assert "3 schedules match Pause 2… Resume 1…" in page(teams, "/ui/schedules?q=ling-").text
    assert "2 change, 1 is paused already, 2 fire in the next hour." in page(teams, f"{MANY}?q=ling-").text
    assert send(teams, q="ling-", paused="true", note="moving house").status_code == 303
    assert paused(teams) == {"billing-0", "billing-1", "billing-2"}
    assert send(teams, q="ling-", paused="false").status_code == 303
    assert paused(teams) == set()


@pytest.mark.parametrize("query", ["", " ", "none", "team=none"])
def test_a_filter_that_matches_nothing_changes_nothing(teams, query):
    assert send(teams, q=query, paused="true", note="x").status_code == 422
    assert paused(teams) == {"billing-0"}


def test_for_more_than_a_hundred_their_number_must_be_typed(service):
    many = [{"schedule_id": f"s{number}", "workflow_id": "report", "version": 1, "user_id": "ada",
             "cron_expr": "0 0 * * *"} for number in range(120)]  # fmt: skip
    service.post("/schedules/bulk", many)
    form = {"q": "workflow:report", "paused": "true", "note": "moving house"}
    assert "Type 120 to change that many." in Page(send(service, **form)).text
    assert paused(service) == set()
    assert send(service, **form, typed="120").status_code == 303
    assert service.get("/summary")["paused"] == 120


def test_selected_schedules_are_asked_about_and_paused(teams):
    asked = Page(send(teams, ids="late other none", do="pause")).text
    assert "Pause those selected? 2 schedules: late, other, none" in asked
    assert "2 change, 0 are paused already, 1 fires in the next hour." in asked
    done = send(teams, ids="late other none", paused="true", note="moving house")
    assert "2 schedules paused." in page(teams, done.headers["location"]).text
    assert paused(teams) == {"billing-0", "late", "other"}
    assert "3 run again" in Page(send(teams, ids="late other billing-0", do="resume")).text
    assert send(teams, ids="late", paused="false").status_code == 303
    assert paused(teams) == {"billing-0", "other"}


PAST = {"start": "2026-03-02 00:00", "end": "2026-03-02 09:00", "path": "/ui/schedules/backfill-many"}


@pytest.fixture
def hourly(service):
    for number in range(3):
        service.upsert(schedule_id=f"h{number}", cron_expr="0 * * * *", start_at="2026-03-02T06:30:00Z")
    return service


def test_past_ticks_of_all_that_match_are_shown_and_then_run(hourly):
    assert "Backfill 3…" in page(hourly, "/ui/schedules?q=h").text
    shown = Page(send(hourly, q="h", do="forecast", **PAST)).text
    assert "3 schedules match h" in shown
    assert "6 ticks in that range: 6 would run, 0 ran already." in shown
    assert hourly.get("/runs")["runs"] == []
    done = send(hourly, q="h", do="run", overlap_policy="allow", **PAST)
    told = page(hourly, done.headers["location"]).text
    assert "6 past ticks of 3 schedules will run, 0 ran already." in told
    hourly.advance(1)
    assert {run["status"] for run in hourly.get("/runs")["runs"]} == {"SUCCESS"}
    assert len(hourly.get("/runs")["runs"]) == 6


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"q": ""}, "No schedule matches."),
        ({"q": "none"}, "No schedule matches."),
        ({"q": "h", "end": "soon"}, "That is not a time that can be read"),
        ({"q": "h", "end": "2026-03-01 00:00"}, "The end must be after the start."),
        ({"ids": "none"}, "No schedule matches."),
    ],
)
def test_past_ticks_that_cannot_be_meant_are_refused(hourly, asked, said):
    for do in ("forecast", "run"):
        answer = send(hourly, **{**PAST, **asked}, do=do)
        assert (answer.status_code, said in Page(answer).text) == (422, True)
    assert hourly.get("/runs")["runs"] == []


def test_past_ticks_of_too_many_schedules_or_too_many_ticks_are_refused(service):
    given = {**SCHEDULE, "start_at": "2026-03-01T00:00:00Z", "cron_expr": "* * * * *"}
    service.post("/schedules/bulk", [{**given, "schedule_id": f"s{number:03}"} for number in range(101)])
    links = page(service, "/ui/schedules?q=s").links
    assert [link for link in links if "backfill-many" in link] == []
    assert "of at most 100 schedules are run at once" in Page(send(service, q="s", do="run", **PAST)).text
    # It is known after two of them, so the others are not read.
    set_aside(service, "s009")
    too_many = "More than 1,000 past ticks would run: find fewer schedules, or choose a shorter time."
    assert too_many in Page(send(service, q="s00", do="run", **PAST)).text
    service.upsert(**{**given, "schedule_id": "s009"})
    assert service.get("/runs")["runs"] == []
    hour = {**PAST, "start": "2026-03-02 08:00"}
    assert "600 would run" in Page(send(service, q="s00", do="forecast", **hour)).text
