"""The signature that a run's message carries, for launchers that sign and receivers that check."""

from __future__ import annotations

import hashlib
import hmac


def signature(secret: str, timestamp: str, key: str, body: bytes) -> str:
    """Return the value of `Dutiful-Signature`: an HMAC-SHA256 of `timestamp.key.body`."""
    message = f"{timestamp}.{key}.".encode() + body
    return "v1=" + hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def is_signed(secret: str, timestamp: str, key: str, body: bytes, given: str) -> bool:
    """Return whether `given` is the signature of this message, in a time that does not depend on `given`."""
    return hmac.compare_digest(signature(secret, timestamp, key, body).encode(), given.encode())
