"""The middleware in front of a real server: sizes, hosts, origins, rates, headers."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.httpd.middleware_server import LOOPBACK, middleware_server, parsed, request, talk, telling

from dutiful.httpd.auth import PEER_NAMES, Auth, Caller
from dutiful.httpd.limits import Limits, Rates
from dutiful.httpd.middleware import OPEN_PATHS, SECURITY_HEADERS, RequestMiddleware
from dutiful.httpd.reloading_file import ReloadingFile
from dutiful.testing import VirtualClock

LOCAL = ["local", ["admin", "read", "report", "trigger", "write"], "loopback"]


@pytest.fixture(scope="module")
def port():
    with middleware_server() as port:
        yield port


def error_of(answer) -> tuple[int, str]:
    status, _, content = answer
    return status, content["error"]["code"]


def test_on_the_loopback_without_auth_everybody_is_the_operator(port):
    status, headers, content = request(port, "POST", body=b"{}")
    assert (status, content) == (200, {"caller": LOCAL, "body": 2, "path": "/x"})
    for name, value in SECURITY_HEADERS:
        assert headers[name.decode()] == value.decode().lower()


@pytest.mark.parametrize(
    ("path", "most"),
    [("/schedules/upsert", 65_536), ("/workflows/report/3", 1_048_576), ("/schedules/bulk", 8_388_608)],
)
def test_a_body_may_be_so_long_and_no_longer(port, path, most):
    assert request(port, "POST", path, b"x" * most)[2]["body"] == most
    status, headers, content = request(port, "POST", path, b"x" * (most + 1))
    assert (status, headers["connection"]) == (413, "close")
    assert content["error"] == {
        "code": "body_too_large",
        "message": f"The body may have at most {most} bytes",
        "details": {"limit": most},
    }


def chunked(port: int, chunks: list[bytes]) -> bytes:
    head = f"POST /x HTTP/1.1\r\nHost: localhost:{port}\r\nTransfer-Encoding: chunked\r\n"
    head += "Connection: close\r\n\r\n"
    body = b"".join(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n" for chunk in chunks)
    return head.encode() + body


def test_a_body_that_hides_its_length_is_counted_as_it_comes(port):
    fits = chunked(port, [b"x" * 1024] * 64 + [b""])
    assert parsed(talk(port, fits))[2]["body"] == 65_536
    longer = chunked(port, [b"x" * 1024] * 64 + [b"y", b""])
    assert error_of(parsed(talk(port, longer))) == (413, "body_too_large")


def test_a_body_without_end_is_not_read_for_ever():
    with middleware_server(LOOPBACK._replace(limits=Limits(drain_seconds=0.2))) as port:
        endless = chunked(port, [b"x" * 1024] * 65)
        assert error_of(parsed(talk(port, endless))) == (413, "body_too_large")


def test_a_client_that_waits_for_100_continue_is_answered_at_once(port):
    sent = (
        f"POST /x HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 99999\r\nExpect: 100-continue\r\n\r\n"
    )
    received = talk(port, sent.encode())
    assert b"100 Continue" not in received
    assert error_of(parsed(received)) == (413, "body_too_large")


def test_a_body_that_drips_is_given_up():
    with middleware_server(LOOPBACK._replace(limits=Limits(body_seconds=0.2))) as port:
        sent = f"POST /x HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 9\r\n\r\nhalf".encode()
        status, headers, content = parsed(talk(port, sent))
    assert (status, headers["connection"]) == (408, "close")
    assert content["error"]["code"] == "body_too_slow"


def test_urls_and_headers_have_a_size(port):
    assert request(port, path="/" + "x" * 4000)[0] == 200
    assert error_of(request(port, path="/" + "x" * 4096)) == (414, "url_too_large")
    assert error_of(request(port, path="/?" + "x" * 4096)) == (414, "url_too_large")
    assert request(port, headers={"X-Long": "x" * 15_000})[0] == 200
    assert error_of(request(port, headers={"X-Long": "x" * 16_384})) == (431, "headers_too_large")
    many = {f"X-{number}": "" for number in range(3000)}
    assert error_of(request(port, headers=many)) == (431, "headers_too_large")


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "LOCALHOST:8787", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8787", "127.8.9.1",
    ],
)  # fmt: skip
def test_the_names_of_the_loopback_are_answered(port, host):
    assert request(port, headers={"Host": host})[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8787", "localhost.evil.example", "127.0.0.1.evil.example", "*", "",
        "localhost@evil.example", "evil.example@localhost", "localhost,evil.example", "localhost evil",
        "10.0.0.1", "192.168.1.1:8787", "0.0.0.0", "169.254.169.254", "[::]", "[fe80::1]", "::1", "127.1",
        "2130706433", "0x7f.0.0.1", "127.0.0.1.nip.io", "localhost:80:80", "http://localhost/",
        "l\xf6calhost", "localhost.",
    ],
)  # fmt: skip
def test_a_name_that_is_made_to_lead_here_is_not(port, host):
    assert error_of(request(port, headers={"Host": host})) == (421, "foreign_host")


def test_two_hosts_are_none(port):
    sent = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert error_of(parsed(talk(port, sent))) == (421, "foreign_host")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example", "http://localhost", "http://localhost:3000", "null", "", "file://",
        "http://localhost:{port}.evil.example", "http://127.0.0.1:{port}", "localhost:{port}",
    ],
)  # fmt: skip
def test_a_page_of_another_origin_is_not_answered(port, method, origin):
    answer = request(port, method, headers={"Origin": origin.format(port=port)})
    assert error_of(answer) == (403, "foreign_origin")


def test_our_own_page_is_answered(port):
    assert request(port, "POST", headers={"Origin": f"http://localhost:{port}"})[0] == 200


def test_a_service_at_another_host_name_answers_under_it():
    with middleware_server(LOOPBACK._replace(host="Scheduler.internal")) as port:
        assert request(port, headers={"Host": "scheduler.internal:80"})[0] == 200
        assert request(port, headers={"Host": "other.internal"})[0] == 421


def test_everybody_is_limited_by_address_and_by_name():
    clock = VirtualClock("2026-03-01T00:00:00")
    ada = Caller("ada", frozenset({"read"}), "certificate")
    clients = ReloadingFile((), lambda: {"DNS:ada": ada})
    with middleware_server(LOOPBACK._replace(auth=Auth(clients=clients), rates=Rates(1, 3, clock))) as port:
        codes = [request(port, path="/x")[0] for _ in range(3)]
        status, headers, content = request(port, path="/x")
    assert codes == [401, 401, 401]
    assert (status, headers["retry-after"], content["error"]["code"]) == (429, "1", "too_many_requests")


def test_a_caller_at_many_addresses_is_still_one():
    ada = Caller("ada", frozenset({"read"}), "certificate")
    rates = Rates(1, 3, VirtualClock("2026-03-01T00:00:00"))
    settings = LOOPBACK._replace(auth=Auth(clients=ReloadingFile((), lambda: {"DNS:ada": ada})), rates=rates)
    statuses = []

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        statuses.append(message.get("status"))

    for number in range(4):
        state = {PEER_NAMES: ("DNS:ada",)}
        scope = {"type": "http", "method": "GET", "path": "/x", "headers": [], "state": state}
        asyncio.run(
            RequestMiddleware(telling, settings)({**scope, "client": (f"192.0.2.{number}", 1)}, receive, send)
        )
    assert [status for status in statuses if status] == [200, 200, 200, 429]


@pytest.mark.parametrize("path", sorted(OPEN_PATHS))
def test_probes_are_answered_after_a_burst_too(path):
    rates = Rates(1, 3, VirtualClock("2026-03-01T00:00:00"))
    with middleware_server(LOOPBACK._replace(rates=rates)) as port:
        assert [request(port)[0] for _ in range(5)] == [200, 200, 200, 429, 429]
        assert [request(port, path=path)[0] for _ in range(5)] == [200] * 5
        assert request(port)[0] == 429


def test_head_is_answered_as_get_without_the_body():
    with middleware_server() as port:
        get, head = request(port), request(port, "HEAD")
    # The length is that of the body of the GET.
    assert (head[0], head[2], head[1]["content-length"]) == (200, None, get[1]["content-length"])


def test_probes_need_no_credentials():
    clients = ReloadingFile((), dict)
    with middleware_server(LOOPBACK._replace(auth=Auth(clients=clients))) as port:
        assert request(port, path="/healthz")[2]["caller"] == ["", [], "nobody"]
        status, headers, content = request(port, path="/healthz/../x")
    assert (status, headers["www-authenticate"]) == (401, "bearer")
    assert content["error"] == {
        "code": "token_missing",
        "message": "Say who you are: connect with a client certificate",
        "details": {},
    }


def test_nothing_is_read_of_a_caller_who_is_not_known():
    clients = ReloadingFile((), dict)
    with middleware_server(LOOPBACK._replace(auth=Auth(clients=clients))) as port:
        sent = (
            b"POST /schedules/bulk HTTP/1.1\r\nHost: x\r\nContent-Length: 80000\r\nConnection: close\r\n\r\n"
        )
        assert error_of(parsed(talk(port, sent))) == (401, "token_missing")


def test_a_refused_request_is_logged_without_its_headers_and_query(caplog):
    with middleware_server(LOOPBACK._replace(auth=Auth(clients=ReloadingFile((), dict)))) as port:
        request(port, path="/x%0ay?token=canary", headers={"Authorization": "Bearer canary"}, body=b"canary")
    (message,) = [record.getMessage() for record in caplog.records if record.name == "dutiful.web"]
    assert message == r"refused GET /x\ny from 127.0.0.1: token_missing"


def test_only_http_goes_through():
    sent, passed = [], []

    async def app(scope, _receive, _send):
        passed.append(scope["type"])

    async def send(message):
        sent.append(message)

    async def receive():
        return {}

    middleware = RequestMiddleware(app, LOOPBACK)
    asyncio.run(middleware({"type": "lifespan"}, receive, send))
    asyncio.run(middleware({"type": "websocket", "headers": []}, receive, send))
    assert (passed, sent) == (["lifespan"], [{"type": "websocket.close", "code": 1008}])


def test_a_peer_that_leaves_is_not_passed_on():
    async def app(*_):
        raise AssertionError

    async def gone():
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "POST", "path": "/x", "headers": [(b"host", b"localhost")]}
    sent = []
    asyncio.run(RequestMiddleware(app, LOOPBACK)(scope, gone, sent.append))
    assert sent == []


def sent_by(app) -> tuple[list, BaseException | None]:
    """Return what the middleware sends for a request that the app answers in its own way."""
    sent, error = [], None

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/x", "headers": [(b"host", b"localhost")]}
    try:
        asyncio.run(RequestMiddleware(app, LOOPBACK)(scope, receive, send))
    except ZeroDivisionError as raised:
        error = raised
    return sent, error


async def broken(_scope, _receive, _send):
    raise ZeroDivisionError("secret/path.py")


async def broken_half_way(_scope, _receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise ZeroDivisionError("secret/path.py")


def test_a_bug_has_the_shape_and_the_headers_of_every_error():
    [start, body], error = sent_by(broken)
    message = "This should not have happened; the log of the service says more"
    assert (start["status"], error) == (500, None)
    assert json.loads(body["body"]) == {
        "error": {"code": "internal_error", "message": message, "details": {}}
    }
    assert {*SECURITY_HEADERS, (b"cache-control", b"no-store")} <= {*start["headers"]}


def test_a_bug_in_the_middle_of_an_answer_cuts_it_off():
    [start], error = sent_by(broken_half_way)
    assert (start["status"], str(error)) == (200, "secret/path.py")
