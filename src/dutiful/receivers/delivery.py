"""A run as a receiver gets it, read from the message of a queue and checked."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from dutiful.core.errors import DutifulError
from dutiful.core.signature import is_signed


class BadMessageError(DutifulError):
    """The message is not a run that dutiful published, or its signature does not fit."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"This is no message of dutiful: {reason}", reason=reason)


class Delivery(NamedTuple):
    """One run, delivered once or more often; the key is the same each time."""

    key: str
    attempt: int
    epoch: int
    dag: Any
    meta: dict[str, Any]
    connection: Any = None
    """The connection inside the transaction that records the key, where the seen store has one."""

    @classmethod
    def read(cls, key: str, body: bytes) -> Delivery:
        """Return the run of a message body; raises BadMessageError."""
        try:
            content = json.loads(body)
            dag, meta = content["dag"], content["meta"]
            found = cls(str(meta["idempotency_key"]), int(meta["attempt"]), int(meta["epoch"]), dag, meta)
        except (ValueError, KeyError, TypeError):
            raise BadMessageError("the body is not JSON with `dag` and `meta`") from None
        if found.key != key:
            raise BadMessageError("its key is not the one in its body")
        return found


def check_signature(secret: str | None, timestamp: str, key: str, body: bytes, given: str) -> None:
    """Raise BadMessageError if there is a secret and the message was not signed with it."""
    if secret is not None and not is_signed(secret, timestamp, key, body, given):
        raise BadMessageError("its signature is missing or wrong")
