"""Who may do what, and whose schedules they may see, by the token that they send."""

from __future__ import annotations

import base64
import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from urllib.parse import quote

import httpx2
import jwt
import pytest
from tests.web.running import MONDAY, SCHEDULE, running

from dutiful.core.cron.zone import epoch_ms
from dutiful.core.schedule import tick_key
from dutiful.web.pages import PAGE_ROUTERS

KEY = b"k" * 32
NOW = int(datetime.fromisoformat(MONDAY).timestamp())


@pytest.fixture
def guarded(tmp_path):
    keys = {"keys": {"k1": {"alg": "HS256", "key": base64.urlsafe_b64encode(KEY).rstrip(b"=").decode()}}}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    environ = {
        "DUTIFUL_JWT_KEYS": str(tmp_path / "keys.json"),
        "DUTIFUL_JWT_ISSUER": "issuer",
        "DUTIFUL_JWT_AUDIENCE": "dutiful",
        "DUTIFUL_RATE_BURST": "1000",
    }
    with running(tmp_path, **environ) as service:
        yield service


def token(user, scope, act_as=()):
    claims = {"iss": "issuer", "aud": "dutiful", "sub": user, "iat": NOW, "nbf": NOW, "exp": NOW + 600}
    claims |= {"scope": scope, "act_as": [*act_as]}
    return jwt.encode(claims, KEY, algorithm="HS256", headers={"kid": "k1"})


def asking(service, user, scope="read write trigger report", act_as=()):
    """Return how this user asks: method, path, body -> (status, content)."""
    headers = {"authorization": f"Bearer {token(user, scope, act_as)}"}

    def ask(method, path, body=None):
        answer = service.client.request(method, path, headers=headers, json=body)
        is_json = answer.headers.get("content-type") == "application/json"
        return answer.status_code, answer.json() if is_json else answer.text

    return ask


START = {
    "workflow_id": "report",
    "version": 1,
    "user_id": "ada",
    "scheduled_for": "2026-03-02T09:30:00Z",
    "idempotency_key": "k",
}
PAST = {"start": "2026-03-01T00:00:00Z", "end": "2026-03-02T00:00:00Z"}
NEEDS = [
    ("GET", "/schedules", None, "read"),
    ("GET", "/schedules/nightly", None, "read"),
    ("GET", "/schedules/nightly/next", None, "read"),
    ("GET", "/schedules/nightly/runs", None, "read"),
    ("GET", "/schedules/nightly/explain?at=2026-03-02T09:00:00Z", None, "read"),
    ("GET", "/runs", None, "read"),
    ("GET", "/runs/unknown", None, "read"),
    ("GET", "/runs/unknown/output", None, "read"),
    ("POST", "/schedules/preview", SCHEDULE, "read"),
    ("POST", "/schedules/bulk/preview", [SCHEDULE], "read"),
    ("GET", "/workflows/report/1", None, "read"),
    ("GET", "/metrics", None, "read"),
    ("GET", "/cluster", None, "read"),
    ("GET", "/summary", None, "read"),
    ("GET", "/summary/schedules", None, "read"),
    ("POST", "/schedules/upsert", SCHEDULE, "write"),
    ("POST", "/schedules/bulk", [SCHEDULE], "write"),
    ("POST", "/schedules/pause", {"schedule_id": "nightly", "paused": False}, "write"),
    ("POST", "/schedules/pause-many", {"paused": False, "user_id": "ada"}, "write"),
    ("GET", "/workflows", None, "read"),
    ("PUT", "/workflows/report/1", {}, "write"),
    ("DELETE", "/workflows/unknown/1", None, "write"),
    ("POST", "/cluster/drain", {"node": "worker-1"}, "admin"),
    ("POST", "/cluster/rebalance", None, "admin"),
    ("POST", "/runs/unknown/status", {"status": "SUCCESS"}, "report"),
    ("DELETE", "/schedules/nightly", None, "write"),
    ("POST", "/schedules/nightly/trigger", None, "trigger"),
    ("POST", "/runs/unknown/cancel", None, "trigger"),
    ("POST", "/schedules/nightly/backfill", PAST, "trigger"),
    ("POST", "/run-launcher/start", START, "trigger"),
]


@pytest.mark.parametrize(("method", "path", "body", "scope"), NEEDS)
def test_every_route_needs_its_scope(guarded, method, path, body, scope):
    asking(guarded, "ada")("PUT", "/workflows/report/1", {})
    asking(guarded, "ada")("POST", "/schedules/upsert", SCHEDULE)
    others = {"read", "write", "trigger", "report"} - {scope}
    granted = "write admin" if scope == "admin" else scope
    status, content = asking(guarded, "ada", " ".join(others))(method, path, body)
    assert (status, content["error"]["code"]) == (403, "scope_missing")
    status, _ = asking(guarded, "ada", granted)(method, path, body)
    # A service on one machine has no node to drain.
    assert status in ({404} if "unknown" in path or "drain" in path else {200, 204})
    assert guarded.client.request(method, path, json=body).status_code == 401


def test_the_list_of_needs_is_complete(guarded):
    document = asking(guarded, "ada")("GET", "/openapi.json")[1]
    routes = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    open_to_all = {("GET", "/healthz"), ("GET", "/readyz")}
    assert len(routes - open_to_all) == len({(method, path) for method, path, *_ in NEEDS})


PAGE_NEEDS = {
    "GET /": "read",
    "GET /ui/schedules": "read",
    "GET /ui/schedules/pause-many": "read",
    "POST /ui/schedules/pause-many": "write",
    "GET /ui/schedules/backfill-many": "read",
    "POST /ui/schedules/backfill-many": "trigger",
    "GET /ui/schedules/import": "read",
    "POST /ui/schedules/import": "read",
    "POST /ui/examples": "write",
    "GET /ui/schedules/new": "read",
    "POST /ui/schedules/new": "read",
    "GET /ui/schedules/{schedule_id}": "read",
    "GET /ui/schedules/{schedule_id}/edit": "read",
    "POST /ui/schedules/{schedule_id}/edit": "read",
    "GET /ui/schedules/{schedule_id}/run": "read",
    "POST /ui/schedules/{schedule_id}/run": "trigger",
    "GET /ui/schedules/{schedule_id}/pause": "read",
    "POST /ui/schedules/{schedule_id}/pause": "write",
    "GET /ui/schedules/{schedule_id}/backfill": "read",
    "POST /ui/schedules/{schedule_id}/backfill": "trigger",
    "GET /ui/schedules/{schedule_id}/delete": "read",
    "POST /ui/schedules/{schedule_id}/delete": "write",
    "GET /ui/runs": "read",
    "GET /ui/runs/{key}": "read",
    "GET /ui/runs/again": "read",
    "POST /ui/runs/again": "trigger",
    "GET /ui/calendar": "read",
    "GET /ui/cron": "read",
    "GET /ui/why": "read",
    "GET /ui/more": "read",
    "GET /ui/me": "read",
    "POST /ui/theme": "read",
    "POST /ui/zone": "read",
    "POST /ui/keys": "read",
    "GET /ui/system": "admin",
    "GET /ui/audit": "admin",
}
# Who is not signed in yet must reach them; a logout only forgets a cookie.
OPEN_PAGES = {"GET /ui/login", "POST /ui/login", "POST /ui/logout"}


def test_every_page_needs_its_scope(guarded):
    ada = asking(guarded, "ada")
    ada("PUT", "/workflows/report/1", {})
    ada("POST", "/schedules/upsert", SCHEDULE)
    key = ada("POST", "/schedules/nightly/trigger")[1]["idempotency_key"]
    refused, taken = {}, {}
    for name, scope in PAGE_NEEDS.items():
        method, path = name.format(schedule_id="nightly", key=key).split()
        others = {"read", "write", "trigger", "report"} - {scope}
        status, text = asking(guarded, "ada", " ".join(sorted(others)))(method, path)
        refused[name] = status, "scope_missing" in text
        status, text = asking(guarded, "ada", "admin" if scope == "admin" else f"read {scope}")(method, path)
        # A POST of this test carries no proof of its page.
        taken[name] = status, "scope_missing" in text
    assert refused == dict.fromkeys(PAGE_NEEDS, (403, True))
    assert taken == {name: (200 if name.startswith("GET") else 403, False) for name in PAGE_NEEDS}


def test_the_list_of_pages_is_complete():
    routes = {
        f"{method} {route.path}"
        for router in PAGE_ROUTERS
        for route in router.routes
        for method in route.methods
    }
    assert routes == PAGE_NEEDS.keys() | OPEN_PAGES


def test_schedules_of_another_user_do_not_exist(guarded):
    ada, bob = asking(guarded, "ada"), asking(guarded, "bob")
    ada("POST", "/schedules/upsert", SCHEDULE)
    tried = [
        ("GET", "/schedules/nightly", None),
        ("GET", "/schedules/nightly/next", None),
        ("GET", "/schedules/nightly/runs", None),
        ("GET", "/schedules/nightly/explain?at=2026-03-02T09:00:00Z", None),
        ("POST", "/schedules/nightly/trigger", None),
        ("POST", "/schedules/nightly/backfill", PAST),
        ("POST", "/schedules/pause", {"schedule_id": "nightly", "paused": True}),
        ("DELETE", "/schedules/nightly", None),
        ("POST", "/schedules/upsert", {**SCHEDULE, "user_id": "bob"}),
        ("POST", "/schedules/bulk", [{**SCHEDULE, "user_id": "bob"}]),
        ("POST", "/schedules/bulk/preview", [{**SCHEDULE, "user_id": "bob"}]),
    ]
    for method, path, body in tried:
        status, content = bob(method, path, body)
        assert (status, content["error"]["code"]) == (404, "unknown_schedule"), path
    assert bob("GET", "/schedules")[1]["schedules"] == []
    assert bob("GET", "/schedules?user_id=ada")[1]["schedules"] == []
    for query in ("", "&user_id=ada", "&find=user:ada", "&find=nightly", "&workflow_id=report"):
        assert bob("GET", f"/summary/schedules?view=all{query}")[1]["schedules"] == []
        assert bob("GET", f"/summary/schedules?view=next{query}")[1]["schedules"] == []
    assert ada("GET", "/schedules/nightly")[1]["user_id"] == "ada"


def test_of_two_users_who_want_the_same_id_at_once_one_gets_it(guarded):
    headers = {user: {"authorization": f"Bearer {token(user, 'read write')}"} for user in ("ada", "bob")}

    def upsert(user, number):
        body = {**SCHEDULE, "schedule_id": f"s{number}", "user_id": user}
        url, patient = f"{guarded.url}/schedules/upsert", {"trust_env": False, "timeout": 60}
        return httpx2.post(url, headers=headers[user], json=body, **patient).status_code

    with ThreadPoolExecutor(4) as pool:
        tried = [(pool.submit(upsert, "ada", n), pool.submit(upsert, "bob", n)) for n in range(20)]
        statuses = [sorted(one.result() for one in pair) for pair in tried]
    assert statuses == [[200, 404]] * 20


def test_a_user_cannot_act_for_another_user(guarded):
    bob = asking(guarded, "bob")
    for path, body in [
        ("/schedules/upsert", {**SCHEDULE, "schedule_id": "new"}),
        ("/schedules/pause-many", {"paused": True, "user_id": "ada"}),
        ("/run-launcher/start", START),
    ]:
        status, content = bob("POST", path, body)
        assert (status, content["error"]["code"]) == (403, "other_user"), path


def test_pausing_by_filter_stays_with_the_caller(guarded):
    ada, bob = asking(guarded, "ada"), asking(guarded, "bob")
    ada("POST", "/schedules/upsert", SCHEDULE)
    bob("POST", "/schedules/upsert", {**SCHEDULE, "schedule_id": "bobs", "user_id": "bob"})
    assert bob("POST", "/schedules/pause-many", {"paused": True, "workflow_id": "report"}) == (
        200,
        {"changed": 1},
    )
    assert ada("GET", "/schedules/nightly")[1]["paused"] is False


def test_a_user_cannot_report_on_the_runs_of_another_user(guarded):
    ada, bob, root = asking(guarded, "ada"), asking(guarded, "bob"), asking(guarded, "root", "admin")
    ada("PUT", "/workflows/report/1", {"hang": True})
    ada("POST", "/schedules/upsert", SCHEDULE)
    key = ada("POST", "/schedules/nightly/trigger")[1]["idempotency_key"]
    path, report = f"/runs/{key}/status", {"status": "SUCCESS"}
    status, content = bob("POST", path, report)
    assert (status, content["error"]["code"]) == (404, "unknown_run")
    assert ada("POST", path, {"status": "STARTED"})[1]["status"] == "STARTED"
    assert root("POST", path, report)[1]["status"] == "SUCCESS"


def test_an_admin_sees_and_does_everything(guarded):
    root = asking(guarded, "root", "admin")
    asking(guarded, "ada")("POST", "/schedules/upsert", SCHEDULE)
    assert root("GET", "/schedules/nightly")[0] == 200
    assert root("DELETE", "/schedules/nightly")[0] == 204


EXECUTOR, DEPLOYER = ("executor", "report"), ("deployer", "read write")


def test_an_executor_reports_on_the_runs_of_the_users_in_its_token(guarded):
    ada = asking(guarded, "ada")
    ada("PUT", "/workflows/report/1", {"hang": True})
    ada("POST", "/schedules/upsert", SCHEDULE)
    key = ada("POST", "/schedules/nightly/trigger")[1]["idempotency_key"]
    path = f"/runs/{key}/status"
    for act_as in ((), ("bob",)):
        status, content = asking(guarded, *EXECUTOR, act_as)("POST", path, {"status": "STARTED"})
        assert (status, content["error"]["code"]) == (404, "unknown_run")
    assert asking(guarded, *EXECUTOR, ("bob", "ada"))("POST", path, {"status": "STARTED"})[0] == 200
    assert asking(guarded, *EXECUTOR, ("*",))("POST", path, {"status": "SUCCESS"})[1]["status"] == "SUCCESS"
    # It may say how runs end, and nothing else.
    assert asking(guarded, *EXECUTOR, ("*",))("GET", "/schedules/nightly")[0] == 403


def test_a_deployer_writes_for_the_users_in_its_token_and_no_others(guarded):
    deployer, everybody = asking(guarded, *DEPLOYER, ("ada",)), asking(guarded, *DEPLOYER, ("*",))
    assert deployer("POST", "/schedules/upsert", SCHEDULE)[0] == 200
    assert deployer("GET", "/schedules/nightly")[1]["user_id"] == "ada"
    assert [each["user_id"] for each in deployer("GET", "/schedules?user_id=ada")[1]["schedules"]] == ["ada"]
    lines = deployer("GET", "/summary/schedules?view=all&user_id=ada")[1]["schedules"]
    assert [line["schedule_id"] for line in lines] == ["nightly"]
    # Without a filter a list is about the caller itself.
    assert deployer("GET", "/schedules")[1]["schedules"] == []
    status, content = deployer(
        "POST", "/schedules/upsert", {**SCHEDULE, "schedule_id": "b", "user_id": "bob"}
    )
    assert (status, content["error"]["code"]) == (403, "other_user")
    assert content["error"]["message"].startswith("You may not act for the user 'bob'; ")
    assert (
        everybody("POST", "/schedules/upsert", {**SCHEDULE, "schedule_id": "b", "user_id": "bob"})[0] == 200
    )
    assert len(everybody("GET", "/schedules")[1]["schedules"]) == 2
    assert asking(guarded, "ada")("GET", "/schedules/nightly")[0] == 200


@pytest.mark.parametrize("user", ["ada@example.com", "auth0|1", "Ада Лавлейс", "👩‍💻", "a b/c?d%e"])
def test_an_owner_is_any_subject_that_a_token_names(guarded, user):
    ask = asking(guarded, user)
    assert ask("PUT", "/workflows/own/1", {})[0] == 200
    assert ask("POST", "/schedules/upsert", {**SCHEDULE, "workflow_id": "own", "user_id": user})[0] == 200
    assert ask("GET", "/schedules/nightly")[1]["user_id"] == user
    found = ask("GET", f"/schedules?user_id={quote(user, safe='')}")[1]["schedules"]
    assert [each["user_id"] for each in found] == [user]
    key = ask("POST", "/schedules/nightly/trigger")[1]["idempotency_key"]
    assert ask("POST", f"/runs/{key}/status", {"status": "SUCCESS"})[0] == 200
    assert ask("GET", "/workflows")[1]["workflows"][0]["user_id"] == user


@pytest.mark.parametrize("user", ["", "a\nb", "a\u2028b", "\x00", "x" * 256])
def test_a_text_that_could_forge_a_line_is_no_user(guarded, user):
    status, content = asking(guarded, "root", "admin")(
        "POST", "/schedules/upsert", {**SCHEDULE, "user_id": user}
    )
    assert (status, content["error"]["details"]["problems"][0]["at"]) == (422, "user_id")
    assert asking(guarded, user)("GET", "/schedules")[1]["error"]["code"] == "token_malformed"


def test_a_workflow_belongs_to_whoever_stored_its_first_version(guarded):
    ada, bob, root = asking(guarded, "ada"), asking(guarded, "bob"), asking(guarded, "root", "admin")
    assert ada("PUT", "/workflows/w/1", {"by": "ada"})[0] == 200
    for path in (
        "/workflows/w/1",
        "/workflows/w/1?replace=true",
        "/workflows/w/2",
        "/workflows/w/2?user_id=bob",
    ):
        status, content = bob("PUT", path, {"by": "bob"})
        assert (status, content["error"]["code"]) == (403, "other_user"), path
    status, content = bob("DELETE", "/workflows/w/1")
    assert (status, content["error"]["code"]) == (403, "other_user")
    # An operator may change it, and it stays ada's.
    assert root("PUT", "/workflows/w/2", {"by": "root"})[0] == 200
    assert [each["user_id"] for each in bob("GET", "/workflows")[1]["workflows"]] == ["ada", "ada"]
    assert bob("GET", "/workflows/w/1")[1] == {"by": "ada"}


def test_two_users_may_start_runs_under_the_same_key(guarded):
    ada, bob = asking(guarded, "ada"), asking(guarded, "bob")
    ada("PUT", "/workflows/report/1", {})
    started = [
        ask("POST", "/run-launcher/start", {**START, "user_id": user})
        for ask, user in ((ada, "ada"), (bob, "bob"), (ada, "ada"))
    ]
    assert started == [(200, {"started": True})] * 2 + [(200, {"started": True, "duplicate": True})]


def test_starting_a_run_does_not_tell_whether_a_tick_of_another_user_ran(guarded):
    ada, bob = asking(guarded, "ada"), asking(guarded, "bob")
    ada("PUT", "/workflows/report/1", {})
    ada("POST", "/schedules/upsert", {**SCHEDULE, "cron_expr": "* * * * *"})
    guarded.advance(61)
    [run] = ada("GET", "/schedules/nightly/runs")[1]["runs"]
    ran, never = run["idempotency_key"], "0" * 64
    duplicate = (200, {"started": True, "duplicate": True})
    assert ada("POST", "/run-launcher/start", {**START, "idempotency_key": ran}) == duplicate
    told = [
        bob("POST", "/run-launcher/start", {**START, "user_id": "bob", "idempotency_key": key})
        for key in (ran, never)
    ]
    assert [(status, answer["error"]["code"]) for status, answer in told] == [(422, "invalid_argument")] * 2


def test_the_schedules_of_others_that_start_a_workflow_are_counted_not_named(guarded):
    ada, bob = asking(guarded, "ada"), asking(guarded, "bob")
    ada("PUT", "/workflows/w/1", {})
    for ask, user, name in ((ada, "ada", "w.mine"), (bob, "bob", "w.secret")):
        started = {**SCHEDULE, "schedule_id": name, "workflow_id": "w", "user_id": user}
        assert ask("POST", "/schedules/upsert", started)[0] == 200
    status, content = bob("DELETE", "/workflows/w/1")
    assert (status, content["error"]["code"]) == (403, "other_user")
    status, content = ada("DELETE", "/workflows/w/1")
    assert (status, content["error"]["message"]) == (
        409,
        "Version 1 of 'w' is started by w.mine and 1 schedule of other users; edit or delete these first",
    )
    assert content["error"]["details"]["schedules"] == ["w.mine"]
    assert ada("PUT", "/workflows/w/2?register=true", {"triggers": []})[1]["kept"] == ["w.mine"]


@pytest.mark.parametrize(
    "executor", ["command:/bin/sh", " Python:os:system", "redis://127.0.0.1:6379/0", "nats://10.0.0.5:4222"]
)
def test_only_an_operator_lets_a_schedule_run_programs_or_reach_queues(guarded, executor):
    body = {**SCHEDULE, "executor": executor}
    status, content = asking(guarded, "ada")("POST", "/schedules/upsert", body)
    assert (status, content["error"]["details"]["scope"]) == (403, "admin")
    assert asking(guarded, "root", "admin")("POST", "/schedules/upsert", body)[0] == 200


def test_a_deployer_stores_workflows_for_others(guarded):
    deployer = asking(guarded, *DEPLOYER, ("ada",))
    assert deployer("PUT", "/workflows/w/1?user_id=ada", {})[0] == 200
    assert deployer("PUT", "/workflows/v/1?user_id=bob", {})[0] == 403
    assert asking(guarded, "ada")("PUT", "/workflows/w/2", {})[0] == 200


def test_the_page_shows_the_callers_own_schedules(guarded):
    asking(guarded, "ada")("POST", "/schedules/upsert", {**SCHEDULE, "schedule_id": "payroll-of-ada"})
    assert "payroll-of-ada" in asking(guarded, "ada")("GET", "/")[1]
    assert "payroll-of-ada" not in asking(guarded, "bob")("GET", "/")[1]


def test_the_runs_of_others_are_on_no_page_and_in_no_file(guarded):
    ada = asking(guarded, "ada")
    ada("POST", "/schedules/upsert", {**SCHEDULE, "schedule_id": "payroll-of-ada"})
    ada("POST", "/schedules/payroll-of-ada/trigger")
    guarded.advance(1)
    empty = "since=today+08:00&until=today+08:30"
    for more, shown in (
        ("view=each", "payroll-of-ada"),
        ("format=csv", "payroll-of-ada"),
        ("schedule=payroll-of-ad", "payroll-of-ada"),
        (empty, "The nearest"),
    ):
        assert shown in ada("GET", f"/ui/runs?{more}")[1]
        assert shown not in asking(guarded, "bob")("GET", f"/ui/runs?{more}")[1]


def test_a_form_runs_no_schedule_of_another_user(guarded):
    ada = asking(guarded, "ada")
    ada("POST", "/schedules/upsert", SCHEDULE)
    headers = {"authorization": f"Bearer {token('bob', 'read trigger')}", "origin": guarded.url}
    shown = guarded.client.get("/ui/runs/again", headers=headers).text
    form = {"csrf": re.search(r'name="csrf" value="(\w+)"', shown)[1], "once": "1", "schedules": "nightly"}
    answer = guarded.client.post("/ui/runs/again", headers=headers, data=form)
    assert "0+runs+by+hand+asked+for.+1+schedule+cannot+be+run." in answer.headers["location"]
    assert ada("GET", "/runs")[1]["runs"] == []


def test_probes_need_no_token(guarded):
    assert guarded.client.get("/healthz").json() == {"ok": True}
    assert guarded.client.get("/readyz").status_code in {200, 503}


def test_a_tenant_cannot_take_the_key_of_a_coming_tick_of_another_user(guarded):
    ada, bob = asking(guarded, "ada"), asking(guarded, "bob", "trigger")
    carrier = asking(guarded, "worker", "trigger", ["*"])
    ada("PUT", "/workflows/report/1", {})
    ada("POST", "/schedules/upsert", {**SCHEDULE, "schedule_id": "hourly", "cron_expr": "0 * * * *"})
    [tick, *_] = ada("GET", "/schedules/hourly/next?count=1")[1]["preview"]
    start = {**START, "scheduled_for": tick, "user_id": "bob"}
    start["idempotency_key"] = tick_key("hourly", epoch_ms(datetime.fromisoformat(tick)))
    for key in (start["idempotency_key"], start["idempotency_key"].upper()):
        status, answer = bob("POST", "/run-launcher/start", {**start, "idempotency_key": key})
        assert (status, answer["error"]["code"]) == (422, "invalid_argument")
        assert answer["error"]["details"]["argument"] == "idempotency_key"
    assert bob("POST", "/run-launcher/start", {**start, "idempotency_key": "mine"}) == (
        200,
        {"started": True},
    )
    # A worker of another process carries the ticks of all users, under their keys.
    assert carrier("POST", "/run-launcher/start", start) == (200, {"started": True})
