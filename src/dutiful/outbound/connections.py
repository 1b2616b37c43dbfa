"""Connections that stay open for the next request: each to one checked address, under one name."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping

    from dutiful.outbound.guard import Address
    from dutiful.outbound.target import Target

    _Key: TypeAlias = tuple[str, Address]

# Seconds and number. Servers hang up on what is silent for two to five seconds; a request that crosses
# that on its way has no answer, so nothing nearly that old is used.
_IDLE_SECONDS = 1.0
_IDLE_MAX = 256
_CHUNK = 65_536


class Received(NamedTuple):
    """What came back; `body` is cut at the limit, and `is_whole` says so."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool


class Connection:
    """One connection, for one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import h11

        self._reader, self._writer = reader, writer
        self._protocol = h11.Connection(h11.CLIENT)
        self._used_at = 0.0

    @property
    def is_fresh(self) -> bool:
        """Return whether the other side may be expected to listen still."""
        age = asyncio.get_running_loop().time() - self._used_at
        return age < _IDLE_SECONDS and not self._reader.at_eof() and not self._writer.is_closing()

    def encoded(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        """Return a request as it is sent; raises h11.LocalProtocolError where it cannot be."""
        import h11

        listed = [(name.encode(), value.encode()) for name, value in headers.items()]
        head = self._protocol.send(h11.Request(method=method, target=path, headers=listed)) or b""
        content = self._protocol.send(h11.Data(data=body)) if body else None
        return head + (content or b"") + (self._protocol.send(h11.EndOfMessage()) or b"")

    async def ask(self, request: bytes, limit: int) -> Received:
        """Send a request in one piece, and return the answer; raises OSError or h11.RemoteProtocolError."""
        import h11

        self._writer.write(request)
        answer, read = await self._next(), b""
        while isinstance(answer, h11.InformationalResponse):
            answer = await self._next()
        while isinstance(event := await self._next(), h11.Data):
            read += event.data
            if len(read) > limit:
                break
        found = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
        return Received(answer.status_code, found, read[:limit], len(read) <= limit)

    async def _next(self) -> Any:
        import h11

        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            self._protocol.receive_data(await self._reader.read(_CHUNK))
        if isinstance(event, h11.ConnectionClosed):
            raise ConnectionResetError("the connection was closed before the answer")
        return event

    def rest(self) -> bool:
        """Make ready for the next request, and return whether there may be one."""
        import h11

        if self._protocol.our_state is not h11.DONE or self._protocol.their_state is not h11.DONE:
            return False
        self._protocol.start_next_cycle()
        self._used_at = asyncio.get_running_loop().time()
        return True

    def drop(self) -> None:
        """Close it at once."""
        self._writer.transport.abort()


class Connections:
    """Lends connections, and keeps those that can be used again.

    A name is resolved and its addresses are checked for every request. A connection that is open is
    used again only where the address found now is the one it goes to, under the same scheme, name and port.
    """

    def __init__(self) -> None:
        self._idle: defaultdict[_Key, list[Connection]] = defaultdict(list)
        self._loop: asyncio.AbstractEventLoop | None = None

    @asynccontextmanager
    async def lend(self, target: Target, address: Address, within: float) -> AsyncIterator[Connection]:
        """Lend a connection for one request; raises OSError where there is none `within` seconds."""
        key = target.origin, address
        fresh = _last_fresh(self._idle_at(key))
        connection = await _connected(target, address, within) if fresh is None else fresh
        is_whole = False
        try:
            yield connection
            is_whole = connection.rest()
        finally:
            if is_whole and len(self._idle[key]) < _IDLE_MAX:
                self._idle[key].append(connection)
                asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._drop_stale, key)
            else:
                connection.drop()

    def _idle_at(self, key: _Key) -> list[Connection]:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # What another event loop has opened cannot be used in this one.
            self._idle.clear()
            self._loop = loop
        return self._idle[key]

    def _drop_stale(self, key: _Key) -> None:
        resting = self._idle.pop(key, [])
        if fresh := [connection for connection in resting if connection.is_fresh]:
            self._idle[key] = fresh
        for connection in resting:
            if connection not in fresh:
                connection.drop()

    async def close(self) -> None:
        """Close every connection that nobody uses."""
        for connections in self._idle.values():
            for connection in connections:
                connection.drop()
        self._idle.clear()


def _last_fresh(idle: list[Connection]) -> Connection | None:
    """Take the connection that was used last; if that one is stale, all others are too."""
    if idle and idle[-1].is_fresh:
        return idle.pop()
    for connection in idle:
        connection.drop()
    idle.clear()
    return None


async def _connected(target: Target, address: Address, within: float) -> Connection:
    tls = _tls() if target.scheme == "https" else None
    name = target.host if tls is not None else None
    try:
        async with asyncio.timeout(within):
            opened = await asyncio.open_connection(str(address), target.port, ssl=tls, server_hostname=name)
    except TimeoutError:
        raise ConnectionError(f"no connection within {within:g} s") from None
    return Connection(*opened)


def _tls() -> ssl.SSLContext:
    # Heavy, and of no use to those who send nothing. Authorities may be named by the environment.
    import httpx2

    context = httpx2.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
