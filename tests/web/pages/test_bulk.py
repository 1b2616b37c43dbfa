"""Pausing and resuming all schedules that a filter matches: the effect first, then the change."""

from __future__ import annotations

import re

import pytest
from tests.web.pages.html import Page, page

MANY = "/ui/schedules/pause-many"


@pytest.fixture
def teams(service):
    for number in range(3):
        service.upsert(schedule_id=f"billing-{number}", labels={"team": "billing"})
    service.upsert(schedule_id="late", labels={"team": "billing"}, cron_expr="0 23 * * *")
    service.upsert(schedule_id="other", labels={"team": "search"})
    service.post("/schedules/pause", {"schedule_id": "billing-0", "paused": True})
    return service


def send(service, **form):
    field = re.search(r'name="csrf" value="([0-9a-f]+)"', service.client.get(MANY).text)[1]
    return service.client.post(MANY, data={"csrf": field, **form}, headers={"Origin": service.url})


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
    assert "3 schedules paused." in told
    assert paused(teams) == {"billing-0", "billing-1", "billing-2", "late"}
    assert teams.get("/schedules/late")["pause_note"] == "moving house"
    assert send(teams, q="team=billing", paused="false").status_code == 303
    assert paused(teams) == set()


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
