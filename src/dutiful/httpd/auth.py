"""Who asks: found out from the token, the client's certificate, or the loopback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.httpd.caller import LOCAL, NOBODY, SCOPES, Caller
from dutiful.httpd.clients import caller_of
from dutiful.httpd.errors import UnauthenticatedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dutiful.httpd.reloading_file import Watched
    from dutiful.httpd.tokens import TokenCheck

__all__ = ["LOCAL", "NOBODY", "PEER_NAMES", "SCOPES", "Auth", "Caller"]

# Where the protocol leaves the names of the client's certificate, in the state of the scope.
PEER_NAMES = "peer_names"


class Auth(NamedTuple):
    """How callers show who they are. With neither tokens nor clients everybody is the operator."""

    tokens: TokenCheck | None = None
    clients: Watched[Mapping[str, Caller]] | None = None

    @property
    def is_on(self) -> bool:
        """Return whether callers must show who they are."""
        return self.tokens is not None or self.clients is not None

    def caller(self, scope: Mapping[str, Any]) -> Caller:
        """Return who sent the request of this ASGI scope, or raise UnauthenticatedError.

        A token is looked at first, and a bad one is refused, whatever certificate comes with it.
        """
        if not self.is_on:
            return LOCAL
        token = _bearer(scope)
        if token is not None and self.tokens is not None:
            return self.tokens.caller(token)
        names = scope.get("state", {}).get(PEER_NAMES)
        if names and self.clients is not None and token is None:
            return caller_of(names, self.clients.current())
        raise UnauthenticatedError("token_missing", self._advice())

    def _advice(self) -> str:
        ways = ["send `Authorization: Bearer TOKEN`"] if self.tokens is not None else []
        ways += ["connect with a client certificate"] if self.clients is not None else []
        return f"Say who you are: {' or '.join(ways)}"


def _bearer(scope: Mapping[str, Any]) -> str | None:
    given: list[bytes] = [value for name, value in scope["headers"] if name == b"authorization"]
    if not given:
        return None
    kind, _, token = given[0].decode("latin-1").partition(" ")
    if len(given) > 1 or kind.lower() != "bearer":
        raise UnauthenticatedError("token_malformed", "Send exactly one header `Authorization: Bearer TOKEN`")
    return token.strip(" ")
