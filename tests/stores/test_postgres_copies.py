"""A copy of a namespace in PostgreSQL lacks no edit: it waits for those under way and refuses the others."""

from __future__ import annotations

import asyncio
from functools import partial

import asyncpg
import pytest
from tests.stores.notation import MINUTE, T0, declare, pass_at, put, report, schedule
from tests.stores.postgres_rig import execute, over

from dutiful.core.changes import Changes
from dutiful.core.errors import StoreError
from dutiful.stores.postgres import PostgresStore, edits
from dutiful.stores.postgres.connections import Session
from dutiful.stores.transfer import copy

pytestmark = pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)


def test_a_copy_waits_for_an_edit_that_began_before_it(postgres_url):
    async def story(source):
        target = PostgresStore(postgres_url, namespace="copy")
        await target.open()
        await declare(source, schedule("a"))
        places, connection = await source._database.places(), await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                added = Changes([put(schedule("b"))])
                await edits.apply(Session(connection, 30), "default", places, added)
                copying = asyncio.create_task(copy(source, target))
                waiting = partial(execute, postgres_url, "SELECT 1 FROM pg_locks WHERE NOT granted")
                while not copying.done() and not await waiting():
                    await asyncio.wait([copying], timeout=0.01)
            await copying
            assert [due.schedule.id for due in await target.every()] == ["a", "b"]
        finally:
            await connection.close()
            await target.close()

    over(postgres_url, story, 1)


def test_a_namespace_that_is_copied_takes_no_edits_of_any_kind(postgres_url):
    async def story(source, node):
        await source.lead("me")
        await declare(source, schedule("a"), schedule("b", ledger=False))
        launches = await pass_at(source, T0)
        await source.shard(0).close()
        assert await source.begin_transfer()
        writes = [
            declare(node, schedule("c")),
            node.request(launches[0].run),
            *(report(node, launch.run, T0 + 1) for launch in launches),
            node.delete_workflow("w", 1),
            node.note_start("outside", T0, MINUTE),
        ]
        for write in writes:
            with pytest.raises(StoreError, match="is being copied"):
                await write

    over(postgres_url, story)
