"""How commands ask a service: over TLS, with a client certificate, and what they say when that fails."""

from __future__ import annotations

import ssl

import click
import pytest
import trustme
from tests.ports import port_without_listener
from tests.web_server import Reply, serving

from dutiful.cli.api import Refused, ask, path_of
from dutiful.runtime.clock import SystemClock


@pytest.fixture
def environ(monkeypatch):
    """Set variables for one test, and none of the machine's own."""
    for name in ("DUTIFUL_URL", "DUTIFUL_TOKEN", "DUTIFUL_CLIENT_CERT", "DUTIFUL_CLIENT_KEY"):
        monkeypatch.delenv(name, raising=False)
    return lambda **given: [monkeypatch.setenv(name, str(value)) for name, value in given.items()]


@pytest.fixture
def files(tmp_path):
    """Write an authority, and a server's and a client's certificate of it; return their folder."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    client = authority.issue_cert("ada.internal")
    client.private_key_and_cert_chain_pem.write_to_path(tmp_path / "client.pem")
    client.private_key_pem.write_to_path(tmp_path / "client.key")
    client.cert_chain_pems[0].write_to_path(tmp_path / "client.crt")
    return tmp_path


def demanding(files) -> ssl.SSLContext:
    """Return the context of a server that takes no client without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / "server.pem")
    context.load_verify_locations(files / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.mark.parametrize(
    "names",
    [
        {"DUTIFUL_CLIENT_CERT": "client.pem"},
        {"DUTIFUL_CLIENT_CERT": "client.crt", "DUTIFUL_CLIENT_KEY": "client.key"},
    ],
    ids=["one file", "two files"],
)
def test_a_client_certificate_and_own_authorities_are_used_on_the_loopback_too(environ, files, names):
    with serving(lambda _: Reply(200, {"ok": 1}), demanding(files)) as web:
        environ(DUTIFUL_URL=f"https://127.0.0.1:{web.port}", SSL_CERT_FILE=files / "ca.pem")
        environ(**{name: files / file for name, file in names.items()})
        assert ask("GET", "/schedules") == {"ok": 1}


def test_without_the_authority_the_service_is_not_trusted(environ, files):
    with serving(lambda _: Reply(), demanding(files)) as web:
        environ(DUTIFUL_URL=f"https://127.0.0.1:{web.port}", DUTIFUL_CLIENT_CERT=files / "client.pem")
        with pytest.raises(click.ClickException, match="the certificate of the server is not accepted"):
            ask("GET", "/schedules")
    assert web.asked == []


@pytest.mark.parametrize("name", ["absent.pem", "ca.pem"])
def test_a_client_certificate_that_cannot_be_read_is_named(environ, files, name):
    environ(DUTIFUL_URL="https://127.0.0.1:1", DUTIFUL_CLIENT_CERT=files / name)
    with pytest.raises(click.UsageError, match=f"DUTIFUL_CLIENT_CERT is '.*{name}'"):
        ask("GET", "/schedules")


def test_a_service_that_is_not_there_is_reported_with_what_to_do(environ):
    with port_without_listener() as port:
        environ(DUTIFUL_URL=f"http://127.0.0.1:{port}")
        with pytest.raises(click.ClickException) as caught:
            ask("GET", "/schedules")
    assert caught.value.message == (
        f"No service answers at http://127.0.0.1:{port} (no connection: Connection refused):"
        " start it with `dutiful serve`, or set DUTIFUL_URL"
    )


@pytest.mark.parametrize("url", ["nonsense", "ftp://x", "http://", "http://x:99999"])
def test_a_url_that_is_none_is_bad_usage(environ, url):
    environ(DUTIFUL_URL=url)
    with pytest.raises(click.UsageError, match=f"DUTIFUL_URL is '{url}': write http://HOST:PORT"):
        ask("GET", "/schedules")


def test_a_token_is_sent_without_the_line_end_of_its_file(environ):
    with serving(lambda _: Reply(200, {})) as web:
        environ(DUTIFUL_URL=web.url, DUTIFUL_TOKEN=" a.b.c\r\n")
        ask("GET", "/schedules")
        environ(DUTIFUL_TOKEN="\n")
        ask("GET", "/schedules")
        environ(DUTIFUL_TOKEN="a.b.c\nHost: x")
        with pytest.raises(click.UsageError, match="DUTIFUL_TOKEN has several lines"):
            ask("GET", "/schedules")
    assert [asked.headers.get("authorization") for asked in web.asked] == ["Bearer a.b.c", None]


def test_ids_and_queries_arrive_as_they_are(environ):
    with serving(lambda _: Reply(200, {})) as web:
        environ(DUTIFUL_URL=f"{web.url}/", DUTIFUL_TOKEN="t")
        ask("GET", path_of("..", "runs"), {"limit": 5, "paused": True, "label": "a=b&c", "none": None})
        ask("POST", path_of("a/b c"), body={"x": 1})
    first, second = web.asked
    assert first.path == "/schedules/../runs?limit=5&paused=true&label=a%3Db%26c"
    assert (second.path, second.content) == ("/schedules/a%2Fb%20c", {"x": 1})
    assert first.headers["authorization"] == "Bearer t"


def test_an_id_in_another_encoding_than_the_terminal_is_sent_as_its_bytes(environ):
    with serving(lambda _: Reply(200, {})) as web:
        environ(DUTIFUL_URL=web.url)
        ask("GET", path_of("caf\udce9"), {"user_id": "caf\udce9"})
    assert [asked.path for asked in web.asked] == ["/schedules/caf%E9?user_id=caf%E9"]


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (Reply(404, {"error": {"code": "unknown_x", "message": "No x"}}), Refused, "No x"),
        (Reply(503, {"error": {"code": "c", "message": "Later"}}), click.ClickException, "Later"),
        (Reply(200, b"<html>"), click.ClickException, "and not as dutiful does"),
        (
            Reply(502, b"<html>"),
            click.ClickException,
            "answers 502, and not as dutiful does: another program may listen there; set DUTIFUL_URL",
        ),
        (
            Reply(401, {"error": {"code": "c", "message": "Who?"}}),
            Refused,
            "this command sends DUTIFUL_TOKEN",
        ),
    ],
    ids=["refused", "failed", "no JSON", "a proxy", "unknown caller"],
)
def test_answers_that_are_no_success_are_reported(environ, reply, kind, said):
    with serving(lambda _: reply) as web:
        environ(DUTIFUL_URL=web.url)
        with pytest.raises(kind, match=said):
            ask("GET", "/schedules")


def busy(seconds):
    said = {"error": {"code": "too_many_requests", "message": f"Too many requests; try again in {seconds} s"}}
    return Reply(429, said, {"retry-after": str(seconds)})


@pytest.fixture
def waited(monkeypatch):
    """How long a command has slept each time, without the sleep."""
    lengths: list[float] = []

    async def sleep(_clock, seconds):
        lengths.append(seconds)

    monkeypatch.setattr(SystemClock, "sleep", sleep)
    return lengths


def test_a_command_with_too_many_requests_waits_as_long_as_the_service_says(environ, waited):
    replies = [busy(2), busy(1), Reply(200, {"ok": 1})]
    with serving(lambda _: replies.pop(0)) as web:
        environ(DUTIFUL_URL=web.url)
        assert ask("DELETE", "/schedules/a") == {"ok": 1}
    assert waited == [2, 1]


def test_a_command_gives_up_where_requests_are_too_many_for_a_minute(environ, waited):
    with serving(lambda _: busy(25)) as web:
        environ(DUTIFUL_URL=web.url)
        with pytest.raises(Refused, match="Too many requests; try again in 25 s"):
            ask("GET", "/schedules")
    assert waited == [25, 25]
