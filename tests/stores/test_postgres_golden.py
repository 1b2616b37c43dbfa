"""A PostgreSQL database of the released schema stays readable, and of the next one usable."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from tests.golden.make import SCHEDULES
from tests.golden.make_postgres import FILE, golden
from tests.stores.notation import MINUTE, T0, declare, due_at, pass_at, rows, schedule
from tests.stores.postgres_rig import execute, over

from dutiful.core.changes import Note
from dutiful.core.errors import StoreError
from dutiful.core.run import Phase, Run, Status
from dutiful.core.schedule import State, tick_key
from dutiful.core.workflow import Workflow
from dutiful.stores.schema import migrations


async def restore(url):
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(FILE.read_text(encoding="utf-8"))
    finally:
        await connection.close()


@pytest.fixture
def url(newest_postgres_url):
    """The database that the golden file describes."""
    asyncio.run(restore(newest_postgres_url))
    return newest_postgres_url


def test_the_golden_dump_is_what_the_script_makes(newest_postgres_url):
    made = asyncio.run(golden(newest_postgres_url))
    assert FILE.read_text(encoding="utf-8") == made, "run `python -m tests.golden.make_postgres`"


def test_there_is_one_schema_of_postgres_until_the_first_release():
    assert [migration.name for migration in migrations("postgres")] == ["0001_init"]


def test_a_golden_database_is_what_it_was(url):
    async def look(store):
        assert await store.damaged() == []
        due = {each.schedule.id: each for each in await store.every()}
        assert [due[each].schedule for each in sorted(due)] == SCHEDULES
        now, ended = T0 + 2 * MINUTE, T0 + 2 * MINUTE + 10
        assert due["plain"].state == State(now, 3, now, succeeded_at=ended, ended_at=ended)
        [retry] = due["failing"].runs
        assert (retry.phase, retry.detail) == (Phase.RETRY, "exit status 1")
        assert [(run.phase, run.run_id) for run in due["busy"].runs] == [(Phase.ACCEPTED, "job 7")] * 2
        assert await rows(store, "plain") == [(minute, "SUCCESS", "ended") for minute in (2, 1, 0)]

    over(url, look, count=1)


def test_a_golden_database_goes_on(url):
    async def go_on(store):
        assert await store.lead("me") == 2
        assert await due_at(store, 0) == ["busy", "failing", "once"]
        launched = {launch.run.schedule_id for launch in await pass_at(store, T0 + 3 * MINUTE, epoch=2)}
        assert launched >= {"plain", "failing", "once"}
        await declare(store, schedule("new"))
        numbers = {due.schedule.id: due.number for due in await store.every()}
        assert numbers["new"] == max(numbers.values())

    over(url, go_on, count=1)


def test_what_the_service_left_in_postgres_is_what_it_was(url):
    async def look(store):
        assert await store.notes(["nightly"]) == {
            "nightly": Note(T0 + MINUTE, "moving house", T0 + MINUTE, "ada")
        }
        workflow = Workflow("report", 3, "ada", '{"nodes":["\\u00e9\\u65e5"]}', T0)
        assert await store.load_workflow("report", 3) == workflow
        found = await store.ledger("nightly", None, 10)
        assert [row.status for row in found] == [
            *(Status.SKIPPED, Status.FAILED, Status.SKIPPED, Status.STARTED),
        ]
        for row in (found[1], found[3]):
            assert (await store.find(tick_key("nightly", row.run_at))).run == row

    over(url, look, count=1, namespace="service")


def test_a_golden_inline_run_of_postgres_is_what_it_was(url):
    async def look(store):
        [due] = await store.every()
        started = Run("inline", T0, "schedule", Status.STARTED, Phase.LAUNCHED, T0, None, 1, 1, T0)
        assert [*due.runs] == [started]

    over(url, look, count=1, namespace="inline")


# A rolling upgrade

NEXT = (
    "ALTER TABLE declarations ADD COLUMN shiny text",
    "ALTER TABLE states ADD COLUMN shiny bigint NOT NULL DEFAULT 7",
    "ALTER TABLE runs ADD COLUMN shiny text",
    "CREATE TABLE shiny (number bigint)",
)


def migrate_by_a_later_release(url, number):
    """Apply a migration that this release does not know."""
    applied = "INSERT INTO migrations (number, name, checksum) VALUES ($1, 'later', $2)"
    asyncio.run(execute(url, applied, number, f"checksum {number}"))


def test_a_process_goes_on_with_a_schema_one_migration_newer_than_its_own(url):
    for statement in NEXT:
        asyncio.run(execute(url, statement))
    migrate_by_a_later_release(url, 2)

    async def go_on(store):
        epoch = await store.lead("me")
        await declare(store, schedule("new"))
        launched = {launch.run.schedule_id for launch in await pass_at(store, T0 + 3 * MINUTE, epoch)}
        return launched >= {"plain", "failing", "once", "new"}, len(await store.every())

    assert over(url, go_on, count=1) == (True, len(SCHEDULES) + 1)
    [[count]] = asyncio.run(execute(url, "SELECT count(*) FROM migrations"))
    assert count == 2


def test_a_process_refuses_a_schema_two_migrations_newer_than_its_own(url):
    migrate_by_a_later_release(url, 2)
    migrate_by_a_later_release(url, 3)
    with pytest.raises(
        StoreError, match="has schema 3, and this release knows 1: use the release that wrote"
    ):
        over(url, lambda store: store.every(), count=1)


def test_a_schema_whose_first_migration_differs_is_refused(url):
    asyncio.run(execute(url, "UPDATE migrations SET checksum = 'abc'"))
    migrate_by_a_later_release(url, 2)
    with pytest.raises(StoreError, match="has a schema that this release does not know"):
        over(url, lambda store: store.every(), count=1)
