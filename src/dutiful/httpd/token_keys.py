"""The files that tokens are checked against: signing keys, and the ids of revoked tokens.

Both may change while the service runs.

{"keys": {"2026-11": {"alg": "EdDSA", "key": "-----BEGIN PUBLIC KEY-----…"},
          "dev":     {"alg": "HS256", "key": "base64url of at least 32 bytes"}}}

{"revoked": ["0b7e1c52", "…"]}

A key has exactly one algorithm, so a token cannot choose how it is checked.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.errors import quoted
from dutiful.httpd.strict_json import JsonFileError, decode_file
from dutiful.outbound.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

_KID = re.compile(r"[A-Za-z0-9._-]{1,64}")
ALGORITHMS = ("EdDSA", "ES256", "RS256", "HS256")
HMAC_BYTES_MIN = 32
_RSA_BITS_MIN = 2048


class KeyFileError(JsonFileError):
    """A key file cannot be used; no key is ever part of this error."""


class Key(NamedTuple):
    """One key; `material` verifies signatures, and is never shown."""

    alg: str
    material: Any

    def __repr__(self) -> str:
        return f"Key(alg={self.alg!r}, material=***)"


def read_keys(path: str) -> Mapping[str, Key]:
    """Return the keys of a file by their names, or raise KeyFileError."""
    content = decode_file(path, KeyFileError)
    if not isinstance(content, dict) or {*content} != {"keys"} or not isinstance(content["keys"], dict):
        raise KeyFileError(path, 'write {"keys": {"NAME": {"alg": …, "key": …}}}')
    if not content["keys"]:
        raise KeyFileError(path, "it has no key")
    return {kid: _key(path, kid, entry) for kid, entry in content["keys"].items()}


def new_key_file(path: str, kid: str) -> None:
    """Write a file with one new HS256 key, readable by its owner only; raises KeyFileError if it exists."""
    key = base64.urlsafe_b64encode(os.urandom(HMAC_BYTES_MIN)).rstrip(b"=").decode()
    text = json.dumps({"keys": {kid: {"alg": "HS256", "key": key}}}, indent=2) + "\n"
    try:
        with open(path, "x", encoding="utf-8", opener=_private) as file:
            file.write(text)
    except OSError as error:
        raise KeyFileError(path, f"it cannot be made: {error.strerror}") from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _key(path: str, kid: str, entry: Any) -> Key:
    place = f"key {quoted(kid)!r}"
    if not _KID.fullmatch(kid):
        raise KeyFileError(path, f"{place}: a name has 1 to 64 letters, digits, dots, underlines and dashes")
    if not isinstance(entry, dict) or {*entry} != {"alg", "key"} or not isinstance(entry["key"], str):
        raise KeyFileError(path, f'{place}: write {{"alg": …, "key": …}} and nothing else')
    if entry["alg"] not in ALGORITHMS:
        raise KeyFileError(path, f"{place}: alg must be one of {', '.join(ALGORITHMS)}")
    try:
        material = _shared(entry["key"]) if entry["alg"] == "HS256" else _public(entry["alg"], entry["key"])
    except ValueError as error:
        raise KeyFileError(path, f"{place}: {error}") from None
    return Key(entry["alg"], material)


def _shared(text: str) -> Secret:
    """Return the base64url text of a shared key, after checking its length."""
    if hmac_bytes(text) is None:
        raise ValueError(f"an HS256 key is base64url of at least {HMAC_BYTES_MIN} bytes")
    return Secret(text)


def hmac_bytes(text: str) -> bytes | None:
    """Return the bytes of a shared key; None if the text is not one, or too short."""
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) >= HMAC_BYTES_MIN else None


def _public(alg: str, pem: str) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("the key is not a public key in PEM") from None
    match alg, key:
        case "EdDSA", ed25519.Ed25519PublicKey():
            return key
        case "ES256", ec.EllipticCurvePublicKey() if isinstance(key.curve, ec.SECP256R1):
            return key
        case "RS256", rsa.RSAPublicKey() if key.key_size >= _RSA_BITS_MIN:
            return key
    raise ValueError(
        f"the key is not one for {alg} (Ed25519, P-256, or RSA of at least {_RSA_BITS_MIN} bits)"
    )


_REVOKED_MAX = 16 * 1_048_576
JTI_MAX = 256


class RevokedFileError(JsonFileError):
    """A file of revoked tokens cannot be used."""


def read_revoked(path: str) -> frozenset[str]:
    """Return the ids of the tokens that are refused, or raise RevokedFileError."""
    content = decode_file(path, RevokedFileError, _REVOKED_MAX)
    ids = content.get("revoked") if isinstance(content, dict) and len(content) == 1 else None
    if not isinstance(ids, list) or not all(isinstance(id_, str) and 0 < len(id_) <= JTI_MAX for id_ in ids):
        advice = f'write {{"revoked": ["JTI", …]}}, each of 1 to {JTI_MAX} characters'
        raise RevokedFileError(path, advice)
    return frozenset(ids)
