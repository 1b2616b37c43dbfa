"""The ledger of all schedules: every filter is a field, each page has an end, and so has each file."""

from __future__ import annotations

import asyncio
import csv
import io
import re

import pytest
from tests.web.pages.html import Page, page
from tests.web.pages.test_forms import post

from dutiful.core.changes import Changes, Put
from dutiful.web.pages import find_runs, runs
from dutiful.web.pages.find_runs import cell

MINUTELY = "* * * * *"


def older(found):
    return next((own["href"] for own in found.all("a") if own.get("rel") == "next"), None)


def test_entries_come_page_by_page_to_the_last_one(service):
    service.upsert(schedule_id="good", cron_expr=MINUTELY)
    service.advance(130 * 60 + 1)
    seen, path = [], "/ui/runs?view=each"
    while path:
        found = page(service, path)
        seen.append(len([link for link in found.links if link.startswith("/ui/runs/")]))
        path = older(found)
    assert seen == [60, 60, 10]


def test_what_made_a_run_and_its_schedule_are_filters(service):
    service.upsert(schedule_id="good", cron_expr=MINUTELY)
    service.upsert(schedule_id="other", cron_expr=MINUTELY)
    service.post("/schedules/good/trigger")
    service.advance(121)
    assert "1 ran good" in page(service, "/ui/runs?trigger=manual").text
    assert "4 ran good, other" in page(service, "/ui/runs?trigger=schedule").text
    none = page(service, "/ui/runs?trigger=backfill").text
    assert "No entry of the ledger matches: made by a backfill." in none
    only = page(service, "/ui/runs?schedule=other&trigger=schedule").text
    assert "2 ran other" in only
    assert "good" not in only


def test_a_schedule_that_is_not_known_names_those_that_are_spelled_alike(service):
    service.upsert(schedule_id="nightly")
    text = page(service, "/ui/runs?schedule=nightlu").text
    assert "No entry of the ledger matches: of nightlu. Near: nightly" in text
    assert "No entry of the ledger matches" in page(service, "/ui/runs?schedule=%3Cb%3E%00").text


@pytest.mark.parametrize(
    ("since", "until"),
    [
        ("2026-03-02T09:02:00Z", "2026-03-02T09:04:00Z"),
        ("2026-03-02 09:02", "2026-03-02 09:04"),
        ("today 9:02", "today 9:04"),
        ("2026-03-02T10:02:00 01:00", "2026-03-02T09:04"),
    ],
)
def test_a_time_is_written_as_people_write_it(service, since, until):
    service.upsert(schedule_id="good", cron_expr=MINUTELY)
    service.advance(301)
    answer = service.client.get("/ui/runs", params={"since": since, "until": until})
    assert "2 ran good" in Page(answer).text
    assert {
        own["name"]: own.get("value")
        for own in Page(answer).all("input")
        if own["name"] in {"since", "until"}
    } == {
        "since": since,
        "until": until,
    }


def test_a_time_that_cannot_be_read_keeps_the_form_and_says_why(service):
    found = page(service, "/ui/runs?since=noon&status=FAILED", 422)
    assert "From: That is not a time that can be read: write a time such as 2026-11-01 01:30" in found.text
    [field] = [own for own in found.all("input") if own.get("name") == "since"]
    assert (field["value"], field["aria-describedby"], field["aria-invalid"]) == ("noon", "problem", "true")
    assert (
        "The end must be after the start."
        in page(service, "/ui/runs?since=today+10:00&until=today+09:00", 422).text
    )


def test_a_range_without_entries_names_the_nearest_times_that_have_some(service):
    service.upsert(schedule_id="good", cron_expr="0,30 * * * *")
    service.advance(2 * 3600 + 1)
    found = page(service, "/ui/runs?since=2026-03-02T09:40:00Z&until=2026-03-02T09:50:00Z")
    assert (
        "The nearest before it is of Mon 2 Mar 09:30, the nearest after it of Mon 2 Mar 10:00." in found.text
    )
    near = [
        link
        for link in found.links
        if link.startswith("/ui/runs?") and "since" in link and "09%3A40" not in link
    ]
    assert [Page(service.client.get(link)).text.count("1 ran good") for link in near] == [1, 1]


def test_an_entry_that_lies_behind_many_others_is_not_said_to_be_missing(service, monkeypatch):
    service.put("/workflows/broken/1", {"fail": "disk full"})
    service.upsert(schedule_id="bad", cron_expr="1 9 * * *", workflow_id="broken")
    service.upsert(schedule_id="good", cron_expr=MINUTELY)
    service.advance(20 * 60 + 1)
    monkeypatch.setattr("dutiful.stores.sqlite.figures.SCAN_MAX", 2)
    found = page(service, "/ui/runs?reason=task_failed")
    assert re.search(r"No entry since Mon 2 Mar 09:\d\d matches: task_failed. Look further back", found.text)
    while "bad" not in found.text:
        found = page(service, older(found))
    assert "1 failed task_failed bad" in found.text


def test_a_page_shows_a_bounded_number_of_groups(service):
    for number in range(45):
        service.put(f"/workflows/w{number}/1", {"fail": f"disk {number} full"})
        service.upsert(schedule_id=f"s{number:02}", cron_expr=MINUTELY, workflow_id=f"w{number}")
    service.advance(61)
    found = page(service, "/ui/runs")
    assert found.text.count("1 failed task_failed") == 40
    assert "40 of 45 groups, from 45 entries." in found.text


def test_a_file_has_every_entry_that_matches_and_no_formula(service):
    service.put("/workflows/broken/1", {"fail": "=cmd|' /C calc'!A0"})
    service.upsert(schedule_id="-bad", cron_expr="0 10 * * *", workflow_id="broken")
    service.upsert(schedule_id="good", cron_expr=MINUTELY)
    service.advance(90 * 60 + 1)
    [link] = [own["href"] for own in page(service, "/ui/runs?view=each").all("a") if "download" in own]
    answer = service.client.get(link)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="runs.csv"'
    rows = [*csv.DictReader(io.StringIO(answer.text, newline=""))]
    told = service.get("/runs", limit=1000)["runs"]
    assert [row["idempotency_key"] for row in rows] == [run["idempotency_key"] for run in told]
    [bad] = [row for row in rows if row["status"] == "FAILED"]
    assert bad == {
        "schedule_id": "'-bad",
        "run_at": "2026-03-02T10:00:00Z",
        "status": "FAILED",
        "reason": "task_failed",
        "trigger": "schedule",
        "attempt": "1",
        "ticks": "1",
        "run_until": "",
        "fire_at": "2026-03-02T10:00:00Z",
        "started_at": "2026-03-02T10:00:00Z",
        "ended_at": "2026-03-02T10:00:00Z",
        "idempotency_key": bad["idempotency_key"],
        "run_id": "",
        "detail": "RuntimeError: =cmd|' /C calc'!A0",
    }
    assert len(service.client.get("/ui/runs?format=csv&status=FAILED").text.splitlines()) == 2


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_cell_is_never_a_formula(text):
    assert cell(text) == f"'{text}"


def test_a_file_that_would_be_too_long_is_refused_with_the_time_to_choose(service, monkeypatch):
    monkeypatch.setattr(find_runs, "FILE_MAX", 1000)
    for schedule_id in ("a", "b"):
        service.upsert(schedule_id=schedule_id, cron_expr="* * * * * *", dialect="seconds")
    service.advance(501)
    found = page(service, "/ui/runs?format=csv", 422)
    refused = re.search(
        r"These entries are too many for one file, which holds at most 1,000 and would end at"
        r" (2026-03-02 09:00:\d\d) UTC. Choose a time that begins after that.",
        found.text,
    )
    shorter = service.client.get("/ui/runs", params={"format": "csv", "since": f"{refused[1][:-1]}9"})
    assert 900 < len(shorter.text.splitlines()) <= 1001


def failing(service, *ids):
    service.put("/workflows/broken/1", {"fail": "disk full"})
    for schedule_id in ids:
        service.upsert(schedule_id=schedule_id, cron_expr="1 9 * * *", workflow_id="broken")
    service.advance(61)


def test_the_schedules_of_a_cause_are_run_again_once_each(service):
    failing(service, "a", "b", "c")
    service.post("/schedules/pause", {"schedule_id": "c", "paused": True})
    [path] = [link for link in page(service, "/ui/runs").links if link.startswith("/ui/runs/again")]
    asked = page(service, path)
    assert "3 schedules that failed task_failed RuntimeError: disk full" in asked.text
    assert "with its own input. 1 of them is paused, and runs all the same. a b c" in asked.text
    form = {own["name"]: own["value"] for own in asked.all("input") if own.get("type") == "hidden"}
    service.client.delete("/schedules/b")
    for _ in range(2):
        answer = post(service, "/ui/runs/again", form["csrf"], once=form["once"], schedules=form["schedules"])
        assert answer.status_code == 303
    service.advance(1)
    assert (
        "2 runs by hand asked for. 1 schedule cannot be run."
        in page(service, answer.headers["location"]).text
    )
    made = service.get("/runs", trigger="manual")["runs"]
    assert sorted((run["schedule_id"], run["status"]) for run in made) == [("a", "FAILED"), ("c", "FAILED")]


def test_one_schedule_that_failed_is_asked_about_on_its_own_page(service):
    failing(service, "a")
    assert "/ui/schedules/a/run" in page(service, "/ui/runs").links


def test_more_schedules_than_are_run_at_once_are_not_run(service, monkeypatch):
    monkeypatch.setattr(runs, "AGAIN_MAX", 2)
    failing(service, "a", "b", "c")
    asked = page(service, "/ui/runs/again?status=FAILED&reason=task_failed&line=RuntimeError:+disk+full")
    assert "3 schedules are too many to run at once; at most 2 do." in asked.text
    assert asked.all("button") == [own for own in asked.all("button") if own.get("id")]


def set_aside(service, schedule_id):
    """Quarantine a schedule, as the planner does with one that it cannot compute."""

    async def put():
        due = await service.service._store.get(schedule_id)
        state = due.state._replace(quarantine="ArithmeticError: x")
        await service.service._store.apply(Changes([Put(due.schedule, state, None, due.version)]))

    asyncio.run_coroutine_threadsafe(put(), service.loop).result(10)


def test_a_schedule_that_is_set_aside_does_not_stop_the_others_from_running_again(service):
    failing(service, "a", "b", "c")
    [path] = [link for link in page(service, "/ui/runs").links if link.startswith("/ui/runs/again")]
    form = {own["name"]: own["value"] for own in page(service, path).all("input") if "value" in own}
    set_aside(service, "b")
    assert "2 schedules that failed" in page(service, path).text
    answer = post(service, "/ui/runs/again", form["csrf"], once="1", schedules=form["schedules"])
    assert "2+runs+by+hand+asked+for.+1+schedule+cannot+be+run." in answer.headers["location"]
