"""Runs handed to a real NATS server: what is of JetStream alone. See `test_queues` for the rest."""

from __future__ import annotations

import asyncio
import json

import nats
import pytest
from nats.js.api import StreamConfig
from tests.launchers import queues
from tests.launchers.metas import DAG, KEY, META, META_JSON

from dutiful.core.plan.outcome import Accepted, Refused, Unreached
from dutiful.core.policy import Reason

TIMESTAMP = "1772332201"
NATS = queues.QUEUES["nats"]


def launching(url: str, name: str):
    """Return the executor, in a block, with a stream and a subject of the test's own."""
    return queues.launching(NATS.url(queues.port_of(url), name))


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


def test_a_message_too_large_for_the_server_is_refused(nats_url, own_name):
    async def story():
        async with launching(nats_url, own_name) as executor:
            return await executor.run("x" * 2_000_000, META)

    outcome = asyncio.run(story())
    assert isinstance(outcome, Refused)
    assert outcome.detail.startswith(f"{nats_url} takes no message of 2,000,")
