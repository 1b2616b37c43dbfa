"""The end of a pause on the pages: offered, asked for without script, and shown."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from tests.web.pages.html import Page, page
from tests.web.pages.test_forms import csrf, post
from tests.web.pages.test_many_schedules import send
from tests.web.running import running

from dutiful.web.pages.pause_end import asked_end, presets

PAUSE = "/ui/schedules/nightly/pause"
NEW_YORK = ZoneInfo("America/New_York")


def at(text):
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("form", "now", "zone", "end"),
    [
        ({}, "2026-03-02T09:00Z", UTC, None),
        ({"until": "", "until_at": " "}, "2026-03-02T09:00Z", UTC, None),
        ({"until": "hour"}, "2026-03-02T09:00:30Z", UTC, "2026-03-02T10:00:30Z"),
        ({"until": "tomorrow"}, "2026-03-02T09:00Z", UTC, "2026-03-03T09:00Z"),
        # It is still the 1st in New York.
        ({"until": "tomorrow"}, "2026-03-02T03:00Z", NEW_YORK, "2026-03-02T14:00Z"),
        # Clocks change in the night: 09:00 there stays 09:00.
        ({"until": "tomorrow"}, "2026-03-07T20:00Z", NEW_YORK, "2026-03-08T13:00Z"),
        ({"until": "tomorrow"}, "2026-10-31T20:00Z", NEW_YORK, "2026-11-01T14:00Z"),
        ({"until": "hour"}, "2026-03-08T06:30Z", NEW_YORK, "2026-03-08T07:30Z"),
        ({"until_at": "2026-03-05T18:30"}, "2026-03-02T09:00Z", NEW_YORK, "2026-03-05T23:30Z"),
        ({"until": "hour", "until_at": "2026-03-05T18:30"}, "2026-03-02T09:00Z", UTC, "2026-03-05T18:30Z"),
        # Skipped by the clock: an hour later. Twice on the clock: the first.
        ({"until_at": "2026-03-08T02:30"}, "2026-03-02T09:00Z", NEW_YORK, "2026-03-08T07:30Z"),
        ({"until_at": "2026-11-01T01:30"}, "2026-03-02T09:00Z", NEW_YORK, "2026-11-01T05:30Z"),
    ],
)  # fmt: skip
def test_the_end_of_a_form_is_an_instant(form, now, zone, end):
    assert asked_end(form, zone, at(now)) == (None if end is None else at(end), "")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("2026-03-02T09:00", "A pause must end in the future: choose a later time."),
        ("2026-02-30T09:00", "There is no such time"),
        ("soon", "That is not a time that can be read"),
    ],
)
def test_an_end_that_cannot_be_meant_is_reported(given, problem):
    end, said = asked_end({"until_at": given}, UTC, at("2026-03-02T09:00Z"))
    assert (end, said.startswith(problem)) == (None, True)


def test_the_presets_name_the_zone_of_the_schedule():
    assert presets("America/New_York") == {
        "": "somebody resumes it",
        "hour": "one hour from now",
        "tomorrow": "tomorrow 09:00 in New York",
    }
    assert presets("Etc/UTC")["tomorrow"] == "tomorrow 09:00 UTC"


@pytest.fixture
def nightly(service):
    service.upsert(timezone="America/New_York")
    return service


def test_a_pause_with_an_end_is_asked_for_and_shown_in_the_zone_of_the_schedule(nightly):
    asked = page(nightly, PAUSE)
    assert "tomorrow 09:00 in New York Or until this time, in New York" in asked.text
    field = csrf(nightly, PAUSE)
    form = {"paused": "true", "note": "moves", "until": "tomorrow", "until_at": ""}
    assert post(nightly, PAUSE, field, **form).status_code == 303
    assert nightly.get("/schedules/nightly")["pause_until"] == "2026-03-03T14:00:00Z"
    shown = page(nightly, "/ui/schedules/nightly").text
    said = "Paused by local since Mon 2 Mar 09:00 UTC, now, until Tue 3 Mar 09:00 UTC−5, in 1 d 5 h"
    assert said in shown
    assert "none before the pause ends, in 1 d 5 h" in shown
    assert "it resumes by itself in 1 d 5 h" in page(nightly, PAUSE).text


@pytest.mark.parametrize("until_at", ["2026-03-01T09:00", "x"])
def test_a_form_with_a_wrong_end_is_kept_and_changes_nothing(nightly, until_at):
    form = {"paused": "true", "note": "moves <b>", "until": "hour", "until_at": until_at}
    answer = post(nightly, PAUSE, csrf(nightly, PAUSE), **form)
    assert answer.status_code == 422
    assert 'value="moves &lt;b&gt;"' in answer.text
    assert f'value="{until_at}"' in answer.text
    assert '<option value="hour" selected>' in answer.text
    assert nightly.get("/schedules/nightly")["paused"] is False


def test_a_resumption_by_hand_asks_for_no_end(nightly):
    nightly.post("/schedules/pause", {"schedule_id": "nightly", "paused": True})
    field = csrf(nightly, PAUSE)
    assert "until_at" not in nightly.client.get(PAUSE).text
    assert post(nightly, PAUSE, field, paused="false", until_at="x").status_code == 303
    assert nightly.get("/schedules/nightly")["paused"] is False


def test_many_are_paused_until_a_time_in_utc(nightly):
    form = {"q": "workflow:report", "paused": "true", "note": "moves"}
    assert "Or until this time, UTC" in page(nightly, "/ui/schedules/pause-many?q=workflow:report").text
    refused = send(nightly, **form, until_at="2026-03-01T09:00")
    assert (refused.status_code, "must end in the future" in Page(refused).text) == (422, True)
    assert send(nightly, **form, until_at="2026-03-04T06:00").status_code == 303
    assert nightly.get("/schedules/nightly")["pause_until"] == "2026-03-04T06:00:00Z"


@pytest.mark.parametrize("chosen", [{"q": "workflow:report"}, {"ids": "nightly other"}])
def test_pausing_many_also_takes_those_that_are_paused_until_another_end(nightly, chosen):
    """One is paused until noon, the other for as long as nobody resumes it."""
    nightly.upsert(schedule_id="other")
    for name, until in {"nightly": "2026-03-02T12:00:00Z", "other": None}.items():
        nightly.post("/schedules/pause", {"schedule_id": name, "paused": True, "until": until})
    asked = Page(send(nightly, **chosen, do="pause")).text
    assert "1 changes, 1 is paused already" in asked
    form = {**chosen, "paused": "true", "note": "incident"}
    assert "1+schedule+paused" in send(nightly, **form).headers["location"]
    views = [nightly.get(f"/schedules/{name}") for name in ("nightly", "other")]
    assert [(view["pause_until"], view["pause_note"]) for view in views] == [(None, "incident"), (None, None)]
    assert "Nothing would change." in Page(send(nightly, **form)).text
    assert "2+schedules+paused" in send(nightly, **form, until="tomorrow").headers["location"]
    assert "2 run again" in Page(send(nightly, **chosen, do="resume")).text


def test_a_pause_replaces_the_end_and_the_note_of_another(nightly):
    nightly.post(
        "/schedules/pause", {"schedule_id": "nightly", "paused": True, "until": "2026-03-02T12:00:00Z"}
    )
    assert post(nightly, PAUSE, csrf(nightly, PAUSE), paused="true", note="incident").status_code == 303
    view = nightly.get("/schedules/nightly")
    assert (view["paused"], view["pause_until"], view["pause_note"]) == (True, None, "incident")


def test_the_audit_says_until_when(tmp_path):
    with running(tmp_path, DUTIFUL_AUDIT_LOG=str(tmp_path / "audit.jsonl")) as service:
        service.upsert()
        post(service, PAUSE, csrf(service, PAUSE), paused="true", note="moves", until="hour")
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [line["until"] for line in lines if "until" in line] == ["2026-03-02T10:00:00Z"]
