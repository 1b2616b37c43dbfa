"""Cookies of sessions: opened by the process that sealed them, for pages only."""

from __future__ import annotations

import pytest

from dutiful.httpd.auth import COOKIE, HOST_COOKIE, Sessions, is_page

TOKEN = "aaa.bbb.ccc"


def scope(cookie, path="/ui/me", scheme="http"):
    return {"path": path, "scheme": scheme, "headers": [(b"cookie", cookie.encode("latin-1"))]}


def test_a_sealed_token_is_opened_and_cannot_be_read():
    sessions = Sessions()
    sealed = sessions.seal(TOKEN)
    assert sessions.token_of(scope(f"x=1; {COOKIE}={sealed}")) == TOKEN
    assert TOKEN not in sealed
    assert sessions.seal(TOKEN) != sealed


def test_tls_has_a_cookie_of_its_own_name():
    sessions = Sessions()
    sealed = sessions.seal(TOKEN)
    assert sessions.token_of(scope(f"{HOST_COOKIE}={sealed}", scheme="https")) == TOKEN
    assert sessions.token_of(scope(f"{COOKIE}={sealed}", scheme="https")) is None


@pytest.mark.parametrize("path", ["/schedules", "/metrics", "/uix", "/static/x"])
def test_the_api_never_looks_at_a_cookie(path):
    sessions = Sessions()
    assert sessions.token_of(scope(f"{COOKIE}={sessions.seal(TOKEN)}", path)) is None
    assert not is_page(path)


def test_another_process_and_every_changed_character_are_refused():
    sessions = Sessions()
    sealed = sessions.seal(TOKEN)
    assert Sessions().token_of(scope(f"{COOKIE}={sealed}")) is None
    for place in range(len(sealed) - 1):
        changed = sealed[:place] + ("A" if sealed[place] != "A" else "B") + sealed[place + 1 :]
        assert sessions.token_of(scope(f"{COOKIE}={changed}")) is None


@pytest.mark.parametrize(
    "cookie", ["", "x", f"{COOKIE}=", f"{COOKIE}=ü", f"{COOKIE}=%%%", ";;;=", "a" * 5000]
)
def test_odd_cookies_are_no_session(cookie):
    assert Sessions().token_of(scope(cookie)) is None
