"""A web service as executor, asked for real."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from tests.launchers.metas import DAG, KEY, META, META_JSON, SETTINGS
from tests.ports import port_without_listener
from tests.still_loop import run_still, silent_server
from tests.web_server import Reply, serving

from dutiful.core.delivery_signature import signature
from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.outcome import Accepted, Refused, Succeeded, Unanswered, Unreached
from dutiful.core.policy import Reason
from dutiful.launchers.executor import Mode
from dutiful.launchers.http import HttpExecutor
from dutiful.outbound import Allowed
from dutiful.outbound.secret import Secret

NOW = "1772332201"


async def running(url: str, **settings):
    executor = HttpExecutor(url, SETTINGS._replace(**settings))
    try:
        return await executor.run(DAG, META)
    finally:
        await executor.close()


def ran(url: str, **settings):
    return asyncio.run(running(url, **settings))


def into_silence(scheme: str, seconds: float):
    """Return the URL of a server that lets so many seconds pass, and the outcome after 30 s at most."""

    async def story():
        async with silent_server(seconds) as port:
            url = f"{scheme}://127.0.0.1:{port}"
            return url, await running(url, timeout=30.0)

    return run_still(story())


def answered(reply: Reply, **settings):
    with serving(lambda _: reply) as web:
        outcome = ran(web.url, **settings)
    assert len(web.asked) == 1
    return type(outcome)(
        *(text.replace(web.url, "URL") if isinstance(text, str) else text for text in outcome)
    )


def test_the_run_is_posted_whole():
    with serving(lambda _: Reply(202)) as web:
        assert ran(f"{web.url}/runs?tenant=a") == Accepted(None)
    (asked,) = web.asked
    assert (asked.method, asked.path) == ("POST", "/runs?tenant=a")
    assert asked.content == {"dag": DAG, "meta": META_JSON}
    wanted = {
        "idempotency-key": KEY,
        "dutiful-attempt": "2",
        "dutiful-epoch": "7",
        "dutiful-timestamp": NOW,
        "content-type": "application/json",
    }
    assert {name: asked.headers.get(name) for name in wanted} == wanted
    assert "dutiful-signature" not in asked.headers


def test_with_a_secret_timestamp_key_and_body_are_signed():
    with serving(lambda _: Reply(200)) as web:
        ran(web.url, secret=Secret("s" * 32))
    (asked,) = web.asked
    message = f"{NOW}.{KEY}.".encode() + asked.body
    wanted = "v1=" + hmac.new(b"s" * 32, message, hashlib.sha256).hexdigest()
    assert asked.headers["dutiful-signature"] == wanted == signature("s" * 32, NOW, KEY, asked.body)
    assert signature("s" * 32, NOW, KEY, asked.body + b" ") != wanted


LATER = [408, 425, 429, 500, 502, 503, 504, 599]
NEVER = [400, 401, 403, 404, 409, 410, 413, 422, 451]


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (Reply(200), Accepted(None)),
        (Reply(200, {"run_id": "r-1"}), Accepted("r-1")),
        (Reply(299, {"run_id": "r-1", "more": 1}), Accepted("r-1")),
        (Reply(200, {"run_id": 17}), Accepted(None)),
        (Reply(200, {"run_id": ""}), Accepted(None)),
        (Reply(200, {"run_id": "x" * 257}), Accepted(None)),
        (Reply(200, {"run_id": "a\nb"}), Accepted(None)),
        (Reply(200, ["r-1"]), Accepted(None)),
        (Reply(200, b"thanks"), Accepted(None)),
        (Reply(200, b"[" * 60_000), Accepted(None)),
        (Reply(204), Accepted(None)),
        *((Reply(status, b"later 2"), Unanswered(f"URL answered {status}: later 2")) for status in LATER),
        *(
            (Reply(status, b"no"), Refused(Reason.LAUNCH_REFUSED, f"URL answered {status}: no"))
            for status in NEVER
        ),
        (
            Reply(307, headers={"Location": "/other"}),
            Refused(Reason.LAUNCH_REFUSED, "URL answered 307; redirects are not followed"),
        ),
    ],
    ids=lambda value: str(value)[:48],
)
def test_the_status_is_the_outcome(reply, outcome):
    assert answered(reply) == outcome


def test_nothing_was_sent_where_no_server_listens():
    with port_without_listener() as port:
        url = f"http://127.0.0.1:{port}"
        outcome = ran(url)
    assert isinstance(outcome, Unreached)
    assert outcome.detail.startswith(f"no answer from {url}: ")


def test_nothing_was_sent_to_a_name_that_does_not_resolve():
    outcome = ran("http://no-such-host.invalid/", timeout=5.0)
    assert isinstance(outcome, Unreached)


def test_nothing_was_sent_when_the_handshake_stalls():
    url, outcome = into_silence("https", 15)
    assert outcome == Unreached(f"no answer from {url}: no connection within 15 s")


def test_nothing_was_sent_to_a_server_that_speaks_no_tls():
    with serving(lambda _: Reply()) as web:
        assert isinstance(ran(web.url.replace("http", "https")), Unreached)
    assert web.asked == []


def test_silence_after_the_request_leaves_the_outcome_open():
    url, outcome = into_silence("http", 30)
    assert outcome == Unanswered(f"no answer from {url}: 30 s have passed")


@contextmanager
def hanging_up(answer: bytes):
    """Read one request, answer so much, and close the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            peer, _ = server.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 20", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"SSH-2.0-x\r\n\r\n"]
)
def test_half_an_answer_leaves_the_outcome_open(answer):
    with hanging_up(answer) as url:
        assert isinstance(ran(url), Unanswered)


def test_the_loopback_is_open_only_if_the_url_itself_names_it():
    with serving(lambda _: Reply(200, {"run_id": "here"})) as web:
        assert ran(f"http://localhost:{web.port}/") == Accepted("here")
        assert ran(web.url) == Accepted("here")
    with pytest.raises(InvalidArgumentError, match=r"10\.0\.0\.1 is not a public address"):
        HttpExecutor("http://10.0.0.1/", SETTINGS)
    executor = HttpExecutor(f"http://127.0.0.1:{web.port}/", SETTINGS)
    opened = executor._outbound.allowed
    assert [str(network) for network in opened.networks] == ["127.0.0.1/32"]


def test_a_public_name_that_leads_inside_is_refused():
    async def inside(_host, _port):
        return ["127.0.0.1"]

    with serving(lambda _: Reply()) as web:
        allowed = Allowed(setting="DUTIFUL_EXECUTOR_ALLOW")
        executor = HttpExecutor("http://executor.example/", SETTINGS._replace(allowed=allowed))
        executor._outbound = executor._outbound._replace(resolver=inside)
        outcome = asyncio.run(executor.run(DAG, META))
    assert outcome == Refused(
        Reason.LAUNCH_REFUSED,
        "executor.example is refused: 127.0.0.1 is not a public address;"
        " list it under DUTIFUL_EXECUTOR_ALLOW if that is meant",
    )
    assert web.asked == []


def test_a_host_that_the_operator_allows_is_open():
    executor = HttpExecutor(
        "http://10.1.2.3:9000/", SETTINGS._replace(allowed=Allowed.parse(["10.1.0.0/16"]))
    )
    assert isinstance(executor, HttpExecutor)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:canary@127.0.0.1/",
        "http://169.254.169.254/?canary",
        "http://127.0.0.1/a b?canary",
        "http://0x7f000001/?canary",
        "http://127.1/?canary",
        "http://[::ffff:127.0.0.1]/?canary",
        "http://127.0.0.1:99999/?canary",
    ],
)
def test_urls_that_lead_astray_are_refused_at_once_without_their_secrets(url):
    with pytest.raises(InvalidArgumentError) as caught:
        HttpExecutor(url, SETTINGS)
    assert "canary" not in str(caught.value) + str(caught.value.details)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (Reply(200), Succeeded(None)),
        (Reply(204), Succeeded(None)),
        (Reply(200, b"sent 3 mails\n\x1b[0m"), Succeeded("sent 3 mails  [0m")),
        (Reply(200, {"run_id": "r-1"}), Succeeded('{"run_id": "r-1"}')),
        (Reply(503, b"no"), Unanswered("URL answered 503: no")),
        (Reply(400, b"no"), Refused(Reason.LAUNCH_REFUSED, "URL answered 400: no")),
    ],
    ids=lambda value: str(value)[:48],
)
def test_for_a_webhook_2xx_is_success(reply, outcome):
    assert answered(reply, mode=Mode.WEBHOOK) == outcome


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("asked", "milliseconds"),
    [
        ("7", 7000),
        ("0", 0),
        ("Sun, 01 Mar 2026 02:31:01 GMT", 60_000),
        ("Sun, 01 Mar 2026 02:00:00 GMT", 0),
        ("-5", 0),
        ("soon", 0),
        ("Sun, 01 Mar 2026 02:31:01 +99999999999999999999", 0),
        ("٣", 0),
        ("9" * 400, 999_999_999_999_000),
    ],
)
def test_an_executor_says_when_to_try_again(status, asked, milliseconds):
    with serving(lambda _: Reply(status, headers={"Retry-After": asked.encode().decode("latin-1")})) as web:
        assert ran(web.url).retry_after == milliseconds


def test_a_run_is_cancelled_by_one_signed_delete():
    async def story(url):
        executor = HttpExecutor(url, SETTINGS._replace(secret=Secret("s" * 32)))
        await executor.cancel(META, "r-1")
        await executor.cancel(META, None)
        await executor.close()

    with serving(lambda _: Reply(405)) as web:
        asyncio.run(story(f"{web.url}/runs"))
    first, second = web.asked
    assert (first.method, first.path, first.body) == ("DELETE", "/runs", b"")
    assert first.headers["idempotency-key"] == KEY
    assert first.headers["dutiful-signature"] == signature("s" * 32, NOW, KEY, b"")
    assert (first.headers["dutiful-run-id"], "dutiful-run-id" in second.headers) == ("r-1", False)


def test_cancelling_raises_nothing_where_no_server_listens():
    async def story(url):
        executor = HttpExecutor(url, SETTINGS)
        await executor.cancel(META, None)
        await executor.close()

    with port_without_listener() as port:
        asyncio.run(story(f"http://127.0.0.1:{port}/"))


@pytest.mark.parametrize("url", ["http://127.0.0.1/runs", "http://[::1]/runs"])
def test_a_url_of_a_schedule_does_not_open_the_loopback(url):
    with pytest.raises(InvalidArgumentError, match="is not a public address"):
        HttpExecutor(url, SETTINGS._replace(opens_loopback=False))


def test_a_name_of_a_schedule_that_leads_to_the_loopback_is_refused():
    outcome = ran("http://localhost:80/runs", opens_loopback=False)
    assert (type(outcome), "is not a public address" in outcome.detail) == (Refused, True)


FIRST_USE = """
import sys
from dutiful.launchers.executor import ExecutorSettings
from dutiful.launchers.http import HttpExecutor
from dutiful.testing import VirtualClock

before = "aiohttp" in sys.modules
HttpExecutor("http://127.0.0.1/", ExecutorSettings(VirtualClock("2026-03-01T00:00:00")))
print(before, "aiohttp" in sys.modules)
"""


def test_the_client_is_loaded_with_the_executor_and_not_in_the_first_launch():
    told = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True, check=True)
    assert told.stdout == "False True\n"
