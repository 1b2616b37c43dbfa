"""`dutiful token`: what it prints is taken by the service."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner
from tests.httpd.mint import KEYS

from dutiful.cli.main import cli
from dutiful.httpd.auth import Caller
from dutiful.httpd.reloading_file import ReloadingFile
from dutiful.httpd.token_keys import read_keys
from dutiful.httpd.tokens import TokenCheck
from dutiful.runtime.clock import SystemClock


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in ("DUTIFUL_JWT_KEYS", "DUTIFUL_JWT_ISSUER", "DUTIFUL_JWT_AUDIENCE"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str, **environ: str):
    return CliRunner().invoke(cli, ["token", *arguments], env=environ)


def caller(path: str, token: str, issuer="dutiful-dev", audience="dutiful") -> Caller:
    keys = ReloadingFile((path,), lambda: read_keys(path))
    return TokenCheck(keys, issuer, audience, SystemClock()).caller(token.strip())


def test_a_key_file_is_made_when_asked_and_its_tokens_are_taken(tmp_path):
    path = str(tmp_path / "dev.json")
    first = run("--keys", path, "--new-key", "--user", "ada", "--scope", "read", "--scope", "trigger")
    assert (first.exit_code, first.stderr) == (0, "")
    assert caller(path, first.output) == Caller("ada", frozenset({"read", "trigger"}), "token")
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert caller(path, run("--keys", path).output) == Caller("developer", frozenset({"read"}), "token")


def test_the_variables_of_the_service_are_used(tmp_path):
    path = str(tmp_path / "dev.json")
    run("--keys", path, "--new-key")
    environ = {"DUTIFUL_JWT_KEYS": path, "DUTIFUL_JWT_ISSUER": "https://i", "DUTIFUL_JWT_AUDIENCE": "prod"}
    token = run("--expires", "5m", **environ).output
    assert caller(path, token, "https://i", "prod").user_id == "developer"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Missing option '--keys'"),
        (["--keys", "absent.json"], "absent.json cannot be used: No such file or directory"),
        (["--keys", "keys.json", "--expires", "2h"], "a token lives from 1s to 1h"),
        (
            ["--keys", "keys.json", "--expires", "soon"],
            "Invalid expires 'soon': Missing numeric value; write e.g. 15m",
        ),
        (["--keys", "keys.json", "--scope", "root"], "'root' is not one of"),
        (["--keys", "keys.json", "--new-key"], "it cannot be made: File exists"),
        (["--keys", "keys.json", "--kid", "ed"], "choose an HS256 key of the file: hmac"),
        (["--keys", "public.json"], "choose an HS256 key of the file: it has none"),
    ],
)
def test_what_cannot_be_signed_is_bad_usage(tmp_path, monkeypatch, arguments, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys.json").write_text(json.dumps({"keys": KEYS}), encoding="utf-8")
    (tmp_path / "public.json").write_text(json.dumps({"keys": {"ed": KEYS["ed"]}}), encoding="utf-8")
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
    assert KEYS["hmac"]["key"] not in result.stderr
