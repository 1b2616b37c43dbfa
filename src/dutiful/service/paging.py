"""Cursors: where the next page of a list begins, as a text that callers hand back and do not read."""

from __future__ import annotations

import base64
import binascii
import json

from dutiful.core.errors import InvalidArgumentError

LIMIT_MAX = 1000


def page_size(limit: object) -> int:
    """Return how many to list, or raise InvalidArgumentError."""
    if type(limit) is not int or not 1 <= limit <= LIMIT_MAX:
        raise InvalidArgumentError("limit", limit, f"write a whole number from 1 to {LIMIT_MAX}")
    return limit


def encode_cursor(*place: str | int) -> str:
    """Return a place in a list as a text."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, *kinds: type) -> list[str | int]:
    """Return the place that was encoded, or raise InvalidArgumentError."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        place = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (AttributeError, ValueError, binascii.Error, RecursionError):
        place = None
    if not isinstance(place, list) or [*map(type, place)] != [*kinds] or not all(map(_storable, place)):
        raise InvalidArgumentError("cursor", cursor, "hand back the next_cursor of the last page as it was")
    return place


def _storable(part: str | int) -> bool:
    """Return whether a store can look for this: it knows no numbers of more than 64 bits."""
    return not isinstance(part, int) or -(2**63) <= part < 2**63
