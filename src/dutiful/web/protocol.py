"""The HTTP protocol of the server: it knows the client's certificate, and does not wait for ever.

The server puts no certificate into the scope, and has no limit of its own for a head that drips in. Both
are added here, in the one place where a connection is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dutiful.web.auth import PEER_NAMES
from dutiful.web.limits import Limits
from dutiful.web.tls import peer_names

if TYPE_CHECKING:
    import asyncio

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class EdgeProtocol(HttpToolsProtocol):
    """One connection; give it to the server as `http`."""

    limits = Limits()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._in_head = True
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as it has it
        """Take the names of the client's certificate into the state of every request."""
        super().connection_made(transport)
        connection = transport.get_extra_info("ssl_object")
        names = () if connection is None else peer_names(connection.getpeercert())
        self.app_state = {**self.app_state, PEER_NAMES: names}
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Close a connection whose head is longer than is read."""
        self._head_bytes += len(data)
        super().data_received(data)
        most = self.limits.headers + self.limits.url
        if self._in_head and self._head_bytes > most and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        """Give the head its time, counted from its first byte."""
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._stop_timer()
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The next byte belongs to the next head."""
        self._stop_timer()
        super().on_message_complete()
        self._in_head, self._head_bytes = True, 0

    def on_response_complete(self) -> None:
        """Give what is still to come of an answered request its time; it is thrown away."""
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
