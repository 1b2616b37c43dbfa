"""Pages show one user nothing of another: each is the same whether the other user is there or not."""

from __future__ import annotations

import base64
import json
import re
from contextlib import contextmanager

import jwt
import pytest
from tests.web.running import SCHEDULE, running

from dutiful.web.pages import PAGE_ROUTERS
from dutiful.web.pages.schedules import STATES

KEY = b"k" * 32
ALL = "read write trigger report"
# Bob's own schedules: one of each state, so that a count of all users would differ.
BOBS = [("daily", "works", "30 9 * * *"), ("often", "fails", "*/5 * * * *"), ("still", "works", "0 * * * *")]
# Ada's stand in every list, chip, group, bucket and outage that Bob's stand in, and are spelled like his.
ADAS = [
    ("dail", "fails", "30 9 * * *"),
    ("oftener", "fails", "*/5 * * * *"),
    ("stiller", "works", "0 * * * *"),
    ("hanging", "hangs", "* * * * *"),
    ("owed", "works", "*/10 * * * *"),
]
PATHS = [
    "/", "/ui/schedules",
    *(f"/ui/schedules?state={state}" for state in STATES),
    *(f"/ui/schedules?q={text}" for text in ("dai", "ofte", "team=ops", "workflow:hangs", "user:ada")),
    "/ui/schedules?sort=next", "/ui/schedules?state=failed&q=team=ops",
    "/ui/schedules/daily", "/ui/schedules/often?entries=all", "/ui/schedules/often?at=2026-03-02+09:10",
    "/ui/schedules/dail", "/ui/schedules/oftene", "/ui/schedules/nobodys",
    *(f"/ui/schedules/dail/{action}" for action in ("edit", "run", "pause", "backfill", "delete")),
    "/ui/schedules/daily/edit", "/ui/schedules/new", "/ui/schedules/new?e=*/10+*+*+*+*",
    "/ui/schedules/backfill-many?q=team=ops", "/ui/schedules/backfill-many?ids=dail+daily",
    "/ui/schedules/pause-many?ids=dail+daily", "/ui/schedules?state=paused&older=30d", "/ui/schedules/import",
    "/ui/schedules/pause-many?q=team=ops", "/ui/schedules/pause-many?q=user:ada",
    "/ui/schedules/pause-many?q=team=ops&paused=false",
    "/ui/runs", "/ui/runs?view=each", "/ui/runs?status=FAILED", "/ui/runs?status=STARTED&view=each",
    "/ui/runs/again?status=FAILED", "/ui/runs?since=2026-03-02T09:00:00Z&until=2026-03-02T09:30:00Z",
    "/ui/runs?schedule=hanging", "/ui/runs?since=2026-03-02T08:00:00Z&until=2026-03-02T08:30:00Z",
    "/ui/runs?format=csv", "/ui/runs/again?schedule=hanging",
    "/ui/calendar", "/ui/calendar?day=2026-03-03&down=02:00&hours=24",
    "/ui/calendar?view=year", "/ui/calendar?q=team=ops&at=09:30", "/ui/calendar?q=user:ada&view=week",
    "/ui/why", "/ui/why?schedule=dail&at=today+09:30", "/ui/why?schedule=oftene&at=today+09:30",
    "/ui/cron?e=30+9+*+*+*", "/ui/more", "/ui/me", "/ui/system", "/ui/audit",
]  # fmt: skip


class User:
    """A service as one user reaches it."""

    def __init__(self, service, name, scope=ALL):
        now = int(service.clock.now().timestamp())
        claims = {"iss": "issuer", "aud": "dutiful", "sub": name, "iat": now, "nbf": now, "exp": now + 600}
        token = jwt.encode({**claims, "scope": scope}, KEY, algorithm="HS256", headers={"kid": "k1"})
        self.service, self.name = service, name
        self.headers = {"authorization": f"Bearer {token}"}

    def ask(self, method, path, body=None):
        answer = self.service.client.request(method, path, json=body, headers=self.headers)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def page(self, path):
        """Return the status of a page, and its HTML without the parts that are new in every answer."""
        answer = self.service.client.get(path, headers=self.headers)
        html = answer.text.replace(self.service.url, "")
        return answer.status_code, re.sub(r'(name="(?:csrf|once)" value|data-revision)="[^"]*"', "", html)

    def csrf(self):
        shown = self.service.client.get("/ui/me", headers=self.headers).text
        return re.search(r'name="csrf" value="([0-9a-f]+)"', shown)[1]

    def send(self, path, **form):
        headers = {**self.headers, "Origin": self.service.url}
        return self.service.client.post(path, data={"csrf": self.csrf()} | form, headers=headers)

    def store(self, rows):
        for name, dag in (("works", {}), ("fails", {"fail": f"of {self.name}"}), ("hangs", {"hang": True})):
            self.ask("PUT", f"/workflows/{self.name}-{name}/1", dag)
        for name, workflow, cron in rows:
            given = {"schedule_id": name, "workflow_id": f"{self.name}-{workflow}", "user_id": self.name}
            more = {"cron_expr": cron, "labels": {"team": "ops"}, "catchup_policy": "latest"}
            self.ask("POST", "/schedules/upsert", {**SCHEDULE, **given, **more})
        note = {"schedule_id": rows[2][0], "paused": True, "note": f"of {self.name}"}
        self.ask("POST", "/schedules/pause", note)


@contextmanager
def world(folder, **users):
    """Run a service for an hour with the schedules of these users."""
    folder.mkdir()
    keys = {"keys": {"k1": {"alg": "HS256", "key": base64.urlsafe_b64encode(KEY).rstrip(b"=").decode()}}}
    (folder / "keys.json").write_text(json.dumps(keys))
    environ = {
        "DUTIFUL_JWT_KEYS": str(folder / "keys.json"),
        "DUTIFUL_JWT_ISSUER": "issuer",
        "DUTIFUL_JWT_AUDIENCE": "dutiful",
        "DUTIFUL_RATE_BURST": "1000",
        "DUTIFUL_AUDIT_LOG": str(folder / "audit.jsonl"),
    }
    with running(folder, **environ) as service:
        for name, rows in users.items():
            User(service, name).store(rows)
        service.advance(3600)
        yield service


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """A service with the schedules of ada and bob."""
    with world(tmp_path_factory.mktemp("crowded") / "store", bob=BOBS, ada=ADAS) as service:
        yield service


def test_every_page_is_the_same_for_bob_whether_ada_is_there_or_not(crowded, tmp_path):
    runs = User(crowded, "ada").ask("GET", "/runs?limit=1000")["runs"]
    keys = {run["status"]: run["idempotency_key"] for run in runs}
    assert keys.keys() == {"SUCCESS", "FAILED", "SKIPPED", "STARTED"}
    paths = [*PATHS, *(f"/ui/runs/{key}" for key in keys.values())]
    with world(tmp_path / "alone", bob=BOBS) as alone:
        expected = {path: User(alone, "bob").page(path) for path in paths}
    shown = {path: User(crowded, "bob").page(path) for path in paths}
    assert [path for path in paths if shown[path] != expected[path]] == []
    # What is ada's is unknown to bob; all else is a page, and the last two are for admins.
    unknown = {path for path in paths if shown[path][0] == 404}
    assert unknown == {
        path for path in paths if re.search("dail[/&]|dail$|oftene|nobodys|runs/[0-9a-f]{8}", path)
    }
    assert {path for path in paths if shown[path][0] != 200} - unknown == {"/ui/system", "/ui/audit"}


def test_every_page_is_asked_for():
    routes = {
        route.path: re.sub(r"\{\w+\}", "[^/]+", route.path)
        for router in PAGE_ROUTERS
        for route in router.routes
        if "GET" in route.methods and route.path != "/ui/login"
    }
    asked = [path.partition("?")[0] for path in [*PATHS, "/ui/runs/key"]]
    assert [route for route, of in routes.items() if not any(re.fullmatch(of, path) for path in asked)] == []


FORM = {"workflow_id": "bob-works", "version": "1", "user_id": "bob", "cron_expr": "0 0 1 1 *"}
FORMS = {
    "/ui/schedules/{}/run": {},
    "/ui/schedules/{}/pause": {"paused": "true", "note": "mine now"},
    "/ui/schedules/{}/backfill": {"start": "2026-03-01 00:00", "end": "2026-03-02 00:00", "do": "run"},
    "/ui/schedules/{}/delete": {"typed": "dail"},
    "/ui/schedules/{}/edit": {**FORM, "do": "save"},
    "/ui/schedules/new": {**FORM, "schedule_id": "dail", "do": "save"},
    "/ui/schedules/pause-many": {"q": "user:ada", "paused": "true", "note": "mine now"},
    "/ui/schedules/backfill-many": {
        "ids": "dail oftener", "start": "2026-03-01 00:00", "end": "2026-03-03 00:00", "do": "run",
    },
    "/ui/schedules/import": {
        "text": json.dumps({**SCHEDULE, **FORM, "version": 1, "schedule_id": "dail"}),
        "do": "store",
    },
}  # fmt: skip


def test_no_form_of_bob_changes_what_is_adas(crowded):
    ada, bob = User(crowded, "ada"), User(crowded, "bob")

    def known():
        return [ada.ask("GET", path) for path in ("/schedules", "/runs?limit=1000")]

    before = known()
    answers = {path: bob.send(path.format("dail"), **form) for path, form in FORMS.items()}
    assert {path: answer.status_code for path, answer in answers.items()} == {
        path: 404 if "{}" in path else 422 for path in FORMS
    }
    assert [path for path, answer in answers.items() if "of ada" in answer.text] == []
    # The label is of both: bob's form counts and changes bob's schedules alone.
    paused = bob.send("/ui/schedules/pause-many", q="team=ops", paused="true", note="bob's")
    assert "2+schedules+paused" in paused.headers["location"]
    bob.send("/ui/schedules/new", **FORM, schedule_id="adas", do="save")
    crowded.advance(0)
    assert known() == before


def test_the_proof_of_adas_form_is_refused_from_bob_in_the_same_browser(crowded):
    ada, bob = User(crowded, "ada"), User(crowded, "bob")
    theirs = bob.send("/ui/schedules/daily/run", csrf=ada.csrf())
    assert (theirs.status_code, "form_refused" in theirs.text) == (403, True)
    assert bob.send("/ui/schedules/daily/run", csrf=bob.csrf()).status_code == 303


def test_every_form_is_tried():
    posts = {
        route.path.replace("{schedule_id}", "{}")
        for router in PAGE_ROUTERS
        for route in router.routes
        if "POST" in route.methods and route.path.startswith("/ui/schedules")
    }
    assert posts == FORMS.keys()
