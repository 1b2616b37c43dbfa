"""What is refused, in the one shape of every error, with a fitting status."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import quote

import httpx2
import pytest
from tests.web.running import SCHEDULE, running

from dutiful.runtime.clock import SystemClock
from dutiful.service.settings import settings_from
from dutiful.web.app import create_app

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One service for all refusals, none of which may leave anything behind."""
    with running(tmp_path_factory.mktemp("service")) as it:
        it.put("/workflows/report/1", {"nodes": []})
        yield it


def refused(answer):
    """Return status and code of an error, after a look at its shape."""
    content = answer.json()
    assert [*content] == ["error"]
    assert {*content["error"]} == {"code", "message", "details"}
    assert isinstance(content["error"]["details"], dict)
    assert "Traceback" not in answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, content["error"]["code"]


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({"cron_exp": "0 9 * * *"}, "cron_exp"),
        ({"version": "1"}, "version"),
        ({"version": True}, "version"),
        ({"version": 1.5}, "version"),
        ({"version": -1}, "version"),
        ({"version": 2**60}, "version"),
        ({"jitter_ms": False}, "jitter_ms"),
        ({"jitter_ms": -1}, "jitter_ms"),
        ({"paused": "yes"}, "paused"),
        ({"paused": 0}, "paused"),
        ({"start_at": "2026-03-02T09:00:00"}, "start_at"),
        ({"start_at": "2026-03-02"}, "start_at"),
        ({"start_at": 1_700_000_000}, "start_at"),
        ({"start_at": "2026-02-30T09:00:00Z"}, "start_at"),
        ({"start_at": "0001-01-01T00:00:00+14:00"}, "start_at"),
        ({"end_at": "9999-12-31T23:59:59-14:00"}, "end_at"),
        ({"overlap_policy": "sometimes"}, "overlap_policy"),
        ({"catchup_policy": ""}, "catchup_policy"),
        ({"dialect": "quartz"}, "dialect"),
        ({"gap": "both"}, "gap"),
        ({"fold": "skip"}, "fold"),
        ({"dst": "none"}, "dst"),
        ({"delivery": "exactly_once"}, "delivery"),
        ({"grace_s": -1}, "grace_s"),
        ({"run_timeout_s": 0}, "run_timeout_s"),
        ({"queue_limit": -1}, "queue_limit"),
        ({"labels": {"team": 1}}, "labels.team"),
        ({"labels": ["team"]}, "labels"),
        ({"schedule_id": ""}, "schedule_id"),
        ({"schedule_id": "a" * 129}, "schedule_id"),
        ({"workflow_id": "a b"}, "workflow_id"),
        ({"user_id": "a\u2028b"}, "user_id"),
        ({"cron_expr": "*" * 257}, "cron_expr"),
        ({"cron_expr": None}, "cron_expr"),
    ],
)
def test_what_is_wrong_with_a_schedule_is_reported_by_its_place(service, changes, at):
    answer = service.client.post("/schedules/upsert", json={**SCHEDULE, **changes})
    assert refused(answer) == (422, "invalid_request")
    assert answer.json()["error"]["details"]["problems"][0]["at"] == at
    assert service.get("/schedules")["schedules"] == []


@pytest.mark.parametrize("missing", ["workflow_id", "version", "user_id", "cron_expr"])
def test_what_a_schedule_cannot_do_without_is_asked_for(service, missing):
    body = {key: value for key, value in SCHEDULE.items() if key != missing}
    answer = service.client.post("/schedules/upsert", json=body)
    assert refused(answer) == (422, "invalid_request")
    assert answer.json()["error"]["details"]["problems"] == [{"at": missing, "problem": "is missing"}]


@pytest.mark.parametrize("name", [".", ".."])
@pytest.mark.parametrize("key", ["schedule_id", "workflow_id"])
def test_an_id_that_no_client_can_ask_for_is_refused(service, key, name):
    answer = service.client.post("/schedules/upsert", json={**SCHEDULE, key: name})
    assert answer.status_code == 422
    assert "more than one or two dots" in answer.json()["error"]["message"]


NAMES = "write 1 to 128 letters, digits, dots, underlines and dashes"
UNKNOWN = "there is no such key"


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        ("upsert", {"Cron": "* * * * *"}, f"Cron: {UNKNOWN}; did you mean 'cron_expr'?"),
        ("upsert", {"tz": "UTC"}, f"tz: {UNKNOWN}"),
        ("upsert", {"x" * 70: 1}, f"{'x' * 70}: {UNKNOWN}"),
        (
            "bulk",
            [{**SCHEDULE, "overlap": "skip"}],
            f"schedules.0.overlap: {UNKNOWN}; did you mean 'overlap_policy'?",
        ),
        ("bulk", {"schedule": []}, "body: write a list of schedules, bare or under the key 'schedules'"),
        ("bulk", {"schedules": [SCHEDULE], "x": 1}, f"x: {UNKNOWN}; there are schedules, revisions"),
        ("pause", {"id": "a", "paused": True}, f"id: {UNKNOWN}; there are schedule_id, paused, note, until"),
        ("a/trigger", {"in": 1}, f"in: {UNKNOWN}; there is input"),
        ("pause", {"schedule_id": "a b", "paused": True}, f"schedule_id: {NAMES}"),
        ("upsert", {**SCHEDULE, "labels": {"a b": "c"}}, f"labels.a b: {NAMES}"),
        (
            "pause",
            {"schedule_id": "a", "paused": True, "note": "a\nb"},
            "note: write one line, without control",
        ),
        ("upsert", {**SCHEDULE, "end_at": "2026-03-02T09:00:00+24:00"}, "end_at: must be an RFC 3339 time"),
        ("upsert", {**SCHEDULE, "version": "1"}, "version: must be a whole number"),
        ("upsert", {**SCHEDULE, "version": -1}, "version: must be 0 or more"),
        ("upsert", {**SCHEDULE, "cron_expr": 5}, "cron_expr: must be a text"),
        ("upsert", {**SCHEDULE, "cron_expr": "*" * 257}, "cron_expr: must have at most 256 characters"),
        ("upsert", {**SCHEDULE, "user_id": ""}, "user_id: must not be empty"),
        ("upsert", {**SCHEDULE, "grace_s": "1"}, "grace_s: must be a number"),
        ("upsert", {**SCHEDULE, "grace_s": 10**9}, "grace_s: must be 31622400 or less"),
        ("upsert", {**SCHEDULE, "run_timeout_s": 0}, "run_timeout_s: must be more than 0"),
        ("upsert", {**SCHEDULE, "calendar": "12-25"}, "calendar: must be a list"),
        ("upsert", {**SCHEDULE, "fold": "skip"}, "fold: must be 'both', 'first' or 'last'"),
        ("pause", {"schedule_id": "a", "paused": 1}, "paused: must be true or false"),
        ("bulk", [SCHEDULE] * 10_001, "schedules: must have at most 10000 items"),
        ("a/trigger", [], "body: must be a JSON object"),
    ],
)
def test_a_refusal_says_what_to_write_instead(service, path, body, problem):
    answer = service.client.post(f"/schedules/{path}", json=body)
    assert refused(answer) == (422, "invalid_request")
    assert answer.json()["error"]["message"].startswith(f"Invalid request: {problem}")


@pytest.mark.parametrize(
    ("path", "problems"),
    [
        ("/schedules?limit=1&limit=2", ["limit: is given twice"]),
        ("/schedules?limit=many", ["limit: must be a whole number"]),
        ("/schedules?paused=maybe", ["paused: must be true or false"]),
        ("/schedules?lmit=1", ["lmit: there is no such key; did you mean 'limit'?"]),
        ("/schedules/nightly?count=3", ["count: there is no such key"]),
        ("/summary?x=1&x=2", ["x: is given twice", "x: there is no such key"]),
        ("/ui/runs?stats=FAILED", None),
    ],
)
def test_a_query_is_read_as_strictly_as_a_body(service, path, problems):
    answer = service.client.get(path)
    if problems is None:
        assert (answer.status_code, "did you mean &#39;status&#39;?" in answer.text) == (422, True)
    else:
        assert refused(answer) == (422, "invalid_request")
        assert answer.json()["error"]["message"] == f"Invalid request: {'; '.join(problems)}"


def test_a_method_that_a_path_does_not_take_is_answered_with_those_that_it_takes(service):
    answer = service.client.post("/schedules/nightly")
    assert refused(answer) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, DELETE, HEAD"
    assert answer.json()["error"]["message"] == "POST is not answered here; use GET, DELETE, HEAD"


def test_of_many_problems_of_a_bulk_the_first_are_reported(service):
    answer = service.client.post("/schedules/bulk", json=[{**SCHEDULE, "cron": "x"}] * 5000)
    problems = answer.json()["error"]["details"]["problems"]
    assert [each["at"] for each in problems] == [f"schedules.{place}.cron" for place in range(20)]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cron_expr": "61 * * * *"}, "invalid_cron_expression"),
        ({"cron_expr": "0 0 30 2 *"}, "invalid_cron_expression"),
        ({"cron_expr": ""}, "invalid_cron_expression"),
        ({"timezone": "Mars/Olympus"}, "invalid_argument"),
        ({"timezone": "../../etc/passwd"}, "invalid_argument"),
        ({"executor": "http://"}, "invalid_argument"),
        ({"executor": "command:"}, "invalid_argument"),
        ({"start_at": "2026-03-03T00:00:00Z", "end_at": "2026-03-02T00:00:00Z"}, "invalid_argument"),
    ],
)
def test_what_no_schedule_can_mean_is_refused_with_its_reason(service, changes, code):
    answer = service.client.post("/schedules/upsert", json={**SCHEDULE, **changes})
    assert refused(answer) == (422, code)
    assert service.get("/schedules")["schedules"] == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]]",
        b'{"schedule_id": "a", "schedule_id": "b", "paused": true}',
        b'{"schedule_id": "a", "paused": NaN}',
        b'{"schedule_id": "a", "paused": Infinity}',
        b'{"schedule_id": "\\ud800", "paused": true}',
        b'{"schedule_id": "\xff", "paused": true}',
        b"[" * 100_000,
    ],
)
def test_a_body_that_two_readers_could_read_differently_is_refused(service, body):
    answer = service.client.post("/schedules/pause", content=body[:60_000], headers=JSON)
    assert refused(answer) == (400, "invalid_json")


@pytest.mark.parametrize("body", [b"null", b"[]", b'"a"', b"1"])
def test_a_body_that_is_no_object_is_refused(service, body):
    answer = service.client.post("/schedules/pause", content=body, headers=JSON)
    assert refused(answer) == (422, "invalid_request")


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "application/x-www-form-urlencoded", ""])
def test_a_body_that_is_said_to_be_something_else_is_refused(service, kind):
    body = json.dumps({"schedule_id": "a", "paused": True}).encode()
    answer = service.client.post("/schedules/pause", content=body, headers={"content-type": kind})
    assert refused(answer) == (415, "unsupported_media_type")


@pytest.mark.parametrize("kind", [{}, JSON, {"content-type": "Application/Problem+JSON; charset=utf-8"}])
def test_a_body_is_taken_as_json_if_nothing_else_is_said(service, kind):
    service.upsert()
    body = json.dumps({"schedule_id": "nightly", "paused": True}).encode()
    answer = service.client.post("/schedules/pause", content=body, headers=kind)
    assert service.client.delete("/schedules/nightly").is_success
    assert (answer.status_code, answer.json()["paused"]) == (200, True)


@pytest.mark.parametrize(
    ("method", "path", "most"),
    [("POST", "/schedules/upsert", 64 * 1024), ("PUT", "/workflows/big/1", 1024 * 1024)],
)
def test_a_body_may_be_so_long_and_no_longer(service, method, path, most):
    def sized(size):
        frame = b'{"text": ""}'
        body = frame[:-2] + b"x" * (size - len(frame)) + frame[-2:]
        return service.client.request(method, path, content=body, headers=JSON)

    assert sized(most).status_code in {200, 422}
    assert refused(sized(most + 1)) == (413, "body_too_large")


def test_a_body_that_does_not_say_its_length_is_counted(service):
    def parts():
        yield b'{"schedule_id": "'
        for _ in range(80):
            yield b"x" * 1024

    answer = service.client.post("/schedules/pause", content=parts(), headers=JSON)
    assert refused(answer) == (413, "body_too_large")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/schedules/", 404, "not_found"),
        ("PATCH", "/schedules", 405, "method_not_allowed"),
        ("GET", "/run-launcher/start", 405, "method_not_allowed"),
        ("GET", "/schedules/unknown", 404, "unknown_schedule"),
        ("GET", "/schedules/unknown/next", 404, "unknown_schedule"),
        ("GET", "/schedules/unknown/runs", 404, "unknown_schedule"),
        ("GET", "/schedules/unknown/explain?at=2026-03-02T09:00:00Z", 404, "unknown_schedule"),
        ("POST", "/schedules/unknown/trigger", 404, "unknown_schedule"),
        ("GET", "/workflows/unknown/1", 404, "unknown_workflow"),
        ("GET", "/workflows/report/one", 422, "invalid_request"),
        ("GET", "/static/nothing.css", 404, "not_found"),
        ("GET", "/static/../app.py", 404, "not_found"),
        ("GET", "/static/%2e%2e/app.py", 404, "not_found"),
    ],
)
def test_what_is_not_there_is_reported_in_the_same_shape(service, method, path, status, code):
    assert refused(service.client.request(method, path)) == (status, code)


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/schedule/upsert", "; did you mean /schedules/upsert or /schedules/upsert/runs?"),
        ("/workflows/hello", "; did you mean /workflows or /workflows/hello/{version}?"),
        ("/nowhere", "; GET /openapi.json lists the paths"),
        ("/" + "x" * 3000, "; GET /openapi.json lists the paths"),
    ],
    ids=["a typo", "a part too few", "nothing near", "a long one"],
)
def test_a_path_that_is_not_there_is_answered_with_the_one_that_was_meant(service, path, advice):
    message = service.client.put(path, json={}).json()["error"]["message"]
    assert message.startswith("There is nothing at /")
    assert message.endswith(advice)
    assert len(message) < 200


def test_an_unknown_schedule_cannot_be_paused_or_run_again(service):
    for path, body in [
        ("/schedules/pause", {"schedule_id": "unknown", "paused": True}),
        ("/schedules/unknown/backfill", {"start": "2026-03-01T00:00:00Z", "end": "2026-03-02T00:00:00Z"}),
    ]:
        assert refused(service.client.post(path, json=body)) == (404, "unknown_schedule")


def test_a_range_that_ends_before_it_begins_is_reported_as_it_was_sent(service):
    service.upsert()
    range_ = {"start": "2026-03-02T00:00:00Z", "end": "2026-03-01T00:00:00Z"}
    answer = service.client.post("/schedules/nightly/backfill", json=range_)
    service.client.delete("/schedules/nightly")
    message = "Invalid end '2026-03-01T00:00:00+00:00': must be after start"
    assert (answer.status_code, answer.json()["error"]["message"]) == (422, message)


def test_an_unknown_run_has_no_status(service):
    answer = service.client.post("/runs/nobody-knows-this/status", json={"status": "SUCCESS"})
    assert refused(answer)[0] == 404


HOSTILE = [
    "../../etc/passwd",
    "a b",
    "a\u0000b",
    "a\nb",
    "<script>alert(1)</script>",
    "'; DROP TABLE schedules; --",
    "a" * 129,
    "%",
    "%2e%2e",
    "\u202eevil",
    "ａｂｃ",
    "a?b=c",
    "a#b",
    "{{7*7}}",
    "${x}",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_id_is_refused_wherever_it_is_sent(service, name):
    for field in ("schedule_id", "workflow_id"):
        answer = service.client.post("/schedules/upsert", json={**SCHEDULE, field: name})
        assert refused(answer) == (422, "invalid_request")
    path = f"/schedules/{quote(name, safe='')}"
    assert service.client.get(path).status_code in {400, 404, 422}
    assert service.get("/schedules")["schedules"] == []


def test_a_foreign_host_and_a_foreign_origin_are_refused(service):
    assert refused(service.client.get("/schedules", headers={"host": "evil.example"})) == (
        421,
        "foreign_host",
    )
    headers = {"origin": "http://evil.example"}
    assert refused(service.client.get("/schedules", headers=headers)) == (403, "foreign_origin")


class Broken:
    """A service with a bug."""

    settings = settings_from({})
    clock = SystemClock()

    def health(self):
        raise ZeroDivisionError("secret/path.py")


def test_a_bug_is_reported_without_its_trace():
    async def ask():
        transport = httpx2.ASGITransport(create_app(Broken()), raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/readyz")

    answer = asyncio.run(ask())
    assert refused(answer) == (500, "internal_error")
    assert "secret" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_error_of_json_is_not_reported_as_that_of_an_item(service):
    answer = service.client.post("/schedules/upsert", content="{]").json()["error"]
    assert answer["message"].startswith("The body cannot be read: ")
