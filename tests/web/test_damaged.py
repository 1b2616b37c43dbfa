"""Schedules whose rows cannot be read: shown as such, and open to being stored again or deleted."""

from __future__ import annotations

import re
import sqlite3
from html import unescape

import pytest
from tests.web.pages.html import page
from tests.web.pages.test_forms import csrf, post
from tests.web.running import SCHEDULE, running


@pytest.fixture
def damaged(tmp_path):
    with running(tmp_path) as service:
        service.put("/workflows/report/1", {})
        service.upsert()
        service.upsert(schedule_id="whole")
        with sqlite3.connect(tmp_path / "service.db") as connection:
            connection.execute("UPDATE declarations SET payload = 'x' WHERE id = 'nightly'")
        connection.close()
        # The worker comes across it when it is due.
        service.advance(1800)
        yield service


def error_of(answer):
    return answer.status_code, answer.json()["error"]["code"], answer.json()["error"]["details"]


def problem_of(service) -> str:
    [found] = service.get("/schedules")["damaged"]
    assert found["schedule_id"] == "nightly"
    return found["problem"]


def test_the_list_has_them_beside_the_others(damaged):
    listed = damaged.get("/schedules")
    assert [view["schedule_id"] for view in listed["schedules"]] == ["whole"]
    assert "checksum does not match" in problem_of(damaged)


def test_a_damaged_schedule_is_answered_with_its_problem(damaged):
    status, code, details = error_of(damaged.client.get("/schedules/nightly"))
    assert (status, code, details) == (
        409,
        "damaged_schedule",
        {"schedule_id": "nightly", "problem": problem_of(damaged)},
    )


def test_the_summary_counts_what_the_overview_counts(damaged):
    damaged.put("/workflows/broken/1", {"fail": "no such table"})
    damaged.upsert(schedule_id="fails", workflow_id="broken", cron_expr="* * * * *")
    damaged.advance(61)
    assert "Two things need you." in page(damaged).text
    assert damaged.get("/summary")["needs"] == 2


def test_a_list_of_nothing_but_damage_does_not_say_that_nothing_matches(damaged):
    listed = page(damaged, "/ui/schedules?state=trouble").text
    assert "No schedule that can be read is in trouble." in listed
    assert "Nothing matches" not in listed


def test_the_overview_shows_them(damaged):
    [entry] = re.findall(r'<li data-key="nightly [a-z ]+">.*?</li>', damaged.client.get("/").text, re.DOTALL)
    words = unescape(" ".join(re.sub(r"<[^>]+>", " ", entry).split()))
    assert (
        words
        == f"nightly damaged Its row cannot be read: {problem_of(damaged)}. Store it again, or delete it."
    )


def test_damaged_schedules_are_counted(damaged):
    assert "dutiful_schedules_damaged 1.0" in damaged.client.get("/metrics").text.splitlines()


def test_stored_again_it_is_whole(damaged):
    damaged.upsert()
    assert damaged.get("/schedules/nightly")["cron_expr"] == SCHEDULE["cron_expr"]
    assert damaged.get("/schedules")["damaged"] == []


def test_a_damaged_schedule_can_be_deleted(damaged):
    assert damaged.client.delete("/schedules/nightly").status_code == 204
    assert damaged.get("/schedules")["damaged"] == []
    assert damaged.client.get("/schedules/nightly").status_code == 404


def test_an_id_that_was_never_stored_is_unknown(damaged):
    assert damaged.client.get("/schedules/never").status_code == 404
    assert damaged.client.delete("/schedules/never").status_code == 404


@pytest.mark.parametrize("question", ["", "/edit", "/delete", "/run", "/pause", "/backfill"])
def test_every_page_about_a_damaged_schedule_says_what_is_wrong_and_how_to_mend_it(damaged, question):
    found = page(damaged, f"/ui/schedules/nightly{question}", 409)
    assert f"Its row cannot be read: {problem_of(damaged)}." in found.text
    assert "/ui/schedules/new?id=nightly" in found.links
    assert {"name": "typed", "id": "typed", "maxlength": "128", "required": None, "autocomplete": "off"} in (
        found.all("input")
    )


def test_the_form_in_which_it_is_stored_again_has_its_id(damaged):
    [field] = [
        own
        for own in page(damaged, "/ui/schedules/new?id=nightly").all("input")
        if own.get("name") == "schedule_id"
    ]
    assert field["value"] == "nightly"
    form = {**SCHEDULE, "labels": "", "do": "save"}
    answer = post(damaged, "/ui/schedules/new", csrf(damaged, "/ui/schedules/new"), **form)
    assert answer.status_code == 303
    assert damaged.get("/schedules")["damaged"] == []


def test_a_damaged_schedule_is_deleted_on_its_page_once_its_id_is_typed(damaged):
    here = "/ui/schedules/nightly"
    answer = post(damaged, f"{here}/delete", csrf(damaged, here), typed="nightl")
    assert (answer.status_code, "Type nightly to delete it" in answer.text) == (409, True)
    assert problem_of(damaged)
    answer = post(damaged, f"{here}/delete", csrf(damaged, here), typed="nightly")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/schedules")
    assert damaged.get("/schedules")["damaged"] == []


@pytest.mark.parametrize(
    ("query", "there"), [("", True), ("?state=aside", True), ("?state=paused", False), ("?q=whole", False)]
)
def test_the_page_with_the_list_has_them_first(damaged, query, there):
    text = page(damaged, f"/ui/schedules{query}").text
    assert (f"nightly cannot be read: {problem_of(damaged)}" in text) is there


@pytest.mark.parametrize("query", ["", "?state=aside"])
def test_the_states_of_the_list_count_them(damaged, query):
    assert "Find all 2 in trouble 1 set aside 1 " in page(damaged, f"/ui/schedules{query}").text
    assert "set aside" not in page(damaged, "/ui/schedules?q=whole").text
