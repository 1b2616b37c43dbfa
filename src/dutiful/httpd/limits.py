"""What of a request is read at all: how much, how long, and under which name."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from dutiful.httpd.errors import ForeignOriginError, TooLargeError, TooSlowError

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

KIB, MIB = 1024, 1024 * 1024
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", re.IGNORECASE)


class Limits(NamedTuple):
    """How much of a request is read. A longer body is taken where the path begins with one of `bodies`."""

    body: int = 64 * KIB
    bodies: Mapping[str, int] = MappingProxyType({"/workflows/": MIB, "/schedules/bulk": 8 * MIB})
    headers: int = 16 * KIB
    url: int = 4 * KIB
    body_seconds: float = 30.0
    head_seconds: float = 10.0
    # That one address may have open at a time.
    connections: int = 256
    # So much, and so long, is read of a body that is too long and thrown away: a peer that is cut off in the
    # middle of its sending does not see why.
    drain: int = 16 * MIB
    drain_seconds: float = 5.0

    def body_at(self, path: str) -> int:
        """Return how many bytes a body sent to this path may have."""
        return next((most for prefix, most in self.bodies.items() if path.startswith(prefix)), self.body)


def check_sizes(scope: Scope, limits: Limits) -> None:
    """Raise TooLargeError if the URL or the headers are longer than is read."""
    url = len(scope.get("raw_path") or scope["path"].encode()) + len(scope.get("query_string", b""))
    if url > limits.url:
        raise TooLargeError(414, "URL", limits.url)
    if sum([len(name) + len(value) + 4 for name, value in scope["headers"]]) > limits.headers:
        raise TooLargeError(431, "headers", limits.headers)


def check_host(scope: Scope, listening_at: str) -> None:
    """Raise ForeignOriginError unless the Host is a name of the loopback, or the one that is listened at.

    A web page can make its own name lead here, and then reads the answers; it cannot make the browser send
    another Host.
    """
    host = _header(scope, b"host")
    match = _AUTHORITY.fullmatch(host or "")
    if match is None or not _is_local(match["host"].strip("[]").lower(), listening_at):
        raise ForeignOriginError("foreign_host", "Without auth only the names of this machine are answered")


def check_origin(scope: Scope) -> None:
    """Raise ForeignOriginError for what a page of another origin has sent: it acts for an unwitting user."""
    origin = _header(scope, b"origin")
    if origin is not None and origin.partition("://")[2].lower() != (_header(scope, b"host") or "").lower():
        raise ForeignOriginError("foreign_origin", "Pages of other origins are not answered")


async def read_body(scope: Scope, receive: Receive, limits: Limits) -> bytes:
    """Return the whole body; raises TooLargeError, TooSlowError, or ConnectionResetError if the peer left."""
    most, body = limits.body_at(scope["path"]), bytearray()
    if _announced(scope) > most:
        # Who waits for our leave to send has nothing under way.
        if _header(scope, b"expect") is None:
            await _drain(receive, limits)
        raise TooLargeError(413, "body", most)
    try:
        async with asyncio.timeout(limits.body_seconds):
            while (message := await receive())["type"] != "http.disconnect":
                body += message.get("body", b"")
                if len(body) > most:
                    break
                if not message.get("more_body", False):
                    return bytes(body)
            else:
                raise ConnectionResetError
    except TimeoutError:
        raise TooSlowError(limits.body_seconds) from None
    if message.get("more_body", False):
        await _drain(receive, limits)
    raise TooLargeError(413, "body", most)


async def _drain(receive: Receive, limits: Limits) -> None:
    """Read the rest of a body that is refused, within limits, so that the peer comes to hear the answer."""
    read = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(limits.drain_seconds):
            while read <= limits.drain:
                message = await receive()
                read += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def _announced(scope: Scope) -> int:
    length = _header(scope, b"content-length") or ""
    return int(length[:20]) if length.isdecimal() else 0


def _header(scope: Scope, name: bytes) -> str | None:
    """Return the value of a header; several become one text that is none of them."""
    found = [value.decode("latin-1") for key, value in scope["headers"] if key == name]
    return ",".join(found) if found else None


@lru_cache(maxsize=256)
def _is_local(host: str, listening_at: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in {"localhost", listening_at.lower()}
