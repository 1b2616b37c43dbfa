"""Runs handed to a stream of a real Valkey server: what is of streams alone. See `test_queues`."""

from __future__ import annotations

import asyncio
import json

import redis
from tests.launchers import queues
from tests.launchers.metas import DAG, KEY, META, META_JSON
from tests.servers import program

from dutiful.core.plan.outcome import Accepted, Refused, Unanswered, Unreached
from dutiful.core.policy import Reason

TIMESTAMP = "1772332201"
STREAM = queues.QUEUES["stream"]


def launching(url: str, name: str, query: str = ""):
    """Return the executor, in a block, with a stream of the test's own."""
    return queues.launching(STREAM.url(queues.port_of(url), name, query=query))


def entries(url: str, name: str) -> list:
    with redis.Redis.from_url(url) as client:
        return client.xrange(name)


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
        url = f"redis://127.0.0.1:{server.port}/0"
        async with launching(url, own_name, "&waitaof=true") as executor:
            return await executor.run(DAG, META)

    server.start()
    try:
        assert isinstance(asyncio.run(story()), Accepted)
        with redis.Redis(port=server.port) as client:
            client.config_set("appendonly", "no")
        assert isinstance(asyncio.run(story()), Unreached | Unanswered)
    finally:
        server.close()
