"""The audit page: who changed what, found by filters, with what each change replaced."""

from __future__ import annotations

import re
import time

import pytest
from tests.web.pages.html import page
from tests.web.running import SCHEDULE, running

from dutiful.httpd.audit import AuditLog
from dutiful.web.pages.audit import FieldChange, compared


@pytest.fixture
def kept(tmp_path):
    with running(tmp_path, DUTIFUL_AUDIT_LOG=f"{tmp_path}/audit.jsonl") as service:
        service.put("/workflows/report/1", {"nodes": []})
        service.file = tmp_path / "audit.jsonl"
        yield service


def test_an_audit_file_is_shown_with_its_chain_and_its_last_hash_to_copy(kept):
    kept.upsert()
    overview = page(kept, "/").text
    shown = page(kept, "/ui/audit")
    assert "Latest changes Chain intact Audit 09:00 local stored nightly" in overview
    assert (
        "local stored nightly · what changed in nightly 09:00 local stored the workflow report" in shown.text
    )
    assert "Chain intact, 4 lines" in shown.text
    [copied] = [own["data-copy"] for own in shown.all("button") if "data-copy" in own]
    assert re.fullmatch("[0-9a-f]{64}", copied)


def test_a_change_of_a_schedule_that_has_no_id_yet_is_reported_without_one(kept):
    kept.post("/schedules/upsert", {**SCHEDULE, "schedule_id": None})
    log = AuditLog(kept.clock, kept.file)
    log.intend("r1", "eve", "deploy", [{"given": {"cron_expr": "* * * * *"}}])
    log.close()
    shown = page(kept, "/ui/audit").text
    assert "local stored · what changed 09:00" in shown
    assert "eve deploy · what changed asked for, not done" in shown


def test_a_break_is_reported_with_its_file_and_line(kept):
    kept.upsert()
    page(kept, "/ui/audit")
    with kept.file.open("ab") as file:
        file.write(b'{"at":"x","prev":"0"}\n')
    assert (
        f"The chain is broken {kept.file}, line 5: a line before it was changed"
        in page(kept, "/ui/audit").text
    )
    assert "Latest changes Chain broken Audit" in page(kept).text


def test_the_overview_does_not_wait_for_a_long_file_to_be_verified(kept):
    long = {**SCHEDULE, "input": "x" * 14_000}
    kept.post("/schedules/bulk", [{**long, "schedule_id": f"s{number}"} for number in range(10)])
    assert "Latest changes Audit" in page(kept).text
    # The first page had it verified after its answer.
    deadline = time.monotonic() + 20
    while "Latest changes Chain intact" not in page(kept).text:
        assert time.monotonic() < deadline


def test_changes_are_found_by_who_action_schedule_and_time(kept):
    kept.upsert()
    kept.advance(3600)
    kept.upsert(schedule_id="weekly")
    kept.post("/schedules/pause", {"schedule_id": "weekly", "paused": True, "note": "moves"})
    for asked, found in {
        "": ["paused weekly", "stored weekly", "stored nightly"],
        "?action=pause": ["paused weekly"],
        "?schedule=nightly": ["stored nightly"],
        "?who=local&schedule=weekly&action=upsert": ["stored weekly"],
        "?until=2026-03-02T09:30": ["stored nightly"],
        "?since=2026-03-02T09:30&until=": ["paused weekly", "stored weekly"],
        "?since=2026-03-02T09:30:00Z": ["paused weekly", "stored weekly"],
        "?since=today 09:30": ["paused weekly", "stored weekly"],
        "?until=today+09:30": ["stored nightly"],
        "?who=nobody": [],
    }.items():
        text = page(kept, f"/ui/audit{asked}").text
        assert re.findall(r"local ((?:stored|paused) (?:weekly|nightly))", text) == found, asked
    assert "No change matches. Clear" in page(kept, "/ui/audit?who=nobody").text
    assert "From: That is not a time that can be read" in page(kept, "/ui/audit?since=soon", 422).text
    reversed_ends = page(kept, "/ui/audit?since=today+09:30&until=today+09:00", 422)
    assert "The end must be after the start." in reversed_ends.text


def test_older_changes_are_a_page_away_and_a_bulk_request_is_one_line(kept):
    kept.post("/schedules/bulk", [{**SCHEDULE, "schedule_id": f"s{number}"} for number in range(7)])
    for number in range(101):
        kept.upsert(schedule_id=f"t{number:03}")
    first = page(kept, "/ui/audit?action=upsert")
    [older] = [own["href"] for own in first.all("a") if own.get("rel") == "next"]
    second = page(kept, older)
    assert ("stored t001" in first.text, "stored t000" in first.text) == (True, False)
    assert "stored t000" in second.text
    assert "local stored 7 schedules" in second.text
    [bulk] = [link for link in second.links if "request=" in link]
    assert page(kept, bulk).text.count("what changed") == 7


def test_a_change_is_shown_against_the_one_before_of_its_schedule(kept):
    kept.upsert(labels={"team": "<b>"})
    kept.upsert(schedule_id="weekly", cron_expr="1 1 * * *")
    kept.post("/schedules/upsert", {**SCHEDULE, "cron_expr": "61 9 * * *"}, 422)
    kept.upsert(cron_expr="45 9 * * *", labels={"team": "<b>"})
    links = [link for link in page(kept, "/ui/audit").links if re.fullmatch(r"/ui/audit\?line=\d+", link)]
    newest = page(kept, links[0]).text
    assert "cron_expr 30 9 * * * 45 9 * * *" in newest
    assert "6 fields stayed as they were" in newest
    assert "asked for, not done" in page(kept, links[1]).text
    assert "Nothing older in the file tells of it" in page(kept, links[2]).text
    assert page(kept, f"{links[0]}1", 404)


def test_the_pages_of_the_audit_are_for_admins(tmp_path):
    from tests.web.pages.test_login import environ, log_in, token

    file = {"DUTIFUL_AUDIT_LOG": f"{tmp_path}/audit.jsonl"}
    with running(tmp_path, **environ(tmp_path), **file) as service:
        log_in(service, token())
        assert [service.client.get(path).status_code for path in ("/ui/audit", "/ui/audit?line=0")] == [
            403,
            403,
        ]


def test_a_change_is_compared_field_by_field():
    before, after = {"cron": "a", "paused": False, "zone": "UTC"}, {"cron": "b", "zone": "UTC", "note": "x\n"}
    assert compared(before, after) == (
        [
            FieldChange("cron", "a", "b"),
            FieldChange("note", None, "x\n"),
            FieldChange("paused", "false", None),
        ],
        1,
    )
    assert compared({}, {"labels": {"a": "b"}}) == ([FieldChange("labels", None, '{"a": "b"}')], 0)
