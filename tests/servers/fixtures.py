"""Fixtures for the shared servers: each gives an address, and a name of the test's own on that server."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import uuid
from typing import TYPE_CHECKING

import pytest
from tests.servers.program import postgres_versions
from tests.servers.shared import shared_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "durable_url", "nats_url", "newest_postgres", "newest_postgres_url", "own_name", "postgres_port",
    "postgres_url", "valkey_url",
]  # fmt: skip

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def nats_url() -> Iterator[str]:
    """The URL of the shared NATS server with JetStream; name streams and subjects by `own_name`."""
    with shared_server("nats") as port:
        yield f"nats://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """The URL of the shared Valkey server; begin every key with `own_name`."""
    with shared_server("valkey") as port:
        yield f"redis://127.0.0.1:{port}/0"


@pytest.fixture
def own_name() -> str:
    """A name that no other test of any worker uses: letters, digits and underscores."""
    return f"t{os.getpid()}_{next(_numbers)}_{uuid.uuid4().hex[:6]}"


@pytest.fixture(scope="session", params=["oldest", "newest"] if len(postgres_versions()) > 1 else ["newest"])
def postgres_port(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of the shared PostgreSQL server, once for the oldest and once for the newest at hand.

    For one version only: `@pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)`.
    """
    with shared_server(f"postgres-{request.param}") as port:
        yield port


@pytest.fixture(scope="session")
def newest_postgres() -> Iterator[int]:
    """The port of the shared PostgreSQL server of the newest version, for tests that need no other."""
    with shared_server("postgres-newest") as port:
        yield port


@pytest.fixture
def postgres_url(postgres_port: int, own_name: str) -> Iterator[str]:
    """The URL of the shared PostgreSQL server with an empty schema of the test's own as search path."""
    with own_schema(postgres_port, own_name) as url:
        yield url


@pytest.fixture
def newest_postgres_url(newest_postgres: int, own_name: str) -> Iterator[str]:
    """The same on the newest version only, for tests that need no other."""
    with own_schema(newest_postgres, own_name) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def durable_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store that outlives its process, once of each kind."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'state.db'}"
    return str(request.getfixturevalue("newest_postgres_url"))


@contextlib.contextmanager
def own_schema(port: int, name: str) -> Iterator[str]:
    """Yield the URL of a server with an empty schema as search path, which is dropped afterwards."""
    address = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    asyncio.run(_execute(address, f'CREATE SCHEMA "{name}"'))
    yield f"{address}?options=-c%20search_path%3D{name}"
    asyncio.run(_execute(address, f'DROP SCHEMA "{name}" CASCADE'))


async def _execute(address: str, statement: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(address)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
