"""Writes `postgres-schema-1.sql`: run `python -m tests.golden.make_postgres` after a change of the schema.

As with SQLite, the file of a released schema is never written again, because databases like it exist.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.golden.make import run_inline, run_plain, run_service
from tests.servers.fixtures import own_schema
from tests.servers.shared import shared_server
from tests.stores.postgres_rig import execute

from dutiful.stores.postgres import PostgresStore
from dutiful.stores.schema import migrations

FILE = Path(__file__).with_name("postgres-schema-1.sql")
SCENARIOS = {"default": run_plain, "service": run_service, "inline": run_inline}
# In the order in which they are filled: deleting a declaration deletes rows of the others, writing does not.
TABLES = (
    *("migrations", "namespaces", "shards", "texts", "declarations", "states", "runs", "notes", "facets"),
    *("workflows", "starts"),
)
# What differs from one making to the next: times and processes of the machine.
VOLATILE = {"migrations": {"applied_at"}, "shards": {"pid", "since"}}
_COLUMNS = (
    "SELECT column_name, is_identity = 'YES' FROM information_schema.columns"
    " WHERE table_schema = current_schema() AND table_name = $1 AND is_generated = 'NEVER'"
    " ORDER BY ordinal_position"
)


async def golden(url: str) -> str:
    """Return the SQL of an empty schema's content after every kind of row was written to it."""
    for namespace, scenario in SCENARIOS.items():
        store = PostgresStore(url, namespace=namespace)
        await store.open()
        assert await store.lead("me") == 1
        await scenario(store)
        await store.close()
    [schema] = migrations("postgres")
    lines = [schema.sql]
    for table in TABLES:
        lines += await _inserts(url, table)
    return "\n".join(lines) + "\n"


async def _inserts(url, table):
    found = await execute(url, _COLUMNS, table)
    columns = [name for name, _ in found if name not in VOLATILE.get(table, ())]
    overriding = " OVERRIDING SYSTEM VALUE" if any(identity for _, identity in found) else ""
    values = ", ".join(f"quote_nullable({column}::text)" for column in columns)
    rows = await execute(url, f"SELECT concat_ws(', ', {values}) COLLATE \"C\" FROM {table} ORDER BY 1")
    insert = f"INSERT INTO {table} ({', '.join(columns)}){overriding} VALUES"
    lines = [f"{insert} ({row});" for (row,) in rows]
    return lines + [_reserve(table, name) for name, identity in found if identity]


def _reserve(table, column):
    """Return the statement after which a number of the file is not given to a new row."""
    return f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), max({column})) FROM {table};"


if __name__ == "__main__":
    with shared_server("postgres-newest") as port, own_schema(port, "golden") as url:
        FILE.write_text(asyncio.run(golden(url)), encoding="utf-8")
    sys.stdout.write(f"wrote {FILE}\n")
