"""The database: recognised, migrated and given its namespaces before the first read."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, TypeVar

from dutiful.core.errors import NamespaceOwnedError, StoreError
from dutiful.stores.postgres.connections import EDITS, MIGRATION, Connections

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dutiful.stores.postgres.connections import Address, Deadlines, Session
    from dutiful.stores.schema import Migration

T = TypeVar("T")
logger = logging.getLogger("dutiful.stores")
_MIGRATING = (
    "The schema of %s is brought from number %d to %d in one transaction, which takes minutes where the"
    " ledger is long; if it is interrupted, the schema stays as it was"
)

_VERSION_MIN = 140_000
# SQL_ASCII stores the bytes of UTF-8 as they are.
_ENCODINGS = ("UTF8", "SQL_ASCII")
_SCHEMA = "SELECT current_schema()"
_APPLIED = "SELECT checksum FROM migrations ORDER BY number"
# Not to_regclass(): it reads a cache that a session does not refresh while it waits for an advisory lock, so
# it would not find the tables of a process that migrated meanwhile.
_TABLES = (
    "SELECT count(*) FILTER (WHERE relname = 'migrations') > 0, count(*) FILTER (WHERE relname = 'runs') > 0"
    " FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
    " WHERE nspname = ANY (current_schemas(false)) AND relname IN ('migrations', 'runs')"
)
_UPGRADE = "use the release that wrote it, or a newer one"


def lock_class(kind: str, schema: str) -> int:
    """Return the first key of a kind of advisory locks: 31 bits, so that it is a positive int4."""
    return int.from_bytes(hashlib.sha256(f"dutiful:{kind}:{schema}".encode()).digest()[:4]) >> 1


async def bring_up_to_date(address: Address, known: tuple[Migration, ...]) -> str:
    """Migrate the schema if it lacks a known migration, and return its name.

    Raises StoreError for a schema of another program, or of another release, and leaves it as it is.
    """
    schema, is_behind = await _with_one(address, EDITS, lambda session: _find(session, address, known))
    if is_behind:
        await _with_one(address, MIGRATION, lambda session: _migrate(session, address, known, schema))
    return schema


async def _with_one(address: Address, deadlines: Deadlines, job: Callable[[Session], Awaitable[T]]) -> T:
    connections = Connections(address, 1, deadlines)
    try:
        return await connections.work(job)
    finally:
        await connections.close()


async def _find(session: Session, address: Address, known: tuple[Migration, ...]) -> tuple[str, bool]:
    """Return the name of the schema, which is created if need be, and whether it lacks a migration."""
    version = int(await session.value("SHOW server_version_num"))
    if version < _VERSION_MIN:
        problem = f"The server of {address.shown} is PostgreSQL {version // 10_000}"
        raise StoreError(problem, "use PostgreSQL 14 or later", store=address.shown)
    await _check_encoding(session, address)
    if address.schema is not None and await session.value(_SCHEMA) is None:
        quoted = '"' + address.schema.replace('"', '""') + '"'
        await session.run(f"CREATE SCHEMA IF NOT EXISTS {quoted}")
    schema: str | None = await session.value(_SCHEMA)
    if schema is None:
        problem = f"The search path of {address.shown} names no schema that exists"
        raise StoreError(problem, "create the schema, or leave `options` out", store=address.shown)
    return schema, await _count_applied(session, address, known) < len(known)


async def _check_encoding(session: Session, address: Address) -> None:
    """Raise StoreError where the database cannot store every text: one such text would end all passes."""
    encoding = await session.value("SHOW server_encoding")
    if encoding not in _ENCODINGS:
        problem = f"The database {address.shown} is encoded in {encoding}, which lacks most characters"
        advice = "use a database made with `createdb --encoding=UTF8 --template=template0`"
        raise StoreError(problem, advice, store=address.shown)


async def _migrate(session: Session, address: Address, known: tuple[Migration, ...], schema: str) -> None:
    async with session.transaction():
        # A process that starts waits for the migration of another, which takes as long as it takes.
        await session.run("SET LOCAL lock_timeout = 0")
        await session.run("SELECT pg_advisory_xact_lock($1, 0)", lock_class("migration", schema))
        await session.run("SET LOCAL lock_timeout TO DEFAULT")
        # Check again under the lock: another process may have migrated first.
        applied = await _count_applied(session, address, known)
        if 0 < applied < len(known):
            logger.warning(_MIGRATING, address.shown, applied, len(known))
        for migration in known[applied:]:
            await session.run(migration.sql)
            await session.run(
                "INSERT INTO migrations (number, name, checksum) VALUES ($1, $2, $3)",
                migration.number, migration.name, migration.checksum,
            )  # fmt: skip


async def _count_applied(session: Session, address: Address, known: tuple[Migration, ...]) -> int:
    """Return how many of the known migrations the schema has; raise StoreError where one differs.

    One migration more than this release knows is accepted: a migration only adds what the release before it
    can leave alone, so that the nodes of a cluster are upgraded one after the other.
    """
    ours, used = await session.row(_TABLES)
    if not ours:
        if used:
            problem = f"The schema of {address.shown} has tables of another program"
            raise StoreError(
                problem, "name another one with ?schema=NAME; nothing was changed", store=address.shown
            )
        return 0
    seen = [row[0] for row in await session.rows(_APPLIED)]
    if len(seen) > len(known) + 1:
        problem = f"The database {address.shown} has schema {len(seen)}, and this release knows {len(known)}"
        raise StoreError(problem, _UPGRADE, store=address.shown)
    if seen[: len(known)] != [migration.checksum for migration in known[: len(seen)]]:
        problem = f"The database {address.shown} has a schema that this release does not know"
        raise StoreError(problem, _UPGRADE, store=address.shown)
    return min(len(seen), len(known))


async def find_shards(session: Session, namespace: str) -> list[int]:
    """Return the shards of a namespace by place; an empty list if the namespace does not exist."""
    rows = await session.rows("SELECT shard FROM shards WHERE namespace = $1 ORDER BY place", namespace)
    return [row[0] for row in rows]


async def make_namespace(session: Session, namespace: str, shards: int) -> list[int]:
    """Create a namespace with this number of shards, unless it exists; return its shards."""
    async with session.transaction():
        made = await session.run(
            "INSERT INTO namespaces (namespace, shards) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            namespace,
            shards,
        )
        if made:
            await session.run(
                "INSERT INTO shards (namespace, place) SELECT $1, place FROM generate_series(0, $2 - 1) AS"
                " place",
                namespace, shards,
            )  # fmt: skip
    return await find_shards(session, namespace)


async def claim(session: Session, address: Address, namespace: str, door: str) -> None:
    """Record the door that owns a namespace; raise NamespaceOwnedError where another door does."""
    owner = await session.value(
        "UPDATE namespaces SET door = $2 WHERE namespace = $1 AND door IS NULL RETURNING door",
        namespace,
        door,
    )
    owner = owner or await session.value("SELECT door FROM namespaces WHERE namespace = $1", namespace)
    if owner != door:
        raise NamespaceOwnedError(address.shown, namespace, owner)
