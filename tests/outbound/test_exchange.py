"""Requests that are really sent, to servers on the loopback."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import threading
from pathlib import Path

import aiohttp
import pytest
from tests import still_loop
from tests.ports import port_without_listener
from tests.still_loop import let_pass, run_still, silent_server
from tests.web_server import Reply, serving

from dutiful.outbound import Allowed, Answer, ForbiddenTargetError, NoAnswerError, Outbound
from dutiful.outbound.client import reason_of, tls_context

INSIDE = Allowed.parse(["127.0.0.1", "job.internal"])


async def at_home(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


def send(url, content=None, method="POST", **settings) -> Answer:
    settings = {"allowed": INSIDE, "resolver": at_home, **settings}
    return asyncio.run(Outbound(**settings).send(method, url, content))


def test_the_content_arrives_as_json_with_the_name_of_the_host():
    with serving(lambda _: Reply(200, {"ok": True})) as web:
        answer = send(f"http://job.internal:{web.port}/do?x=1", {"a": [1]}, headers={"X-Key": "k"})
    (asked,) = web.asked
    assert (asked.method, asked.path, asked.content) == ("POST", "/do?x=1", {"a": [1]})
    assert asked.headers["host"] == f"job.internal:{web.port}"
    assert asked.headers["x-key"] == "k"
    assert asked.headers["accept-encoding"] == "identity"
    assert (answer.status, answer.json(), answer.is_whole) == (200, {"ok": True}, True)


def test_without_leave_nothing_is_sent_to_the_loopback():
    with serving(lambda _: Reply()) as web, pytest.raises(ForbiddenTargetError):
        send(web.url, allowed=Allowed())
    assert web.asked == []


def test_the_name_is_resolved_once_so_that_it_cannot_change_its_mind():
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])

    async def fickle(_host, _port):
        return next(answers)

    with serving(lambda _: Reply(200, "here")) as web:
        assert send(f"http://job.internal:{web.port}/", resolver=fickle).json() == "here"
    assert next(answers) == ["169.254.169.254"]


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    with serving(lambda _: Reply(200, "proxied")) as proxy, serving(lambda _: Reply(200, "direct")) as web:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert send(web.url).json() == "direct"


def test_a_redirect_is_an_answer():
    away = Reply(302, headers={"Location": "http://169.254.169.254/"})
    with serving(lambda _: away) as web:
        answer = send(web.url)
    assert not answer.is_success
    assert answer.problem() == f"{web.url} answered 302; redirects are not followed"
    assert len(web.asked) == 1


def test_a_long_answer_is_cut():
    with serving(lambda _: Reply(200, b"[" + b"1," * 60_000)) as web:
        answer = send(web.url, answer_limit=1000)
    assert (len(answer.body), answer.is_whole, answer.json()) == (1000, False, None)


def test_an_endless_answer_is_not_read_to_its_end():
    with endless() as port:
        answer = send(f"http://127.0.0.1:{port}/", answer_limit=100_000)
    assert (len(answer.body), answer.is_whole) == (100_000, False)


def test_a_compressed_bomb_stays_compressed():
    bomb = gzip.compress(bytes(10_000_000))
    with serving(lambda _: Reply(200, bomb, {"Content-Encoding": "gzip"})) as web:
        answer = send(web.url)
    assert (answer.body, answer.json()) == (bomb, None)


def test_a_deeply_nested_answer_is_no_json():
    with serving(lambda _: Reply(200, b"[" * 60_000)) as web:
        assert send(web.url).json() is None


def given_up(server, scheme="http"):
    """Send to a server that lets time pass; return the error."""

    async def story():
        async with server as port:
            await Outbound(allowed=INSIDE, deadline=30).send("POST", f"{scheme}://127.0.0.1:{port}/")

    with pytest.raises(NoAnswerError) as caught:
        run_still(story())
    return caught.value


def test_a_server_that_says_nothing_is_given_up():
    error = given_up(silent_server(30))
    assert (error.details["reason"], error.sent) == ("30 s have passed", True)


def test_a_server_that_drips_is_given_up():
    assert given_up(still_loop.serving(drip)).details["reason"] == "30 s have passed"


def test_a_resolver_that_says_nothing_is_given_up():
    async def silent(_host, _port):
        await asyncio.Event().wait()

    with pytest.raises(NoAnswerError) as caught:
        send("http://job.internal/", resolver=silent, deadline=0.1)
    assert not caught.value.sent


def test_nothing_was_sent_while_the_handshake_is_not_over():
    error = given_up(silent_server(15), "https")
    assert (error.details["reason"], error.sent) == ("no connection within 15 s", False)


def test_a_server_that_hangs_up_may_have_been_reached():
    def accept_and_close():
        peer, _ = server.accept()
        peer.recv(65536)
        peer.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=accept_and_close)
        thread.start()
        with pytest.raises(NoAnswerError) as caught:
            send(f"http://127.0.0.1:{server.getsockname()[1]}/")
        thread.join()
    assert caught.value.sent


def test_bytes_are_sent_as_they_are_with_headers_that_may_be_shown():
    with serving(lambda asked: Reply(500, asked.headers["x-attempt"].encode())) as web:
        answer = send(web.url, b'{"a":  1}', plain_headers={"X-Attempt": "1"})
    (asked,) = web.asked
    assert (asked.body, asked.headers["content-type"]) == (b'{"a":  1}', "application/json")
    assert answer.problem() == f"{web.url} answered 500: 1"


def test_nothing_was_sent_where_no_server_listens():
    with port_without_listener() as port, pytest.raises(NoAnswerError) as caught:
        send(f"http://127.0.0.1:{port}/")
    assert not caught.value.sent


def test_a_name_without_address_is_no_answer():
    async def nothing(_host, _port):
        raise socket.gaierror(-2, "Name or service not known")

    for resolver in (nothing, lambda _host, _port: asyncio.sleep(0, [])):
        with pytest.raises(NoAnswerError, match="the host has no address") as caught:
            send("http://job.internal/", resolver=resolver)
        assert not caught.value.sent


def test_the_next_address_is_tried_if_the_first_cannot_be_connected_to():
    async def two(_host, _port):
        return ["127.0.0.9", "127.0.0.1"]

    with serving(lambda _: Reply(200, "second")) as web:
        opened = Allowed.parse(["127.0.0.0/8"])
        assert send(f"http://job.internal:{web.port}/", resolver=two, allowed=opened).json() == "second"


def test_the_host_resolves_by_the_system_if_nothing_else_is_given():
    with serving(lambda _: Reply(200, "system")) as web:
        url = f"http://localhost:{web.port}/"
        assert send(url, resolver=None, allowed=Allowed.parse(["localhost"])).json() == "system"


def test_what_was_sent_in_the_headers_is_not_in_the_problem():
    with serving(lambda asked: Reply(500, f"no: {asked.headers['authorization']}".encode())) as web:
        answer = send(web.url, headers={"Authorization": "Bearer canary-4711"})
    assert answer.problem() == f"{web.url} answered 500: no: ***"


def test_control_characters_of_an_answer_stay_there():
    with serving(lambda _: Reply(500, b"\x1b[31mred\nline\x00")) as web:
        assert send(web.url).problem() == f"{web.url} answered 500: [31mred line"


class _Talker:
    """A server that answers the first connection with a head and then with `piece` for ever."""

    def __init__(self, piece: bytes) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._piece, self._stopped = piece, threading.Event()
        self._thread = threading.Thread(target=self._talk)

    def __enter__(self) -> int:
        self._thread.start()
        return self._server.getsockname()[1]

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._server.close()

    def _talk(self) -> None:
        peer, _ = self._server.accept()
        with peer:
            peer.recv(65536)
            try:
                peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while not self._stopped.is_set():
                    peer.sendall(self._piece)
            except OSError:
                return


def endless() -> _Talker:
    return _Talker(b"x" * 65536)


async def drip(reader, writer):
    """Send a byte every second, for ever."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x")
        let_pass(1)
        await asyncio.sleep(0)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
NOT_HTTP = "the answer is not valid HTTP"
CUT = "the connection was closed in the middle of the answer"
HOSTILE = {
    "nothing": (b"", "the connection was closed before the answer"),
    "half a head": (b"HTTP/1.1 200 OK\r\nConte", "the connection was closed before the answer"),
    "another protocol": (b"SSH-2.0-OpenSSH_9.2\r\n", NOT_HTTP),
    "no number": (b"HTTP/1.1 abc OK\r\n\r\n", NOT_HTTP),
    "a long header": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", NOT_HTTP),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    "a short body": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", CUT),
    "a bad chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", None),
    "a short chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nab", CUT),
}


def sent_to_one_that_says(raw: bytes) -> Answer:
    async def say(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        await writer.drain()
        writer.close()

    async def story():
        async with still_loop.serving(say) as port:
            return await Outbound(allowed=INSIDE).send("POST", f"http://127.0.0.1:{port}/")

    return run_still(story())


@pytest.mark.parametrize(("raw", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_an_answer_that_is_no_http_is_reported_in_plain_words(raw, reason):
    with pytest.raises(NoAnswerError) as caught:
        sent_to_one_that_says(raw)
    assert caught.value.details["reason"] in ([reason] if reason else [NOT_HTTP, CUT])
    assert caught.value.sent


def test_notes_before_the_answer_are_not_the_answer():
    assert sent_to_one_that_says(b"HTTP/1.1 100 Continue\r\n\r\n" * 50 + OK).json() == {}


def test_a_server_that_wants_a_client_certificate_is_reported_in_plain_words():
    # The alert may be lost when the server closes at once, so it is not provoked here.
    alert = aiohttp.ClientOSError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert")
    assert reason_of(alert, 5) == "the server asks for a client certificate"


def test_all_requests_share_one_tls_context():
    assert tls_context() is tls_context()


# A certificate for the name `job.internal`, which vouches for itself, and its key.
CERTIFICATE = Path(__file__).with_name("job.internal.pem")


def test_the_certificate_must_be_for_the_name_though_the_address_is_connected_to(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    names = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    opened = Allowed.parse(["127.0.0.1"])
    with serving(lambda _: Reply(200, "safe"), context) as web:
        assert send(f"https://job.internal:{web.port}/", allowed=opened).json() == "safe"
        with pytest.raises(NoAnswerError, match="is not accepted: Hostname mismatch") as caught:
            send(f"https://other.internal:{web.port}/", allowed=opened)
    assert names == ["job.internal", "other.internal"]
    assert not caught.value.sent


def test_an_unknown_authority_is_not_trusted():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    with (
        serving(lambda _: Reply(), context) as web,
        pytest.raises(NoAnswerError, match="the certificate of the server is not accepted: self-signed"),
    ):
        send(f"https://job.internal:{web.port}/")
    assert web.asked == []
