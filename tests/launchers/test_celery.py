"""Runs handed to Celery over a real Valkey server."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from contextlib import asynccontextmanager

import redis
import trustme
from tests.launchers.metas import DAG, KEY, META, META_JSON, SETTINGS
from tests.ports import port_without_listener
from tests.servers import program
from tests.servers.proxy import proxy_to

from dutiful.core.plan.outcome import Accepted, Unanswered, Unreached
from dutiful.core.signature import signature
from dutiful.launchers.celery import CeleryExecutor
from dutiful.outbound.secret import Secret

TIMESTAMP = "1772332201"


@asynccontextmanager
async def launching(url: str, name: str, **settings):
    """Yield an executor with a queue of the test's own."""
    executor = CeleryExecutor(f"celery+{url}?task=app.run&queue={name}", SETTINGS._replace(**settings))
    try:
        yield executor
    finally:
        await executor.close()


def queued(url: str, name: str) -> list[dict]:
    """Return the messages of a queue, the oldest first."""
    with redis.Redis.from_url(url) as client:
        return [json.loads(message) for message in reversed(client.lrange(name, 0, -1))]


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def test_the_run_becomes_a_task_message_with_its_key_as_id(valkey_url, own_name):
    async def story():
        async with launching(valkey_url, own_name) as executor:
            return await executor.run(DAG, META)

    assert asyncio.run(story()) == Accepted(KEY)
    (message,) = queued(valkey_url, own_name)
    args, kwargs, _ = json.loads(base64.b64decode(message["body"]))
    assert (args, kwargs) == ([DAG, META_JSON], {})
    headers = message["headers"]
    assert (headers["id"], headers["task"]) == (KEY, "app.run")
    assert {name: headers[name] for name in headers if name.startswith("dutiful")} == {
        "dutiful_attempt": 2,
        "dutiful_epoch": 7,
    }


def test_with_a_secret_the_message_is_signed_as_over_http(valkey_url, own_name):
    async def story():
        async with launching(valkey_url, own_name, secret=Secret("s" * 32)) as executor:
            await executor.run(DAG, META)

    asyncio.run(story())
    (message,) = queued(valkey_url, own_name)
    body = json.dumps({"dag": DAG, "meta": META_JSON}).encode()
    headers = message["headers"]
    assert headers["dutiful_signature"] == signature("s" * 32, headers["dutiful_timestamp"], KEY, body)


def test_many_runs_at_once_go_over_one_connection_in_their_order(valkey_url, own_name):
    async def story():
        async with launching(valkey_url, own_name) as executor:
            runs = [executor.run(DAG, META._replace(idempotency_key=f"k{n}")) for n in range(100)]
            return await asyncio.gather(*runs)

    assert asyncio.run(story()) == [Accepted(f"k{n}") for n in range(100)]
    ids = [message["headers"]["id"] for message in queued(valkey_url, own_name)]
    assert ids == [f"k{n}" for n in range(100)]


def test_nothing_was_sent_where_nobody_listens(own_name):
    async def story(url):
        async with launching(url, own_name) as executor:
            return await executor.run(DAG, META), await executor.probe()

    with port_without_listener() as port:
        outcome, problem = asyncio.run(story(f"redis://127.0.0.1:{port}/0"))
    assert outcome == Unreached(problem)
    assert problem.startswith(f"no connection to redis://127.0.0.1:{port}/0: ")


def test_silence_after_the_message_leaves_the_outcome_open_and_nothing_is_sent_twice(valkey_url, own_name):
    async def story():
        with proxy_to(port_of(valkey_url)) as proxy:
            url = f"redis://127.0.0.1:{proxy.port}/0"
            async with launching(url, own_name, timeout=1.0) as executor:
                await executor.run(DAG, META._replace(idempotency_key="first"))
                proxy.drop_answers = True
                lost = await executor.run(DAG, META)
                proxy.drop_answers = False
                again = await executor.run(DAG, META._replace(attempt=3))
            return lost, again

    lost, again = asyncio.run(story())
    assert isinstance(lost, Unanswered)
    assert again == Accepted(KEY)
    headers = [message["headers"] for message in queued(valkey_url, own_name)]
    attempts = [(header["id"], header["dutiful_attempt"]) for header in headers]
    assert attempts == [("first", 2), (KEY, 2), (KEY, 3)]


def test_a_restarted_broker_is_found_again_with_everything_it_took(tmp_path, own_name):
    server = program.valkey(tmp_path)
    url = f"redis://127.0.0.1:{server.port}/0"

    async def story():
        async with launching(url, own_name) as executor:
            outcomes = [await executor.run(DAG, META)]
            server.kill()
            outcomes += [await executor.run(DAG, META._replace(idempotency_key=f"down{n}")) for n in range(2)]
            server.start()
            outcomes.append(await executor.run(DAG, META._replace(idempotency_key="after")))
        return outcomes, [message["headers"]["id"] for message in queued(url, own_name)]

    server.start()
    try:
        outcomes, ids = asyncio.run(story())
    finally:
        server.close()
    assert isinstance(outcomes[1], Unreached | Unanswered)
    assert isinstance(outcomes[2], Unreached)
    assert outcomes[::3] == [Accepted(KEY), Accepted("after")]
    assert ids == [KEY, "after"]


def test_credentials_are_used_and_never_shown(tmp_path, own_name):
    server = program.valkey(tmp_path, "--requirepass", "canary-right")

    async def story(password):
        async with launching(f"redis://:{password}@127.0.0.1:{server.port}/0", own_name) as executor:
            return await executor.run(DAG, META)

    server.start()
    try:
        assert asyncio.run(story("canary-right")) == Accepted(KEY)
        wrong = asyncio.run(story("canary-wrong"))
    finally:
        server.close()
    assert isinstance(wrong, Unreached)
    assert "canary" not in wrong.detail


def test_tls_is_spoken_and_the_certificate_checked(valkey_url, tmp_path, own_name):
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    stranger.cert_pem.write_to_path(tmp_path / "other.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    async def story(port, ca):
        query = f"task=app.run&queue={own_name}&ca={tmp_path / ca}"
        executor = CeleryExecutor(f"celery+rediss://127.0.0.1:{port}/0?{query}", SETTINGS)
        try:
            return await executor.run(DAG, META)
        finally:
            await executor.close()

    with proxy_to(port_of(valkey_url), context) as proxy:
        assert asyncio.run(story(proxy.port, "ca.pem")) == Accepted(KEY)
        refused = asyncio.run(story(proxy.port, "other.pem"))
    assert isinstance(refused, Unreached)
    assert "certificate verify failed" in refused.detail
