"""A SQLite table as work source; real files, real processes, virtual leases."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime

import pytest
from tests.fleet.run.work_sources.story import DONE, FAILED, Desk, claimer, play

from dutiful.fleet.errors import WorkSourceError
from dutiful.fleet.run.work_sources import problems_of_work_source
from dutiful.fleet.run.work_sources.table import SCHEMA
from dutiful.fleet.types import WorkItem
from dutiful.testing import VirtualClock


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "work.db"
    execute(path, SCHEMA.format(table="work_items"))
    return path


def execute(path, statement: str, *values) -> list[tuple]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).fetchall()


def add(path, *titles: str) -> None:
    for title in titles:
        execute(path, "INSERT INTO work_items (title) VALUES (?)", title)


def config(path, **settings) -> dict[str, str]:
    return {"type": "table", "database": str(path), **settings}


def statuses(path) -> list[tuple]:
    return execute(path, "SELECT title, status, note, attempts FROM work_items ORDER BY id")


@pytest.mark.parametrize("title", ["CAST(x'ff41' AS TEXT)", "x'ff41'"])
def test_a_row_that_is_no_text_is_handed_out_readable_and_keeps_no_other_waiting(database, title):
    execute(database, f"INSERT INTO work_items (title, priority) VALUES ({title}, 1)")
    add(database, "good")

    async def story(desk):
        return [(await desk.claim()).title, (await desk.claim()).title]

    assert play(story, config(database)) == ["\ufffdA", "good"]


def test_a_locked_database_keeps_only_those_waiting_who_want_its_work(database):
    add(database, "one")

    async def story(desk):
        # The pool of the event loop, in which a fleet writes its state, has a single thread here.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        with closing(sqlite3.connect(database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            claiming = asyncio.ensure_future(desk.claim())
            # Let the claim reach its thread.
            for _ in range(20):
                await asyncio.sleep(0)
            written = await asyncio.to_thread(lambda: "state")
            waited = not claiming.done()
        return written, waited, (await claiming).title

    assert play(story, config(database)) == ("state", True, "one")


def test_a_row_is_an_item(database):
    row = ("Fix the login", "It fails.", 5, "bug, web", "https://x/42")
    columns = "title, description, priority, labels, url"
    execute(database, f"INSERT INTO work_items ({columns}) VALUES (?, ?, ?, ?, ?)", *row)
    assert play(Desk.claim, config(database)) == WorkItem(
        "table-1:1", "table", "1", "Fix the login", "It fails.", "5", ("bug", "web"), "https://x/42"
    )


def test_the_highest_priority_comes_first_and_then_the_oldest(database):
    add(database, "a", "b")
    execute(database, "INSERT INTO work_items (title, priority) VALUES ('c', 9)")

    async def story(desk):
        return [(await desk.claim()).title for _ in range(3)]

    assert play(story, config(database)) == ["c", "a", "b"]


def test_a_table_that_is_not_there_is_created(tmp_path):
    path = tmp_path / "new.db"
    reason = f"no row of todo in {path} is ready"
    assert play(Desk.claim, config(path, table="todo")) == reason
    execute(path, "INSERT INTO todo (title) VALUES ('a')")
    assert play(Desk.claim, config(path, table="todo")).title == "a"


def test_the_outcome_is_in_the_table(database):
    add(database, "a", "b", "c")

    async def story(desk):
        await desk.report(await desk.claim(), DONE)
        await desk.report(await desk.claim(), FAILED)
        await desk.release(await desk.claim())

    play(story, config(database))
    assert statuses(database) == [
        ("a", "done", "fixed", 1),
        ("b", "failed", "no disk", 1),
        ("c", "ready", "changed my mind", 1),
    ]
    assert execute(database, "SELECT claimed_by, claim_token FROM work_items WHERE id = 1") == [
        ("scout", None)
    ]


def test_a_claim_without_its_process_returns_when_the_lease_is_over(database):
    add(database, "a")
    with claimer(config(database), dies=True) as dying:
        assert dying.communicate("go\n") == ("1\n", None)
    (until,) = execute(database, "SELECT claimed_until FROM work_items")[0]

    async def at(instant):
        clock = VirtualClock(datetime.fromtimestamp(instant, UTC))
        found = await Desk(config(database), clock).claim()
        return found if isinstance(found, str) else found.title

    assert asyncio.run(at(until - 1)) == f"no row of work_items in {database} is ready"
    assert asyncio.run(at(until + 1)) == "a"
    assert statuses(database) == [("a", "claimed", None, 2)]


def test_a_job_that_outlasts_the_lease_keeps_its_item(database):
    add(database, "a")

    async def story():
        clock = VirtualClock("2026-01-05T09:00:00+00:00")
        mine, other = Desk(config(database, lease="5m"), clock), Desk(config(database, lease="5m"), clock)
        item = await mine.claim()
        await clock.advance(20 * 60)
        assert isinstance(await other.claim(), str)
        await mine.report(item, DONE)

    asyncio.run(story())
    assert statuses(database) == [("a", "done", "fixed", 1)]


def test_a_claim_that_was_lost_cannot_be_reported(database):
    add(database, "a")

    async def story(desk):
        item = await desk.claim()
        execute(database, "UPDATE work_items SET claimed_until = 0")
        other = Desk(desk.config)
        theirs = await other.claim()
        with pytest.raises(WorkSourceError, match="was claimed by another after its lease ran out"):
            await desk.report(item, FAILED)
        await other.report(theirs, DONE)

    play(story, config(database))
    assert statuses(database) == [("a", "done", "fixed", 2)]


def test_processes_that_claim_at_once_never_take_the_same_row(database):
    add(database, *map(str, range(80)))
    claimers = [claimer(config(database)) for _ in range(4)]
    for process in claimers:
        process.stdin.write("go\n")
        process.stdin.flush()
    taken = Counter(name for process in claimers for name in process.communicate()[0].split())
    assert taken == Counter(str(number) for number in range(1, 81))
    assert {row[1:] for row in statuses(database)} == {("done", "fixed", 1)}


@pytest.mark.parametrize("table", ["a b", 'x"; DROP TABLE y; --', "1st", "", "a" * 64, "sqlite.x", "é"])
def test_a_table_has_a_plain_name(database, table):
    (problem,) = problems_of_work_source(config(database, table=table))
    assert problem.path == ("table",)


def test_a_table_of_another_shape_is_an_error_and_stays_as_it_is(tmp_path):
    path = tmp_path / "other.db"
    execute(path, "CREATE TABLE work_items (id INTEGER, task TEXT)")
    with pytest.raises(WorkSourceError, match=r"work_items in .*other\.db: no such column"):
        play(Desk.claim, config(path))
    assert execute(path, "SELECT sql FROM sqlite_master") == [
        ("CREATE TABLE work_items (id INTEGER, task TEXT)",)
    ]


def test_a_file_that_is_no_database_is_an_error(tmp_path):
    path = tmp_path / "text.db"
    path.write_text("this is not a database, whatever its name says" * 20, encoding="utf-8")
    with pytest.raises(WorkSourceError, match="file is not a database"):
        play(Desk.claim, config(path))
