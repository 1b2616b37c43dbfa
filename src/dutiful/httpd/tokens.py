"""JSON Web Tokens: signed, short-lived, and parsed strictly, so that a token cannot choose its checks."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.name import subject_flaw
from dutiful.httpd.auth import Caller, granted, users_of
from dutiful.httpd.errors import InvalidJsonError, UnauthenticatedError
from dutiful.httpd.strict_json import decode
from dutiful.httpd.token_keys import JTI_MAX, hmac_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jwt import PyJWS

    from dutiful.httpd.reloading_file import ReloadingFile
    from dutiful.httpd.token_keys import Key
    from dutiful.runtime.ports import Clock

# Most bytes of a token; tolerated clock difference (s); longest time from iat to exp (s).
SIZE_MAX = 8192
LEEWAY = 30
LIFETIME_MAX = 3600
_FORM = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_KID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# Any other header (crit, jku, jwk, x5u, x5c, b64, zip …) would change how the token is checked.
_HEADER = {"alg", "kid", "typ"}
_CLAIMS = ("iss", "aud", "sub", "exp", "nbf", "iat")


class TokenCheck(NamedTuple):
    """Checks that a token is signed by a known key, from this issuer, for this audience, and valid now."""

    keys: ReloadingFile[Mapping[str, Key]]
    issuer: str
    audience: str
    clock: Clock
    # With a list of revoked tokens, a token without a `jti` is refused: it could not be listed.
    revoked: ReloadingFile[frozenset[str]] | None = None

    def caller(self, token: str) -> Caller:
        """Return the caller that the token names, or raise UnauthenticatedError whose code says why not."""
        if len(token) > SIZE_MAX:
            raise UnauthenticatedError("token_too_large", f"A token has at most {SIZE_MAX} bytes")
        if not _FORM.fullmatch(token):
            raise _malformed("it is not three base64url parts with dots between them")
        head, payload, _ = token.split(".")
        key = self._key(_part(head))
        _verify(token, key)
        claims = _part(payload)
        self._check(claims)
        return Caller(claims["sub"], granted(claims.get("scope", "")), "token", _act_as(claims))

    def ends_at(self, token: str) -> datetime:
        """Return when a token that `caller` accepted expires."""
        return datetime.fromtimestamp(_seconds(_part(token.split(".")[1]), "exp"), UTC)

    def _key(self, header: dict[str, Any]) -> Key:
        if not {*header} <= _HEADER:
            raise UnauthenticatedError(
                "token_header_refused", "The header of a token has alg, kid and typ, and nothing else"
            )
        kid = header.get("kid")
        key = self.keys.current().get(kid) if isinstance(kid, str) and _KID.fullmatch(kid) else None
        if key is None:
            raise UnauthenticatedError("token_key_unknown", "There is no key of the name in `kid`")
        if header.get("alg") != key.alg or header.get("typ", "JWT") != "JWT":
            raise UnauthenticatedError("token_algorithm", "This key is not used with that alg or typ")
        return key

    def _check(self, claims: dict[str, Any]) -> None:
        needed = _CLAIMS if self.revoked is None else (*_CLAIMS, "jti")
        missing = [name for name in needed if name not in claims]
        if missing:
            message = f"The token lacks {', '.join(missing)}"
            raise UnauthenticatedError("token_claim_missing", message, missing=missing)
        if (flaw := subject_flaw(claims["sub"])) is not None:
            raise _malformed(f"`sub`: {flaw}")
        if claims["iss"] != self.issuer:
            raise UnauthenticatedError("token_issuer", "The token is from another issuer")
        audiences = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
        if self.audience not in audiences:
            raise UnauthenticatedError("token_audience", "The token is for another audience")
        self._check_times(*(_seconds(claims, name) for name in ("iat", "nbf", "exp")))
        if self.revoked is not None and _id_of(claims) in self.revoked.current():
            raise UnauthenticatedError("token_revoked", "The token was revoked")

    def _check_times(self, issued: float, begins: float, ends: float) -> None:
        now = self.clock.now().timestamp()
        if ends <= now - LEEWAY:
            raise UnauthenticatedError("token_expired", "The token has expired")
        if max(issued, begins) > now + LEEWAY:
            raise UnauthenticatedError("token_not_yet_valid", "The token is not valid yet")
        if not 0 < ends - issued <= LIFETIME_MAX:
            message = f"A token lives at most {LIFETIME_MAX} s from iat to exp"
            raise UnauthenticatedError("token_lifetime", message)


def _verify(token: str, key: Key) -> None:
    # Imported late: it is slow to import, and only needed with tokens.
    import jwt

    material: Any = hmac_bytes(key.material.reveal()) if key.alg == "HS256" else key.material
    try:
        _signatures(key.alg).decode_complete(token, material, algorithms=[key.alg])
    except jwt.PyJWTError:
        raise UnauthenticatedError("token_signature", "The signature is not by this key") from None


@cache
def _signatures(alg: str) -> PyJWS:
    """Return a verifier that knows this algorithm and no other."""
    import jwt

    return jwt.PyJWS(algorithms=[alg])


def _part(segment: str) -> dict[str, Any]:
    try:
        raw = base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
        value = decode(raw)
    except (binascii.Error, InvalidJsonError):
        raise _malformed("its header or payload is not JSON in base64url") from None
    # The last character of base64 has unused bits: accept only the canonical text of a value.
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != segment or not isinstance(value, dict):
        raise _malformed("its header or payload is not an object in base64url")
    return value


def _seconds(claims: dict[str, Any], name: str) -> float:
    value = claims[name]
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 2**40:
        raise _malformed(f"`{name}` must be seconds since 1970")
    return value


def _id_of(claims: dict[str, Any]) -> str:
    value = claims["jti"]
    if not isinstance(value, str) or not 0 < len(value) <= JTI_MAX:
        raise _malformed(f"`jti` must have 1 to {JTI_MAX} characters")
    return value


def _act_as(claims: dict[str, Any]) -> frozenset[str]:
    try:
        return users_of(claims.get("act_as", []))
    except ValueError as error:
        raise _malformed(str(error)) from None


def _malformed(reason: str) -> UnauthenticatedError:
    return UnauthenticatedError("token_malformed", f"The token cannot be read: {reason}")
