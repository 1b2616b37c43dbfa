"""Pauses with an end over HTTP: asked for, shown, kept, replaced, and over by themselves."""

from __future__ import annotations

import pytest
from tests.web.running import SCHEDULE

PAUSE = {"schedule_id": "nightly", "paused": True, "note": "ask Ada"}
TEN = "2026-03-02T10:00:00Z"


def pause_of(service, schedule_id="nightly"):
    view = service.get(f"/schedules/{schedule_id}")
    return view["paused"], view["pause_note"], view["pause_until"]


def test_a_pause_ends_at_the_instant_that_was_asked_for(service):
    service.upsert(cron_expr="*/10 * * * *")
    answer = service.post("/schedules/pause", {**PAUSE, "until": "2026-03-02T11:00:00+01:00"})
    assert answer == {"schedule_id": "nightly", "paused": True}
    assert pause_of(service) == (True, "ask Ada", TEN)
    service.advance(3601)
    assert pause_of(service) == (False, None, None)
    at_ten, skipped = service.get("/schedules/nightly/runs")["runs"]
    assert (at_ten["run_at"], at_ten["status"]) == (TEN, "SUCCESS")
    assert (skipped["reason"], skipped["ticks"], skipped["run_until"]) == (
        "paused",
        5,
        "2026-03-02T09:50:00Z",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"until": "2026-03-02T09:00:00Z"}, "is not in the future; a pause ends later than now"),
        ({"until": "2026-03-01T09:00:00Z"}, "is not in the future; a pause ends later than now"),
        ({"paused": False, "until": TEN}, "only a pause has an end; send paused as true"),
        ({"until": "tomorrow"}, "must be an RFC 3339 time with an offset"),
        ({"until": "2026-03-02T10:00:00"}, "must be an RFC 3339 time with an offset"),
    ],
)
def test_an_end_that_cannot_be_meant_is_refused_and_changes_nothing(service, change, message):
    service.upsert()
    error = service.post("/schedules/pause", {**PAUSE, **change}, 422)["error"]
    assert message in error["message"]
    assert pause_of(service) == (False, None, None)


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        ({"paused": False}, (False, None, None)),
        ({"note": "ask Bob"}, (True, "ask Bob", None)),
        ({"until": "2026-03-03T10:00:00Z"}, (True, "ask Ada", "2026-03-03T10:00:00Z")),
    ],
)
def test_a_resumption_clears_the_end_and_another_pause_replaces_it(service, again, expected):
    service.upsert()
    service.post("/schedules/pause", {**PAUSE, "until": TEN})
    service.post("/schedules/pause", {**PAUSE, **again})
    assert pause_of(service) == expected


def test_a_deploy_keeps_the_end_of_a_pause(service):
    service.upsert()
    service.post("/schedules/pause", {**PAUSE, "until": TEN})
    service.upsert(version=2)
    assert pause_of(service) == (True, "ask Ada", TEN)
    service.upsert(version=3, paused=True)
    assert pause_of(service) == (True, "ask Ada", TEN)
    service.upsert(version=3, paused=False)
    assert pause_of(service) == (False, None, None)


def test_an_upsert_may_pause_until_an_instant(service):
    assert service.upsert(paused=True, pause_until=TEN)["created"]
    assert pause_of(service) == (True, None, TEN)
    later = service.upsert(paused=True, pause_until="2026-03-02T12:00:00Z")
    assert later["changed"] == ["pause_until"]
    service.advance(3 * 3600 + 1)
    assert pause_of(service) == (False, None, None)


@pytest.mark.parametrize(
    "change",
    [{"pause_until": TEN}, {"pause_until": TEN, "paused": False}, {"pause_until": "2026-03-02T08:00:00Z"}],
)
def test_an_upsert_with_an_end_that_cannot_be_meant_is_refused(service, change):
    error = service.post("/schedules/upsert", {**SCHEDULE, **change}, 422)["error"]
    assert "pause_until" in error["message"]


def test_many_are_paused_until_the_same_instant(service):
    for name in "ab":
        service.upsert(schedule_id=name)
    many = {"paused": True, "workflow_id": "report", "note": "moving house", "until": TEN}
    assert service.post("/schedules/pause-many", many) == {"changed": 2}
    assert [pause_of(service, name) for name in "ab"] == [(True, "moving house", TEN)] * 2
    service.advance(3601)
    assert service.get("/summary")["paused"] == 0


def test_the_lines_of_a_view_say_until_when_a_schedule_is_paused(service):
    for name, note in {"a": "ask Ada", "b": None}.items():
        service.upsert(schedule_id=name)
        service.post("/schedules/pause", {"schedule_id": name, "paused": True, "note": note, "until": TEN})
    lines = service.get("/summary/schedules", view="all")["schedules"]
    assert [line["note"] for line in lines] == [
        "ask Ada, until 2026-03-02 10:00 UTC",
        "until 2026-03-02 10:00 UTC",
    ]


def test_pausing_all_replaces_every_other_end(service):
    """An operator who pauses everything without an end must not see one of them run."""
    for name, pause in {
        "a": {"note": "lunch", "until": "2026-03-02T09:20:00Z"}, "b": {"note": "old"}, "c": None
    }.items():  # fmt: skip
        service.upsert(schedule_id=name, cron_expr="*/10 * * * *")
        if pause is not None:
            service.post("/schedules/pause", {"schedule_id": name, "paused": True, **pause})
    many = {"paused": True, "workflow_id": "report", "note": "incident"}
    assert service.post("/schedules/pause-many", many) == {"changed": 2}
    found = [pause_of(service, name) for name in "abc"]
    assert found == [(True, "incident", None), (True, "old", None), (True, "incident", None)]
    service.advance(3600)
    assert {run["reason"] for run in service.get("/runs")["runs"]} == {"paused"}
    assert service.post("/schedules/pause-many", {**many, "until": "2026-03-02T11:00:00Z"}) == {"changed": 3}
    assert service.post("/schedules/pause-many", {**many, "paused": False}) == {"changed": 3}


def test_pausing_all_without_a_note_clears_the_note_of_another_end(service):
    service.upsert()
    service.post("/schedules/pause", {**PAUSE, "until": TEN})
    assert service.post("/schedules/pause-many", {"paused": True, "workflow_id": "report"}) == {"changed": 1}
    assert pause_of(service) == (True, None, None)


@pytest.mark.parametrize("end", ["2026-03-02T08:00:00Z", "2026-03-02T09:00:00Z"])
def test_a_deploy_whose_pause_is_over_stores_a_schedule_that_runs(service, end):
    assert service.upsert(paused=True, pause_until=end)["created"]
    assert pause_of(service) == (False, None, None)


def test_the_same_file_may_be_deployed_again_after_its_pause_has_ended(service):
    file = [{**SCHEDULE, "paused": True, "pause_until": TEN}, {**SCHEDULE, "schedule_id": "other"}]
    service.post("/schedules/bulk", file)
    service.advance(3601)
    again = service.post("/schedules/bulk", file)
    assert [each["changed"] for each in again["schedules"]] == [[], []]
    assert pause_of(service) == (False, None, None)
    # The pause of an operator is not the one of the file.
    service.post("/schedules/pause", {**PAUSE, "until": "2026-03-02T12:00:00Z"})
    service.post("/schedules/bulk", file)
    assert pause_of(service) == (True, "ask Ada", "2026-03-02T12:00:00Z")


def test_a_resumption_by_filter_may_name_the_note_of_the_pause(service):
    for name in ("a", "b", "c"):
        service.upsert(schedule_id=name, labels={"team": "billing"})
    service.post("/schedules/pause", {"schedule_id": "a", "paused": True, "note": "ask Bob"})
    team = {"label": "team=billing"}
    assert service.post("/schedules/pause-many", {**team, "paused": True, "note": "ask Ada"}) == {
        "changed": 2
    }
    undo = {**team, "paused": False, "pause_note": "ask Ada"}
    assert service.post("/schedules/pause-many", undo) == {"changed": 2}
    assert [pause_of(service, name)[:2] for name in "abc"] == [
        (True, "ask Bob"),
        (False, None),
        (False, None),
    ]
    assert service.post("/schedules/pause-many", undo) == {"changed": 0}
    refused = service.post("/schedules/pause-many", {**undo, "paused": True}, 422)["error"]
    assert "only a resumption is limited by a note" in refused["message"]
