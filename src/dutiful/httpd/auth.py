"""Authentication: which caller sent a request, by token, client certificate or loopback, and its scopes.

A file of clients maps the exact names of client certificates to callers:

{"clients": {"DNS:deployer.internal": {"user_id": "deployer", "scope": "read write", "act_as": ["ada"]},
             "URI:spiffe://prod/executor": {"user_id": "executor", "scope": "report", "act_as": ["*"]}}}
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from dutiful.core.errors import quoted
from dutiful.core.name import subject_flaw
from dutiful.httpd.errors import ScopeMissingError, UnauthenticatedError
from dutiful.httpd.strict_json import JsonFileError, decode_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from dutiful.httpd.reloading_file import ReloadingFile
    from dutiful.outbound.secret import Secret

Scope: TypeAlias = Literal["read", "write", "trigger", "report", "admin"]
SCOPES = ("read", "write", "trigger", "report", "admin")
EVERYBODY = "*"
_ACT_AS_MAX = 1000

# The key in the state of an ASGI scope under which the protocol leaves the names of the client's certificate.
PEER_NAMES = "peer_names"
_NAME = re.compile(r"(DNS|URI):[!-~]{1,512}")


class Caller(NamedTuple):
    """The sender of a request; `how` names the proof: a token, a certificate, the loopback or none."""

    user_id: str
    scopes: frozenset[str]
    how: Literal["token", "session", "certificate", "loopback", "nobody"]
    # The other users for whom the caller may use its scopes; "*" is all of them.
    act_as: frozenset[str] = frozenset()
    # When the login of a browser ends; None for other callers.
    ends_at: datetime | None = None

    @property
    def acts_for_all(self) -> bool:
        """Return whether the caller may use its scopes for every user."""
        return EVERYBODY in self.act_as or self.may("admin")

    def acts_for(self, user_id: str) -> bool:
        """Return whether the caller may use its scopes for this user."""
        return self.acts_for_all or user_id == self.user_id or user_id in self.act_as

    def may(self, scope: Scope) -> bool:
        """Return whether this scope was granted."""
        return scope in self.scopes

    def require(self, scope: Scope) -> None:
        """Raise ScopeMissingError unless the scope was granted."""
        if not self.may(scope):
            raise ScopeMissingError(scope)


NOBODY = Caller("", frozenset(), "nobody")
# On the loopback without auth every caller is the operator.
LOCAL = Caller("local", frozenset(SCOPES), "loopback")


def granted(words: object) -> frozenset[str]:
    """Return the scopes among these words; `admin` contains all. Words of other services are ignored."""
    found = frozenset(words.split() if isinstance(words, str) else ()) & {*SCOPES}
    return frozenset(SCOPES) if "admin" in found else found


def users_of(given: object) -> frozenset[str]:
    """Return the users of an `act_as`, a list of names; raises ValueError that says what to write."""
    names = given if isinstance(given, list) else [None]
    if len(names) > _ACT_AS_MAX or any(subject_flaw(name) is not None for name in names):
        raise ValueError(f'`act_as` is a list of at most {_ACT_AS_MAX} users, or ["*"] for all')
    return frozenset(names)


class TokenReader(Protocol):
    """Checks tokens; `tokens.TokenCheck` is the implementation."""

    def caller(self, token: str) -> Caller:
        """Return the caller that the token names, or raise UnauthenticatedError."""

    def ends_at(self, token: str) -> datetime | None:
        """Return when a token that `caller` accepted expires, None if it does not."""


class Auth(NamedTuple):
    """The accepted proofs of identity. With neither tokens nor clients every caller is the operator."""

    tokens: TokenReader | None = None
    clients: ReloadingFile[Mapping[str, Caller]] | None = None
    # Logins of browsers, where tokens are accepted.
    sessions: Sessions | None = None

    @property
    def is_on(self) -> bool:
        """Return whether callers must prove who they are."""
        return self.tokens is not None or self.clients is not None

    def caller(self, scope: Mapping[str, Any]) -> Caller:
        """Return the caller of the request of this ASGI scope, or raise UnauthenticatedError.

        A token is checked first, and a bad token is refused even if a good certificate comes with it.
        """
        if not self.is_on:
            return LOCAL
        token = _bearer(scope)
        if token is not None and self.tokens is not None:
            return self.tokens.caller(token)
        if token is None and self.tokens is not None and self.sessions is not None:
            kept = self.sessions.token_of(scope)
            if kept is not None:
                caller = self.tokens.caller(kept)
                return caller._replace(how="session", ends_at=self.tokens.ends_at(kept))
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


class ClientsFileError(JsonFileError):
    """A file of clients cannot be used."""


def read_clients(path: str) -> Mapping[str, Caller]:
    """Return the callers by the names of their certificates, or raise ClientsFileError."""
    content = decode_file(path, ClientsFileError)
    clients = content.get("clients") if isinstance(content, dict) and len(content) == 1 else None
    if not isinstance(clients, dict) or not clients:
        raise ClientsFileError(path, 'write {"clients": {"DNS:NAME": {"user_id": …, "scope": …}}}')
    return {name: _client(path, name, entry) for name, entry in clients.items()}


def _client(path: str, name: str, entry: Any) -> Caller:
    place = f"client {quoted(name)!r}"
    if not _NAME.fullmatch(name) or "*" in name:
        raise ClientsFileError(path, f"{place}: write DNS:NAME or URI:NAME, exactly as in the certificate")
    if not isinstance(entry, dict) or {*entry} - {"act_as"} != {"user_id", "scope"}:
        keys = '{"user_id": …, "scope": …} and, if need be, "act_as"'
        raise ClientsFileError(path, f"{place}: write {keys}, and nothing else")
    if (flaw := subject_flaw(entry["user_id"])) is not None:
        raise ClientsFileError(path, f"{place}: user_id: {flaw}")
    words = entry["scope"].split() if isinstance(entry["scope"], str) else [""]
    if not {*words} <= {*SCOPES}:
        raise ClientsFileError(path, f"{place}: scope is words of {', '.join(SCOPES)}")
    try:
        act_as = users_of(entry.get("act_as", []))
    except ValueError as error:
        raise ClientsFileError(path, f"{place}: {error}") from None
    return Caller(entry["user_id"], granted(entry["scope"]), "certificate", act_as)


def caller_of(names: Sequence[str], clients: Mapping[str, Caller]) -> Caller:
    """Return the caller that a certificate with these names proves, or raise UnauthenticatedError."""
    found = {clients[name] for name in names if name in clients}
    if len(found) != 1:
        code = "certificate_ambiguous" if found else "certificate_unknown"
        message = (
            "The certificate has names of several clients" if found else "No client has this certificate"
        )
        raise UnauthenticatedError(code, message)
    return found.pop()


COOKIE, HOST_COOKIE = "dutiful-session", "__Host-dutiful-session"
TOKEN_MAX = 2600
"""A longer token does not fit into a cookie once it is sealed."""
_NONCE_BYTES = 12
_PURPOSE = b"dutiful session v1"


class Sessions:
    """Seals and opens cookies; processes with one key share them, and without a key they end with it."""

    def __init__(self, key: Secret | None = None) -> None:
        # A hash, because the cipher takes keys of 32 bytes and people write texts of any length.
        given = secrets.token_bytes(32) if key is None else key.reveal().encode()
        self._key = sha256(_PURPOSE + given).digest()

    def seal(self, token: str) -> str:
        """Return the value of the cookie for a token."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = _cipher(self._key).encrypt(nonce, token.encode(), _PURPOSE)
        return base64.urlsafe_b64encode(nonce + sealed).decode().rstrip("=")

    def token_of(self, scope: Mapping[str, Any]) -> str | None:
        """Return the token in the cookie of a page's request; None without one that this key sealed."""
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
    # Imported late: it is slow to import, and only needed with tokens.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
