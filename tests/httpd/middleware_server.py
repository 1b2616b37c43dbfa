"""A real server with the middleware in front of an app that tells what it was given."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from dutiful.httpd.middleware import MiddlewareSettings, RequestMiddleware
from dutiful.httpd.protocol import protocol_for
from dutiful.httpd.tls import TlsFiles, server_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from dutiful.httpd.limits import Limits

LOOPBACK = MiddlewareSettings("127.0.0.1")


async def telling(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the caller, and the length of the body."""
    message = await receive()
    caller = scope["state"]["caller"]
    told = {
        "caller": [caller.user_id, sorted(caller.scopes), caller.how],
        "body": len(message["body"]),
        "path": scope["path"],
    }
    body = json.dumps(told).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def middleware_server(
    settings: MiddlewareSettings = LOOPBACK, tls: TlsFiles | None = None, limits: Limits | None = None
) -> Iterator[int]:
    """Serve on a free port of 127.0.0.1, and yield it."""
    with socket.create_server(("127.0.0.1", 0)) as listening, _serving(listening, settings, tls, limits):
        yield listening.getsockname()[1]


def answered_late(limits: Limits, sent: bytes) -> bytes:
    """Return all that a server sends that begins to serve when it has been sent these bytes.

    However busy the machine is, the time between connecting and sending is not taken from its limits.
    """
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname(), timeout=60) as peer,
    ):
        peer.sendall(sent)
        with _serving(listening, LOOPBACK, None, limits):
            return _all_from(peer)


@contextmanager
def _serving(
    listening: socket.socket, settings: MiddlewareSettings, tls: TlsFiles | None, limits: Limits | None
) -> Iterator[None]:
    config = uvicorn.Config(
        RequestMiddleware(telling, settings),
        http=protocol_for(limits or settings.limits, None if tls is None else server_context(tls)),
        # As the service has it: the handshakes are those of asyncio.
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def talk(port: int, sent: bytes, context: ssl.SSLContext | None = None, name: str = "localhost") -> bytes:
    """Send these bytes, and return all that comes back until the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
        peer = plain if context is None else context.wrap_socket(plain, server_hostname=name)
        with peer:
            peer.sendall(sent)
            return _all_from(peer)


def _all_from(peer: socket.socket) -> bytes:
    received = b""
    while chunk := peer.recv(65536):
        received += chunk
    return received


def parsed(raw: bytes) -> tuple[int, dict[str, str], Any]:
    """Return status, headers and JSON of an answer; raises ConnectionResetError if there is none."""
    if not raw:
        raise ConnectionResetError("closed without an answer")
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, json.loads(body) if body else None


def request(port: int, method: str = "GET", path: str = "/x", body: bytes = b"", **options: Any) -> Any:
    """Send one request and return status, headers and JSON; `headers` may replace the Host."""
    given = {"Host": f"localhost:{port}", **options.pop("headers", {})}
    lines = [
        f"{method} {path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in given.items() if value is not None),
    ]
    lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return parsed(talk(port, "\r\n".join(lines).encode("latin-1") + body, **options))
