"""Times at the ends of the calendar: every page that takes a time answers, whatever the zone."""

from __future__ import annotations

import re
from itertools import product

import pytest
from tests.web.running import running

# Their clocks are ahead of UTC, behind it, and off by seconds before there was standard time.
ZONES = ["UTC", "Asia/Tokyo", "America/New_York", "Europe/Berlin"]
DAYS = ["0001-01-01", "9999-12-29", "9999-12-31"]
CLOCKS = [" 00:00", " 23:59", "T00:00:00+14:00", "T23:59:00-14:00"]
TEXTS = [*map("".join, product(DAYS, CLOCKS)), "today 24:00", "2026-02-29 00:00"]
PAIRS = [(text, "2040-01-01 00:00") for text in TEXTS] + [("2030-01-01 00:00", text) for text in TEXTS]

PAGES = [
    ("/ui/why", "schedule={id}&at={since}"),
    ("/ui/schedules/{id}", "at={since}"),
    ("/ui/runs", "since={since}&until={until}"),
    ("/ui/runs", "schedule={id}&until={since}"),
    ("/ui/runs", "format=csv&since={since}"),
    ("/ui/runs/again", "status=FAILED&since={since}&until={until}"),
    ("/ui/schedules", "since={since}&until={until}"),
    ("/ui/audit", "since={since}&until={until}"),
    ("/ui/calendar", "view=week&day={day}&at={since}"),
    ("/ui/calendar", "view=year&day={day}"),
    ("/schedules/{id}/explain", "at={since}"),
    ("/runs", "since={since}&until={until}"),
]
FORMS = [
    ("/ui/schedules/{id}/pause", {"paused": "true", "note": "x", "until_at": "{until}"}),
    ("/ui/schedules/pause-many", {"q": "s-", "paused": "true", "note": "x", "until_at": "{until}"}),
    ("/ui/schedules/{id}/backfill", {"start": "{since}", "end": "{until}"}),
    ("/ui/schedules/backfill-many", {"q": "s-", "start": "{since}", "end": "{until}"}),
]


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory):
    folder = tmp_path_factory.mktemp("times")
    with running(folder, DUTIFUL_AUDIT_LOG=str(folder / "audit.jsonl")) as service:
        service.put("/workflows/report/1", {"nodes": []})
        for zone in ZONES:
            name = f"s-{zone.replace('/', '.')}"
            service.upsert(schedule_id=name, timezone=zone, cron_expr="*/15 * * * *")
        service.advance(1800)
        yield service


def filled(texts):
    """Return these texts with every time and zone in the places that they have."""
    for zone, (since, until) in product(ZONES, PAIRS):
        facts = {"since": since, "until": until, "day": since[:10], "id": f"s-{zone.replace('/', '.')}"}
        yield tuple(text.format(**facts) for text in texts)


@pytest.mark.parametrize(("path", "query"), PAGES, ids=lambda text: text[:24])
def test_every_page_with_a_time_answers(everywhere, path, query):
    failed = []
    for address, asked in sorted({*filled((path, query))}):
        answer = everywhere.client.get(address, params=dict(each.split("=", 1) for each in asked.split("&")))
        failed += [(answer.status_code, address, asked)] * (answer.status_code >= 500)
    assert failed == []


@pytest.mark.parametrize(("path", "form"), FORMS, ids=lambda given: str(given)[:24])
def test_every_form_with_a_time_answers_and_leaves_pages_that_can_be_shown(everywhere, path, form):
    failed, client = [], everywhere.client
    proof = re.search(r'name="csrf" value="([0-9a-f]+)"', client.get("/ui/me").text)[1]
    for address, *values in sorted({*filled((path, *form.values()))}):
        sent = {**dict(zip(form, values, strict=True)), "csrf": proof}
        answer = client.post(address, data=sent, headers={"Origin": everywhere.url})
        failed += [(answer.status_code, address, sent)] * (answer.status_code >= 500)
    shown = [client.get(f"/ui/schedules/s-{zone.replace('/', '.')}").status_code for zone in ZONES]
    assert (failed, shown) == ([], [200] * len(ZONES))
