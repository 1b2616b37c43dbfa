"""Databases that their administrator made or set in another way than by default."""

from __future__ import annotations

import asyncio
import re

import pytest
from tests.stores.postgres_rig import execute

from dutiful.core.errors import StoreError
from dutiful.stores.postgres import PostgresStore


@pytest.fixture
def server(newest_postgres):
    return f"postgresql://postgres@127.0.0.1:{newest_postgres}"


@pytest.fixture
def make_database(server, own_name):
    """Return a function that makes a database with these options and returns its URL."""

    def make(options):
        asyncio.run(execute(f"{server}/postgres", f"CREATE DATABASE {own_name} {options}"))
        return f"{server}/{own_name}"

    yield make
    asyncio.run(execute(f"{server}/postgres", f"DROP DATABASE IF EXISTS {own_name} WITH (FORCE)"))


async def claimed(url):
    store = PostgresStore(url, namespace="n", shards=4)
    try:
        await store.open()
        await store.claim("service")
    finally:
        await store.close()


def test_a_database_that_cannot_store_every_text_is_refused(make_database):
    """The error of one run could not be recorded, and no later pass of its shard either."""
    url = make_database("ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    refusal = (
        f"The database {url.replace('postgres@', '')} is encoded in LATIN1, which lacks most characters:"
        " use a database made with `createdb --encoding=UTF8 --template=template0`"
    )
    with pytest.raises(StoreError, match=f"^{re.escape(refusal)}$"):
        asyncio.run(claimed(url))
    assert asyncio.run(execute(url, "SELECT 1 FROM pg_namespace WHERE nspname = 'dutiful'")) == []


def test_a_database_that_leaves_bytes_as_they_are_stores_every_text(make_database):
    asyncio.run(claimed(make_database("ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")))


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_processes_make_a_schema_together_whatever_isolation_the_database_has(make_database, isolation):
    url = make_database("")
    name = url.rpartition("/")[2]
    setting = f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'"
    asyncio.run(execute(url, setting))

    async def five():
        await asyncio.gather(*(claimed(url) for _ in range(5)))

    asyncio.run(five())
