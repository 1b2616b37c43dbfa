"""The editor: errors stand at their field, differences are marked, and the effect is told before a save."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from tests.web.pages.html import Page, page
from tests.web.pages.test_forms import csrf, post
from tests.web.test_tenants import asking, guarded, token

from dutiful.core.cron.cron import Cron
from dutiful.web.pages.fire_time_changes import compare

__all__ = ["guarded"]
NOW = datetime(2026, 11, 2, 14, 5, 12, tzinfo=UTC)
PATH = "/ui/schedules/nightly/edit"


@pytest.fixture
def nightly(service):
    service.upsert(timezone="America/New_York")
    return service


def previewed(service, **changes):
    return Page(post(service, PATH, csrf(service, PATH), do="preview", **changes))


def field(shown, name):
    """Return the attributes of one field of the form."""
    [own] = [each for _, each in shown.elements if each.get("id") == name]
    return own


def said(shown, name):
    """Return the text of the element with this id."""
    return " ".join(re.search(rf'id="{name}"[^>]*>(.*?)</', shown.answer.text, re.DOTALL)[1].split())


@pytest.mark.parametrize(
    ("changes", "place", "why"),
    [
        ({"version": "one"}, "f-version", "Invalid version &#39;one&#39;: write a number"),
        ({"labels": "team"}, "f-labels", "Invalid labels &#39;team&#39;: write name=value, with commas"),
        ({"grace_s": "-1"}, "f-grace_s", "Invalid grace_s &#39;-1.0&#39;: write a number of seconds from 0"),
        ({"labels": f"a={'x' * 2000}"}, "f-labels", "Invalid labels.a &#39;xxx"),
    ],
)
def test_what_cannot_be_saved_is_said_on_top_with_a_link_and_at_its_field(nightly, changes, place, why):
    shown = Page(post(nightly, PATH, csrf(nightly, PATH), do="save", **changes))
    assert shown.answer.status_code == 422
    assert f"#{place}" in shown.links
    name = place.removeprefix("f-")
    own = field(shown, place)
    assert (own["aria-invalid"], own["aria-describedby"]) == ("true", f"e-{name} w-{name}")
    assert said(shown, f"e-{name}").startswith(why)


def test_an_edit_keeps_a_pause_and_its_end(nightly):
    pause = {"paused": True, "note": "ask Ada", "until": "2026-03-05T00:00:00Z"}
    nightly.post("/schedules/pause", {"schedule_id": "nightly", **pause})
    shown = previewed(nightly, cron_expr="31 9 * * *")
    assert "pause" not in re.search(r"--json .*?</", shown.answer.text, re.DOTALL)[0]
    answer = post(nightly, PATH, csrf(nightly, PATH), do="save", cron_expr="31 9 * * *")
    assert answer.status_code == 303
    view = nightly.get("/schedules/nightly")
    kept = view["cron_expr"], view["paused"], view["pause_note"], view["pause_until"]
    assert kept == ("31 9 * * *", True, "ask Ada", "2026-03-05T00:00:00Z")


def test_a_preview_says_what_is_wrong_at_its_field(nightly):
    shown = previewed(nightly, queue_limit="many")
    assert said(shown, "e-queue_limit") == "Invalid queue_limit &#39;many&#39;: write a number"
    assert "<details open>" in shown.answer.text
    assert "It was not saved" not in shown.text


def test_an_unknown_zone_is_said_at_the_zone(nightly):
    shown = previewed(nightly, timezone="Europe/Berlinn")
    assert "Europe/Berlin" in said(shown, "e-timezone")
    assert field(shown, "f-timezone")["aria-invalid"] == "true"
    assert "There is no such time zone." in shown.text
    assert "aria-invalid" not in field(shown, "cron")


def test_a_text_of_another_dialect_has_a_button_that_takes_that_dialect(nightly):
    shown = previewed(nightly, cron_expr="*/5 * * * *", dialect="posix")
    assert "It is legal with another dialect: Use standard" in shown.text
    assert field(shown, "cron")["aria-invalid"] == "true"
    taken = previewed(nightly, cron_expr="*/5 * * * *", dialect="posix", use_dialect="standard")
    assert "Every 5 minutes" in taken.text
    assert "<option selected>standard</option>" in taken.answer.text


def test_a_field_that_differs_says_what_it_was(nightly):
    shown = previewed(nightly, overlap_policy="queue", run_timeout_s="", timezone="Europe/Berlin")
    told = {own["id"]: said(shown, own["id"]) for own in shown.all("span") if "w-" in own.get("id", "")}
    assert told == {
        "w-overlap_policy": "was <bdi>skip",
        "w-run_timeout_s": "was <bdi>3600",
        "w-timezone": "was <bdi>America/New_York",
    }
    assert not [own for own in page(nightly, PATH).all("span") if "w-" in own.get("id", "")]


def test_the_button_says_how_many_fire_times_it_changes(nightly):
    shown = previewed(nightly, cron_expr="45 9 * * 1-5")
    assert "Fire times: 261 move, 104 go. First difference on Mon 2 Mar: now 09:30, then 09:45." in shown.text
    assert "Save, change 365 fire times" in shown.text
    assert "Save, change" not in page(nightly, PATH).text
    often = previewed(nightly, cron_expr="* * * * *")
    assert "Fire times in the next 1 d: 1,438 are new." in often.text
    assert "Save, change fire times" in often.text
    assert "The year from today 525,540 fire times" in often.text


def test_days_without_ticks_stay_so_in_a_preview(service):
    service.upsert(calendar=["12-25", "2026-05-01"])
    assert "363 → 363" in page(service, PATH).text
    assert "No fire time changes." in page(service, PATH).text
    assert "Fire times: 363 move." in previewed(service, cron_expr="45 9 * * *").text


def test_next_fire_times_end_with_the_next_change_of_the_clock(nightly):
    expected = "Sun 8 March: clocks go from 02:00 to 03:00; no tick is touched"
    assert expected in page(nightly, PATH).text
    assert expected in page(nightly, "/ui/cron?e=30+9+*+*+*&tz=America/New_York").text
    assert "clocks go" not in page(nightly, "/ui/cron?e=30+9+*+*+*&tz=UTC").text


def test_an_edit_starts_from_a_usual_cron_and_the_zone_from_a_list(nightly):
    shown = page(nightly, PATH)
    assert f"{PATH}?e=0%20%2A%20%2A%20%2A%20%2A" in shown.links
    assert field(shown, "f-timezone")["list"] == "zones"
    offered = {own.get("value") for own in shown.all("option")}
    assert {"UTC", "Asia/Kathmandu", "America/Argentina/Buenos_Aires"} <= offered
    assert "Every hour" in page(nightly, f"{PATH}?e=0+*+*+*+*").text


def test_a_reader_may_preview_and_not_save(guarded):
    asking(guarded, "ada")("PUT", "/workflows/report/1", {})
    asking(guarded, "ada")(
        "POST",
        "/schedules/upsert",
        {
            "schedule_id": "nightly",
            "workflow_id": "report",
            "version": 1,
            "user_id": "ada",
            "cron_expr": "30 9 * * *",
            "timezone": "UTC",
        },
    )
    guarded.client.headers["authorization"] = f"Bearer {token('ada', 'read')}"
    for path in (PATH, "/ui/schedules/new"):
        proof = csrf(guarded, path)
        shown = post(guarded, path, proof, do="preview", cron_expr="45 9 * * *")
        assert (shown.status_code, "At 09:45, every day" in shown.text) == (200, True)
        assert "needs the scope write" in shown.text
        refused = post(guarded, path, proof, do="save", cron_expr="45 9 * * *")
        assert (refused.status_code, "scope_missing" in refused.text) == (403, True)
    assert guarded.get("/schedules/nightly")["cron_expr"] == "30 9 * * *"


def crons(old, new, zone="America/New_York", **dst):
    return [Cron.parse(text, "standard", zone, **dst) for text in (old, new)]


def test_the_days_of_a_clock_change_are_listed_after_the_first_days():
    told = compare(*crons("30 1 * * *", "30 2 * * *", gap="run_after", fold="first"), NOW)
    days = [(row.day, row.old, row.new, row.change, row.clock) for row in told.rows]
    assert days[0] == ("Tue 3 Nov", "01:30", "02:30", "+1 h", "")
    assert days[7:] == [
        ("Tue 10 Nov", "01:30", "02:30", "+1 h", ""),
        ("Sun 14 Mar 2027", "01:30", "03:00", "+30 min", "clocks go forward 1 h"),
    ]


def test_a_day_of_a_clock_change_is_listed_where_the_edit_does_not_touch_it():
    told = compare(*crons("30 1 * * *", "30 1 * * 0"), NOW)
    assert told.rows[-1] == ("Sun 14 Mar 2027", "01:30", "01:30", "same", "clocks go forward 1 h")
    assert compare(*crons("30 1 * * *", "30 1 * * *"), NOW).rows == []


def test_more_times_than_are_listed_are_hinted_at():
    told = compare(*crons("0 0-5 * * *", "30 0-5 * * *"), NOW)
    assert told.rows[0].old == "00:00, 01:00, 02:00, …"
    assert told.rows[0].change == "6 become 6"


def test_a_year_is_drawn_only_where_a_year_was_compared():
    yearly, hourly = (
        compare(*crons(*texts), NOW) for texts in [("0 1 * * *",) * 2, ("0 1 * * *", "0 * * * *")]
    )
    assert (yearly.within, bool(yearly.year_wide)) == (timedelta(days=365), True)
    assert (hourly.within, bool(hourly.year_wide)) == (timedelta(days=30), False)


WHOLE = {
    "labels": {"team": "a, b=c", "tier": " 1"},
    "grace_s": 1234567.5,
    "run_timeout_s": 7654321.0,
    "start_at": "2026-01-01T00:00:00Z",
    "end_at": "2027-01-01T00:00:00Z",
    "calendar": ["12-25", "2026-12-24/2027-01-01"],
    "retry_limit": 3,
    "retry_delay_s": 0.25,
    "retry_backoff": 2,
    "succeed_every_s": 90000.0,
    "retention_days": 7,
    "input": {"a": 1},
}


def test_an_edit_of_one_field_stores_all_others_to_the_last_digit(nightly):
    nightly.upsert(timezone="America/New_York", **WHOLE)
    before = nightly.get("/schedules/nightly")
    form = shown_fields(nightly)
    assert post(nightly, PATH, csrf(nightly, PATH), do="save", **{**form, "version": "2"}).status_code == 303
    after = nightly.get("/schedules/nightly")
    assert after == {**before, "version": 2, "updated_at": after["updated_at"]}


def test_labels_with_commas_and_backslashes_are_read_back_as_they_were(nightly):
    labels = {"a": "C:\\jobs\\", "b": r"x\,y", "c": r"\\", "d": "1,2,", "e": r"p\q"}
    nightly.upsert(labels=labels)
    written = shown_fields(nightly)["labels"] + ", f=end\\"
    assert post(nightly, PATH, csrf(nightly, PATH), do="save", labels=written).status_code == 303
    assert nightly.get("/schedules/nightly")["labels"] == {**labels, "f": "end\\"}


def test_an_edit_keeps_the_secrets_of_the_executor(nightly):
    own = "https://run.example/x?token=1"
    nightly.upsert(timezone="America/New_York", executor=own)
    assert post(nightly, PATH, csrf(nightly, PATH), do="save", cron_expr="31 9 * * *").status_code == 303
    # An upsert with the URL finds nothing to change.
    assert nightly.upsert(timezone="America/New_York", executor=own, cron_expr="31 9 * * *")["changed"] == []


def shown_fields(service):
    """Return the filled-in fields of the editor that are written, as a browser sends them."""
    fields = Page(service.client.get(PATH)).all("input")
    return {each["name"]: each["value"] for each in fields if each.get("id", "").startswith("f-")}


@pytest.mark.parametrize(
    ("changes", "stored"),
    [
        ({"retry_limit": "2", "retry_delay_s": "30"}, {"retry_limit": 2, "retry_delay_s": 30.0}),
        ({"start_at": "2026-11-05"}, {"start_at": "2026-11-05T00:00:00Z"}),
        ({"end_at": "2027-11-05T01:00:00+01:00"}, {"end_at": "2027-11-05T00:00:00Z"}),
        ({"calendar": "12-25, 2026-12-24/2027-01-01"}, {"calendar": ["12-25", "2026-12-24/2027-01-01"]}),
        ({"labels": r"team=a\, b, tier=1"}, {"labels": {"team": "a, b", "tier": "1"}}),
    ],
)
def test_settings_that_decide_about_ticks_can_be_edited(nightly, changes, stored):
    assert post(nightly, PATH, csrf(nightly, PATH), do="save", **changes).status_code == 303
    kept = nightly.get("/schedules/nightly")
    assert {name: kept[name] for name in stored} == stored


def test_the_preview_leaves_out_the_days_in_the_form(nightly):
    shown = previewed(nightly, calendar="2026-03-03")
    assert "365 → 364" in shown.text


def test_a_verdict_leads_to_the_field_that_decided(nightly):
    nightly.put("/workflows/report/2", {"fail": "no disk"})
    nightly.upsert(version=2, timezone="UTC")
    nightly.advance(3600)
    shown = Page(nightly.client.get("/ui/schedules/nightly"))
    assert "/ui/schedules/nightly/edit#f-retry_limit" in shown.links


def test_a_workflow_that_is_not_stored_is_told_before_the_schedule_is_saved(nightly):
    said = "Its runs would fail The workflow is not stored: runs fail with unknown_workflow until PUT"
    assert f"{said} /workflows/raport/1" in previewed(nightly, workflow_id="raport").text
    assert said not in page(nightly, PATH).text
    # A form without a workflow is still being filled in.
    assert said not in page(nightly, "/ui/schedules/new").text


def test_a_new_schedule_replaces_no_stored_one(nightly):
    before, new = nightly.get("/schedules/nightly"), "/ui/schedules/new"
    form = {"workflow_id": "report", "user_id": "ada", "do": "save"}
    shown = Page(post(nightly, new, csrf(nightly, new), schedule_id="nightly", **form))
    assert shown.answer.status_code == 422
    assert "is taken; edit that schedule, or choose another id" in said(shown, "e-schedule_id")
    assert nightly.get("/schedules/nightly") == before
    assert post(nightly, new, csrf(nightly, new), schedule_id="weekly", **form).status_code == 303
