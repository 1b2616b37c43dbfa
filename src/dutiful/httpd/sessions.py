"""Sessions of browsers: a token, sealed into a cookie that only this process can open.

A cookie reaches every port of a host, so it must not hold the token itself. Each request opens the cookie and
checks the token as if it were sent as a bearer token: a session ends when its token expires, is revoked, or
loses its key. Cookies are read for pages only; the API never looks at them.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

COOKIE, HOST_COOKIE = "dutiful-session", "__Host-dutiful-session"
TOKEN_MAX = 2600
"""A longer token does not fit into a cookie once it is sealed."""
_NONCE_BYTES = 12
_PURPOSE = b"dutiful session v1"


class Sessions:
    """Seals and opens the cookies of one process; they end with it."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def seal(self, token: str) -> str:
        """Return the value of the cookie for a token."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = _cipher(self._key).encrypt(nonce, token.encode(), _PURPOSE)
        return base64.urlsafe_b64encode(nonce + sealed).decode().rstrip("=")

    def token_of(self, scope: Mapping[str, Any]) -> str | None:
        """Return the token in the cookie of a page's request; None without one that this process sealed."""
        if not is_page(scope["path"]):
            return None
        sealed = _cookie(scope, HOST_COOKIE if scope.get("scheme") == "https" else COOKIE)
        return None if sealed is None else self._open(sealed)

    def _open(self, sealed: str) -> str | None:
        from cryptography.exceptions import InvalidTag

        try:
            raw = base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
            opened: bytes = _cipher(self._key).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _PURPOSE)
        except (binascii.Error, InvalidTag, ValueError):
            return None
        return opened.decode()


def is_page(path: str) -> bool:
    """Return whether a path is read by people in a browser."""
    return path in {"/", "/ui"} or path.startswith("/ui/")


def _cookie(scope: Mapping[str, Any], name: str) -> str | None:
    for key, value in scope["headers"]:
        if key == b"cookie":
            try:
                found = SimpleCookie(value.decode("latin-1")).get(name)
            except CookieError:
                continue
            if found is not None:
                return found.value
    return None


def _cipher(key: bytes) -> Any:
    # Heavy, and of no use without tokens.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
