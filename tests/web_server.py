"""A real HTTP server on the loopback, for as long as a test needs one; it remembers what it was asked."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body) if self.body else None


class Reply(NamedTuple):
    status: int = 200
    content: Any = None
    headers: Mapping[str, str] = MappingProxyType({})

    def encoded(self) -> bytes:
        if isinstance(self.content, bytes):
            return self.content
        return b"" if self.content is None else json.dumps(self.content).encode()


@dataclass
class Web:
    url: str = ""
    port: int = 0
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def serving(answer: Callable[[Asked], Reply], tls: ssl.SSLContext | None = None) -> Iterator[Web]:
    """Serve with `answer` on a free port of 127.0.0.1."""
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, self.rfile.read(length))
            web.asked.append(asked)
            reply = answer(asked)
            body = reply.encoded()
            self.send_response(reply.status)
            for name, value in {**reply.headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the server looks for these names

        def handle(self) -> None:
            # A peer that goes away, or does not trust us, is part of the tests.
            with suppress(OSError):
                super().handle()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        web.port = server.server_address[1]
        web.url = f"http://127.0.0.1:{web.port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield web
        finally:
            server.shutdown()
            thread.join()
