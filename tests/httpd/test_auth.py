"""The caller of a request: by token first, then by certificate; without either there is none."""

from __future__ import annotations

import json

import pytest

from dutiful.core.name import subject_flaw
from dutiful.httpd.auth import LOCAL, PEER_NAMES, Auth, Caller, ClientsFileError, caller_of, read_clients
from dutiful.httpd.errors import ScopeMissingError, UnauthenticatedError
from dutiful.httpd.reloading_file import ReloadingFile

ADA = Caller("ada", frozenset({"read"}), "token")
BOB = Caller("bob", frozenset({"read"}), "certificate")


class TakesGood:
    """Knows one token."""

    def caller(self, token: str) -> Caller:
        if token != "good":
            raise UnauthenticatedError("token_signature", "no")
        return ADA


TOKENS, CLIENTS = TakesGood(), ReloadingFile((), lambda: {"DNS:bob": BOB})


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
def test_a_request_without_proof_has_no_caller(auth, asked, code):
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


DEPLOYER = Caller("deployer", frozenset({"read", "write"}), "certificate")
EXECUTOR = Caller("executor", frozenset({"trigger"}), "certificate")
CLIENTS = {
    "DNS:deployer.internal": DEPLOYER,
    "DNS:deployer2.internal": DEPLOYER,
    "URI:spiffe://prod/executor": EXECUTOR,
}


def read(tmp_path, content):
    path = tmp_path / "clients.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_clients(str(path))


def entry(**changes):
    return {"user_id": "deployer", "scope": "read write", **changes}


def test_a_file_names_the_clients(tmp_path):
    content = {
        "DNS:deployer.internal": entry(),
        "DNS:deployer2.internal": entry(),
        "URI:spiffe://prod/executor": {"user_id": "executor", "scope": "trigger"},
    }
    assert read(tmp_path, {"clients": content}) == CLIENTS


FORM = 'write {"clients": {"DNS:NAME": {"user_id": …, "scope": …}}}'
NAME = "write DNS:NAME or URI:NAME, exactly as in the certificate"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "at character 1 it is no JSON"),
        ([], FORM),
        ({"clients": {}}, FORM),
        ({"clients": {}, "x": 1}, FORM),
        ({"clients": {"deployer": entry()}}, f"client 'deployer': {NAME}"),
        ({"clients": {"DNS:*.internal": entry()}}, f"client 'DNS:*.internal': {NAME}"),
        ({"clients": {"IP:10.0.0.1": entry()}}, f"client 'IP:10.0.0.1': {NAME}"),
        (
            {"clients": {"DNS:a": 1}},
            'client \'DNS:a\': write {"user_id": …, "scope": …} and, if need be, "act_as", and nothing else',
        ),
        (
            {"clients": {"DNS:a": entry(act_as="ada")}},
            "client 'DNS:a': `act_as` is a list of at most 1000 users, or [\"*\"] for all",
        ),
        (
            {"clients": {"DNS:a": entry(user_id="")}},
            f"client 'DNS:a': user_id: {subject_flaw('')}",
        ),
        (
            {"clients": {"DNS:a": entry(scope="read wirte")}},
            "client 'DNS:a': scope is words of read, write, trigger, report, admin",
        ),
        (
            {"clients": {"DNS:a": entry(scope=["read"])}},
            "client 'DNS:a': scope is words of read, write, trigger, report, admin",
        ),
    ],
)
def test_a_file_with_something_else_is_refused(tmp_path, content, reason):
    with pytest.raises(ClientsFileError) as caught:
        read(tmp_path, content)
    assert caught.value.details["reason"] == reason


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ClientsFileError, match="No such file or directory"):
        read_clients(str(tmp_path / "absent"))


@pytest.mark.parametrize(
    ("names", "caller"),
    [
        (["DNS:deployer.internal"], DEPLOYER),
        (["DNS:other", "URI:spiffe://prod/executor"], EXECUTOR),
        (["DNS:deployer.internal", "DNS:deployer2.internal"], DEPLOYER),
    ],
)
def test_a_name_stands_for_its_client(names, caller):
    assert caller_of(names, CLIENTS) == caller


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ([], "certificate_unknown"),
        (["DNS:other"], "certificate_unknown"),
        (["DNS:DEPLOYER.internal"], "certificate_unknown"),
        (["DNS:x.deployer.internal"], "certificate_unknown"),
        (["DNS:*.internal"], "certificate_unknown"),
        (["URI:deployer.internal"], "certificate_unknown"),
        (["DNS:deployer.internal", "URI:spiffe://prod/executor"], "certificate_ambiguous"),
    ],
)
def test_certificates_of_unknown_names_prove_no_caller(names, code):
    with pytest.raises(UnauthenticatedError) as caught:
        caller_of(names, CLIENTS)
    assert caught.value.code == code
