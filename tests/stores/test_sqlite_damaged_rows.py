"""Rows that cannot be read: each stops its schedule alone, and is shown."""

from __future__ import annotations

import pytest
from tests.stores.notation import MINUTE, T0, declare, due_at, schedule
from tests.stores.sqlite_rig import edit, found_damaged, populate, with_store

from dutiful.core.errors import StoreError
from dutiful.runtime.ports import RunFilter
from dutiful.stores.sqlite import reads


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


def test_a_mark_that_comes_after_the_repair_of_its_schedule_changes_nothing(path):
    with_store(path, lambda store: declare(store, schedule("a")))
    edit(path, "UPDATE declarations SET payload = 'spoiled'")

    async def repair(store):
        _, found = await store._decode(reads.every)
        assert [damage.id for damage in found] == ["a"]
        # Another process repairs the schedule before the one that found it damaged says so.
        await declare(store, schedule("a"))
        await store._mark(found)
        return [due.schedule.id for due in await store.every()], await store.damaged()

    assert with_store(path, repair) == (["a"], [])


@pytest.mark.parametrize(("owner", "found"), [(None, 3), ("ada", 0)])
def test_runs_are_found_beside_a_payload_that_is_no_json(path, owner, found):
    with_store(path, lambda store: populate(store, 3))
    page = with_store(path, lambda store: store.runs(RunFilter(owner=owner), None, 10))
    assert len(page.runs) == found


@pytest.mark.parametrize("name", ["clean", "epoch"])
def test_a_fact_that_is_no_number_is_reported(path, name):
    with_store(path, populate)
    edit(path, f"UPDATE meta SET value = 'x' WHERE name = '{name}'")

    async def lead(store):
        await store.lead("me")

    with pytest.raises(
        StoreError, match=f"'{name}' of the namespace 'default' is 'x' in the table meta: it must"
    ):
        with_store(path, lead)
