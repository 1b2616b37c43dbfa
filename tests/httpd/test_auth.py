"""Who asks: the token first, then the certificate, then nobody."""

from __future__ import annotations

import pytest

from dutiful.httpd.auth import LOCAL, PEER_NAMES, Auth
from dutiful.httpd.caller import Caller
from dutiful.httpd.errors import ScopeMissingError, UnauthenticatedError
from dutiful.httpd.reloading_file import Watched

ADA = Caller("ada", frozenset({"read"}), "token")
BOB = Caller("bob", frozenset({"read"}), "certificate")


class TakesGood:
    """Knows one token."""

    def caller(self, token: str) -> Caller:
        if token != "good":
            raise UnauthenticatedError("token_signature", "no")
        return ADA


TOKENS, CLIENTS = TakesGood(), Watched((), lambda: {"DNS:bob": BOB})


def scope(*authorization: str, names: tuple[str, ...] = ()) -> dict:
    headers = [(b"host", b"x"), *((b"authorization", value.encode("latin-1")) for value in authorization)]
    return {"headers": headers, "state": {PEER_NAMES: names}}


@pytest.mark.parametrize(
    ("auth", "asked", "caller"),
    [
        (Auth(), scope(), LOCAL),
        (Auth(), scope("Bearer whatever"), LOCAL),
        (Auth(TOKENS), scope("Bearer good"), ADA),
        (Auth(TOKENS), scope("bearer  good "), ADA),
        (Auth(TOKENS, CLIENTS), scope("Bearer good", names=("DNS:bob",)), ADA),
        (Auth(TOKENS, CLIENTS), scope(names=("DNS:bob",)), BOB),
        (Auth(None, CLIENTS), scope(names=("DNS:bob",)), BOB),
    ],
)
def test_the_caller_is_found(auth, asked, caller):
    assert auth.caller(asked) == caller


@pytest.mark.parametrize(
    ("auth", "asked", "code"),
    [
        (Auth(TOKENS), scope(), "token_missing"),
        (Auth(TOKENS), scope(names=("DNS:bob",)), "token_missing"),
        (Auth(TOKENS, CLIENTS), scope(), "token_missing"),
        (Auth(TOKENS, CLIENTS), scope("Bearer bad", names=("DNS:bob",)), "token_signature"),
        (Auth(TOKENS), scope("Bearer "), "token_signature"),
        (Auth(TOKENS), scope("Basic YWRhOg=="), "token_malformed"),
        (Auth(TOKENS), scope("good"), "token_malformed"),
        (Auth(TOKENS), scope(""), "token_malformed"),
        (Auth(TOKENS), scope("Bearer good", "Bearer good"), "token_malformed"),
        (Auth(None, CLIENTS), scope(), "token_missing"),
        (Auth(None, CLIENTS), scope("Bearer good"), "token_missing"),
        (Auth(None, CLIENTS), scope("Bearer good", names=("DNS:bob",)), "token_missing"),
        (Auth(None, CLIENTS), scope(names=("DNS:eve",)), "certificate_unknown"),
        (Auth(None, CLIENTS), {"headers": []}, "token_missing"),
    ],
)
def test_nobody_is_taken_for_somebody(auth, asked, code):
    with pytest.raises(UnauthenticatedError) as caught:
        auth.caller(asked)
    assert caught.value.code == code


def test_a_caller_may_do_what_was_granted():
    ADA.require("read")
    with pytest.raises(ScopeMissingError) as caught:
        ADA.require("write")
    assert (caught.value.status, caught.value.body()["error"]) == (
        403,
        {"code": "scope_missing", "message": "This needs the scope 'write'", "details": {"scope": "write"}},
    )
    assert [scope for scope in ("read", "write", "trigger", "admin") if LOCAL.may(scope)] == [
        "read",
        "write",
        "trigger",
        "admin",
    ]
