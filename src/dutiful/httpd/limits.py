"""Limits of a request: size, duration, Host and Origin, and how often one caller or address may ask."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dutiful.httpd.errors import ForeignOriginError, TooLargeError, TooManyRequestsError, TooSlowError

if TYPE_CHECKING:
    from dutiful.runtime.ports import Clock

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

KIB, MIB = 1024, 1024 * 1024
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", re.IGNORECASE)


class Limits(NamedTuple):
    """How much of a request is read. Paths that begin with a key of `bodies` have that limit instead."""

    body: int = 64 * KIB
    bodies: Mapping[str, int] = MappingProxyType(
        {"/workflows/": MIB, "/schedules/bulk": 8 * MIB, "/ui/schedules/import": MIB, "/ui/login": 16 * KIB}
    )
    headers: int = 16 * KIB
    url: int = 4 * KIB
    body_seconds: float = 30.0
    head_seconds: float = 10.0
    # Open connections of one address at a time.
    connections: int = 256
    # Open connections of all addresses; None is without bound.
    connections_in_all: int | None = None
    # A body that is too long is read and discarded up to these limits: a peer that is cut off while it
    # sends never reads the answer that says why.
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
    """Raise ForeignOriginError unless the Host is a name of the loopback, or the host listened at.

    This stops DNS rebinding: a web page can make its own name resolve to this machine, but the browser
    then sends that name as the Host.
    """
    host = _header(scope, b"host")
    match = _AUTHORITY.fullmatch(host or "")
    if match is None or not _is_local(match["host"].strip("[]").lower(), listening_at):
        raise ForeignOriginError("foreign_host", "Without auth only the names of this machine are answered")


def host_of(scope: Scope) -> str:
    """Return the Host of a request in small letters, without the port of its scheme."""
    host = (_header(scope, b"host") or "").lower()
    return host.removesuffix(":443").removesuffix(":80")


def check_origin(scope: Scope) -> None:
    """Raise ForeignOriginError for a request from a page of another origin (cross-site request forgery)."""
    origin = _header(scope, b"origin")
    if origin is not None and origin.partition("://")[2].lower() != (_header(scope, b"host") or "").lower():
        raise ForeignOriginError("foreign_origin", "Pages of other origins are not answered")


async def read_body(scope: Scope, receive: Receive, limits: Limits) -> bytes:
    """Return the whole body; raises TooLargeError, TooSlowError, or ConnectionResetError if the peer left."""
    most, body = limits.body_at(scope["path"]), bytearray()
    if _announced(scope) > most:
        # A peer that sent `Expect: 100-continue` has not begun to send the body.
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
    """Read and discard the rest of a refused body, within limits, so that the peer reads the answer."""
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
    """Return the value of a header; repeated headers are joined by commas, which match nothing."""
    found = [value.decode("latin-1") for key, value in scope["headers"] if key == name]
    return ",".join(found) if found else None


@lru_cache(maxsize=256)
def _is_local(host: str, listening_at: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in {"localhost", listening_at.lower()}


# The bucket that was used least recently is dropped first; by then it is full again.
_BUCKETS_MAX = 10_000


class Rates:
    """Token buckets: each caller may send `burst` requests at once, and `per_second` on average."""

    def __init__(self, per_second: float, burst: int, clock: Clock) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> None:
        """Count one request, or raise TooManyRequestsError."""
        now = self._clock.monotonic()
        left, since = self._buckets.pop(who, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._per_second)
        self._buckets[who] = (left - 1, now) if left >= 1 else (left, now)
        if len(self._buckets) > _BUCKETS_MAX:
            self._buckets.popitem(last=False)
        if left < 1:
            raise TooManyRequestsError(math.ceil((1 - left) / self._per_second))


@lru_cache(maxsize=_BUCKETS_MAX)
def network_of(address: str) -> str:
    """Return the network that one peer controls: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 6:
        return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
    return str(found)
