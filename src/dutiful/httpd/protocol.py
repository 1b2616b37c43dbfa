"""The HTTP/1.1 protocol of the server: uvicorn's, with client certificates and limits per connection.

Uvicorn puts no client certificate into the ASGI scope, and has no timeout for a slow request head. Both are
added here, where a connection is known.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dutiful.httpd.auth import PEER_NAMES
from dutiful.httpd.errors import error_body
from dutiful.httpd.limits import Limits, network_of
from dutiful.httpd.middleware import SECURITY_HEADERS
from dutiful.httpd.tls import peer_names

if TYPE_CHECKING:
    import ssl


def _answer(status: HTTPStatus, code: str, message: str) -> bytes:
    """Return the bytes of an error answer that is sent before a request reaches the app."""
    body = json.dumps(error_body(code, message)).encode()
    own = {"content-type": "application/json", "content-length": len(body), "connection": "close"}
    headers = [*((name.encode(), str(value).encode()) for name, value in own.items()), *SECURITY_HEADERS]
    lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode(), *(b": ".join(each) for each in headers)]
    return b"\r\n".join([*lines, b"", body])


_TOO_LARGE = _answer(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large", "The headers are longer than is read"
)
_NO_HTTP = _answer(HTTPStatus.BAD_REQUEST, "invalid_http", "This is not HTTP/1.1")
_TOO_MANY = _answer(
    HTTPStatus.TOO_MANY_REQUESTS,
    "too_many_connections",
    "There are too many open connections of this address, or in all",
)


def protocol_for(limits: Limits, tls: ssl.SSLContext | None = None) -> type[asyncio.Protocol]:
    """Return the protocol class of one server, to be passed to uvicorn as `http`.

    It counts the connections of that server. With `tls` it does the handshakes too, so that a connection is
    counted and limited in time from its first moment; uvicorn must then be given no TLS of its own.
    """
    http = type("ServerProtocol", (LimitedProtocol,), {"limits": limits, "peers": Counter()})
    return http if tls is None else type("TlsServerProtocol", (TlsProtocol,), {"http": http, "context": tls})


class LimitedProtocol(HttpToolsProtocol):
    """One HTTP connection."""

    limits = Limits()
    peers: ClassVar[Counter[str]]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._in_head = True
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._peer: str | None = None

    def admit(self, transport: asyncio.BaseTransport) -> bool:
        """Count the connection, and return whether its peer, and all of them, have no more than they may."""
        self._peer = network_of((transport.get_extra_info("peername") or ("",))[0])
        self.peers[self._peer] += 1
        in_all = self.limits.connections_in_all
        fits = in_all is None or self.peers.total() <= in_all
        return fits and self.peers[self._peer] <= self.limits.connections

    def release(self) -> None:
        """Take the connection out of the count."""
        if self._peer is not None:
            self.peers[self._peer] -= 1
            if not self.peers[self._peer]:
                del self.peers[self._peer]
            self._peer = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as it has it
        """Store the names of the client's certificate in the state of every request."""
        super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type]  # stands in for one
        connection = transport.get_extra_info("ssl_object")
        names = () if connection is None else peer_names(connection.getpeercert())
        self.app_state = {**self.app_state, PEER_NAMES: names}
        self._expect_head()
        # With TLS the connection was admitted before the handshake.
        if self._peer is None and not self.admit(transport):
            self._refuse(_TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer, and release the peer's place."""
        self._stop_timer()
        self.release()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what a peer sent; refuse what is not HTTP, and a head that is longer than the limits."""
        self._unset_keepalive_if_required()
        self._head_bytes += len(data)
        while data:
            data = self._parse(data)
        most = self.limits.headers + self.limits.url
        if self._in_head and self._head_bytes > most and not self.transport.is_closing():
            self._refuse(_TOO_LARGE)

    def _parse(self, data: bytes) -> bytes:
        """Parse data, and return the data that must be parsed next.

        At the head of a request that offers another protocol the parser stops and drops the body. Java's
        HttpClient offers h2c with every first request, and RFC 9110 lets a server ignore the offer. So the
        request is parsed again without the offer.
        """
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as offer:
            return self._head_without_offer() + data[offer.args[0] :] if self._should_upgrade() else b""
        except HttpParserError:
            self._refuse(_NO_HTTP)
        return b""

    def _should_upgrade(self) -> bool:
        """Return whether the parser's callbacks must ignore the head that was just parsed."""
        # A CONNECT stops the parser with and without an offer; it is answered as any other method.
        return bool(self.scope["method"] != "CONNECT")

    def _head_without_offer(self) -> bytes:
        start = b"%s %s HTTP/%s" % (
            self.scope["method"].encode(),
            self.url,
            self.scope["http_version"].encode(),
        )
        kept = [b": ".join(header) for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join([start, *kept, b"", b""])

    def _refuse(self, answer: bytes) -> None:
        self.transport.write(answer)
        self.transport.close()

    def on_message_begin(self) -> None:
        """Start the timeout of the request head, at its first byte."""
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        """Stop the timeout of the request head."""
        self._stop_timer()
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Expect the head of the next request from the next byte on."""
        self._stop_timer()
        super().on_message_complete()
        self._in_head, self._head_bytes = True, 0

    def on_response_complete(self) -> None:
        """Limit the time for the rest of a body whose request is already answered; it is discarded."""
        super().on_response_complete()
        if not self._in_head:
            self._close_in(self.limits.body_seconds)

    def _expect_head(self) -> None:
        self._close_in(self.limits.head_seconds)

    def _close_in(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class TlsProtocol(asyncio.Protocol):
    """A connection during its TLS handshake; its HTTP protocol takes over afterwards.

    A peer with too many connections is cut off before the handshake: it could not read an answer yet.
    """

    http: ClassVar[type[LimitedProtocol]]
    context: ClassVar[ssl.SSLContext]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._http = self.http(*arguments, **named)
        self._loop = self._http.loop
        self._handshake: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # a server's
        """Count the connection, and begin the handshake."""
        if not self._http.admit(transport):
            self._http.release()
            transport.abort()
            return
        # No byte of the handshake may be read before the TLS protocol is in place.
        transport.pause_reading()
        self._handshake = self._loop.create_task(self._shake_hands(transport), name="dutiful-tls")

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        early = _EarlyData()
        try:
            secure = await self._loop.start_tls(
                transport,
                early,
                self.context,
                server_side=True,
                ssl_handshake_timeout=self._http.limits.head_seconds,
            )
        except OSError:
            # Not TLS, no certificate, too slow, or gone: an answer would reach no client.
            secure = None
        except BaseException:
            self._http.release()
            raise
        if secure is None or early.is_lost:
            self._http.release()
            transport.abort()
            return
        secure.set_protocol(self._http)
        self._http.connection_made(secure)
        if early.data:
            self._http.data_received(bytes(early.data))
        if early.is_at_end:
            secure.close()


class _EarlyData(asyncio.Protocol):
    """Buffers the data that a client sends between the handshake and the HTTP protocol."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_at_end = self.is_lost = False

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> None:
        self.is_at_end = True

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.is_lost = True


class JoinedWrites:
    """A transport that joins the writes of one turn of the event loop into one.

    Head and body of an answer are two writes, and each write costs a system call.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._written: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send the data at the end of this turn of the event loop."""
        if not self._written:
            self._loop.call_soon(self._send)
        self._written.append(data)

    def close(self) -> None:
        """Close the connection after everything written is sent."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._written:
            data, self._written = b"".join(self._written), []
            self._transport.write(data)
