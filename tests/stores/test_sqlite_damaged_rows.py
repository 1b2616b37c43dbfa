"""Rows that cannot be read: each stops its schedule alone, and is shown."""

from __future__ import annotations

import sqlite3

import pytest
from tests.stores.notation import MINUTE, T0, declare, due_at, pass_at, put, schedule
from tests.stores.sqlite_rig import edit, found_damaged, populate, with_store

from dutiful.core.changes import Changes
from dutiful.core.errors import StoreError
from dutiful.core.policy import Capacity
from dutiful.runtime.ports import RunFilter


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


def flip(path, text):
    """Flip one bit of every copy of `text` in the file."""
    content = path.read_bytes()
    assert text in content
    path.write_bytes(content.replace(text, bytes([text[0] ^ 1]) + text[1:]))


def test_a_flipped_bit_in_a_declaration_stops_that_schedule_alone(path):
    with_store(path, populate)
    flip(path, b"hello s007")

    async def go_on(store):
        await store.lead("me")
        assert await store.get("s007") is None
        assert len(await due_at(store, T0 + MINUTE)) == len(await store.every()) == 299
        [(id_, problem)] = await found_damaged(store)
        assert (id_, problem) == (
            "s007",
            "declaration: the row was changed outside dutiful: its checksum does not match",
        )

    with_store(path, go_on)
    with_store(path, go_on)


def test_a_damaged_schedule_is_found_without_being_due(path):
    async def declare_for_later(store):
        await store.apply(Changes([put(schedule("later"), T0 + 10**9)]))

    with_store(path, declare_for_later)
    flip(path, b"hello later")

    async def look(store):
        assert [id_ for id_, _ in await found_damaged(store)] == ["later"]
        assert (await store.load(T0 + 10**10, 10)).batch.due == []

    with_store(path, look)


def test_a_damaged_schedule_is_not_counted(path):
    async def declare_two(store):
        await store.apply(Changes([put(schedule("later"), T0 + 10**9), put(schedule("other"), T0 + 10**9)]))
        assert await store.count() == 2

    with_store(path, declare_two)
    flip(path, b"hello later")

    async def look(store):
        await found_damaged(store)
        assert await store.count() == 1

    with_store(path, look)


@pytest.mark.parametrize(("owner", "found"), [(None, 3), ("ada", 0)])
def test_runs_are_found_beside_a_payload_that_is_no_json(path, owner, found):
    with_store(path, lambda store: populate(store, 3))
    page = with_store(path, lambda store: store.runs(RunFilter(owner=owner), None, 10))
    assert len(page.runs) == found


READS = {
    "get": lambda store: store.get("later"),
    "some": lambda store: store.some(["later", "other"]),
    "page": lambda store: store.page("", 10),
    "every": lambda store: store.every(),
    "survey": lambda store: store.survey([schedule("later"), schedule("other")]),
    "load": lambda store: store.load(T0 + 10**10, 10),
    "rearm": lambda store: store.rearm(0, 1),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_whoever_finds_a_schedule_damaged_marks_it(path, read):
    async def declare_for_later(store):
        await store.apply(Changes([put(schedule("later"), T0 + 10**9), put(schedule("other"), T0 + 10**9)]))

    with_store(path, declare_for_later)
    flip(path, b"hello later")

    async def look(store):
        assert await store.damaged() == []
        await read(store)
        return [id_ for id_, _ in await store.damaged()]

    assert with_store(path, look) == ["later"]


def test_a_repaired_schedule_goes_on_with_the_next_leader(path):
    with_store(path, populate)
    flip(path, b"hello s007")

    async def find(store):
        assert len(await due_at(store, T0 + MINUTE)) == 299

    with_store(path, find)
    flip(path, b"iello s007")

    async def go_on(store):
        await store.lead("me")
        assert await found_damaged(store) == []
        assert (await due_at(store, 0)) == ["s007"]

    with_store(path, go_on)


def test_declaring_a_damaged_schedule_anew_repairs_it_and_keeps_its_history(path):
    with_store(path, populate)
    flip(path, b"hello s007")

    async def repair(store):
        assert len(await found_damaged(store)) == 1
        await declare(store, schedule("s007"))
        assert await found_damaged(store) == []
        assert (await store.get("s007")).schedule == schedule("s007")
        assert len(await store.ledger("s007", None, 10)) == 1

    with_store(path, repair)


def test_a_run_that_cannot_be_read_stops_its_schedule_alone(path):
    async def launch(store):
        await declare(store, schedule("a"), schedule("b"))
        await store.lead("me")
        await pass_at(store, T0)

    with_store(path, launch)
    edit(path, "UPDATE runs SET phase = 'lunched' WHERE schedule = 1")

    async def go_on(store):
        await store.lead("me")
        assert await due_at(store, T0) == ["b"]
        assert await found_damaged(store) == [("a", f"run at {T0}: the word 'lunched' is unknown")]
        for read in (store.ledger("a", None, 10), store.runs(RunFilter(), None, 10)):
            with pytest.raises(StoreError, match="The ledger of 'a' cannot be read"):
                await read

    with_store(path, go_on)


def test_a_run_of_a_damaged_schedule_holds_no_place_in_its_group(path):
    one_place = Capacity("agent", 1)

    async def launch(store):
        await declare(store, schedule("a", capacity=one_place), schedule("b", capacity=one_place))
        await store.lead("me")
        assert [launch.run.schedule_id for launch in await pass_at(store, T0)] == ["a"]

    with_store(path, launch)
    flip(path, b"hello a")

    async def go_on(store):
        await store.lead("me")
        assert [launch.run.schedule_id for launch in await pass_at(store, T0 + MINUTE, epoch=2)] == ["b"]

    with_store(path, go_on)


def test_a_state_that_cannot_be_read_stops_its_schedule_alone(path):
    with_store(path, populate)
    edit(path, "UPDATE states SET skipped_at = 1, skipped_reason = 'bored' WHERE number = 1")

    async def go_on(store):
        assert await found_damaged(store) == [("s000", "state: the reason 'bored' is unknown")]
        assert len(await store.every()) == 299

    with_store(path, go_on)


@pytest.mark.parametrize("name", ["clean", "epoch"])
def test_a_fact_that_is_no_number_is_told(path, name):
    with_store(path, populate)
    edit(path, f"UPDATE meta SET value = 'x' WHERE name = '{name}'")

    async def lead(store):
        await store.lead("me")

    with pytest.raises(
        StoreError, match=f"'{name}' of the namespace 'default' is 'x' in the table meta: it must"
    ):
        with_store(path, lead)


def test_a_schedule_deleted_by_hand_is_gone_with_all_that_belongs_to_it(path):
    with_store(path, populate)
    edit(path, "DELETE FROM declarations WHERE id = 's007'")

    async def go_on(store):
        assert "s007" not in await due_at(store, T0 + MINUTE)
        assert (await store.load(T0 + MINUTE, 299)).next_wake is None
        assert await store.ledger("s007", None, 10) == []

    with_store(path, go_on)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM runs").fetchone() == (299,)
    connection.close()
