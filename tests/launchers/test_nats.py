"""Runs handed to a real NATS server."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import nats
import pytest
import trustme
from nats.js.api import StreamConfig
from tests.launchers.metas import DAG, KEY, META, META_JSON, SETTINGS
from tests.ports import port_without_listener
from tests.servers import program
from tests.servers.proxy import proxy_to

from dutiful.core.plan.outcome import Accepted, Refused, Unanswered, Unreached
from dutiful.core.policy import Reason
from dutiful.core.signature import signature
from dutiful.launchers.nats import NatsExecutor
from dutiful.outbound.secret import Secret

TIMESTAMP = "1772332201"


@asynccontextmanager
async def launching(url: str, name: str, **settings):
    """Yield an executor with a stream and a subject of the test's own."""
    executor = NatsExecutor(f"{url}?stream={name}&subject={name}.runs", SETTINGS._replace(**settings))
    try:
        yield executor
    finally:
        await executor.close()


async def stored(url: str, name: str) -> list:
    """Return the messages of a stream."""
    client = await nats.connect(url)
    try:
        jetstream = client.jetstream()
        count = (await jetstream.stream_info(name)).state.messages
        return [await jetstream.get_msg(name, seq) for seq in range(1, count + 1)]
    finally:
        await client.close()


def test_the_run_is_stored_whole_under_its_workflow(nats_url, own_name):
    async def story():
        async with launching(nats_url, own_name) as executor:
            outcome = await executor.run(DAG, META)
        return outcome, await stored(nats_url, own_name)

    outcome, (message,) = asyncio.run(story())
    assert outcome == Accepted(f"{own_name}:1")
    assert message.subject == f"{own_name}.runs.report"
    assert json.loads(message.data) == {"dag": DAG, "meta": META_JSON}
    assert message.headers == {
        "Nats-Msg-Id": KEY,
        "Dutiful-Attempt": "2",
        "Dutiful-Epoch": "7",
        "Dutiful-Timestamp": TIMESTAMP,
        "Nats-Expected-Stream": own_name,
    }


def test_with_a_secret_timestamp_key_and_body_are_signed(nats_url, own_name):
    async def story():
        async with launching(nats_url, own_name, secret=Secret("s" * 32)) as executor:
            await executor.run(DAG, META)
        return await stored(nats_url, own_name)

    (message,) = asyncio.run(story())
    assert message.headers["Dutiful-Signature"] == signature("s" * 32, TIMESTAMP, KEY, message.data)


def test_a_relaunch_is_dropped_by_the_server_and_counts_as_accepted(nats_url, own_name):
    async def story():
        async with launching(nats_url, own_name) as executor:
            outcomes = [await executor.run(DAG, META._replace(attempt=attempt)) for attempt in (1, 2, 3)]
        return outcomes, await stored(nats_url, own_name)

    outcomes, messages = asyncio.run(story())
    assert outcomes == [Accepted(f"{own_name}:1")] * 3
    assert [message.headers["Dutiful-Attempt"] for message in messages] == ["1"]


def test_a_retry_of_the_task_is_no_duplicate_of_the_launch_before(nats_url, own_name):
    async def story():
        async with launching(nats_url, own_name) as executor:
            for attempt, failures in [(1, 0), (2, 1), (3, 1), (3, 1)]:
                await executor.run(DAG, META._replace(attempt=attempt, task_failures=failures))
        return [message.headers["Nats-Msg-Id"] for message in await stored(nats_url, own_name)]

    assert asyncio.run(story()) == [KEY, f"{KEY}:2", f"{KEY}:3"]


@pytest.mark.parametrize(
    ("workflow", "subject"),
    [("a.b", "a.b"), ("a-b_c", "a-b_c"), ("a..b", "a%2E%2Eb"), (".a", "%2Ea"), ("a.", "a%2E")],
)
def test_every_legal_workflow_id_makes_a_legal_subject(nats_url, own_name, workflow, subject):
    async def story():
        async with launching(nats_url, own_name) as executor:
            outcome = await executor.run(DAG, META._replace(workflow_id=workflow))
        return outcome, await stored(nats_url, own_name)

    outcome, (message,) = asyncio.run(story())
    assert outcome == Accepted(f"{own_name}:1")
    assert message.subject == f"{own_name}.runs.{subject}"


def test_a_stream_is_made_with_room_for_duplicates_and_kept_as_it_is(nats_url, own_name):
    async def story():
        async with launching(nats_url, own_name) as executor:
            await executor.run(DAG, META)
            await executor.close()
            await executor.run(DAG, META)
        client = await nats.connect(nats_url)
        config = (await client.jetstream().stream_info(own_name)).config
        await client.close()
        return config.subjects, config.duplicate_window, config.storage, config.max_age

    assert asyncio.run(story()) == ([f"{own_name}.runs.>"], 600.0, "file", 30 * 86_400.0)


def test_a_stream_that_forgets_duplicates_too_soon_is_refused(nats_url, own_name):
    async def story():
        client = await nats.connect(nats_url)
        config = StreamConfig(name=own_name, subjects=[f"{own_name}.runs.>"], duplicate_window=60)
        await client.jetstream().add_stream(config)
        await client.close()
        async with launching(nats_url, own_name) as executor:
            return await executor.run(DAG, META), await executor.probe()

    outcome, problem = asyncio.run(story())
    place = f"stream {own_name} of {nats_url}"
    assert problem == f"{place} has a duplicate window of 60 s, needed are at least 120 s"
    assert outcome == Refused(Reason.LAUNCH_REFUSED, problem)


def test_a_stream_that_is_deleted_is_made_again(nats_url, own_name):
    async def story():
        async with launching(nats_url, own_name) as executor:
            await executor.run(DAG, META)
            client = await nats.connect(nats_url)
            await client.jetstream().delete_stream(own_name)
            await client.close()
            return [await executor.run(DAG, META), await executor.run(DAG, META)]

    first, second = asyncio.run(story())
    assert isinstance(first, Unreached)
    assert second == Accepted(f"{own_name}:1")


def test_what_is_too_large_for_the_server_is_refused(nats_url, own_name):
    async def story():
        async with launching(nats_url, own_name) as executor:
            return await executor.run("x" * 2_000_000, META)

    outcome = asyncio.run(story())
    assert isinstance(outcome, Refused)
    assert outcome.detail.startswith(f"{nats_url} takes no message of 2,000,")


def test_nothing_was_sent_where_nobody_listens(own_name):
    async def story(url):
        async with launching(url, own_name) as executor:
            return await executor.run(DAG, META), await executor.probe()

    with port_without_listener() as port:
        outcome, problem = asyncio.run(story(f"nats://127.0.0.1:{port}"))
    assert outcome == Unreached(problem)
    assert problem.startswith(f"no connection to nats://127.0.0.1:{port}: ")


def test_silence_after_the_message_leaves_the_outcome_open(nats_url, own_name):
    async def story():
        with proxy_to(int(nats_url.rpartition(":")[2])) as proxy:
            url = f"nats://127.0.0.1:{proxy.port}"
            async with launching(url, own_name, timeout=1.0) as executor:
                await executor.run(DAG, META._replace(idempotency_key="first"))
                proxy.drop_answers = True
                lost = await executor.run(DAG, META)
                proxy.drop_answers = False
                again = await executor.run(DAG, META._replace(attempt=3))
            return lost, again, url

    lost, again, url = asyncio.run(story())
    assert lost == Unanswered(f"no acknowledgement from {url}: TimeoutError")
    # The message had arrived: the relaunch is told so.
    assert again == Accepted(f"{own_name}:2")


def test_a_lost_connection_ends_the_wait_at_once(nats_url, own_name):
    async def story():
        with proxy_to(int(nats_url.rpartition(":")[2])) as proxy:
            async with launching(f"nats://127.0.0.1:{proxy.port}", own_name, timeout=60.0) as executor:
                await executor.run(DAG, META._replace(idempotency_key="first"))
                proxy.drop_answers = True
                publishing = asyncio.create_task(executor.run(DAG, META))
                await asyncio.to_thread(proxy.wait_for_request, KEY.encode())
                proxy.cut()
                async with asyncio.timeout(20):
                    return await publishing

    assert isinstance(asyncio.run(story()), Unanswered)


def test_a_restarted_server_is_found_again_with_everything_it_acknowledged(tmp_path, own_name):
    server = program.nats(tmp_path)
    url = f"nats://127.0.0.1:{server.port}"

    async def story():
        async with launching(url, own_name) as executor:
            outcomes = [await executor.run(DAG, META)]
            server.kill()
            outcomes.append(await executor.run(DAG, META._replace(idempotency_key="down")))
            server.start()
            outcomes.append(await executor.run(DAG, META._replace(idempotency_key="after")))
        return outcomes, [message.headers["Nats-Msg-Id"] for message in await stored(url, own_name)]

    server.start()
    try:
        outcomes, keys = asyncio.run(story())
    finally:
        server.close()
    assert outcomes[0] == Accepted(f"{own_name}:1")
    assert isinstance(outcomes[1], Unreached | Unanswered)
    assert outcomes[2] == Accepted(f"{own_name}:2")
    assert keys == [KEY, "after"]


def test_many_runs_at_once_share_one_connection(nats_url, own_name):
    async def story():
        with proxy_to(int(nats_url.rpartition(":")[2])) as proxy:
            async with launching(f"nats://127.0.0.1:{proxy.port}", own_name) as executor:
                runs = [executor.run(DAG, META._replace(idempotency_key=f"k{n}")) for n in range(300)]
                outcomes = await asyncio.gather(*runs)
            return outcomes, sum(data.count(b"CONNECT {") for data in proxy.requests)

    outcomes, connects = asyncio.run(story())
    assert {outcome.run_id for outcome in outcomes} == {f"{own_name}:{n}" for n in range(1, 301)}
    assert connects == 1


def test_credentials_are_used_and_never_shown(tmp_path, own_name):
    server = program.nats(tmp_path, "--user", "ada", "--pass", "canary-right")

    async def story(credentials):
        url = f"nats://{credentials}@127.0.0.1:{server.port}"
        async with launching(url, own_name) as executor:
            return await executor.run(DAG, META)

    server.start()
    try:
        assert asyncio.run(story("ada:canary-right")) == Accepted(f"{own_name}:1")
        wrong = asyncio.run(story("ada:canary-wrong"))
    finally:
        server.close()
    assert isinstance(wrong, Unreached)
    assert "canary" not in wrong.detail
    assert "uthorization" in wrong.detail


def test_tls_is_spoken_and_the_certificate_checked(tmp_path, own_name):
    authority, stranger = trustme.CA(), trustme.CA()
    files = {name: tmp_path / name for name in ("ca.pem", "other.pem", "cert.pem", "key.pem")}
    authority.cert_pem.write_to_path(files["ca.pem"])
    stranger.cert_pem.write_to_path(files["other.pem"])
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(files["key.pem"])
    issued.cert_chain_pems[0].write_to_path(files["cert.pem"])
    server = program.nats(
        tmp_path, "--tls", "--tlscert", str(files["cert.pem"]), "--tlskey", str(files["key.pem"])
    )

    async def story(ca):
        query = f"stream={own_name}&subject={own_name}.runs&ca={files[ca]}"
        executor = NatsExecutor(f"tls://127.0.0.1:{server.port}?{query}", SETTINGS)
        try:
            return await executor.run(DAG, META)
        finally:
            await executor.close()

    server.start()
    try:
        assert asyncio.run(story("ca.pem")) == Accepted(f"{own_name}:1")
        refused = asyncio.run(story("other.pem"))
    finally:
        server.close()
    assert isinstance(refused, Unreached)
    assert "certificate verify failed" in refused.detail
