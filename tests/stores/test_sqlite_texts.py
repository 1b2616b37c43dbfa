"""Texts that schedules share: stored once, read once, and damaged for all that refer to them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.stores.notation import MINUTE, T0, declare, due_at, put, schedule
from tests.stores.sqlite_rig import edit, found_damaged, own_text, populate, with_store

from dutiful.core.cadence import Every, Once
from dutiful.core.changes import Changes
from dutiful.core.errors import OvertakenError
from dutiful.runtime.ports import Retention
from dutiful.stores.codec import encode_cadence, encode_policy, text_number
from dutiful.stores.sqlite import SqliteStore

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
CHECKSUM = "declaration: the row was changed outside dutiful: its checksum does not match"
A, B, C = schedule("a"), schedule("b"), schedule("c", Every(5000))
OF_A = "WHERE number = (SELECT cadence_number FROM declarations WHERE id = 'a')"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


def ask(path, query):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def texts(path):
    return {text for (text,) in ask(path, "SELECT text FROM texts")}


def texts_of(*schedules):
    return {encode_cadence(each.cadence) for each in schedules} | {
        encode_policy(each.policy) for each in schedules
    }


def test_equal_texts_are_stored_once_in_a_file(path):
    with_store(path, lambda store: declare(store, A, B, C))
    with_store(path, lambda store: declare(store, A), namespace="other")
    assert len(ask(path, "SELECT * FROM texts")) == 3
    assert texts(path) == texts_of(A, C)


def test_the_number_of_a_text_is_for_ever():
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript((GOLDEN / "sqlite-schema-1.sql").read_text(encoding="utf-8"))
        numbers = connection.execute("SELECT number, text FROM texts").fetchall()
    assert len(numbers) > 10
    assert [number for number, _ in numbers] == [text_number(text) for _, text in numbers]


# Damage


READS = {
    "get": lambda store: store.get("a"),
    "every": lambda store: store.every(),
    "load": lambda store: store.load(T0, 10),
    "survey": lambda store: store.survey([A, B]),
    "rearm": lambda store: store.rearm(0, 0),
}


@pytest.mark.parametrize("column", ["cadence", "policy"])
@pytest.mark.parametrize("read", READS)
def test_a_schedule_without_its_text_is_damaged_in_every_read(path, read, column):
    with_store(path, lambda store: declare(store, A, B))
    edit(path, f"UPDATE declarations SET {column}_number = 7 WHERE id = 'a'")

    async def look(store):
        await READS[read](store)
        return await store.damaged()

    problem = f"{column}: the table texts has no number 7, where its text should be"
    assert with_store(path, look) == [("a", problem)]


def test_a_person_is_shown_a_schedule_without_its_text(path):
    workflow = A._replace(task=A.task._replace(name="workflow", payload="{}"))
    with_store(path, lambda store: declare(store, workflow))
    edit(path, "DELETE FROM texts")
    with_store(path, found_damaged)
    [(cadence, problem)] = ask(path, "SELECT cadence, problem FROM overview")
    assert (cadence, problem.partition(":")[0]) == (None, "cadence")
    assert ask(path, "SELECT schedule_id, cron_expr, problem FROM schedules") == [("a", None, problem)]


def test_texts_are_cached_until_the_file_is_opened_again(path):
    async def look(store):
        await declare(store, A)
        assert await due_at(store, T0) == ["a"]
        edit(path, f"UPDATE texts SET text = 'soon' {OF_A}")
        assert await due_at(store, T0) == ["a"]
        await store.close()
        await store.open()
        return await due_at(store, T0)

    assert with_store(path, look) == []


# Several at once


def test_a_schedule_that_another_store_declares_is_read_with_its_texts(path):
    async def share(store):
        other = SqliteStore(path)
        await other.open()
        await declare(store, A)
        assert await due_at(other, T0) == ["a"]
        await declare(other, C)
        found = await store.get("c")
        await other.close()
        return found.schedule

    assert with_store(path, share) == C


def test_an_edit_that_is_undone_leaves_no_texts(path):
    async def fail(store):
        await declare(store, A)
        with pytest.raises(OvertakenError):
            await store.apply(Changes([put(C), put(A)._replace(version=9)]))
        assert await store.get("c") is None
        before = texts(path)
        await declare(store, C)
        return before, (await store.get("c")).schedule

    assert with_store(path, fail) == (texts_of(A), C)


# Texts without a declaration


def many(path):
    """Store more texts than are left alone."""
    edit(
        path,
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 10000)"
        " INSERT INTO texts SELECT n, 'text ' || n FROM n",
    )


def test_unused_texts_are_deleted_when_there_are_many(path):
    with_store(path, lambda store: declare(store, A))
    with_store(path, lambda store: declare(store, C), namespace="other")
    many(path)
    edit(path, *own_text("policy", "'{}'"))

    async def prune(store):
        assert await store.prune(T0 + MINUTE, Retention()) == 0

    with_store(path, prune)
    kept = {encode_cadence(A.cadence), "{}"} | texts_of(C)
    assert texts(path) == kept


def test_a_few_unused_texts_are_left_alone(path):
    async def edit_and_prune(store):
        await declare(store, A)
        await declare(store, A._replace(cadence=Every(5000)))
        await store.prune(T0 + MINUTE, Retention())

    with_store(path, edit_and_prune)
    assert texts(path) == texts_of(A, C)


def test_where_all_are_in_use_there_is_no_other_look_until_there_are_twice_as_many(path):
    async def prune_again_and_again(store):
        await declare(store, *(schedule(f"s{n}", Once(T0 + n)) for n in range(10_000)))
        await store.prune(T0, Retention())
        edit(path, "INSERT INTO texts VALUES (0, 'unused'), (-1, 'unused too')")
        await store.prune(T0, Retention())
        before = len(texts(path))
        many(path)
        await store.prune(T0, Retention())
        return before, len(texts(path))

    assert with_store(path, prune_again_and_again) == (10_003, 10_001)


def test_a_deleted_text_is_stored_again_by_a_store_that_caches_it(path):
    async def come_back(store):
        await declare(store, A)
        assert await due_at(store, T0) == ["a"]
        await store.apply(Changes([], ["a"]))
        many(path)
        await store.prune(T0, Retention())
        assert texts(path) == set()
        await declare(store, A)

    with_store(path, come_back)
    assert with_store(path, lambda store: due_at(store, T0)) == ["a"]


def test_a_number_that_was_given_before_is_not_given_again(path):
    with_store(path, lambda store: declare(store, A, B))
    edit(path, "DELETE FROM declarations WHERE id = 'b'")
    with_store(path, lambda store: declare(store, schedule("new")))
    assert ask(path, "SELECT number FROM declarations WHERE id = 'new'") == [(3,)]


def test_a_view_that_a_user_made_is_not_in_the_way(path):
    with_store(path, lambda store: declare(store, A, B))
    edit(path, "CREATE VIEW mine AS SELECT id FROM declarations")
    assert len(with_store(path, lambda store: store.every())) == len(ask(path, "SELECT * FROM mine")) == 2


def test_a_schedule_deleted_by_hand_takes_all_that_belongs_to_it_along(path):
    with_store(path, populate)
    edit(path, "DELETE FROM declarations")
    assert ask(path, "SELECT (SELECT count(*) FROM states) + (SELECT count(*) FROM runs)") == [(0,)]
