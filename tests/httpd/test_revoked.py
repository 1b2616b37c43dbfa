"""Tokens that were good until somebody wrote them down as revoked."""

from __future__ import annotations

import json

import pytest
from tests.httpd.mint import claims, token
from tests.httpd.test_tokens import ADA, check_in

from dutiful.httpd.errors import UnauthenticatedError
from dutiful.httpd.reloading_file import Watched
from dutiful.httpd.revoked import RevokedFileError, read_revoked


def write(path, *ids: str) -> str:
    path.write_text(json.dumps({"revoked": ids}), encoding="utf-8")
    return str(path)


@pytest.fixture
def check(tmp_path):
    path = write(tmp_path / "revoked.json", "bad")
    return check_in(tmp_path)._replace(revoked=Watched((path,), lambda: read_revoked(path)))


def refusal(check, given: str) -> str:
    with pytest.raises(UnauthenticatedError) as refused:
        check.caller(given)
    return refused.value.code


def test_a_revoked_token_is_refused_and_others_are_not(check):
    assert check.caller(token(claims=claims(jti="good"))) == ADA
    assert refusal(check, token(claims=claims(jti="bad"))) == "token_revoked"


def test_the_list_is_read_again_when_it_changes(check, tmp_path):
    given = token(claims=claims(jti="good"))
    assert check.caller(given) == ADA
    write(tmp_path / "revoked.json", "bad", "good")
    assert refusal(check, given) == "token_revoked"


def test_a_list_that_cannot_be_read_leaves_the_last_one_in_force(check, tmp_path):
    (tmp_path / "revoked.json").write_text("{}", encoding="utf-8")
    assert refusal(check, token(claims=claims(jti="bad"))) == "token_revoked"


@pytest.mark.parametrize(
    ("jti", "code"),
    [
        (..., "token_claim_missing"),
        (7, "token_malformed"),
        ("", "token_malformed"),
        (["bad"], "token_malformed"),
    ],
)
def test_a_token_that_could_not_be_revoked_is_refused(check, jti, code):
    assert refusal(check, token(claims=claims(jti=jti))) == code


@pytest.mark.parametrize(
    "content", ["{}", "[]", '{"revoked": "bad"}', '{"revoked": [1]}', '{"revoked": [""]}', "nonsense"]
)
def test_a_file_of_another_form_is_refused(tmp_path, content):
    path = tmp_path / "revoked.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(RevokedFileError, match="cannot be used"):
        read_revoked(str(path))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(RevokedFileError, match="No such file"):
        read_revoked(str(tmp_path / "none"))
