"""Logging in: the token is checked as the API does, and its session ends when the token does."""

from __future__ import annotations

import base64
import json
import re

import jwt
import pytest
from tests.web.running import MONDAY, running

from dutiful.web.pages.session import safe_next

KEY = b"0123456789abcdef0123456789abcdef"
NOW = 1_772_442_000  # 2026-03-02T09:00:00Z


@pytest.fixture
def guarded(tmp_path):
    assert MONDAY == "2026-03-02T09:00:00+00:00"
    keys = {"keys": {"k1": {"alg": "HS256", "key": base64.urlsafe_b64encode(KEY).rstrip(b"=").decode()}}}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    (tmp_path / "revoked.json").write_text('{"revoked": []}')
    environ = {
        "DUTIFUL_JWT_KEYS": str(tmp_path / "keys.json"),
        "DUTIFUL_JWT_ISSUER": "https://login.example",
        "DUTIFUL_JWT_AUDIENCE": "dutiful",
    }
    with running(tmp_path, **environ) as service:
        yield service


def token(user="ada", scope="read write trigger", lives=600):
    claims = {
        "iss": "https://login.example",
        "aud": "dutiful",
        "sub": user,
        "scope": scope,
        "iat": NOW,
        "nbf": NOW,
        "exp": NOW + lives,
    }
    return jwt.encode(claims, KEY, algorithm="HS256", headers={"kid": "k1"})


def log_in(service, given, to="/"):
    html = service.client.get("/ui/login", params={"next": to}).text
    form = {
        "csrf": re.search(r'name="csrf" value="([0-9a-f]+)"', html)[1],
        "next": re.search(r'name="next" value="([^"]*)"', html)[1],
        "token": given,
    }
    return service.client.post("/ui/login", data=form, headers={"Origin": service.url})


def test_a_page_without_a_login_leads_to_one_and_back(guarded):
    answer = guarded.client.get("/ui/schedules?q=x")
    assert (answer.status_code, answer.headers["location"]) == (
        303,
        "/ui/login?next=%2Fui%2Fschedules%3Fq%3Dx&why=token_missing",
    )
    done = log_in(guarded, token(), "/ui/schedules?q=x")
    assert (done.status_code, done.headers["location"]) == (303, "/ui/schedules?q=x")
    assert guarded.client.get("/ui/schedules").status_code == 200


def test_the_cookie_is_hidden_from_scripts_and_says_nothing(guarded):
    given = token()
    cookie = log_in(guarded, given).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert given.split(".")[1] not in cookie


def test_the_api_ignores_the_session(guarded):
    log_in(guarded, token())
    assert guarded.client.get("/schedules").status_code == 401


def test_the_session_ends_with_its_token(guarded):
    log_in(guarded, token(lives=300))
    assert guarded.client.get("/").status_code == 200
    guarded.advance(400)
    answer = guarded.client.get("/")
    assert (answer.status_code, "why=token_expired" in answer.headers["location"]) == (303, True)
    assert "its token expired" in guarded.client.get(answer.headers["location"]).text


def test_a_session_sees_its_own_schedules_and_may_do_what_its_token_may(guarded):
    log_in(guarded, token(scope="read"))
    html = guarded.client.get("/ui/schedules/new").text
    assert "needs the scope write" in html
    field = re.search(r'name="csrf" value="([0-9a-f]+)"', html)[1]
    form = {"csrf": field, "do": "save", "workflow_id": "w", "user_id": "ada"}
    assert (
        guarded.client.post("/ui/schedules/new", data=form, headers={"Origin": guarded.url}).status_code
        == 403
    )
    assert guarded.client.get("/ui/audit").status_code == 403


@pytest.mark.parametrize("given", ["", "x", "a.b.c", token(lives=-10), "x" * 3000])
def test_a_bad_token_is_refused_with_its_code(guarded, given):
    answer = log_in(guarded, given)
    assert answer.status_code == 401
    assert "(token_" in answer.text
    assert given not in answer.text or not given or len(given) < 4


def test_logging_out_forgets_the_session(guarded):
    log_in(guarded, token())
    field = re.search(r'name="csrf" value="([0-9a-f]+)"', guarded.client.get("/ui/me").text)[1]
    answer = guarded.client.post("/ui/logout", data={"csrf": field}, headers={"Origin": guarded.url})
    assert answer.headers["clear-site-data"] == '"cache"'
    assert guarded.client.get("/").status_code == 303


def test_the_login_page_is_styled_without_a_login(guarded):
    html = guarded.client.get("/ui/login").text
    style = re.search(r'href="(/static/dutiful\.css[^"]*)"', html)[1]
    assert guarded.client.get(style).status_code == 200


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        ("/ui/runs?status=FAILED", "/ui/runs?status=FAILED"),
        ("/", "/"),
        ("//evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/ui/\nx", "/"),
        ("/schedules", "/"),
        ("/ui/login?next=/", "/"),
    ],
)
def test_a_login_leads_to_these_pages_only(wanted, taken):
    assert safe_next(wanted) == taken


def test_without_tokens_there_is_nothing_to_log_in_to(service):
    assert service.client.get("/ui/login").headers["location"] == "/"
