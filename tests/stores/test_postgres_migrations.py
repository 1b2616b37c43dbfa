"""A migration of a large database has no deadline, and leaves the old schema where it is interrupted."""

from __future__ import annotations

import pytest
from tests.stores.postgres_rig import execute, over

from dutiful.core.errors import StoreError
from dutiful.stores.postgres.connections import parse_address
from dutiful.stores.postgres.migration import bring_up_to_date
from dutiful.stores.schema import Migration, migrations

pytestmark = pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)
DEADLINE = "CREATE TABLE deadline AS SELECT current_setting('statement_timeout') AS server"
CUT_OFF = "CREATE TABLE half (); SELECT pg_terminate_backend(pg_backend_pid())"


def after_the_known_ones(sql):
    known = migrations("postgres")
    return *known, Migration(len(known) + 1, "next", sql, "its checksum")


def test_a_migration_has_no_deadline_and_is_announced(postgres_url, caplog):
    async def story(store):
        await bring_up_to_date(parse_address(postgres_url), after_the_known_ones(DEADLINE))
        assert [tuple(row) for row in await execute(postgres_url, "TABLE deadline")] == [("0",)]
        assert "is brought from number 1 to 2" in caplog.text
        # A node of the release before goes on.
        await store.close()
        await store.open()

    over(postgres_url, story, 1)


def test_a_migration_that_is_cut_off_leaves_the_old_schema_and_is_made_at_the_next_start(postgres_url):
    async def story(_):
        address = parse_address(postgres_url)
        with pytest.raises(StoreError, match=r"is starting or stopping|cannot be reached"):
            await bring_up_to_date(address, after_the_known_ones(CUT_OFF))
        tables = "SELECT 1 FROM pg_class WHERE oid = to_regclass('half')"
        assert await execute(postgres_url, tables) == []
        await bring_up_to_date(address, after_the_known_ones("CREATE TABLE half ()"))
        assert len(await execute(postgres_url, tables)) == 1

    over(postgres_url, story, 1)
