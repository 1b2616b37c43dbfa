"""Runs handed to Celery over a real Valkey server: what is of Celery alone. See `test_queues`."""

from __future__ import annotations

import asyncio

from tests.launchers.metas import DAG, KEY, META, META_JSON
from tests.launchers.queues import QUEUES, launching, port_of

from dutiful.core.plan.outcome import Accepted

CELERY = QUEUES["celery"]


def test_the_run_becomes_a_task_message_with_its_key_as_id(valkey_url, own_name):
    port = port_of(valkey_url)

    async def story():
        async with launching(CELERY.url(port, own_name)) as executor:
            return await executor.run(DAG, META)

    assert asyncio.run(story()) == Accepted(KEY)
    (message,) = CELERY.messages(port, own_name)
    args, kwargs, _ = message["body"]
    assert (args, kwargs) == ([DAG, META_JSON], {})
    headers = message["headers"]
    assert (headers["id"], headers["task"]) == (KEY, "app.run")
    assert {name: headers[name] for name in headers if name.startswith("dutiful")} == {
        "dutiful_attempt": 2,
        "dutiful_epoch": 7,
    }


def test_runs_are_sent_in_their_order(valkey_url, own_name):
    port = port_of(valkey_url)

    async def story():
        async with launching(CELERY.url(port, own_name)) as executor:
            runs = [executor.run(DAG, META._replace(idempotency_key=f"k{n}")) for n in range(20)]
            return await asyncio.gather(*runs)

    assert asyncio.run(story()) == [Accepted(f"k{n}") for n in range(20)]
    assert [kept.key for kept in CELERY.kept(port, own_name)] == [f"k{n}" for n in range(20)]
