"""Schedules from a text: their effect is shown, then all of them are stored, or none."""

from __future__ import annotations

import json

import pytest
from tests.web.pages.html import Page, page
from tests.web.pages.test_forms import csrf, post
from tests.web.running import SCHEDULE

HERE = "/ui/schedules/import"


def send(service, text, do="show"):
    return post(service, HERE, csrf(service, HERE), text=text, do=do)


def ids(service):
    return [view["schedule_id"] for view in service.get("/schedules")["schedules"]]


def test_the_effect_of_each_schedule_is_shown_and_nothing_is_stored(service):
    service.upsert()
    service.upsert(schedule_id="same")
    many = [{**SCHEDULE, "cron_expr": "0 3 * * *"}, {**SCHEDULE, "schedule_id": "same"},
            {**SCHEDULE, "schedule_id": "new"}]  # fmt: skip
    shown = Page(send(service, json.dumps(many))).text
    assert "3 schedules: 1 new, 1 changes, 1 stays as it is. Nothing of the past becomes due." in shown
    assert "nightly At 03:00, in UTC changes cron_expr Tomorrow 03:00" in shown
    assert "same At 09:30, in UTC stays Today 09:30" in shown
    assert "new At 09:30, in UTC new Today 09:30" in shown
    assert "Store 3 schedules" in shown
    assert ids(service) == ["nightly", "same"]


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: [one], lambda one: {"schedules": [one]}])
def test_one_object_a_list_and_the_body_of_the_api_are_stored(service, wrap):
    answer = send(service, json.dumps(wrap(SCHEDULE)), "store")
    assert answer.status_code == 303
    told = page(service, answer.headers["location"]).text
    assert "1 schedule stored, 1 of them new. Nothing of the past became due." in told
    assert ids(service) == ["nightly"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ('[{"schedule_id": ', "it is no JSON"),
        ("[]", "must not be empty"),
        (
            json.dumps([SCHEDULE, {**SCHEDULE, "version": "1"}]),
            "schedules.1.version: must be a whole number",
        ),
        (
            json.dumps([SCHEDULE, {**SCHEDULE, "schedule_id": "x", "cron_expr": "61 * * * *"}]),
            "schedules.1: ",
        ),
        (json.dumps([SCHEDULE] * 101), "101 are too many to show; `dutiful schedules upsert FILE` takes"),
    ],
)
def test_what_cannot_be_stored_is_reported_and_the_text_stays(service, text, said):
    for do in ("show", "store"):
        answer = send(service, text, do)
        assert answer.status_code == 422
        shown = Page(answer)
        assert said in shown.text
        assert " ".join(text.split()) in shown.text
    assert ids(service) == []


def test_a_service_without_schedules_loads_three_examples(service):
    assert "Load three examples" in page(service).text
    answer = post(service, "/ui/examples", csrf(service, "/"))
    assert answer.status_code == 303
    told = page(service, answer.headers["location"]).text
    assert "Three examples are stored." in told
    assert ids(service) == ["example.heartbeat", "example.nightly", "example.weekdays"]
    service.advance(301)
    [run] = service.get("/schedules/example.heartbeat/runs")["runs"]
    assert run["status"] == "SUCCESS"
    assert "Load three examples" not in page(service).text
