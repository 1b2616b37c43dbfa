"""The HTTP/1.1 protocol of the server: uvicorn's, with client certificates and limits per connection.

Uvicorn puts no client certificate into the ASGI scope, and has no timeout for a slow request head. Both are
added here, where a connection is known.
"""

from __future__ import annotations

import json
from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dutiful.httpd.auth import PEER_NAMES
from dutiful.httpd.errors import error_body
from dutiful.httpd.limits import Limits, network_of
from dutiful.httpd.middleware import SECURITY_HEADERS
from dutiful.httpd.tls import peer_names

if TYPE_CHECKING:
    import asyncio


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
    HTTPStatus.TOO_MANY_REQUESTS, "too_many_connections", "This address has too many open connections"
)


def protocol_for(limits: Limits) -> type[LimitedProtocol]:
    """Return the protocol class of one server; it counts the connections of that server."""
    return type("ServerProtocol", (LimitedProtocol,), {"limits": limits, "peers": Counter()})


class LimitedProtocol(HttpToolsProtocol):
    """One connection. Pass the class that `protocol_for` returns to uvicorn as `http`."""

    limits = Limits()
    peers: ClassVar[Counter[str]]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._in_head = True
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._peer = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as it has it
        """Store the names of the client's certificate in the state of every request."""
        super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type]  # stands in for one
        connection = transport.get_extra_info("ssl_object")
        names = () if connection is None else peer_names(connection.getpeercert())
        self.app_state = {**self.app_state, PEER_NAMES: names}
        self._expect_head()
        self._peer = network_of((transport.get_extra_info("peername") or ("",))[0])
        self.peers[self._peer] += 1
        if self.peers[self._peer] > self.limits.connections:
            self._refuse(_TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer, and release the peer's place."""
        self._stop_timer()
        self.peers[self._peer] -= 1
        if not self.peers[self._peer]:
            del self.peers[self._peer]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Refuse a connection whose request head is longer than the limits."""
        self._head_bytes += len(data)
        super().data_received(data)
        most = self.limits.headers + self.limits.url
        if self._in_head and self._head_bytes > most and not self.transport.is_closing():
            self._refuse(_TOO_LARGE)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP, without the parser's message, which would not help the peer."""
        del msg
        self._refuse(_NO_HTTP)

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
