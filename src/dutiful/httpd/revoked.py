"""Tokens that are no longer taken, by their `jti`: a file that may change while the service runs.

{"revoked": ["0b7e1c52", "…"]}
"""

from __future__ import annotations

from dutiful.core.errors import DutifulError, quoted
from dutiful.httpd.errors import InvalidJsonError
from dutiful.httpd.strict_json import decode

_FILE_MAX = 16 * 1_048_576
JTI_MAX = 256


class RevokedFileError(DutifulError):
    """A file of revoked tokens cannot be used."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{quoted(path, 4096)} cannot be used: {reason}", path=path, reason=reason)


def read_revoked(path: str) -> frozenset[str]:
    """Return the ids of the tokens that are refused, or raise RevokedFileError."""
    try:
        with open(path, "rb") as file:
            content = decode(file.read(_FILE_MAX))
    except OSError as error:
        raise RevokedFileError(path, str(error.strerror)) from None
    except InvalidJsonError as error:
        raise RevokedFileError(path, error.details["reason"]) from None
    ids = content.get("revoked") if isinstance(content, dict) and len(content) == 1 else None
    if not isinstance(ids, list) or not all(isinstance(id_, str) and 0 < len(id_) <= JTI_MAX for id_ in ids):
        advice = f'write {{"revoked": ["JTI", …]}}, each of 1 to {JTI_MAX} characters'
        raise RevokedFileError(path, advice)
    return frozenset(ids)
