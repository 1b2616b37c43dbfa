"""Schedules whose rows cannot be read: shown as such, and open to being stored again or deleted."""

from __future__ import annotations

import re
import sqlite3
from html import unescape

import pytest
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


def test_one_that_is_asked_for_is_told_with_what_is_wrong(damaged):
    status, code, details = error_of(damaged.client.get("/schedules/nightly"))
    assert (status, code, details) == (
        409,
        "damaged_schedule",
        {"schedule_id": "nightly", "problem": problem_of(damaged)},
    )


def test_the_overview_shows_them(damaged):
    [entry] = re.findall(r'<li data-key="nightly [a-z ]+">.*?</li>', damaged.client.get("/").text, re.DOTALL)
    words = unescape(" ".join(re.sub(r"<[^>]+>", " ", entry).split()))
    assert (
        words
        == f"nightly damaged Its row cannot be read: {problem_of(damaged)}. Store it again, or delete it."
    )


def test_they_are_counted(damaged):
    assert "dutiful_schedules_damaged 1.0" in damaged.client.get("/metrics").text.splitlines()


def test_stored_again_it_is_whole(damaged):
    damaged.upsert()
    assert damaged.get("/schedules/nightly")["cron_expr"] == SCHEDULE["cron_expr"]
    assert damaged.get("/schedules")["damaged"] == []


def test_it_can_be_deleted(damaged):
    assert damaged.client.delete("/schedules/nightly").status_code == 204
    assert damaged.get("/schedules")["damaged"] == []
    assert damaged.client.get("/schedules/nightly").status_code == 404


def test_what_was_never_there_is_unknown(damaged):
    assert damaged.client.get("/schedules/never").status_code == 404
    assert damaged.client.delete("/schedules/never").status_code == 404
