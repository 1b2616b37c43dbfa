"""Who asks, and what they may do."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from dutiful.httpd.errors import ScopeMissingError

Scope: TypeAlias = Literal["read", "write", "trigger", "admin"]
SCOPES = ("read", "write", "trigger", "admin")


class Caller(NamedTuple):
    """Who asks: `how` says whether a token, a certificate, the loopback or nothing vouches for it."""

    user_id: str
    scopes: frozenset[str]
    how: Literal["token", "certificate", "loopback", "nobody"]

    def may(self, scope: Scope) -> bool:
        """Return whether this scope was granted."""
        return scope in self.scopes

    def require(self, scope: Scope) -> None:
        """Raise ScopeMissingError unless this is allowed."""
        if not self.may(scope):
            raise ScopeMissingError(scope)


NOBODY = Caller("", frozenset(), "nobody")
# On the loopback without auth everybody is the operator.
LOCAL = Caller("local", frozenset(SCOPES), "loopback")


def granted(words: object) -> frozenset[str]:
    """Return the scopes among these words; admin contains all. An issuer may know more than this service."""
    found = frozenset(words.split() if isinstance(words, str) else ()) & {*SCOPES}
    return frozenset(SCOPES) if "admin" in found else found
