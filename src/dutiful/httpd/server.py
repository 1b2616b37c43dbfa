"""The HTTP server: binds an address, reports its URL, and stops when `stop` is called."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import uvicorn

from dutiful.core.errors import DutifulError
from dutiful.httpd.limits import Limits
from dutiful.httpd.protocol import protocol_for
from dutiful.httpd.tls import server_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastapi import FastAPI

    from dutiful.httpd.tls import TlsFiles

logger = logging.getLogger("dutiful.web")

# Seconds that requests in progress may take after `stop`, and seconds between two checks for their end.
_GRACE_SECONDS = 5
_LOOK_SECONDS = 0.01
# The Date header of answers is renewed this often.
_DATE_SECONDS = 1
_BACKLOG = 128
# The message of asyncio about a connection for which no open file is left. asyncio accepts it again after a
# second.
_NO_FILE = "socket.accept() out of system resource"


class CannotListenError(DutifulError):
    """The address cannot be listened at."""

    def __init__(self, host: str, port: int, reason: str, advice: str) -> None:
        message = f"Cannot listen at {host} port {port}: {reason}; {advice}"
        super().__init__(message, host=host, port=port, reason=reason)


class HttpServer(uvicorn.Server):
    """The server of one app. `on_listening(url)` is called as soon as requests are answered."""

    def __init__(
        self,
        app: FastAPI,
        listener: socket.socket,
        tls: TlsFiles | None,
        on_listening: Callable[[str], None],
        limits: Limits = Limits(),  # noqa: B008 - a value, never changed
    ) -> None:
        self._listener, self._on_listening = listener, on_listening
        self._scheme = "http" if tls is None else "https"
        config = uvicorn.Config(
            app,
            http=protocol_for(limits, None if tls is None else server_context(tls)),
            # Neither websockets nor lifespan events are used.
            ws="none",
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            access_log=False,
            log_config=None,
            # asyncio accepts this many connections at once, and reports each of them for which no file is
            # left.
            backlog=_BACKLOG,
        )
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()
        self._tells_at = 0.0

    async def answer(self) -> None:
        """Answer requests until `stop` is called."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._tell)
        try:
            await self.serve(sockets=[self._listener])
        finally:
            self._loop = None

    def stop(self) -> None:
        """Take no more requests; `answer` returns after those in progress. May be called from any thread."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and call `on_listening` with the URL."""
        await super().startup(sockets)
        self._on_listening(url_of(self._scheme, self._listener))

    async def main_loop(self) -> None:
        """Wait for `stop`: the loop of uvicorn wakes ten times a second to look for it."""
        while not self.should_exit:
            await self.on_tick(0)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), _DATE_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close what is idle, and wait for requests in progress; then cancel them."""
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        state = self.server_state
        for connection in [*state.connections]:
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                # The sets of uvicorn have no event, so look at them now and then.
                while state.connections or state.tasks:
                    await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=_LOOK_SECONDS)
        for task in [*state.tasks]:
            task.cancel()

    def _tell(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log errors that belong to no task; at most once a second where open files have run out.

        asyncio reports that for each connection that waits, with a traceback.
        """
        if context.get("message") != _NO_FILE:
            loop.default_exception_handler(context)
        elif loop.time() >= self._tells_at:
            self._tells_at = loop.time() + 1
            logger.warning("connections wait: this process has as many open files as it may; see `ulimit -n`")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers: the command that runs the server has its own."""
        yield


def listen(host: str, port: int, advice: str = "set DUTIFUL_HOST or DUTIFUL_PORT") -> socket.socket:
    """Return a socket that is bound to the address; raises CannotListenError, which ends with the advice."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise CannotListenError(host, port, reason, advice) from error
    # Without this a small answer may wait for the acknowledgement of the one before (Nagle).
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_of(scheme: str, listener: socket.socket) -> str:
    """Return the URL under which the socket is reached."""
    host, port, *_ = listener.getsockname()
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
