"""Damaged files: each case ends in an error that says what to do, or does no harm."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat

import pytest
from tests.stores.notation import MINUTE, T0, checksum, declare, put, schedule
from tests.stores.sqlite_rig import edit, found_damaged, own_text, populate, run_all, with_store

from dutiful.core.cadence import Every
from dutiful.core.changes import Changes
from dutiful.core.errors import CodecError, StoreError
from dutiful.stores.codec import declare as encode
from dutiful.stores.sqlite import SqliteStore


async def nothing(_):
    pass


def refusal(path, scenario=nothing, **settings):
    """Return the message with which the file is refused."""
    with pytest.raises(StoreError) as caught:
        with_store(path, scenario, **settings)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


@pytest.fixture
def crashed(tmp_path, path):
    """A database whose leader died: what was on the disk while it was open."""
    image = tmp_path / "crashed.db"

    async def crash(store):
        await populate(store)
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{image}{suffix}")

    with_store(path, crash)
    # Everything into the one file, as the next start would do.
    connection = sqlite3.connect(image)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return image


# What cannot be opened


def test_a_new_file_is_for_its_owner_only(path):
    with_store(path, populate)
    for file in path.parent.glob("state.db*"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_a_missing_directory_is_named(path):
    assert f"create {path.parent / 'no'}" in refusal(path.parent / "no" / "state.db")


def test_a_directory_is_no_file(tmp_path):
    assert "is a directory: name a file in it" in refusal(tmp_path)


@pytest.mark.parametrize("content", [b"x", b"x" * 511, b"hello\n" * 500], ids=["tiny", "small", "text"])
def test_a_file_that_is_no_database_is_left_as_it_is(path, content):
    path.write_bytes(content)
    assert "is not a SQLite database: name another file" in refusal(path)
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_left_as_it_is(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE schedules (x)")
    connection.close()
    content = path.read_bytes()
    assert "belongs to another program" in refusal(path)
    assert path.read_bytes() == content


def test_an_empty_file_is_a_new_store_unless_it_was_in_use_before(path):
    path.touch()
    with_store(path, populate)
    path.write_bytes(b"")
    assert "is empty and was in use before" in refusal(path)


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("INSERT INTO meta VALUES ('', 'schema 0002', 'abc')", "has schema 2, and this release knows 1"),
        ("UPDATE meta SET value = 'abc' WHERE name = 'schema 0001'", "has a schema that this release"),
    ],
)
def test_a_schema_of_another_release_is_left_as_it_is(path, statement, problem):
    with_store(path, populate)
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = path.read_bytes()
    message = refusal(path)
    assert problem in message
    assert "upgrade dutiful" in message
    assert path.read_bytes() == content


# Damaged pages


def test_after_a_crash_everything_is_there_and_the_file_is_looked_over(crashed):
    async def look(store):
        assert len(await store.every()) == 300
        assert await store.lead("heir") == 2

    with_store(crashed, look)


def test_random_bytes_in_the_pages_are_found_after_a_crash(crashed):
    damage_pages(crashed)
    content = crashed.read_bytes()
    message = refusal(crashed)
    assert "is damaged: " in message
    assert (
        "stop dutiful, keep a copy of the file, and restore a backup; without one, `sqlite3 FILE .rec"
        in message
    )
    assert crashed.read_bytes() == content


def test_a_truncated_file_is_found_after_a_crash(crashed):
    content = crashed.read_bytes()[: 4096 * 5]
    crashed.write_bytes(content)
    assert "is damaged" in refusal(crashed)
    assert crashed.read_bytes() == content


def test_damage_that_shows_only_when_it_is_read_is_reported_then(path):
    with_store(path, populate)
    content = bytearray(path.read_bytes())
    content[4096 * 3 :] = b"\xff" * (len(content) - 4096 * 3)
    path.write_bytes(content)
    # Too much to be looked over at each start.
    grow(path, 513)

    async def read(store):
        await store.every()

    assert "is damaged" in refusal(path, read)


def damage_pages(path):
    content = bytearray(path.read_bytes())
    # Behind the pages of the schema, which every opening reads.
    for page in range(48, len(content) // 4096, 7):
        content[page * 4096 : page * 4096 + 200] = bytes(range(200))
    path.write_bytes(content)


def damage_index(path):
    """Let the index of what is due name another instant than its table has, as one flipped bit does."""
    content, entry = path.read_bytes(), b"default" + (T0 + MINUTE).to_bytes(6, "big")
    assert entry in content
    path.write_bytes(content.replace(entry, entry[:-1] + bytes([entry[-1] ^ 1]), 1))


def grow(path, mebibytes):
    """Make the file as long as if it held that much; what is beyond its last page does not count."""
    os.truncate(path, mebibytes * 1024 * 1024)


@pytest.mark.parametrize("size", [None, 65, 512])
def test_damaged_pages_are_found_after_a_goodbye_too(path, size):
    with_store(path, populate)
    damage_pages(path)
    if size is not None:
        grow(path, size)
    assert "is damaged" in refusal(path)


def test_of_a_huge_file_the_pages_are_looked_at_after_a_crash_only(path, crashed):
    for file in (path, crashed):
        damage_pages(file)
        grow(file, 513)
    with_store(path, nothing)
    assert "is damaged" in refusal(crashed)


def test_an_index_that_does_not_fit_its_table_is_refused_until_it_is_made_anew(path):
    with_store(path, populate)
    damage_index(path)
    message = refusal(path)
    assert "is damaged: row 133 missing from index states_due: stop dutiful, keep a copy" in message
    assert "`sqlite3 FILE REINDEX` makes the indexes anew" in message
    edit(path, "REINDEX")
    with_store(path, nothing)


def test_a_file_is_not_verified_again_while_a_process_leads(path):
    with_store(path, populate)

    async def lead(store):
        await store.lead("me")
        damage_index(path)
        second = SqliteStore(path)
        await second.open()
        await second.close()

    with_store(path, lead)


def test_a_log_that_is_damaged_in_its_middle_is_refused_and_left_as_it_is(tmp_path, path):
    image, log = tmp_path / "crashed.db", tmp_path / "crashed.db-wal"

    async def crash(store):
        await populate(store)
        shutil.copy(path, image)
        shutil.copy(f"{path}-wal", log)

    with_store(path, crash)
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    message = refusal(image)
    assert re.search(r"has a log, .*-wal, that is damaged in frame \d+, with commits after it: stop", message)
    assert refusal(image) == message
    assert log.read_bytes() == content
    # What the message advises.
    connection = sqlite3.connect(image)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with_store(image, nothing)


def test_a_log_that_cannot_be_read_is_reported(path):
    with_store(path, populate)
    path.with_name("state.db-wal").mkdir()
    assert "cannot be opened" in refusal(path)


# What must survive


def test_keys_of_a_later_release_survive_edits_and_runs(path):
    with_store(path, populate)
    edit(
        path,
        "ALTER TABLE declarations ADD COLUMN note TEXT",
        "ALTER TABLE runs ADD COLUMN note TEXT",
        "UPDATE declarations SET note = 'mine'",
        "UPDATE runs SET note = 'mine'",
    )

    async def work(store):
        await store.lead("me")
        await store.apply(Changes([put(schedule("s000", paused=True), cursor=T0)]))
        await run_all(store, T0 + MINUTE, 2)

    with_store(path, work)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM declarations WHERE note = 'mine'").fetchone() == (300,)
    assert connection.execute("SELECT count(*) FROM runs WHERE note = 'mine'").fetchone() == (300,)
    connection.close()


def test_a_key_of_a_later_release_survives_an_edit_that_leaves_its_text_alone(path):
    with_store(path, populate)
    declaration = encode(schedule("s000"))
    declaration = declaration._replace(policy=declaration.policy[:-1] + ',"shiny":[1,2]}')
    edit(path, *own_text("policy", f"'{declaration.policy}'", "s000"))
    edit(path, f"UPDATE declarations SET checksum = {checksum('s000', declaration)} WHERE id = 's000'")

    async def pause(store):
        assert await found_damaged(store) == []
        await store.apply(Changes([put(schedule("s000", paused=True))]))
        assert (await store.get("s000")).schedule == schedule("s000", paused=True)

    with_store(path, pause)
    connection = sqlite3.connect(path)
    policy, paused = connection.execute(
        "SELECT text, paused FROM declarations JOIN texts ON texts.number = policy_number WHERE id = 's000'"
    ).fetchone()
    connection.close()
    assert (policy, paused) == (declaration.policy, 1)


def test_an_apply_that_cannot_be_stored_changes_nothing(path):
    async def fail(store):
        await declare(store, schedule("kept"))
        changes = Changes([put(schedule("new")), put(schedule("bad", Every(1.5)))], ["kept"])
        with pytest.raises(CodecError, match="'bad', cadence: 'period' must be int, not float"):
            await store.apply(changes)
        assert [due.schedule.id for due in await store.every()] == ["kept"]

    with_store(path, fail)
