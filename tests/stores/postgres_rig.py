"""Several openings of one PostgreSQL database, and the waiting for what other processes do."""

from __future__ import annotations

import asyncio
import contextlib
import os

import asyncpg

from dutiful.core.errors import StoreError
from dutiful.runtime.cluster_ports import Member
from dutiful.stores.postgres import PostgresStore
from dutiful.stores.postgres.edits import Places


def over(url, scenario, count=2, **settings):
    """Run a scenario over so many openings of one database."""

    async def run():
        stores = [PostgresStore(url, **settings) for _ in range(count)]
        for store in stores:
            await store.open()
        try:
            return await scenario(*stores)
        finally:
            for store in stores:
                with contextlib.suppress(StoreError):
                    await store.close()

    return asyncio.run(run())


def over_leader(url, scenario):
    """Run a scenario over one opening of a database, which leads."""

    async def lead_and_run(store):
        await store.lead("me")
        return await scenario(store)

    return over(url, lead_and_run, count=1)


class OneOfFour(PostgresStore):
    """A namespace of four shards, one of which has all schedules and is led: a shard is a whole store."""

    def __init__(self, url):
        super().__init__(url, shards=4)

    async def open(self):
        await super().open()
        self._database._places = _AllInOne((await self._database.places()).shards)

    async def _only(self):
        return self.shard(_THE_ONE)

    async def leader(self):
        return await self.shard(_THE_ONE).leader()

    def holds(self, epoch):
        return _THE_ONE in self._shards and self._shards[_THE_ONE].holds(epoch)


class _AllInOne(Places):
    def place(self, _schedule_id, _group):
        return _THE_ONE


_THE_ONE = 2


async def until(condition):
    """Return once a condition holds; the shared server may be busy."""
    async with asyncio.timeout(30):
        while not await condition():  # noqa: ASYNC110 - what it waits for is in another process
            await asyncio.sleep(0.01)


async def execute(url, statement, *values):
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(statement, *values)
    finally:
        await connection.close()


async def depose(store):
    """Take the lock of the only shard away without a word, as a network that lost its session would."""
    lock = store._database.lock
    await lock.unlock(store._database.shard_class, store.shard(0)._leading.fence.shard)


def ignore(_places):
    """Take a hint without doing anything."""


def me(owner):
    return Member(owner, f"host-{owner}", "1.0", os.getpid())


BACKENDS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid IN"
    " (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = $1::bigint::oid)"
)
"""Ends the sessions that hold locks of a class."""
