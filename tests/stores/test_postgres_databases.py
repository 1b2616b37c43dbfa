"""Databases that their administrator made or set in another way than by default."""

from __future__ import annotations

import asyncio
import re
from functools import partial

import pytest
from tests.stores.postgres_rig import execute, over, until

from dutiful.core.errors import InvalidArgumentError, StoreError
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


def test_a_process_goes_on_when_its_database_is_no_longer_read_only(make_database, server):
    """A hosted server makes itself read-only while its disk is full; a session stays what it was."""
    url, admin = make_database(""), f"{server}/postgres"
    name = url.rpartition("/")[2]
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"

    async def story(store):
        await execute(admin, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        await execute(admin, ended, name)
        await until(partial(is_read_only, store))
        await execute(admin, f"ALTER DATABASE {name} RESET default_transaction_read_only")
        await store.claim("service")

    over(url, story, 1)


async def is_read_only(store):
    try:
        await store.claim("service")
    except StoreError as error:
        return "is read-only" in str(error)
    return False


REACH = "cannot be reached: check the address and that the server runs; it is tried again"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("sslmode=require", f'{REACH} (PostgreSQL server at "127.0.0.1:PORT" rejected SSL upgrade)'),
        ("sslmode=never", "has a wrong URL: `sslmode` parameter must be one of: disable, allow, prefer,"),
        (
            "connect_timeout=5",
            "does not know an option of the URL: leave it out: unrecognized configuration parameter",
        ),
    ],
)
def test_an_error_of_the_address_says_what_the_server_or_the_driver_said(
    server, newest_postgres, options, problem
):
    with pytest.raises(StoreError) as caught:
        asyncio.run(claimed(f"{server}/postgres?{options}"))
    said = f"The database postgresql://127.0.0.1:PORT/postgres {problem}".replace(
        "PORT", str(newest_postgres)
    )
    assert str(caught.value).startswith(said)


def test_several_servers_are_named_by_options_of_the_url(server, newest_postgres, own_name):
    port = str(newest_postgres)
    with pytest.raises(InvalidArgumentError, match=r"name several servers as .*\?host=ONE,OTHER&port="):
        PostgresStore(f"postgresql://postgres@127.0.0.1:{port},127.0.0.1:{port}/postgres")
    both = f"host=127.0.0.1,127.0.0.1&port={port},{port}&target_session_attrs=primary&schema={own_name}"
    asyncio.run(claimed(f"postgresql://postgres@/postgres?{both}"))
    asyncio.run(execute(f"{server}/postgres", f"DROP SCHEMA {own_name} CASCADE"))
