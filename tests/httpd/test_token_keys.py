"""Key files: what is taken, and what is refused before it can do harm."""

from __future__ import annotations

import json
import os

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from tests.httpd.mint import EC, ED, KEYS, RSA, SHARED, b64, claims, pem, token
from tests.httpd.test_tokens import ADA, check_in

from dutiful.httpd.errors import UnauthenticatedError
from dutiful.httpd.reloading_file import ReloadingFile
from dutiful.httpd.token_keys import (
    KeyFileError,
    RevokedFileError,
    hmac_bytes,
    new_key_file,
    read_keys,
    read_revoked,
)


def read(tmp_path, content):
    path = tmp_path / "keys.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_keys(str(path))


def test_keys_have_one_algorithm_and_are_never_shown(tmp_path):
    keys = read(tmp_path, {"keys": KEYS})
    assert {kid: key.alg for kid, key in keys.items()} == {
        "ed": "EdDSA",
        "ec": "ES256",
        "rsa": "RS256",
        "hmac": "HS256",
    }
    assert b64(SHARED) not in f"{keys} {keys['hmac'].material}"
    assert hmac_bytes(keys["hmac"].material.reveal()) == SHARED


def private_pem(key) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


NO_KEY = "the key is not one for {} (Ed25519, P-256, or RSA of at least 2048 bits)"
CANARY = b64(b"canary" * 4)
REFUSED = [
    ("EdDSA", pem(EC), NO_KEY.format("EdDSA")),
    ("EdDSA", pem(ed448.Ed448PrivateKey.generate()), NO_KEY.format("EdDSA")),
    ("ES256", pem(ED), NO_KEY.format("ES256")),
    ("ES256", pem(ec.generate_private_key(ec.SECP384R1())), NO_KEY.format("ES256")),
    ("RS256", pem(EC), NO_KEY.format("RS256")),
    ("RS256", pem(rsa.generate_private_key(65537, 1024)), NO_KEY.format("RS256")),
    ("RS256", private_pem(ED), "the key is not a public key in PEM"),
    ("EdDSA", "", "the key is not a public key in PEM"),
    ("HS256", pem(RSA), "an HS256 key is base64url of at least 32 bytes"),
    ("HS256", CANARY, "an HS256 key is base64url of at least 32 bytes"),
    ("HS256", "", "an HS256 key is base64url of at least 32 bytes"),
    ("HS256", "not base64!", "an HS256 key is base64url of at least 32 bytes"),
    ("none", "", "alg must be one of EdDSA, ES256, RS256, HS256"),
    ("HS512", CANARY * 3, "alg must be one of EdDSA, ES256, RS256, HS256"),
    (["HS256"], CANARY * 3, "alg must be one of EdDSA, ES256, RS256, HS256"),
]


def test_a_key_file_is_read_to_its_own_limit_not_to_that_of_revoked_tokens(tmp_path):
    with pytest.raises(KeyFileError):
        read(tmp_path, " " * 1_048_576 + json.dumps({"keys": KEYS}))
    assert read(tmp_path, " " * 1_000_000 + json.dumps({"keys": KEYS}))


@pytest.mark.parametrize(("alg", "key", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_a_key_that_does_not_fit_its_algorithm_is_refused(tmp_path, alg, key, reason):
    with pytest.raises(KeyFileError) as caught:
        read(tmp_path, {"keys": {"k": {"alg": alg, "key": key}}})
    assert str(caught.value) == f"{tmp_path / 'keys.json'} cannot be used: key 'k': {reason}"
    assert CANARY not in str(caught.value.details)


FORM = 'write {"keys": {"NAME": {"alg": …, "key": …}}}'
ENTRY = 'key \'k\': write {"alg": …, "key": …} and nothing else'


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "it is empty"),
        ([], FORM),
        ({}, FORM),
        ({"keys": []}, FORM),
        ({"keys": {}, "more": 1}, FORM),
        ({"keys": {}}, "it has no key"),
        ({"keys": {"k": 1}}, ENTRY),
        ({"keys": {"k": {"alg": "HS256"}}}, ENTRY),
        ({"keys": {"k": {"alg": "HS256", "key": 1}}}, ENTRY),
        ({"keys": {"k": {"alg": "HS256", "key": "", "kty": "oct"}}}, ENTRY),
        (
            {"keys": {"../k": {}}},
            "key '../k': a name has 1 to 64 letters, digits, dots, underlines and dashes",
        ),
        ('{"keys": {"k": {}, "k": {}}}', "the key 'k' is there twice"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path, content, reason):
    with pytest.raises(KeyFileError) as caught:
        read(tmp_path, content)
    assert caught.value.details["reason"] == reason


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(KeyFileError, match="No such file or directory"):
        read_keys(str(tmp_path / "absent"))


def test_a_new_file_is_for_its_owner_only_and_never_replaces_another(tmp_path):
    path = str(tmp_path / "dev.json")
    new_key_file(path, "dev")
    assert {kid: key.alg for kid, key in read_keys(path).items()} == {"dev": "HS256"}
    assert os.stat(path).st_mode & 0o777 == 0o600
    with pytest.raises(KeyFileError, match="it cannot be made: File exists"):
        new_key_file(path, "dev")


def write(path, *ids: str) -> str:
    path.write_text(json.dumps({"revoked": ids}), encoding="utf-8")
    return str(path)


@pytest.fixture
def check(tmp_path):
    path = write(tmp_path / "revoked.json", "bad")
    return check_in(tmp_path)._replace(revoked=ReloadingFile((path,), lambda: read_revoked(path)))


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
def test_a_list_of_revoked_tokens_of_another_form_is_refused(tmp_path, content):
    path = tmp_path / "revoked.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(RevokedFileError, match="cannot be used"):
        read_revoked(str(path))


def test_a_list_of_revoked_tokens_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(RevokedFileError, match="No such file"):
        read_revoked(str(tmp_path / "none"))
