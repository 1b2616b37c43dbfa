"""The end of a session: announced before, asked about after, and no form is lost by it."""

from __future__ import annotations

import re

import pytest
from tests.web.pages.html import Page, page
from tests.web.pages.test_forms import csrf, post
from tests.web.pages.test_login import environ, log_in, token
from tests.web.running import SCHEDULE, running

PAUSE = "/ui/schedules/nightly/pause"
TYPED = {"paused": "true", "note": 'moves <b> & "more"', "do": "run"}


@pytest.fixture
def ended(tmp_path):
    """A browser whose session ended while the form of a pause was open; its field is `ended.field`."""
    with running(tmp_path, **environ(tmp_path)) as service:
        bearer = {"Authorization": f"Bearer {token()}"}
        assert service.client.post("/schedules/upsert", json=SCHEDULE, headers=bearer).status_code == 200
        log_in(service, token(lives=300))
        service.field = csrf(service, PAUSE)
        service.advance(400)
        yield service


def hidden(html):
    """Return the hidden fields of the first form."""
    return {own["name"]: own["value"] for own in Page(html).all("input") if own.get("type") == "hidden"}


def is_paused(service):
    bearer = {"Authorization": f"Bearer {token()}"}
    return service.client.get("/schedules/nightly", headers=bearer).json()["paused"]


def test_a_form_sent_after_the_end_is_kept_through_a_new_login(ended):
    asked = post(ended, PAUSE, ended.field, **TYPED)
    assert asked.status_code == 401
    assert "Your session has ended: its token expired." in Page(asked).text
    assert "What you sent was kept" in Page(asked).text
    origin = {"Origin": ended.url}
    wrong = ended.client.post("/ui/login", data={**hidden(asked), "token": "x"}, headers=origin)
    assert wrong.status_code == 401
    again = ended.client.post("/ui/login", data={**hidden(wrong), "token": token()}, headers=origin)
    assert (again.status_code, is_paused(ended)) == (200, False)
    assert 'note moves <b> & "more"' in Page(again).text
    [form] = [own for own in Page(again).all("form") if own.get("method") == "post"]
    done = ended.client.post(form["action"], data=hidden(again), headers=origin)
    assert (done.status_code, is_paused(ended)) == (303, True)


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Origin": ""}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_a_form_from_elsewhere_is_not_kept(ended, headers):
    asked = post(ended, PAUSE, ended.field, headers=headers, **TYPED)
    assert asked.status_code == 401
    assert hidden(asked).keys() == {"csrf", "next"}
    assert "moves" not in asked.text


@pytest.mark.parametrize("size", [20_000, 70_000])
def test_a_form_that_is_too_long_to_keep_is_said_to_be_lost(ended, size):
    asked = post(ended, PAUSE, ended.field, note="x" * size)
    assert asked.status_code == 401
    assert "What you sent was too long to keep." in Page(asked).text
    assert "xxx" not in asked.text


def test_five_minutes_before_its_end_every_page_says_when_the_session_ends(tmp_path):
    with running(tmp_path, **environ(tmp_path)) as service:
        log_in(service, token(lives=600))
        assert "Your session ends" not in page(service).text
        assert "Ends today 09:10 UTC" in page(service, "/ui/me").text
        service.advance(301)
        assert "Your session ends at 09:10 UTC." in page(service).text
        assert "Your session ends at 09:10 UTC." in page(service, "/ui/schedules").text


def test_a_form_without_its_proof_keeps_what_was_typed_and_can_be_sent_again(service):
    service.upsert()
    refused = post(service, PAUSE, "00" * 64, **TYPED)
    assert (refused.status_code, service.get("/schedules/nightly")["paused"]) == (403, False)
    assert 'note moves <b> & "more"' in Page(refused).text
    done = service.client.post(PAUSE, data=hidden(refused), headers={"Origin": service.url})
    assert (done.status_code, service.get("/schedules/nightly")["paused"]) == (303, True)


def test_a_refused_form_from_elsewhere_cannot_be_sent_again_from_its_page(service):
    service.upsert()
    refused = post(service, PAUSE, "00" * 64, origin="https://evil.example", **TYPED)
    assert refused.status_code == 403
    assert "moves" not in refused.text


def test_a_page_that_is_asked_for_too_often_is_refused_as_a_page(tmp_path):
    with running(tmp_path, **environ(tmp_path), DUTIFUL_RATE_BURST="1") as service:
        page(service, "/ui/login")
        told = page(service, "/ui/login", 429)
        assert told.answer.headers["retry-after"] == "1"
        assert re.search("Too many tries .* try again in 1 s", told.text)
        assert service.client.get("/schedules").json()["error"]["code"] == "too_many_requests"
