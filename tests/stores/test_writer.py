"""The writer thread: jobs that wait together are committed together, and fail alone."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import weakref
from contextlib import closing

import pytest

from dutiful.core.errors import StoreError
from dutiful.stores.sqlite.writer import Writer

SCHEMA = """
CREATE TABLE t (x INTEGER PRIMARY KEY);
CREATE TABLE child (x INTEGER REFERENCES t (x) DEFERRABLE INITIALLY DEFERRED);
"""


class Bench:
    """A writer over a small database, with the transactions it made."""

    def __init__(self, path):
        self.path, self.trace, self.broken = path, [], None
        self.writer = Writer(str(path), lambda: closing(self.connect()), self.check)

    def connect(self):
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.executescript(SCHEMA)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.set_trace_callback(self.trace.append)
        return connection

    def check(self):
        if self.broken is not None:
            raise self.broken

    def together(self, *works):
        """Queue all works while the thread is kept busy, and return their futures."""
        gate, busy = threading.Event(), threading.Event()
        first = self.writer.read(lambda _: busy.set() or gate.wait())
        busy.wait()
        futures = [self.writer.write(work) for work in works]
        gate.set()
        return asyncio.gather(first, *futures, return_exceptions=True)


def bench(scenario):
    def test(tmp_path):
        async def run():
            bench = Bench(tmp_path / "t.db")
            await bench.writer.start()
            await scenario(bench)
            await bench.writer.stop()

        asyncio.run(run())

    test.__name__ = scenario.__name__
    return test


def insert(x, table="t"):
    return lambda connection: connection.execute(f"INSERT INTO {table} VALUES (?)", (x,)).lastrowid


def count(connection):
    return connection.execute("SELECT count(*) FROM t").fetchone()[0]


@bench
async def test_jobs_that_wait_together_share_one_transaction(bench):
    _, *answers = await bench.together(*map(insert, range(50)))
    assert answers == list(range(50))
    # The other transaction is of the read that kept the thread busy.
    assert (bench.trace.count("BEGIN"), bench.trace.count("BEGIN IMMEDIATE")) == (1, 1)
    assert bench.trace.count("COMMIT") == 2


@bench
async def test_a_failing_piece_of_work_undoes_only_itself(bench):
    def half_done(connection):
        insert(7)(connection)
        insert(1)(connection)

    _, one, failed, two = await bench.together(insert(1), half_done, insert(2))
    assert (one, two) == (1, 2)
    assert isinstance(failed, StoreError)
    assert isinstance(failed.__cause__, sqlite3.IntegrityError)
    assert await bench.writer.read(count) == 2


@bench
async def test_a_single_failing_piece_of_work_leaves_nothing_behind(bench):
    def half_done(connection):
        insert(1)(connection)
        raise LookupError("a bug")

    with pytest.raises(LookupError, match="a bug"):
        await bench.writer.write(half_done)
    assert await bench.writer.read(count) == 0


@bench
async def test_a_commit_that_fails_fails_all_of_it(bench):
    _, *answers = await bench.together(insert(1), insert(99, "child"), insert(2))
    assert [type(answer) for answer in answers] == [StoreError] * 3
    assert await bench.writer.read(count) == 0


@bench
async def test_nothing_is_answered_before_it_is_committed(bench):
    seen = []
    future = bench.writer.write(insert(1))
    future.add_done_callback(lambda _: seen.append(bench.trace[-1]))
    await future
    await asyncio.sleep(0)
    assert seen == ["COMMIT"]


@bench
async def test_a_read_cannot_become_a_write(bench):
    with pytest.raises(StoreError, match="is read-only"):
        await bench.writer.read(insert(1))
    assert await bench.writer.write(insert(1)) == 1


@bench
async def test_a_job_whose_caller_was_cancelled_is_not_begun(bench):
    gate, begun = threading.Event(), threading.Event()
    busy = bench.writer.read(lambda _: begun.set() or gate.wait())
    begun.wait()
    unwanted = bench.writer.write(insert(1))
    unwanted.cancel()
    gate.set()
    await busy
    assert await bench.writer.read(count) == 0


@bench
async def test_the_event_loop_turns_while_the_thread_works(bench):
    gate = threading.Event()
    busy = bench.writer.write(lambda _: gate.wait(timeout=60))
    await asyncio.sleep(0)
    # Were the loop to wait for the work, nobody could open the gate.
    gate.set()
    assert await busy


@bench
async def test_a_check_that_fails_keeps_everything_from_happening(bench):
    bench.broken = StoreError("The file is gone", "put it back")
    with pytest.raises(StoreError, match="The file is gone: put it back"):
        await bench.writer.write(insert(1))
    bench.broken = None
    assert await bench.writer.read(count) == 0


@bench
async def test_work_that_meets_bytes_that_are_no_text_is_done_anew_and_sees_them_escaped(bench):
    def insert_and_read(connection):
        insert(2)(connection)
        return connection.execute("SELECT CAST(x'61ff' AS TEXT)").fetchone()[0]

    assert await bench.together(insert(1), insert_and_read, insert(3)) == [True, 1, r"a\xff", 3]
    assert await bench.writer.read(count) == 3


@bench
async def test_a_value_that_no_column_holds_is_an_error_of_the_store(bench):
    with pytest.raises(StoreError) as caught:
        await bench.writer.write(insert(2**63))
    assert isinstance(caught.value.__cause__, OverflowError)


def test_a_failed_connection_is_raised_by_start(tmp_path):
    def connect():
        return sqlite3.connect(tmp_path / "missing" / "t.db")

    async def start():
        await Writer("t.db", lambda: closing(connect()), lambda: None).start()

    with pytest.raises(StoreError, match=r"t\.db cannot be opened"):
        asyncio.run(start())


def test_a_start_that_is_given_up_leaves_no_thread_behind(tmp_path):
    bench, gate = Bench(tmp_path / "t.db"), threading.Event()
    writer = Writer("t.db", lambda: gate.wait() and closing(bench.connect()), bench.check)

    async def give_up():
        starting = asyncio.ensure_future(writer.start())
        await asyncio.sleep(0)
        [thread] = [each for each in threading.enumerate() if each.name == "dutiful t.db"]
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        gate.set()
        await asyncio.to_thread(thread.join)

    asyncio.run(give_up())


def test_an_answer_to_a_closed_loop_is_dropped(tmp_path):
    bench, gate = Bench(tmp_path / "t.db"), threading.Event()

    async def leave_early():
        await bench.writer.start()
        bench.writer.write(lambda connection: gate.wait() and insert(1)(connection))

    async def come_back():
        gate.set()
        assert await bench.writer.read(count) == 1
        await bench.writer.stop()

    asyncio.run(leave_early())
    asyncio.run(come_back())


@bench
async def test_nothing_of_a_job_is_held_on_to_while_waiting_for_the_next(bench):
    class Work:
        def __call__(self, _connection):
            return None

    work = Work()
    held = weakref.ref(work)
    await bench.writer.write(work)
    del work
    async with asyncio.timeout(10):
        # The thread may still be on its way back from the answer.
        while held() is not None:  # noqa: ASYNC110 - a thread that lets go tells nobody
            await asyncio.sleep(0)
