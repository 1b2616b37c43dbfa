"""Limits of connections on a real server: slow heads, too many peers, bytes that are not HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import select
import socket

from tests.httpd.middleware_server import answered_late, middleware_server, parsed, request, talk

from dutiful.httpd.auth import Auth
from dutiful.httpd.limits import Limits
from dutiful.httpd.middleware import SECURITY_HEADERS, MiddlewareSettings
from dutiful.httpd.protocol import JoinedWrites
from dutiful.httpd.reloading_file import ReloadingFile

QUICK = Limits(head_seconds=0.5)


def test_a_connection_without_a_request_is_closed():
    with middleware_server(limits=QUICK) as port:
        assert talk(port, b"") == b""


def test_a_head_that_drips_is_given_up():
    assert answered_late(QUICK, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ") == b""


def test_a_second_request_that_drips_is_given_up_too():
    first = b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"
    received = answered_late(QUICK, first + b"GET /y HTTP/1.1\r\nHost: ")
    assert received.count(b"HTTP/1.1 200 OK") == 1


def test_a_header_without_end_is_not_kept():
    with middleware_server() as port, socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 30_000)
        received = b""
        while chunk := peer.recv(65536):
            received += chunk
    assert told(received) == (431, "headers_too_large")


def told(received: bytes) -> tuple[int, str]:
    """Return the status and the code of an error that has the shape and the headers of all others."""
    status, headers, content = parsed(received)
    assert {*content["error"]} == {"code", "message", "details"}
    for name, value in SECURITY_HEADERS:
        assert headers[name.decode()] == value.decode().lower()
    return status, content["error"]["code"]


def test_bytes_that_are_not_http_are_refused_in_the_shape_of_all_errors():
    with middleware_server() as port:
        assert told(talk(port, b"SSH-2.0-x\r\n\r\n")) == (400, "invalid_http")


def test_an_address_has_only_so_many_connections():
    with middleware_server(limits=Limits(connections=2)) as port:
        open_ones = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(2)]
        assert told(talk(port, b"")) == (429, "too_many_connections")
        for peer in open_ones:
            peer.sendall(b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert peer.recv(65536).startswith(b"HTTP/1.1 200 OK")
            while peer.recv(65536):
                pass
            peer.close()
        assert request(port)[0] == 200


def test_all_addresses_together_have_only_so_many_connections():
    with middleware_server(limits=Limits(connections_in_all=2)) as port:
        with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
            assert told(talk(port, b"")) == (429, "too_many_connections")
        assert request(port)[0] == 200


def test_what_one_server_has_open_does_not_count_for_another():
    few = Limits(connections=1)
    with middleware_server(limits=few) as one, middleware_server(limits=few) as other:
        peer = socket.create_connection(("127.0.0.1", one), timeout=60)
        assert request(other)[0] == 200
        peer.close()


def test_a_large_body_is_no_large_head():
    with middleware_server() as port:
        assert request(port, "POST", body=b"x" * 60_000)[2]["body"] == 60_000


def test_many_requests_on_one_connection_are_counted_apart():
    with middleware_server() as port:
        one = f"GET /x HTTP/1.1\r\nHost: localhost:{port}\r\nX-Long: {'x' * 9000}\r\n"
        received = talk(port, (f"{one}\r\n" * 5 + f"{one}Connection: close\r\n\r\n").encode())
    assert received.count(b"HTTP/1.1 200 OK") == 6


def test_a_request_that_offers_another_protocol_keeps_its_body():
    offer = (
        b"Host: localhost\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMA\r\n"
    )
    sized = b"POST /x HTTP/1.1\r\n" + offer + b"Content-Length: 9\r\n\r\nnine char"
    chunked = b"POST /x HTTP/1.1\r\n" + offer + b"Transfer-Encoding: chunked\r\n\r\n5\r\nchunk\r\n0\r\n\r\n"
    last = b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with middleware_server() as port:
        received = talk(port, sized + chunked + last)
        assert re.findall(rb'"body": (\d+)', received) == [b"9", b"5", b"0"]
        with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
            for part in (sized[:30], sized[30:-6], sized[-6:-3], sized[-3:]):
                peer.sendall(part)
            assert b'"body": 9' in peer.recv(65536)


def test_any_number_of_offers_may_come_at_once():
    one = b"GET /x HTTP/1.1\r\nHost: localhost\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"
    connect = b"CONNECT /x HTTP/1.1\r\nHost: localhost\r\nUpgrade: x\r\nConnection: close, Upgrade\r\n\r\n"
    with middleware_server() as port:
        assert talk(port, one * 1200 + connect).count(b"HTTP/1.1 200 OK") == 1201


def test_a_body_that_drips_in_after_its_answer_is_not_read_for_ever():
    refusing = MiddlewareSettings(
        "127.0.0.1", Auth(clients=ReloadingFile((), dict)), Limits(body_seconds=0.3)
    )
    with (
        middleware_server(refusing) as port,
        socket.create_connection(("127.0.0.1", port), timeout=60) as peer,
    ):
        peer.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n")
        assert peer.recv(65536).startswith(b"HTTP/1.1 401 ")
        assert drips_until_closed(peer, 1200)


def drips_until_closed(peer: socket.socket, times: int) -> bool:
    """Send a byte every now and then; return whether the server closes the connection meanwhile."""
    for _ in range(times):
        readable, _, _ = select.select([peer], [], [], 0.05)
        try:
            if readable:
                return peer.recv(65536) == b""
            peer.sendall(b"x")
        except (ConnectionResetError, BrokenPipeError):
            # The byte and the end of the connection have crossed.
            return True
    return False


def test_head_and_body_of_an_answer_arrive_together():
    with middleware_server() as port, socket.create_connection(("127.0.0.1", port), timeout=20) as peer:
        peer.sendall(f"GET /x HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
        head, _, body = peer.recv(65536).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert json.loads(body)["path"] == "/x"


def test_data_written_before_the_close_is_sent():
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
