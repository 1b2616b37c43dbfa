"""Forms: only a page of this service may send one, for the user it was made for."""

from __future__ import annotations

import re

import pytest
from tests.web.pages.html import Page, page


def csrf(service, path="/ui/schedules/nightly/run"):
    """Load a page, and return the field of its form; the client keeps the cookie."""
    return re.search(r'name="csrf" value="([0-9a-f]{128})"', service.client.get(path).text)[1]


def post(service, path, field, origin=None, **more):
    headers = {"Origin": service.url if origin is None else origin, **more.pop("headers", {})}
    return service.client.post(
        path, data={"csrf": field, **more}, headers={k: v for k, v in headers.items() if v}
    )


@pytest.fixture
def nightly(service):
    service.upsert()
    return service


def test_a_form_of_this_page_is_taken_and_written_down(nightly):
    answer = post(nightly, "/ui/schedules/nightly/run", csrf(nightly))
    assert (answer.status_code, answer.headers["location"].split("?")[0]) == (303, "/ui/schedules/nightly")
    nightly.advance(1)
    [run] = nightly.get("/schedules/nightly/runs")["runs"]
    assert (run["trigger"], run["status"]) == ("manual", "SUCCESS")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_form_from_elsewhere_is_refused_and_does_nothing(nightly, headers):
    answer = post(nightly, "/ui/schedules/nightly/run", csrf(nightly), headers=headers)
    assert answer.status_code == 403
    assert nightly.get("/schedules/nightly/runs")["runs"] == []


@pytest.mark.parametrize("field", ["", "00" * 64, "zz", "ab"])
def test_a_form_without_the_proof_of_its_page_is_refused(nightly, field):
    csrf(nightly)
    answer = post(nightly, "/ui/schedules/nightly/run", field)
    assert answer.status_code == 403
    assert "form_refused" in answer.text


def test_the_proof_of_another_browser_is_refused(nightly):
    field = csrf(nightly)
    nightly.client.cookies.clear()
    csrf(nightly)
    assert post(nightly, "/ui/schedules/nightly/run", field).status_code == 403


def test_the_field_differs_each_time_and_its_cookie_is_hidden_from_scripts(nightly):
    assert csrf(nightly) != csrf(nightly)
    nightly.client.cookies.clear()
    cookie = nightly.client.get("/ui/schedules/nightly/run").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie


def test_reading_a_page_changes_nothing(nightly):
    for action in ("run", "pause", "backfill", "delete", "edit"):
        page(nightly, f"/ui/schedules/nightly/{action}")
    assert nightly.get("/schedules/nightly/runs")["runs"] == []
    assert nightly.get("/schedules/nightly")["paused"] is False


def test_a_pause_needs_a_note(nightly):
    field = csrf(nightly, "/ui/schedules/nightly/pause")
    refused = post(nightly, "/ui/schedules/nightly/pause", field, paused="true", note=" ")
    assert refused.status_code == 422
    assert "why it is paused" in refused.text
    assert post(nightly, "/ui/schedules/nightly/pause", field, paused="true", note="moves").status_code == 303
    assert nightly.get("/schedules/nightly")["pause_note"] == "moves"


def test_a_schedule_is_deleted_when_its_id_was_typed(nightly):
    field = csrf(nightly, "/ui/schedules/nightly/delete")
    assert post(nightly, "/ui/schedules/nightly/delete", field, typed="night").status_code == 422
    assert post(nightly, "/ui/schedules/nightly/delete", field, typed="nightly").status_code == 303
    assert nightly.client.get("/schedules/nightly").status_code == 404


def test_a_backfill_shows_what_would_run_before_it_runs(service):
    service.upsert(schedule_id="m", cron_expr="* * * * *", paused=True)
    service.advance(600)
    field, path = csrf(service, "/ui/schedules/m/backfill"), "/ui/schedules/m/backfill"
    asked = {"start": "2026-03-02 09:01", "end": "2026-03-02 09:06"}
    shown = post(service, path, field, **asked)
    assert "5 ticks" in shown.text
    assert service.get("/schedules/m/runs")["runs"][0]["status"] == "SKIPPED"
    done = post(service, path, field, do="run", **asked)
    assert done.status_code == 303
    assert "5+past+ticks+will+run" in done.headers["location"]


def test_a_backfill_does_what_its_forecast_said(service):
    service.upsert(schedule_id="m", cron_expr="* * * * *")
    service.advance(600)
    field, path = csrf(service, "/ui/schedules/m/backfill"), "/ui/schedules/m/backfill"
    # The ticks before 09:00 are from before the schedule was stored; of those only one may run at a time.
    asked = {"start": "2026-03-02 08:57", "end": "2026-03-02 09:03", "overlap_policy": "skip"}
    said = "1 would run, 2 ran already, 3 would overlap"
    assert said in Page(post(service, path, field, **asked)).text
    done = post(service, path, field, do="run", **asked).headers["location"]
    assert "1 past tick will run, 2 ran already, 3 overlap." in page(service, done).text


@pytest.mark.parametrize(
    "asked", [{"start": "x", "end": "y"}, {"start": "2026-03-02 09:06", "end": "2026-03-02 09:01"}]
)
def test_a_backfill_that_cannot_be_meant_is_explained(nightly, asked):
    field = csrf(nightly, "/ui/schedules/nightly/backfill")
    answer = post(nightly, "/ui/schedules/nightly/backfill", field, **asked)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text


def test_the_zone_of_a_reader_stands_beside_utc(nightly):
    assert post(nightly, "/ui/zone", csrf(nightly), zone="Asia/Tokyo").headers["location"] == "/ui/me#zoneh"
    shown = page(nightly, "/ui/schedules/nightly").text
    assert "Mon 18:00 Tokyo" in shown
    assert "Today 09:30 Mon 2 Mar, UTC, in 30 min; today 18:30 in Tokyo" in shown
    post(nightly, "/ui/zone", csrf(nightly), zone="")
    assert "Tokyo" not in page(nightly, "/ui/schedules/nightly").text


def test_a_zone_that_is_not_known_is_refused_at_its_field(nightly):
    answer = post(nightly, "/ui/zone", csrf(nightly), zone="Asia/Tokio")
    assert (answer.status_code, "set-cookie" in answer.headers) == (422, False)
    [field] = [field for field in Page(answer).all("input") if field.get("name") == "zone"]
    assert (field["value"], field["aria-describedby"]) == ("Asia/Tokio", "problem")
    nightly.client.cookies.set("dutiful-zone", "../../etc/passwd")
    assert "passwd" not in page(nightly, "/ui/me").text
