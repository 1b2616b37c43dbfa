"""Clients that a certificate vouches for."""

from __future__ import annotations

import json

import pytest

from dutiful.httpd.caller import Caller
from dutiful.httpd.clients import ClientsFileError, caller_of, read_clients
from dutiful.httpd.errors import UnauthenticatedError

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
        ({"clients": {"DNS:a": 1}}, 'client \'DNS:a\': write {"user_id": …, "scope": …} and nothing else'),
        (
            {"clients": {"DNS:a": entry(user_id="")}},
            "client 'DNS:a': user_id has 1 to 128 visible ASCII characters",
        ),
        (
            {"clients": {"DNS:a": entry(scope="read wirte")}},
            "client 'DNS:a': scope is words of read, write, trigger, admin",
        ),
        (
            {"clients": {"DNS:a": entry(scope=["read"])}},
            "client 'DNS:a': scope is words of read, write, trigger, admin",
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
def test_other_names_stand_for_nobody(names, code):
    with pytest.raises(UnauthenticatedError) as caught:
        caller_of(names, CLIENTS)
    assert caught.value.code == code
