"""A log that lost its middle is told from one whose end a crash has torn."""

from __future__ import annotations

import shutil
import sqlite3
import struct
from random import Random

import pytest
from tests.stores.sqlite_rig import process

from dutiful.stores.sqlite.wal_check import lost_at

HEADER, FRAME = 32, 24 + 4096


def connect(path):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection


def commit(connection, rows):
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO t VALUES (randomblob(?))", [(3000,)] * rows)
    connection.execute("COMMIT")


@pytest.fixture
def crashed(tmp_path):
    """A database with a log of some commits, as a crash leaves it."""
    path, image = tmp_path / "live.db", tmp_path / "crashed.db"
    connection = connect(path)
    connection.execute("CREATE TABLE t (x)")
    for rows in (3, 1, 5, 2, 4):
        commit(connection, rows)
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{image}{suffix}")
    connection.close()
    return image


@pytest.fixture
def log(crashed):
    return crashed.with_name("crashed.db-wal")


def commits(content):
    """Return the numbers of the frames that commit."""
    count = (len(content) - HEADER) // FRAME
    return [n for n in range(count) if struct.unpack_from(">I", content, HEADER + n * FRAME + 4) != (0,)]


def rows_of(path):
    connection = sqlite3.connect(path)
    count = connection.execute("SELECT count(*) FROM t").fetchone()[0]
    connection.close()
    return count


def flipped(content, at):
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


def test_a_log_that_is_whole_has_lost_nothing(crashed, log):
    assert len(commits(log.read_bytes())) == 6
    assert lost_at(log) is None
    assert rows_of(crashed) == 15


@pytest.mark.parametrize("content", [None, b"", b"x" * 31, b"x" * 32, b"x" * 40], ids=str)
def test_where_there_are_no_frames_nothing_is_lost(tmp_path, content):
    path = tmp_path / "some-wal"
    if content is not None:
        path.write_bytes(content)
    assert lost_at(path) is None


def test_a_log_of_many_chunks_is_followed_to_its_end(tmp_path):
    path = tmp_path / "live.db"
    connection = connect(path)
    connection.execute("CREATE TABLE t (x)")
    for _ in range(4):
        commit(connection, 400)
    log, copy = tmp_path / "live.db-wal", tmp_path / "copy"
    content = log.read_bytes()
    last_but_one = commits(content)[-2]
    assert (lost_at(log), last_but_one > 1100) == (None, True)
    for number in (511, 512, 513, 1023, 1024, last_but_one):
        copy.write_bytes(flipped(content, HEADER + number * FRAME + 2000))
        assert lost_at(copy) == number
    connection.close()


def test_a_damaged_frame_is_found_unless_it_belongs_to_the_last_commit(log):
    content, rng = log.read_bytes(), Random(7)
    synced, found, expected = commits(content)[-2] + 1, {}, {}
    # Not what makes a frame a commit: its number of pages, and with the last but one its salts.
    header, page = [*range(4), *range(16, 24)], [rng.randrange(24, FRAME) for _ in range(12)]
    for number in range((len(content) - HEADER) // FRAME):
        for place in header + page + [*range(8, 16)] * (number != synced - 1):
            log.write_bytes(flipped(content, HEADER + number * FRAME + place))
            found[number, place] = lost_at(log)
            expected[number, place] = number if number < synced else None
    assert found == expected


@pytest.mark.parametrize("at", range(HEADER))
def test_a_damaged_header_loses_everything(log, at):
    log.write_bytes(flipped(log.read_bytes(), at))
    assert lost_at(log) == 0


def test_a_torn_end_is_what_crashes_leave(log):
    content = log.read_bytes()
    for length in range(0, len(content), 999):
        log.write_bytes(content[:length])
        assert lost_at(log) is None, length


def test_of_the_last_commit_any_frame_may_be_missing(log):
    content = log.read_bytes()
    *_, before, last = commits(content)
    for number in range(before + 1, last + 1):
        at = HEADER + number * FRAME
        log.write_bytes(content[:at] + bytes(FRAME) + content[at + FRAME :])
        assert lost_at(log) is None, number


def test_what_an_earlier_generation_left_behind_is_not_missed(tmp_path):
    path = tmp_path / "live.db"
    connection = connect(path)
    connection.execute("CREATE TABLE t (x)")
    for _ in range(5):
        commit(connection, 10)
    size = path.with_name("live.db-wal").stat().st_size
    connection.execute("PRAGMA wal_checkpoint(RESTART)")
    for _ in range(3):
        commit(connection, 1)
    log = path.with_name("live.db-wal")
    assert (log.stat().st_size, lost_at(log)) == (size, None)
    content = log.read_bytes()
    log.write_bytes(flipped(content, HEADER + 100))
    assert lost_at(log) == 0
    log.write_bytes(content)
    connection.close()


def summed(data, sums):
    one, other = sums
    words = struct.unpack(f">{len(data) // 4}I", data)
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + other) & 0xFFFFFFFF
        other = (other + second + one) & 0xFFFFFFFF
    return one, other


def test_a_log_of_a_machine_with_the_other_byte_order_is_understood(crashed, log):
    content = bytearray(log.read_bytes())
    struct.pack_into(">I", content, 0, 0x377F0683)
    sums = summed(content[:24], (0, 0))
    struct.pack_into(">II", content, 24, *sums)
    for at in range(HEADER, len(content), FRAME):
        sums = summed(content[at : at + 8] + content[at + 24 : at + FRAME], sums)
        struct.pack_into(">II", content, at + 16, *sums)
    log.write_bytes(content)
    assert lost_at(log) is None
    log.write_bytes(flipped(content, HEADER + 3 * FRAME + 99))
    assert lost_at(log) == 3
    log.write_bytes(content)
    # SQLite is of the same opinion.
    assert rows_of(crashed) == 15


WRITE = """
import itertools, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
connection.execute("PRAGMA synchronous = OFF")
connection.execute("PRAGMA wal_autocheckpoint = 60")
connection.execute("PRAGMA journal_size_limit = 100000")
connection.execute("CREATE TABLE t (x)")
print("ready", flush=True)
for n in itertools.count():
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO t VALUES (randomblob(?))", [(3000,)] * (n % 23 + 1))
    connection.execute("DELETE FROM t WHERE rowid % 7 <> 0")
    connection.execute("COMMIT")
"""


def test_nothing_is_lost_while_another_process_writes_and_begins_the_log_anew(tmp_path):
    path, generations = tmp_path / "live.db", set()
    log = path.with_name("live.db-wal")
    with process(WRITE, path) as writer:
        writer.stdout.readline()
        while len(generations) < 100:
            assert lost_at(log) is None
            with log.open("rb") as file:
                generations.add(file.read(HEADER)[16:24])
