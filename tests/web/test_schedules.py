"""Schedules over HTTP: declare, list, look at, pause, delete."""

from __future__ import annotations

import pytest
from tests.web.running import SCHEDULE, running

COLUMNS = {
    *("schedule_id", "workflow_id", "version", "user_id", "cron_expr", "timezone", "start_at", "end_at"),
    *("next_run_at", "paused", "jitter_ms", "overlap_policy", "catchup_policy", "updated_at"),
}
MORE = {
    *(
        "pause_note",
        "paused_at",
        "paused_by",
        "pause_until",
        "labels",
        "delivery",
        "dialect",
        "gap",
        "fold",
        "grace_s",
        "run_timeout_s",
        "queue_limit",
    ),
    *("input", "retry_limit", "retry_delay_s", "retry_backoff", "retention_days", "retention_rows"),
    *("start_within_s", "finish_within_s", "succeed_every_s", "calendar"),
    *("executor", "quarantine", "preview"),
}


STORED = {
    "schedule_id": "nightly",
    "next_run_at": "2026-03-02T09:30:00Z",
    "created": True,
    "changed": [],
    "warnings": [],
}


def test_an_upsert_answers_the_id_and_the_next_fire_time(service):
    assert service.upsert() == STORED


def test_an_upsert_names_what_it_changed(service):
    service.upsert(labels={"team": "a"})
    assert service.upsert(labels={"team": "a"})["changed"] == []
    edited = service.upsert(cron_expr="0 9 * * *", retry_limit=2)
    # What is left out takes its default again, and the answer says so.
    assert (edited["created"], edited["changed"]) == (False, ["cron_expr", "labels", "retry_limit"])
    service.post("/schedules/pause", {"schedule_id": "nightly", "paused": True})
    assert service.upsert(cron_expr="0 9 * * *", retry_limit=2)["changed"] == []


@pytest.mark.parametrize(("stored", "other"), [(1, True), (False, 0), (1, 1.0)])
def test_an_input_that_python_calls_equal_is_a_change(service, stored, other):
    service.upsert(input={"dry_run": stored, "days": [1]})
    assert service.upsert(input={"days": [1], "dry_run": stored})["changed"] == []
    assert service.upsert(input={"dry_run": other, "days": [1]})["changed"] == ["input"]


def test_an_upsert_warns_of_a_workflow_that_is_not_stored(service):
    warning = "the workflow is not stored: runs fail with unknown_workflow until PUT /workflows/report/7"
    assert service.upsert(version=7)["warnings"] == [warning]


def test_an_upsert_warns_where_there_is_no_executor(tmp_path):
    with running(tmp_path, DUTIFUL_EXECUTOR="") as service:
        service.put("/workflows/report/1", {})
        [warning] = service.upsert()["warnings"]
        assert warning.startswith("there is no executor: runs fail with launch_refused")
        assert service.upsert(executor="https://run.example/x?token=1")["warnings"] == []
        assert service.get("/schedules/nightly")["executor"] == "https://run.example/x?***"
        [warning] = service.upsert(executor="http://169.254.169.254/x?token=1")["warnings"]
        assert warning.startswith("Invalid executor 'http://169.254.169.254/x': 169.254.169.254 is refused")
        assert warning.endswith(": runs fail with launch_refused")


def test_an_upsert_warns_of_a_grace_that_a_takeover_may_exceed(service):
    warning = "another worker may take over as late as 2 s: grace_s is raised to that"
    assert service.upsert(grace_s=0)["warnings"] == [warning]
    assert service.get("/schedules/nightly")["grace_s"] == 2
    assert service.upsert(grace_s=0)["changed"] == []
    assert service.upsert(grace_s=2)["warnings"] == []


def preview(service, **changes):
    return service.post("/schedules/preview", {**SCHEDULE, **changes})


def test_a_preview_says_what_a_new_schedule_would_do_and_stores_nothing(service):
    found = preview(service, cron_expr="0 9 1 * 1", timezone="Europe/Berlin")
    assert (found["schedule_id"], found["created"], found["changed"]) == ("nightly", True, [])
    assert found["meaning"] == "At 09:00, on day 1 of the month, or on Monday, in Europe/Berlin"
    assert [finding["code"] for finding in found["findings"]] == ["day_or_weekday"]
    assert found["preview"][0] == "2026-03-09T09:00:00+01:00"
    assert found["added"][:2] == ["2026-03-09T09:00:00+01:00", "2026-03-16T09:00:00+01:00"]
    assert (found["removed"], found["moved"]) == ([], [])
    assert (found["counts"], found["updated_at"]) == ({"before": 0, "after": 500}, None)
    assert service.get("/schedules")["schedules"] == []


def test_a_preview_names_the_fire_times_that_an_edit_moves_and_removes(service):
    service.upsert(end_at="2026-03-07T00:00:00Z")
    found = preview(service, cron_expr="45 10 * * 1-4", end_at="2026-03-07T00:00:00Z")
    assert (found["created"], found["changed"], found["compared_until"]) == (False, ["cron_expr"], None)
    assert found["moved"] == [
        {"before": f"2026-03-0{day}T09:30:00Z", "after": f"2026-03-0{day}T10:45:00Z"} for day in (2, 3, 4, 5)
    ]
    assert (found["added"], found["removed"]) == ([], ["2026-03-06T09:30:00Z"])
    assert found["counts"] == {"before": 5, "after": 4}
    assert found["updated_at"] == service.get("/schedules/nightly")["updated_at"]
    assert service.get("/schedules/nightly")["cron_expr"] == SCHEDULE["cron_expr"]


def test_a_fire_time_that_moves_beyond_the_end_of_the_comparison_is_not_reported_as_removed(service):
    service.upsert()
    found = preview(service, cron_expr="45 9 * * *")
    assert [len(found[name]) for name in ("added", "removed", "moved")] == [0, 0, 499]


def test_a_preview_of_a_frequent_schedule_says_how_far_it_looked(service):
    service.upsert(cron_expr="* * * * *")
    found = preview(service, cron_expr="*/2 * * * *")
    assert found["compared_until"] == "2026-03-02T17:20:00Z"
    assert (len(found["removed"]), found["added"], found["moved"]) == (250, [], [])


def test_a_preview_refuses_what_an_upsert_would_refuse(service):
    answer = service.post("/schedules/preview", {**SCHEDULE, "cron_expr": "61 * * * *"}, 422)
    assert answer["error"]["code"] == "invalid_cron_expression"


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"input": "x" * 16_384}, "input"),
        ({"retry_delay_s": 1}, "retry_delay_s"),
        ({"executor": "ftp://x"}, "executor"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_field(service, given, argument):
    error = service.post("/schedules/upsert", {**SCHEDULE, **given}, 422)["error"]
    assert (error["code"], error["details"]["argument"]) == ("invalid_argument", argument)


def test_an_upsert_without_an_id_makes_a_new_schedule_every_time(service):
    first, second = (service.upsert(schedule_id=None)["schedule_id"] for _ in range(2))
    assert first != second
    assert service.get(f"/schedules/{first}")["schedule_id"] == first


def test_a_schedule_has_every_column_and_its_next_five_fire_times(service):
    service.upsert(timezone="America/New_York")
    view = service.get("/schedules/nightly")
    assert {*view} == COLUMNS | MORE
    assert view | {"updated_at": None} == {
        **SCHEDULE,
        "timezone": "America/New_York",
        "start_at": None,
        "end_at": None,
        "next_run_at": "2026-03-02T14:30:00Z",
        "paused": False,
        "jitter_ms": 0,
        "overlap_policy": "skip",
        "catchup_policy": "none",
        "updated_at": None,
        "pause_note": None,
        "paused_at": None,
        "paused_by": None,
        "pause_until": None,
        "labels": {},
        "delivery": "at_least_once",
        "dialect": "standard",
        "gap": "run_after",
        "fold": "first",
        "grace_s": 60.0,
        "run_timeout_s": 3600.0,
        "queue_limit": 1000,
        "input": None,
        "retry_limit": 0,
        "retry_delay_s": 0.0,
        "retry_backoff": 1,
        "retention_days": None,
        "retention_rows": None,
        "executor": None,
        "start_within_s": None,
        "finish_within_s": None,
        "succeed_every_s": None,
        "calendar": [],
        "quarantine": None,
        "preview": [
            "2026-03-02T09:30:00-05:00",
            "2026-03-03T09:30:00-05:00",
            "2026-03-04T09:30:00-05:00",
            "2026-03-05T09:30:00-05:00",
            "2026-03-06T09:30:00-05:00",
        ],
    }


def test_everything_that_can_be_declared_is_kept(service):
    given = {
        "start_at": "2026-03-03T00:00:00Z",
        "end_at": "2026-04-03T00:00:00Z",
        "jitter_ms": 250,
        "overlap_policy": "queue",
        "catchup_policy": "spread",
        "paused": True,
        "dialect": "seconds",
        "cron_expr": "0 30 9 * * *",
        "gap": "run_after",
        "fold": "first",
        "grace_s": 112.5,
        "delivery": "at_most_once",
        "run_timeout_s": 90.0,
        "queue_limit": 7,
        "labels": {"team": "billing"},
        "input": {"tables": ["a", "b"], "full": False},
        "retry_limit": 5,
        "retry_delay_s": 2.5,
        "retry_backoff": 3,
        "retention_days": 400,
        "retention_rows": 5000,
        "executor": "https://run.example/start",
        "start_within_s": 30.0,
        "finish_within_s": 600.5,
        "succeed_every_s": 90_000.0,
        "calendar": ["12-25", "2026-03-10/2026-03-14"],
    }
    service.upsert(**given)
    view = service.get("/schedules/nightly")
    assert {key: view[key] for key in given} == given


def test_an_offset_is_another_way_to_write_the_same_instant(service):
    service.upsert(start_at="2026-03-03T01:00:00+01:00")
    assert service.get("/schedules/nightly")["start_at"] == "2026-03-03T00:00:00Z"


def test_a_deploy_does_not_wake_what_an_operator_has_paused(service):
    service.upsert()
    service.post("/schedules/pause", {"schedule_id": "nightly", "paused": True, "note": "ask Ada"})
    service.upsert(version=2)
    view = service.get("/schedules/nightly")
    assert (view["version"], view["paused"], view["pause_note"]) == (2, True, "ask Ada")
    assert (view["paused_at"], view["paused_by"]) == ("2026-03-02T09:00:00Z", "local")


def test_pausing_and_resuming(service):
    service.upsert()
    pause = {"schedule_id": "nightly", "paused": True}
    assert service.post("/schedules/pause", pause) == {"schedule_id": "nightly", "paused": True}
    assert service.get("/schedules/nightly")["paused"] is True
    service.post("/schedules/pause", {**pause, "paused": False})
    assert service.get("/schedules/nightly")["paused"] is False


def test_pausing_by_filter_changes_what_matches_and_nothing_else(service):
    service.upsert(schedule_id="a", user_id="ada")
    service.upsert(schedule_id="b", user_id="bob")
    assert service.post("/schedules/pause-many", {"paused": True, "user_id": "bob"}) == {"changed": 1}
    assert [view["paused"] for view in service.get("/schedules")["schedules"]] == [False, True]


def test_pausing_everything_by_mistake_is_refused(service):
    error = service.post("/schedules/pause-many", {"paused": True}, 422)["error"]
    assert error["code"] == "invalid_request"


def test_a_deleted_schedule_is_unknown(service):
    service.upsert()
    assert service.client.delete("/schedules/nightly").status_code == 204
    assert service.client.delete("/schedules/nightly").status_code == 404
    assert service.client.get("/schedules/nightly").json()["error"] == {
        "code": "unknown_schedule",
        "message": 'There is no schedule "nightly"',
        "details": {"scheduleId": "nightly"},
    }


def test_the_list_is_filtered(service):
    service.upsert(schedule_id="a", workflow_id="x", user_id="ada", labels={"team": "red"})
    service.upsert(schedule_id="b", workflow_id="y", user_id="ada", paused=True)
    service.upsert(schedule_id="c", workflow_id="y", user_id="bob")

    def listed(**query):
        return [view["schedule_id"] for view in service.get("/schedules", **query)["schedules"]]

    assert listed() == ["a", "b", "c"]
    assert listed(workflow_id="y") == ["b", "c"]
    assert listed(user_id="ada") == ["a", "b"]
    assert listed(paused="true") == ["b"]
    assert listed(paused="false") == ["a", "c"]
    assert listed(label="team=red") == ["a"]
    assert listed(workflow_id="y", user_id="ada") == ["b"]


def test_the_list_comes_in_pages(service):
    for name in "abcde":
        service.upsert(schedule_id=name)
    seen, cursor = [], None
    for _ in range(3):
        page = service.get("/schedules", limit=2, **({"cursor": cursor} if cursor else {}))
        seen.append([view["schedule_id"] for view in page["schedules"]])
        cursor = page["next_cursor"]
    assert (seen, cursor) == ([["a", "b"], ["c", "d"], ["e"]], None)


@pytest.mark.parametrize("count", [1, 5, 1000])
def test_as_many_fire_times_as_are_asked_for(service, count):
    service.upsert()
    answer = service.get("/schedules/nightly/next", count=count)
    assert (answer["schedule_id"], len(answer["preview"])) == ("nightly", count)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/schedules/nightly/next", {"count": 0}),
        ("/schedules/nightly/next", {"count": 1001}),
        ("/schedules/nightly/next", {"count": "many"}),
        ("/schedules/nightly/runs", {"limit": 0}),
        ("/schedules/nightly/runs", {"limit": 1001}),
        ("/schedules", {"limit": 0}),
        ("/schedules", {"limit": 1001}),
        ("/schedules", {"worklfow_id": "x"}),
        ("/schedules/nightly/explain", {}),
        ("/schedules/nightly/explain", {"at": "2026-03-02T09:30:00"}),
        ("/schedules/nightly/explain", {"at": "yesterday"}),
    ],
)
def test_a_query_out_of_bounds_is_refused(service, path, query):
    service.upsert()
    answer = service.client.get(path, params=query)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")


def test_a_bulk_is_stored_as_a_whole(service):
    many = [{**SCHEDULE, "schedule_id": f"s{number:05}"} for number in range(1000)]
    answer = service.post("/schedules/bulk", many)
    assert [one["schedule_id"] for one in answer["schedules"]] == [one["schedule_id"] for one in many]
    assert len(service.get("/schedules", limit=1000)["schedules"]) == 1000


def test_a_bulk_may_come_under_a_key(service):
    answer = service.post("/schedules/bulk", {"schedules": [SCHEDULE]})
    assert answer == {"schedules": [STORED]}


def test_a_bulk_with_one_wrong_schedule_stores_nothing(service):
    wrong = [SCHEDULE, {**SCHEDULE, "schedule_id": "bad", "cron_expr": "61 * * * *"}]
    error = service.post("/schedules/bulk", wrong, 422)["error"]
    assert (error["code"], error["details"]["at"]) == ("invalid_cron_expression", "schedules.1")
    assert error["message"].startswith("schedules.1: ")
    assert service.get("/schedules")["schedules"] == []


def previewed(service, *schedules):
    return service.post("/schedules/bulk/preview", [*schedules])["schedules"]


def test_a_preview_of_many_is_that_of_each(service):
    service.upsert()
    other = {**SCHEDULE, "schedule_id": "other", "cron_expr": "0 10 * * *"}
    assert previewed(service, SCHEDULE, other) == [
        service.post("/schedules/preview", SCHEDULE),
        service.post("/schedules/preview", other),
    ]
    error = service.post("/schedules/bulk/preview", [SCHEDULE, {**other, "cron_expr": "61 * * * *"}], 422)
    assert error["error"]["details"]["at"] == "schedules.1"
    assert (
        service.post("/schedules/bulk/preview", [SCHEDULE] * 101, 422)["error"]["code"] == "invalid_request"
    )


def test_a_preview_warns_of_runs_that_would_fail_as_an_upsert_does(service):
    warnings = service.upsert(workflow_id="unknown")["warnings"]
    assert len(warnings) == 1
    assert preview(service, workflow_id="unknown")["warnings"] == warnings


def test_a_bulk_stores_nothing_if_a_schedule_is_not_as_its_preview_found_it(service):
    service.upsert()
    wanted = [{**SCHEDULE, "cron_expr": "0 10 * * *"}, {**SCHEDULE, "schedule_id": "other"}]
    seen = {one["schedule_id"]: one["revision"] for one in previewed(service, *wanted)}
    assert (len(seen["nightly"]), seen["other"]) == (16, None)
    for meanwhile in ({"cron_expr": "0 11 * * *"}, {"schedule_id": "other"}):
        service.upsert(**meanwhile)
        body = {"schedules": wanted, "revisions": seen}
        refusal = service.post("/schedules/bulk", body, 409)["error"]
        named = meanwhile.get("schedule_id", "nightly")
        assert (refusal["code"], refusal["details"]["schedule_id"]) == ("outdated_plan", named)
        service.upsert()
    assert {one["cron_expr"] for one in service.get("/schedules")["schedules"]} == {"30 9 * * *"}
    service.client.delete("/schedules/other")
    assert len(service.post("/schedules/bulk", {"schedules": wanted, "revisions": seen})["schedules"]) == 2


def test_the_revision_of_a_schedule_tells_nothing_of_the_secrets_of_its_executor(service):
    revisions = set()
    for password in ("one", "two"):
        service.upsert(executor=f"redis://:{password}@127.0.0.1:1/0?stream=runs")
        revisions.add(preview(service)["revision"])
    assert len(revisions) == 1


def test_a_bulk_of_more_than_ten_thousand_is_refused(service):
    small = {"workflow_id": "w", "version": 1, "user_id": "u", "cron_expr": "0 0 * * *"}
    assert service.post("/schedules/bulk", [small] * 10_001, 422)["error"]["code"] == "invalid_request"


def test_a_bulk_may_have_eight_mebibytes_and_no_more(service):
    body = b'{"schedules": [' + b" " * (8 * 1024 * 1024)
    answer = service.client.post(
        "/schedules/bulk", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 413
