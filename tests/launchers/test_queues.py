"""What every queue promises of a hand-off, on real servers: NATS, Valkey streams, Celery on Valkey."""

from __future__ import annotations

import asyncio
import gc
import json
import warnings

import pytest
from tests.launchers.metas import DAG, KEY, META, META_JSON
from tests.launchers.queues import QUEUES, Files, launching, port_of
from tests.ports import port_without_listener
from tests.servers.proxy import proxy_to

from dutiful.core.delivery_signature import signature
from dutiful.core.plan.outcome import Accepted, Unanswered, Unreached
from dutiful.outbound.secret import Secret

SECRET, TIMESTAMP = "s" * 32, "1772332201"


@pytest.fixture(params=QUEUES)
def queue(request):
    return QUEUES[request.param]


@pytest.fixture
def port(request, queue):
    """The port of the shared server of this kind."""
    return port_of(request.getfixturevalue(queue.fixture))


@pytest.fixture
def _sockets_of_refused_logins():
    """Collect the sockets of refused logins here, without their warnings.

    The client of Redis forgets a connection whose login was refused before its TLS session has ended, so
    nothing can wait for the end. It comes in a loop that goes on, but not in one that is closed at once.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


async def handed_over(url: str, *keys: str, **settings):
    async with launching(url, **settings) as executor:
        return [await executor.run(DAG, META._replace(idempotency_key=key)) for key in keys]


def test_a_run_is_signed_over_timestamp_key_and_body(queue, port, own_name):
    asyncio.run(handed_over(queue.url(port, own_name), KEY, secret=Secret(SECRET)))
    (kept,) = queue.kept(port, own_name)
    body = json.dumps({"dag": DAG, "meta": META_JSON}).encode()
    assert kept == (KEY, 2, TIMESTAMP, signature(SECRET, TIMESTAMP, KEY, body))


def test_many_runs_at_once_are_all_kept_once_over_few_connections(queue, port, own_name):
    keys = [f"k{n}" for n in range(100)]

    async def story():
        with proxy_to(port) as proxy:
            async with launching(queue.url(proxy.port, own_name)) as executor:
                runs = [executor.run(DAG, META._replace(idempotency_key=key)) for key in keys]
                return await asyncio.gather(*runs), proxy.connections

    outcomes, connections = asyncio.run(story())
    assert {type(outcome) for outcome in outcomes} == {Accepted}
    assert len({outcome.run_id for outcome in outcomes}) == 100
    assert sorted(kept.key for kept in queue.kept(port, own_name)) == sorted(keys)
    assert connections <= 16


def test_nothing_was_sent_where_no_server_listens(queue, own_name):
    async def story(url):
        async with launching(url) as executor:
            return await executor.run(DAG, META), await executor.probe()

    with port_without_listener() as port:
        outcome, problem = asyncio.run(story(queue.url(port, own_name)))
    assert outcome == Unreached(problem)
    assert problem.startswith(f"no connection to {queue.shown(port)}: ")


def test_a_server_that_answers_has_nothing_wrong(queue, port, own_name):
    async def story():
        async with launching(queue.url(port, own_name)) as executor:
            return await executor.probe()

    assert asyncio.run(story()) is None


def test_silence_after_the_message_leaves_the_outcome_open_and_nothing_is_sent_twice(queue, port, own_name):
    async def story():
        with proxy_to(port) as proxy:
            async with launching(queue.url(proxy.port, own_name), timeout=3.0) as executor:
                await executor.run(DAG, META._replace(idempotency_key="first"))
                proxy.drop_answers = True
                lost = await executor.run(DAG, META)
                proxy.drop_answers = False
                return lost, await executor.run(DAG, META._replace(attempt=3)), queue.shown(proxy.port)

    lost, again, shown = asyncio.run(story())
    assert isinstance(lost, Unanswered)
    assert f" from {shown}: " in lost.detail or f"{shown} did not take" in lost.detail
    assert isinstance(again, Accepted)
    # The message had arrived. A relaunch is a message of its own, unless the server knows the key.
    relaunched = [] if queue.drops_duplicates else [(KEY, 3)]
    kept = [(each.key, each.attempt) for each in queue.kept(port, own_name)]
    assert kept == [("first", 2), (KEY, 2), *relaunched]


def test_a_lost_connection_ends_the_wait_at_once(queue, port, own_name):
    async def story():
        with proxy_to(port) as proxy:
            async with launching(queue.url(proxy.port, own_name), timeout=60.0) as executor:
                await executor.run(DAG, META._replace(idempotency_key="first"))
                proxy.drop_answers = True
                publishing = asyncio.create_task(executor.run(DAG, META))
                await asyncio.to_thread(proxy.wait_for_request, KEY.encode())
                proxy.cut()
                async with asyncio.timeout(20):
                    return await publishing

    assert isinstance(asyncio.run(story()), Unanswered)


def test_a_restarted_server_is_found_again_with_everything_it_confirmed(queue, tmp_path, own_name):
    server = queue.server(tmp_path)

    async def story():
        async with launching(queue.url(server.port, own_name)) as executor:
            outcomes = [await executor.run(DAG, META)]
            server.kill()
            outcomes += [await executor.run(DAG, META._replace(idempotency_key=f"down{n}")) for n in range(2)]
            server.start()
            return [*outcomes, await executor.run(DAG, META._replace(idempotency_key="after"))]

    server.start()
    try:
        outcomes = asyncio.run(story())
        kept = [each.key for each in queue.kept(server.port, own_name)]
    finally:
        server.close()
    assert isinstance(outcomes[1], Unreached | Unanswered)
    assert isinstance(outcomes[2], Unreached)
    assert [type(outcome) for outcome in outcomes[::3]] == [Accepted, Accepted]
    assert kept == [KEY, "after"]


def test_a_password_is_used_and_never_shown(queue, tmp_path, own_name):
    server = queue.server(tmp_path, "canary-right")
    server.start()
    try:
        tried = [
            asyncio.run(handed_over(queue.url(server.port, own_name, f"{queue.user}:{password}@"), KEY))
            for password in ("canary-right", "canary-wrong")
        ]
    finally:
        server.close()
    (right,), (wrong,) = tried
    assert isinstance(right, Accepted)
    assert isinstance(wrong, Unreached)
    assert "canary" not in wrong.detail


def test_a_refused_login_leaves_no_connection_open(queue, tmp_path, own_name):
    server = queue.server(tmp_path, "canary-right")

    async def story():
        with proxy_to(server.port) as proxy:
            url = queue.url(proxy.port, own_name, f"{queue.user}:canary-wrong@")
            async with launching(url) as executor:
                refused = await executor.run(DAG, META), await executor.probe()
                async with asyncio.timeout(30):
                    while proxy._writers:  # noqa: ASYNC110 - the proxy runs on another loop
                        await asyncio.sleep(0.01)
                return refused, proxy.connections

    server.start()
    try:
        (outcome, problem), connections = asyncio.run(story())
    finally:
        server.close()
    assert outcome == Unreached(problem)
    assert connections >= 2


@pytest.mark.usefixtures("_sockets_of_refused_logins")
def test_tls_with_a_password_and_a_client_certificate_is_spoken_and_everything_checked(
    queue, tmp_path, own_name
):
    files = Files.made_in(tmp_path)
    client = f"&cert={files.client[0]}&key={files.client[1]}"

    def tried(port: int, ca, certificate: str, password: str = "canary-right"):
        credentials = f"{queue.user}:{password}@"
        url = queue.url(port, own_name, credentials, tls=True, query=f"&ca={ca}{certificate}")
        return asyncio.run(handed_over(url, KEY, timeout=5.0))[0]

    with queue.tls_server(tmp_path, files, "canary-right") as port:
        accepted = tried(port, files.authority, client)
        stranger = tried(port, files.stranger, client)
        anonymous = tried(port, files.authority, "")
        intruder = tried(port, files.authority, client, "canary-wrong")
    assert isinstance(accepted, Accepted)
    assert [type(each) for each in (stranger, anonymous, intruder)] == [Unreached] * 3
    assert "certificate verify failed" in stranger.detail
    assert "canary" not in stranger.detail + anonymous.detail + intruder.detail
