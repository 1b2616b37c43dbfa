"""Tokens: good ones name their caller, forged ones are refused for the right reason."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.httpd import mint
from tests.httpd.forgeries import forgeries
from tests.httpd.mint import CLAIMS, KEYS, NOW, b64, claims, header, token

from dutiful.httpd.auth import Caller
from dutiful.httpd.errors import UnauthenticatedError
from dutiful.httpd.reloading_file import ReloadingFile
from dutiful.httpd.token_keys import read_keys
from dutiful.httpd.tokens import TokenCheck
from dutiful.testing import VirtualClock

FORGED = forgeries()


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    return check_in(tmp_path_factory.mktemp("keys"))


def check_in(folder) -> TokenCheck:
    path = folder / "keys.json"
    path.write_text(json.dumps({"keys": KEYS}), encoding="utf-8")
    keys = ReloadingFile((str(path),), lambda: read_keys(str(path)))
    clock = VirtualClock(datetime.fromtimestamp(NOW, UTC))
    return TokenCheck(keys, CLAIMS["iss"], CLAIMS["aud"], clock)


ADA = Caller("ada", frozenset({"read", "write"}), "token")


@pytest.mark.parametrize(("kid", "entry"), KEYS.items())
def test_a_good_token_names_its_caller(check, kid, entry):
    assert check.caller(token(header(kid=kid, alg=entry["alg"]))) == ADA


@pytest.mark.parametrize(
    "good",
    [
        token(header(typ=...)),
        token(claims=claims(aud=["other", "dutiful"])),
        token(claims=claims(iat=NOW - 100, exp=NOW - 29)),
        token(claims=claims(nbf=NOW + 30, iat=NOW + 30)),
        token(claims=claims(iat=NOW - 100.5, exp=NOW + 10.25)),
        token(claims=claims(exp=CLAIMS["iat"] + 3600)),
        token(claims=claims(jti="1", azp="web", extra={"a": [1]})),
        token(claims=claims(scope="read  write openid")),
    ],
    ids=range(8),
)
def test_what_a_token_may_also_be(check, good):
    assert check.caller(good) == ADA


@pytest.mark.parametrize(
    ("scope", "granted"),
    [
        (..., set()),
        ("", set()),
        ("trigger", {"trigger"}),
        ("READ readwrite", set()),
        (["read"], set()),
        ("admin", {"read", "write", "trigger", "report", "admin"}),
    ],
)
def test_scopes_are_words(check, scope, granted):
    assert check.caller(token(claims=claims(scope=scope))).scopes == granted


def test_there_are_more_than_a_hundred_forgeries():
    assert len(FORGED) > 100


@pytest.mark.parametrize(("name", "code", "forged"), FORGED, ids=[name for name, *_ in FORGED])
def test_a_forged_token_is_refused_and_not_repeated(check, name, code, forged):
    with pytest.raises(UnauthenticatedError) as caught:
        check.caller(forged)
    error = caught.value
    assert (error.code, error.status) == (code, 401), name
    shown = json.dumps(error.body())
    assert [part for part in forged.split(".") if len(part) > 12 and part in shown] == []
    assert error.__cause__ is None


@given(st.integers(0, len(token()) - 1), st.characters(codec="ascii"))
def test_a_token_with_any_other_character_is_refused(check, place, character):
    good = token()
    changed = good[:place] + character + good[place + 1 :]
    if changed != good:
        with pytest.raises(UnauthenticatedError):
            check.caller(changed)


@given(st.text(alphabet=st.characters(codec="latin-1"), max_size=60), st.integers(0, 300), st.integers(0, 60))
def test_nothing_but_a_refusal_comes_out_of_garbage(check, text, place, length):
    good = token()
    for garbage in (text, good[:place] + text + good[place + length :], f"{b64(text.encode())}.e30.AA"):
        if garbage != good:
            with pytest.raises(UnauthenticatedError):
                check.caller(garbage)


def test_time_is_the_clocks(tmp_path):
    check = check_in(tmp_path)
    good = token()
    assert check.caller(good) == ADA
    asyncio.run(check.clock.advance(640))
    with pytest.raises(UnauthenticatedError, match="expired"):
        check.caller(good)


def test_keys_are_replaced_without_a_restart(tmp_path):
    check = check_in(tmp_path)
    first, second = token(), token(header(kid="next"), sign=mint.STRANGER.sign)
    path = tmp_path / "keys.json"
    both = {**KEYS, "next": {"alg": "EdDSA", "key": mint.pem(mint.STRANGER)}}
    path.write_text(json.dumps({"keys": both}), encoding="utf-8")
    assert [check.caller(first), check.caller(second)] == [ADA, ADA]
    path.write_text(json.dumps({"keys": {"next": both["next"]}}), encoding="utf-8")
    assert check.caller(second) == ADA
    with pytest.raises(UnauthenticatedError) as caught:
        check.caller(first)
    assert caught.value.code == "token_key_unknown"


def test_a_key_file_that_breaks_locks_no_caller_out(tmp_path, caplog):
    check = check_in(tmp_path)
    path = tmp_path / "keys.json"
    path.write_text("{", encoding="utf-8")
    assert [check.caller(token()), check.caller(token())] == [ADA, ADA]
    problem = f"{path} cannot be used: at character 1 it is no JSON"
    assert [record.getMessage() for record in caplog.records] == [
        f"{problem}; what was read before stays in force"
    ]
    path.unlink()
    assert check.caller(token()) == ADA
