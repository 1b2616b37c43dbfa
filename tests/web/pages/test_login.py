"""Logging in: the token is checked as the API does, and its session ends when the token does."""

from __future__ import annotations

import base64
import json
import re

import jwt
import pytest
from tests.web.pages.html import Page, page
from tests.web.running import MONDAY, SCHEDULE, running

from dutiful.web.pages.session import safe_next

KEY = b"0123456789abcdef0123456789abcdef"
NOW = 1_772_442_000  # 2026-03-02T09:00:00Z


def environ(tmp_path):
    assert MONDAY == "2026-03-02T09:00:00+00:00"
    keys = {"keys": {"k1": {"alg": "HS256", "key": base64.urlsafe_b64encode(KEY).rstrip(b"=").decode()}}}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    (tmp_path / "revoked.json").write_text('{"revoked": []}')
    return {
        "DUTIFUL_JWT_KEYS": str(tmp_path / "keys.json"),
        "DUTIFUL_JWT_ISSUER": "https://login.example",
        "DUTIFUL_JWT_AUDIENCE": "dutiful",
        "DUTIFUL_JWT_REVOKED": str(tmp_path / "revoked.json"),
    }


@pytest.fixture
def guarded(tmp_path):
    with running(tmp_path, **environ(tmp_path)) as service:
        yield service


@pytest.fixture
def public(tmp_path):
    named = {"DUTIFUL_PUBLIC_URL": "https://Cron.example.com/", "DUTIFUL_HOST": "0.0.0.0"}
    with running(tmp_path, **environ(tmp_path), **named) as service:
        service.client.headers["Host"] = "cron.example.com"
        yield service


def token(user="ada", scope="read write trigger", lives=600):
    claims = {
        "jti": f"{user}-1",
        "iss": "https://login.example",
        "aud": "dutiful",
        "sub": user,
        "scope": scope,
        "iat": NOW,
        "nbf": NOW,
        "exp": NOW + lives,
    }
    return jwt.encode(claims, KEY, algorithm="HS256", headers={"kid": "k1"})


def log_in(service, given, to="/", origin=None):
    html = service.client.get("/ui/login", params={"next": to}).text
    form = {
        "csrf": re.search(r'name="csrf" value="([0-9a-f]+)"', html)[1],
        "next": re.search(r'name="next" value="([^"]*)"', html)[1],
        "token": given,
    }
    # By hand: the client would not send a cookie of https over http.
    cookie = "; ".join(f"{name}={value}" for name, value in service.client.cookies.items())
    headers = {"Origin": origin or service.url, **({"Cookie": cookie} if cookie else {})}
    return service.client.post("/ui/login", data=form, headers=headers)


def test_a_page_without_a_login_leads_to_one_and_back(guarded):
    answer = guarded.client.get("/ui/schedules?q=x")
    assert (answer.status_code, answer.headers["location"]) == (
        303,
        "/ui/login?next=%2Fui%2Fschedules%3Fq%3Dx&why=token_missing",
    )
    done = log_in(guarded, token(), "/ui/schedules?q=x")
    assert (done.status_code, done.headers["location"]) == (303, "/ui/schedules?q=x")
    assert guarded.client.get("/ui/schedules").status_code == 200


def test_the_login_page_has_no_links_that_only_lead_back_to_it(guarded):
    shown = page(guarded, "/ui/login")
    assert [own["href"] for own in shown.all("a")] == ["#main", "/"]
    assert [own["action"] for own in shown.all("form")] == ["/ui/login"]


def test_the_bar_has_a_face_once_it_is_known_who_is_there(guarded):
    assert "You are" not in str(page(guarded, "/ui/login").all("a"))
    log_in(guarded, token())
    [face] = [own for own in page(guarded).all("a") if own.get("class") == "face"]
    assert face["aria-label"] == "You are ada: theme and session"


def test_the_cookie_is_hidden_from_scripts_and_says_nothing(guarded):
    given = token()
    cookie = log_in(guarded, given).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert given.split(".")[1] not in cookie


def test_the_api_ignores_the_session(guarded):
    log_in(guarded, token())
    assert guarded.client.get("/schedules").status_code == 401


def test_no_page_of_a_session_links_to_the_api_which_would_refuse_it(guarded):
    log_in(guarded, token(scope="read write trigger admin"))
    bearer = {"Authorization": f"Bearer {token()}"}
    stored = guarded.client.post("/schedules/upsert", json=SCHEDULE, headers=bearer)
    assert stored.status_code == 200
    paths = ["/", "/ui/schedules", "/ui/schedules/nightly", "/ui/runs", "/ui/system", "/ui/me", "/ui/why"]
    found = {link.partition("#")[0] for path in paths for link in page(guarded, path).links}
    refused = [link for link in found if link and guarded.client.get(link).status_code != 200]
    assert refused == []


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
    assert dict(guarded.client.cookies) == {}
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


def test_after_five_tries_an_address_waits_a_while(guarded):
    statuses = [log_in(guarded, "x").status_code for _ in range(6)]
    assert statuses == [401] * 5 + [429]
    refused = log_in(guarded, token())
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "12")
    assert "Too many tries" in refused.text
    guarded.advance(12)
    assert log_in(guarded, token()).status_code == 303


def test_a_login_of_more_than_16_kib_is_not_read(guarded):
    answer = guarded.client.post("/ui/login", data={"token": "x" * 20_000}, headers={"Origin": guarded.url})
    assert answer.status_code == 413


def test_a_session_ends_when_its_token_is_revoked(guarded, tmp_path):
    log_in(guarded, token())
    assert guarded.client.get("/").status_code == 200
    (tmp_path / "revoked.json").write_text('{"revoked": ["ada-1"]}')
    answer = guarded.client.get("/")
    assert (answer.status_code, "why=token_revoked" in answer.headers["location"]) == (303, True)


def test_a_session_ends_when_the_key_of_its_token_is_removed(guarded, tmp_path):
    log_in(guarded, token())
    other = base64.urlsafe_b64encode(b"another key of thirty-two bytes!").rstrip(b"=").decode()
    (tmp_path / "keys.json").write_text(json.dumps({"keys": {"k2": {"alg": "HS256", "key": other}}}))
    answer = guarded.client.get("/")
    assert (answer.status_code, "why=token_key_unknown" in answer.headers["location"]) == (303, True)


def test_a_session_outlives_the_process_with_a_key_and_ends_with_it_without_one(tmp_path):
    kept = {}
    for key in ({"DUTIFUL_SESSION_KEY": "a key of this service alone"}, {}):
        with running(tmp_path, **environ(tmp_path), **key) as first:
            log_in(first, token())
            cookies = dict(first.client.cookies)
        with running(tmp_path, **environ(tmp_path), **key) as second:
            second.client.cookies.update(cookies)
            kept[bool(key)] = second.client.get("/").status_code
    assert kept == {True: 200, False: 303}


def test_at_the_public_address_cookies_belong_to_that_host_and_to_https(public):
    answer = log_in(public, token(), origin="https://cron.example.com")
    assert answer.status_code == 303
    [cookie] = [each for each in answer.headers.get_list("set-cookie") if "session" in each]
    assert cookie.startswith("__Host-dutiful-session=")
    assert {"Secure", "HttpOnly", "SameSite=lax", "Path=/"} <= {part.strip() for part in cookie.split(";")}


@pytest.mark.parametrize(
    ("path", "choice"),
    [("/ui/theme", {"theme": "dark"}), ("/ui/zone", {"zone": "UTC"}), ("/ui/keys", {"keys": "off"})],
)
def test_at_the_public_address_every_other_cookie_is_of_https_too(public, path, choice):
    log_in(public, token(), origin="https://cron.example.com")
    # By hand: the client would not send a cookie of https over http.
    cookies = "; ".join(f"{name}={value}" for name, value in public.client.cookies.items())
    shown = public.client.get("/ui/me", headers={"Cookie": cookies})
    field = re.search(r'name="csrf" value="([0-9a-f]+)"', shown.text)[1]
    headers = {"Cookie": cookies, "Origin": "https://cron.example.com"}
    kept = public.client.post(path, data={"csrf": field, **choice}, headers=headers)
    fresh = public.client.get("/ui/login")
    for answer, name in ((kept, f"dutiful-{path[4:]}"), (fresh, "__Host-dutiful-csrf")):
        [cookie] = [each for each in answer.headers.get_list("set-cookie") if each.startswith(f"{name}=")]
        parts = {part.strip() for part in cookie.split(";")}
        assert {"Secure", "HttpOnly", "SameSite=lax", "Path=/"} <= parts


@pytest.mark.parametrize("origin", ["http://cron.example.com", "https://evil.example", "null"])
def test_a_form_from_elsewhere_is_refused_at_the_public_address(public, origin):
    assert log_in(public, token(), origin=origin).status_code == 403


@pytest.mark.parametrize("path", ["/", "/ui/login", "/ui/schedules"])
def test_a_page_at_another_name_is_not_answered(public, path):
    told = Page(public.client.get(path, headers={"Host": "evil.example"}))
    assert (told.answer.status_code, "set-cookie" in told.answer.headers) == (421, False)
    assert "The pages are at https://cron.example.com, by DUTIFUL_PUBLIC_URL" in told.text
    assert "Code foreign_host" in told.text


def test_the_api_is_answered_at_any_name(public):
    headers = {"Host": "10.0.0.7:8787", "Authorization": f"Bearer {token()}"}
    assert public.client.get("/schedules", headers=headers).status_code == 200


def test_beyond_the_loopback_pages_need_a_public_address(tmp_path):
    with running(tmp_path, **environ(tmp_path), DUTIFUL_HOST="0.0.0.0") as service:
        told = page(service, "/ui/login", 421)
    assert "Set DUTIFUL_PUBLIC_URL to the address that browsers use" in told.text
