"""Workflows over HTTP, and the schedules that their DAGs declare."""

from __future__ import annotations

import json

import pytest

from dutiful.httpd.problems import InvalidRequestError
from dutiful.web.routes.workflows import schedules_of

DAG = {"nodes": [{"id": "a", "text": "Grüße ☃"}], "edges": [], "deep": [[1, 2.5, None, True]]}
TRIGGER = {"type": "schedule_based", "cron_expr": "0 6 * * *", "user_id": "ada"}


def test_a_stored_dag_is_given_back_as_it_was(service):
    assert service.put("/workflows/billing/3", DAG) == {
        "workflow_id": "billing",
        "version": 3,
        "schedules": [],
        "kept": [],
    }
    assert service.get("/workflows/billing/3") == DAG


def test_a_stored_version_stays_as_it_is_unless_it_is_replaced_on_purpose(service):
    service.put("/workflows/billing/3", DAG)
    service.put("/workflows/billing/3", {**DAG})
    answer = service.client.put("/workflows/billing/3", json={"nodes": []})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "workflow_exists")
    assert service.get("/workflows/billing/3") == DAG
    service.put("/workflows/billing/3", {"nodes": []}, replace="true")
    assert service.get("/workflows/billing/3") == {"nodes": []}


@pytest.mark.parametrize(("stored", "other"), [(1, True), (True, 1), (0, False), (1, 1.0)])
def test_values_that_python_calls_equal_are_different_dags(service, stored, other):
    service.put("/workflows/billing/3", {"retry": stored, "name": "a"})
    answer = service.client.put("/workflows/billing/3", json={"retry": other, "name": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "workflow_exists")
    service.put("/workflows/billing/3", {"retry": other}, replace="true")
    assert json.dumps(service.get("/workflows/billing/3")) == json.dumps({"retry": other})


def test_a_dag_whose_keys_have_another_order_is_the_same_one(service):
    service.put("/workflows/billing/3", {"a": {"b": 1, "c": 2}, "d": 3})
    service.put("/workflows/billing/3", {"d": 3, "a": {"c": 2, "b": 1}})


def test_workflows_are_listed_page_by_page(service):
    for workflow_id, version in (("b", 2), ("b", 10), ("a", 1)):
        service.put(f"/workflows/{workflow_id}/{version}", DAG)
    first = service.get("/workflows", limit=2)
    size, at = len(json.dumps(DAG, separators=(",", ":"))), "2026-03-02T09:00:00Z"
    assert first["workflows"] == [
        {"workflow_id": "a", "version": 1, "user_id": "local", "size": size, "updated_at": at},
        {"workflow_id": "b", "version": 2, "user_id": "local", "size": size, "updated_at": at},
    ]
    second = service.get("/workflows", limit=2, cursor=first["next_cursor"])
    assert [(each["workflow_id"], each["version"]) for each in second["workflows"]] == [
        ("b", 10),
        ("report", 1),
    ]
    assert second["next_cursor"] is None
    assert service.get("/workflows", user_id="ada")["workflows"] == []


def test_a_version_is_deleted_once_no_schedule_starts_it(service):
    service.upsert(schedule_id="a")
    answer = service.client.delete("/workflows/report/1")
    assert (answer.status_code, answer.json()["error"]["details"]["schedules"]) == (409, ["a"])
    service.upsert(schedule_id="a", version=2)
    assert service.client.delete("/workflows/report/1").status_code == 204
    answer = service.client.delete("/workflows/report/1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_workflow")


def test_a_refused_registration_stores_nothing(service):
    taken = {"triggers": [{**TRIGGER, "name": "a"}, {**TRIGGER, "name": "b", "timezone": "Mars/Olympus"}]}
    answer = service.client.put("/workflows/new/1", json=taken, params={"register": "true"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["details"]["at"]) == (
        422,
        "invalid_argument",
        "triggers.1",
    )
    assert error["message"].startswith("triggers.1: ")
    assert service.get("/schedules")["schedules"] == []
    assert service.client.get("/workflows/new/1").status_code == 404


@pytest.mark.parametrize("body", ["[]", '"text"', "1", "null"])
def test_a_dag_is_an_object(service, body):
    assert (
        service.client.put(
            "/workflows/billing/3", content=body, headers={"content-type": "application/json"}
        ).status_code
        == 422
    )


def test_triggers_are_registered_when_that_is_asked_for(service):
    dag = {"triggers": [{**TRIGGER, "name": "morning"}, {"type": "webhook"}, TRIGGER]}
    assert service.put("/workflows/billing/1", dag)["schedules"] == []
    assert service.get("/schedules")["schedules"] == []
    answer = service.put("/workflows/billing/1", dag, register="true")
    fires = "2026-03-03T06:00:00Z"
    assert [(each["schedule_id"], each["next_run_at"], each["created"]) for each in answer["schedules"]] == [
        ("billing.morning", fires, True),
        ("billing.2", fires, True),
    ]


def test_the_next_version_edits_the_schedules_of_the_one_before(service):
    service.put("/workflows/billing/1", {"triggers": [TRIGGER]}, register="true")
    service.put(
        "/workflows/billing/2", {"triggers": [{**TRIGGER, "cron_expr": "0 7 * * *"}]}, register="true"
    )
    (view,) = service.get("/schedules")["schedules"]
    dropped = service.put("/workflows/billing/3", {"triggers": []}, register="true")
    assert dropped == {"workflow_id": "billing", "version": 3, "schedules": [], "kept": ["billing.0"]}
    assert (view["schedule_id"], view["version"], view["cron_expr"]) == ("billing.0", 2, "0 7 * * *")


def test_a_trigger_whose_id_had_to_be_made_is_kept_too(service):
    workflow = "monthly-report-of-all-departments-and-their-subsidiaries-in-europe"
    triggers = {"triggers": [{**TRIGGER, "name": "every hour"}]}
    [made] = service.put(f"/workflows/{workflow}/1", triggers, register="true")["schedules"]
    assert service.put(f"/workflows/{workflow}/2", {"triggers": []}, register="true")["kept"] == [
        made["schedule_id"]
    ]


def test_a_refused_trigger_changes_nothing(service):
    service.put("/workflows/billing/1", DAG)
    bad = {"triggers": [{**TRIGGER, "cron_expr": "61 * * * *"}]}
    answer = service.client.put("/workflows/billing/1", json=bad, params={"register": "true"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_cron_expression")
    assert service.get("/schedules")["schedules"] == []
    assert service.get("/workflows/billing/1") == DAG


def test_settings_of_a_trigger_may_be_nested_and_the_user_may_be_the_dags():
    dag = {
        "user_id": "eve",
        "triggers": [
            {"type": "schedule_based", "id": "x", "config": {"cron": "0 6 * * *", "timezone": "Asia/Tokyo"}}
        ],
    }
    (schedule,) = schedules_of("w", 1, dag, "owner").values()
    assert (schedule.cron_expr, schedule.timezone, schedule.user_id) == ("0 6 * * *", "Asia/Tokyo", "eve")


def test_without_a_user_a_schedule_belongs_to_whoever_registers_it():
    dag = {"triggers": [{"type": "schedule_based", "cron": "0 6 * * *"}]}
    (schedule,) = schedules_of("w", 1, dag, "me").values()
    assert schedule.user_id == "me"


def test_an_id_that_cannot_be_written_is_replaced_by_a_stable_one():
    dag = {"triggers": [{**TRIGGER, "name": "every morning at six"}]}
    (first,), (second,) = (schedules_of("w", version, dag, "me").values() for version in (1, 2))
    assert first.schedule_id == second.schedule_id == "w.4420febba52dd01f938b7bafe700db9b"


@pytest.mark.parametrize(
    ("triggers", "at"),
    [
        ({}, "triggers"),
        ("text", "triggers"),
        ([{"type": "schedule_based"}], "triggers.0.cron_expr"),
        ([{**TRIGGER, "jitter_ms": "5"}], "triggers.0.jitter_ms"),
        ([{**TRIGGER, "start_at": "2026-03-02T09:00:00"}], "triggers.0.start_at"),
        ([{**TRIGGER, "name": "a"}, {**TRIGGER, "name": "a"}], "triggers.1"),
    ],
)
def test_a_trigger_that_cannot_be_read_is_reported_by_its_place(triggers, at):
    with pytest.raises(InvalidRequestError) as refused:
        schedules_of("w", 1, {"triggers": triggers}, "me")
    assert refused.value.details["problems"][0]["at"] == at


def test_what_is_no_schedule_is_left_alone():
    assert schedules_of("w", 1, {"triggers": [1, None, "x", {"type": "webhook"}]}, "me") == {}
    assert schedules_of("w", 1, {}, "me") == {}
