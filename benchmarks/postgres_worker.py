"""A worker whose task only returns, until its input ends: `python -m benchmarks.postgres_worker URL NAME`."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid

from dutiful.launchers.callback import CallbackLauncher
from dutiful.runtime.cluster import Cluster
from dutiful.runtime.cluster_clock import ClusterClock
from dutiful.runtime.cluster_ports import Member
from dutiful.stores.postgres import PostgresStore

SHARDS = 16


async def work(url: str, name: str) -> None:
    """Lead shards and run what is due until the standard input ends."""

    async def task() -> None:
        """Return at once."""

    store = PostgresStore(url, shards=SHARDS)
    me = Member(str(uuid.uuid4()), name, "bench", os.getpid())
    cluster = Cluster("bench", store, CallbackLauncher({"count": task}), ClusterClock(), lambda _: None, me)
    await cluster.open()
    cluster.start()
    await asyncio.to_thread(sys.stdin.read)
    await cluster.drain()
    await cluster.close()


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
