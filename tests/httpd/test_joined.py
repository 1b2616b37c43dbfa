"""An answer is one packet, and all of it is sent before the connection is closed."""

from __future__ import annotations

import asyncio
import json
import socket

from tests.httpd.edge_server import edge_server

from dutiful.httpd.joined import JoinedWrites


def test_head_and_body_of_an_answer_arrive_together():
    with edge_server() as port, socket.create_connection(("127.0.0.1", port), timeout=20) as peer:
        peer.sendall(f"GET /x HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
        head, _, body = peer.recv(65536).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert json.loads(body)["path"] == "/x"


def test_what_was_written_before_the_close_is_sent():
    async def story(near, far):
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=near)
        joined = JoinedWrites(transport, loop)
        joined.write(b"head ")
        joined.write(b"body")
        joined.close()
        far.setblocking(False)
        return await loop.sock_recv(far, 100), joined.is_closing()

    near, far = socket.socketpair()
    with near, far:
        assert asyncio.run(story(near, far)) == (b"head body", True)
