"""Keys and tokens for the tests, good ones and forged ones; tokens are put together by hand."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

NOW = 1_772_332_200
SHARED = bytes(range(32))
ED = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
STRANGER = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
EC = ec.derive_private_key(4711, ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)

HEADER = {"alg": "EdDSA", "kid": "ed", "typ": "JWT"}
CLAIMS = {
    "iss": "https://issuer.example",
    "aud": "dutiful",
    "sub": "ada",
    "scope": "read write",
    "iat": NOW - 10,
    "nbf": NOW - 10,
    "exp": NOW + 600,
}


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def pem(key: Any) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


KEYS = {
    "ed": {"alg": "EdDSA", "key": pem(ED)},
    "ec": {"alg": "ES256", "key": pem(EC)},
    "rsa": {"alg": "RS256", "key": pem(RSA)},
    "hmac": {"alg": "HS256", "key": b64(SHARED)},
}


def hs256(message: bytes, key: bytes = SHARED) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()


def es256(message: bytes) -> bytes:
    r, s = decode_dss_signature(EC.sign(message, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def rs256(message: bytes) -> bytes:
    return RSA.sign(message, padding.PKCS1v15(), hashes.SHA256())


SIGNERS = {"ed": ED.sign, "ec": es256, "rsa": rs256, "hmac": hs256}


def token(header: Any = HEADER, claims: Any = CLAIMS, sign: Any = None) -> str:
    """Return a token; bytes are taken for JSON, and `sign` for the signer of the key that is named."""
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, claims)]
    message = ".".join(map(b64, parts))
    kid = header.get("kid") if isinstance(header, dict) else "ed"
    signer = sign or SIGNERS[kid if isinstance(kid, str) and kid in SIGNERS else "ed"]
    return f"{message}.{b64(signer(message.encode()))}"


def header(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**HEADER, **changes}.items() if value is not ...}


def claims(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**CLAIMS, **changes}.items() if value is not ...}
