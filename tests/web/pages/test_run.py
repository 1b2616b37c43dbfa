"""One run: every step that the ledger knows of, what it does not keep, and the runs around it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.web.pages.html import page

from dutiful.service.types import RunView
from dutiful.web.pages.run import Moment, moments_of

TICK = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)


def at(seconds):
    return TICK + timedelta(seconds=seconds)


def run(**changes):
    told = {
        "idempotency_key": "0" * 64,
        "schedule_id": "nightly",
        "run_at": TICK,
        "fire_at": TICK,
        "status": "SUCCESS",
        "reason": None,
        "attempt": 1,
        "run_id": None,
        "trigger": "schedule",
        "run_until": None,
        "ticks": 1,
        "created_at": TICK,
        "updated_at": TICK,
        "started_at": None,
        "ended_at": None,
        "detail": None,
        "input": None,
    }
    return RunView(**told | changes)


def told(now=60, **changes):
    return [
        (name, None if when is None else (when - TICK).total_seconds(), note, state)
        for name, when, note, state in moments_of(run(**changes), at(now))
    ]


def test_a_moment_has_a_name_a_time_a_note_and_a_state():
    assert Moment._fields == ("name", "at", "note", "state")


def test_a_run_that_was_launched_late_says_how_late():
    assert told(created_at=at(2), started_at=at(2), ended_at=at(5)) == [
        ("Tick", 0.0, "planned", "done"),
        ("Decided", 2.0, "2 s after its time", "done"),
        ("Launched", 2.0, "attempt 1, 2 s after its time", "done"),
        ("Ended", 5.0, "ran, in 3 s", "done"),
    ]


def test_the_attempts_before_the_last_one_are_counted_by_what_became_of_them():
    last = {"fire_at": at(90), "started_at": at(90), "ended_at": at(95)}
    failed = {"status": "FAILED", "reason": "task_failed"}
    assert told(**last, **failed, attempt=4, task_failures=3) == [
        ("Tick", 0.0, "planned", "done"),
        ("Decided", 0.0, "0 ms after its time", "done"),
        (
            "Attempts 1 to 3",
            None,
            "2 failed, 1 did not reach the executor; only the last attempt's times are kept",
            "failed",
        ),
        ("Retry due", 90.0, "", "done"),
        ("Launched", 90.0, "attempt 4, 0 ms after its time", "done"),
        ("Ended", 95.0, "failed, in 5 s", "failed"),
    ]
    assert told(**last, attempt=2, task_failures=1)[2][:3] == (
        "Attempt 1",
        None,
        "failed; only the last attempt's times are kept",
    )
    assert told(**last, attempt=2, task_failures=0)[2][2].startswith("did not reach the executor;")


def test_a_run_that_waits_for_a_retry_has_not_ended():
    waiting = {"status": "ENQUEUED", "reason": "task_failed", "task_failures": 1}
    assert told(**waiting, fire_at=at(90), started_at=at(0), ended_at=at(5)) == [
        ("Tick", 0.0, "planned", "done"),
        ("Launched", 0.0, "attempt 1", "done"),
        ("Failed", 5.0, "in 5 s", "failed"),
        ("Retry due", 90.0, "in 30 s", "open"),
    ]


def test_a_run_that_was_never_launched_is_recorded():
    skipped = {"status": "SKIPPED", "reason": "overlap", "attempt": 0}
    assert told(**skipped, fire_at=at(3), updated_at=at(4)) == [
        ("Tick", 0.0, "planned", "done"),
        ("To fire", 3.0, "moved by jitter or catch-up", "done"),
        ("Recorded", 4.0, "skipped", "done"),
    ]
    assert told(status="STARTED", started_at=at(0), trigger="manual") == [
        ("Tick", 0.0, "asked for by hand", "done"),
        ("Launched", 0.0, "attempt 1, 0 ms after its time", "done"),
        ("Ends", None, "not yet, for 1 min", "open"),
    ]


def test_a_retried_run_is_shown_as_the_ledger_has_it(service):
    service.put("/workflows/broken/1", {"fail": "disk full"})
    service.upsert(cron_expr="1 9 * * *", workflow_id="broken", retry_limit=2, retry_delay_s=30)
    service.advance(61)
    [found] = service.get("/schedules/nightly/runs")["runs"]
    path = f"/ui/runs/{found['idempotency_key']}"
    waits = page(service, path).text
    assert "Failed 09:01:00.000 in 0 ms Retry due 09:01:30.000 in 29 s" in waits
    assert "Ended" not in waits
    service.advance(120)
    ended = page(service, path).text
    assert "Attempts 1 to 2 2 failed; only the last attempt's times are kept Retry due 09:02:00.000" in ended
    assert "Launched 09:02:00.000 attempt 3, 0 ms after its time Ended 09:02:00.000 failed, in 0 ms" in ended


@pytest.mark.parametrize(
    ("tick", "around"),
    [
        (1, ["none", "Mon 2 Mar 09:02 ran"]),
        (2, ["Mon 2 Mar 09:01 ran", "Mon 2 Mar 09:03 to 09:05 skipped paused"]),
    ],
)
def test_a_run_has_its_neighbours(service, tick, around):
    service.upsert(cron_expr="* * * * *")
    service.advance(2 * 60 + 1)
    service.post("/schedules/pause", {"schedule_id": "nightly", "paused": True})
    service.advance(3 * 60)
    key = service.get("/schedules/nightly/runs")["runs"][-tick]["idempotency_key"]
    found = page(service, f"/ui/runs/{key}")
    assert f"Entry before {around[0]} Entry after {around[1]}" in found.text
    [copied] = [own["data-copy"] for own in found.all("button") if "data-copy" in own]
    assert copied == key
