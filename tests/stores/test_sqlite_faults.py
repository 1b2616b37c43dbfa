"""What happens to a file while it is in use: locks, full disks, missing rights, vanished files."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from tests.stores.notation import T0, declare, due_at, pass_at, schedule
from tests.stores.sqlite_rig import run_script, with_store

from dutiful.core.errors import StoreError
from dutiful.stores.sqlite import SqliteStore
from dutiful.stores.sqlite.file import require


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


async def ids(store):
    return [due.schedule.id for due in await store.every()]


# Locks


def test_a_file_locked_for_too_long_is_an_error_and_then_it_goes_on(path):
    async def meet(store):
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="is locked by another program"):
            await declare(store, schedule("a"))
        assert await ids(store) == []
        other.execute("ROLLBACK")
        other.close()
        await declare(store, schedule("a"))
        assert await ids(store) == ["a"]

    with_store(path, meet, busy_timeout=0.01)


def test_a_file_locked_for_a_moment_is_waited_for(path):
    async def meet(store):
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(declare(store, schedule("a")))
        await asyncio.sleep(0)
        other.execute("COMMIT")
        other.close()
        await waiting
        assert await ids(store) == ["a"]

    with_store(path, meet)


# Full disks


def test_a_full_disk_stops_the_work_and_space_lets_it_go_on(path):
    async def fill(store):
        await declare(store, schedule("a"))
        await store._write(lambda connection, _: connection.execute("PRAGMA max_page_count = 1").fetchone())
        with pytest.raises(StoreError, match="cannot grow: make space on its disk") as caught:
            await declare(store, *(schedule(f"b{n}") for n in range(500)))
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert await ids(store) == ["a"]
        await store._write(
            lambda connection, _: connection.execute("PRAGMA max_page_count = 9999").fetchone()
        )
        await declare(store, *(schedule(f"b{n}") for n in range(500)))
        assert len(await ids(store)) == 501

    with_store(path, fill)


def test_a_file_size_limit_is_handled_like_a_full_disk(path):
    script = """
        import asyncio, resource, sys
        from dutiful.core.errors import StoreError
        from dutiful.stores.sqlite import SqliteStore
        from tests.stores.notation import declare, schedule

        async def main():
            store = SqliteStore(sys.argv[1])
            await store.open()
            await declare(store, schedule("a"))
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
            many = [schedule(f"b{n}") for n in range(2000)]
            try:
                await declare(store, *many)
            except StoreError as error:
                print(error)
                print(error.__cause__.sqlite_errorname)
            print(len(await store.every()))
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            await declare(store, *many)
            print(len(await store.every()))
            await store.close()

        asyncio.run(main())
    """
    message, name, before, after = run_script(script, path)
    assert "cannot be read or written: check the disk, its space and the file size limit" in message
    assert name == "SQLITE_IOERR_WRITE"
    assert (before, after) == ("1", "2001")


# Missing rights

WITHOUT_RIGHTS = """
    import asyncio, os, sys
    from dutiful.core.errors import StoreError
    from dutiful.stores.sqlite import SqliteStore

    async def main():
        store = SqliteStore(sys.argv[1])
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        try:
            await store.open()
        except StoreError as error:
            print(error)

    asyncio.run(main())
"""


@pytest.fixture
def open_directory():
    """A directory that every user may enter and only its owner may write to."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    yield directory
    directory.chmod(0o700)
    shutil.rmtree(directory)


def test_a_read_only_file_is_refused_at_once(open_directory):
    path = open_directory / "state.db"
    with_store(path, lambda store: declare(store, schedule("a")))
    path.chmod(0o444)
    [message] = run_script(WITHOUT_RIGHTS, path)
    assert message == (
        f"The database {path} is read-only: {path} must be writable by the user that runs dutiful"
    )


SCHEDULING_WITHOUT_RIGHTS = """
    import asyncio, os, sys
    from dutiful import Scheduler
    from dutiful.core.errors import DutifulError

    async def nothing():
        pass

    async def schedule(path):
        scheduler = Scheduler(f"sqlite:{path}")
        await scheduler.initialize([("first", "0 0 1 1 *", nothing, 60)])
        await scheduler.stop()

    # Python loads some modules when they are first used, and they may lie where another user cannot read.
    asyncio.run(schedule(sys.argv[2]))
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        asyncio.run(schedule(sys.argv[1]))
        print("scheduled")
    except DutifulError as error:
        print(f"{type(error).__name__}: {error}")
"""


def test_a_lock_file_of_another_user_is_refused_with_advice(open_directory, tmp_path):
    path, lock = open_directory / "state.db", open_directory / "state.db.default.lock"
    with_store(path, lambda store: store.lead("me"))
    open_directory.chmod(0o777)
    path.chmod(0o666)
    # An ordinary user cannot make a file of another user: a file without permissions stands for it.
    lock.chmod(0o600 if os.getuid() == 0 else 0)
    refusal = f"The lock file {lock} cannot be opened by this user: run as its owner, or delete it"
    arguments = path, tmp_path / "other.db"
    assert run_script(SCHEDULING_WITHOUT_RIGHTS, *arguments) == [f"StoreError: {refusal}"]
    lock.unlink()
    assert run_script(SCHEDULING_WITHOUT_RIGHTS, *arguments) == ["scheduled"]


def test_a_path_that_leads_nowhere_is_refused_with_the_reason_of_the_system(path, tmp_path):
    async def nothing(store):
        pass

    circle = tmp_path / "circle.db"
    circle.symlink_to(circle)
    lock = tmp_path / "state.db.default.lock"
    lock.mkdir()
    reasons = {circle: f"Too many levels of symbolic links: {circle}", path: f"Is a directory: {lock}"}
    for database, reason in reasons.items():
        with pytest.raises(StoreError) as caught:
            with_store(database, nothing)
        assert str(caught.value) == f"The database {database} cannot be used: {reason}"
        assert isinstance(caught.value.__cause__, OSError)


def test_a_read_only_directory_is_refused_at_once(open_directory):
    path = open_directory / "state.db"
    open_directory.chmod(0o555)
    [message] = run_script(WITHOUT_RIGHTS, path)
    assert "cannot be created: " in message
    assert "Permission denied" in message


def test_a_read_only_directory_is_no_place_for_the_log(open_directory):
    path = open_directory / "state.db"
    with_store(path, lambda store: declare(store, schedule("a")))
    path.chmod(0o666)
    open_directory.chmod(0o555)
    [message] = run_script(WITHOUT_RIGHTS, path)
    assert f"is read-only: {open_directory} must be writable" in message


# Vanished files


def test_a_deleted_file_is_noticed_before_anything_is_launched(path):
    async def lose(store):
        await declare(store, schedule("a"))
        await store.lead("me")
        path.unlink()
        with pytest.raises(StoreError, match=r"state\.db was deleted or replaced while it was in use"):
            await pass_at(store, T0)

    with_store(path, lose)


def test_a_replaced_file_is_noticed_before_anything_is_launched(path):
    async def lose(store):
        await declare(store, schedule("a"))
        await store.lead("me")
        shutil.copy(path, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)
        with pytest.raises(StoreError, match="put it back, then restart dutiful"):
            await pass_at(store, T0)

    with_store(path, lose)


def test_a_deleted_log_is_noticed_before_anything_is_launched(path):
    async def lose(store):
        await declare(store, schedule("a"))
        await store.lead("me")
        (path.parent / "state.db-wal").unlink()
        with pytest.raises(StoreError, match=r"state\.db-wal was deleted or replaced"):
            await pass_at(store, T0)

    with_store(path, lose)


def test_a_file_put_back_is_used_again(path):
    async def lose_and_find(store):
        await declare(store, schedule("a"))
        path.rename(path.with_suffix(".away"))
        with pytest.raises(StoreError):
            await store.every()
        path.with_suffix(".away").rename(path)
        assert await ids(store) == ["a"]

    with_store(path, lose_and_find)


# Misuse


def test_a_store_that_is_not_open_says_so(path):
    async def use():
        with pytest.raises(StoreError, match=r"is not open: call open\(\) first"):
            await SqliteStore(path).every()

    asyncio.run(use())


def test_an_old_library_is_refused():
    with pytest.raises(StoreError, match=r"linked to SQLite 3\.37\.2: use one with 3\.38\.0 or later"):
        require((3, 37, 2))
    require((3, 38, 0))


def test_namespaces_do_not_see_each_other(path):
    async def share(one):
        other = SqliteStore(path, namespace="other")
        await other.open()
        await declare(one, schedule("a"), schedule("both"))
        await declare(other, schedule("b"), schedule("both"))
        assert [await store.lead("me") for store in (one, other)] == [1, 1]
        assert await due_at(one, T0) == ["a", "both"]
        assert len(await pass_at(other, T0)) == 2
        assert await one.ledger("both", None, 10) == []
        await other.close()

    with_store(path, share)


def test_an_opening_that_was_given_up_takes_no_lock_from_the_next(path):
    verifying, finish = threading.Event(), threading.Event()

    async def scenario():
        store, other = SqliteStore(path), SqliteStore(path)
        await other.open()
        await other.close()
        verify = store._file.verify

        def slowly(*args, **kwargs):
            store._file.verify = verify
            verifying.set()
            finish.wait(30)
            verify(*args, **kwargs)

        # A large file on a slow disk.
        store._file.verify = slowly
        first = asyncio.create_task(store.open())
        await asyncio.to_thread(verifying.wait, 30)
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        [thread] = [each for each in threading.enumerate() if each.name == f"dutiful {path}"]
        asyncio.get_running_loop().call_later(0.2, finish.set)
        await store.open()
        epoch = await store.lead("me")
        await asyncio.to_thread(thread.join)
        await other.open()
        found = epoch, await other.lead("other"), store.holds(1), (await store.leader()).pid
        await store.close()
        after = await other.lead("other")
        await other.close()
        return found, after

    assert asyncio.run(scenario()) == ((1, None, True, os.getpid()), 2)


def test_a_lock_that_comes_after_its_owner_was_cancelled_is_free_again(path):
    acquiring, closing = threading.Event(), threading.Event()

    async def scenario():
        store, other = SqliteStore(path), SqliteStore(path)
        await store.open()
        acquire = store._lock.acquire
        store._lock.acquire = lambda loop: acquiring.set() or (closing.wait(30) and acquire(loop))
        leading = asyncio.create_task(store.lead("me"))
        await asyncio.to_thread(acquiring.wait, 30)
        leading.cancel()
        with suppress(asyncio.CancelledError):
            await leading
        asyncio.get_running_loop().call_later(0.2, closing.set)
        await store.close()
        await other.open()
        epoch = await other.lead("other")
        await other.close()
        return epoch

    assert asyncio.run(scenario()) == 1


def test_opening_and_closing_twice_is_harmless(path):
    async def run(store):
        await store.open()
        await declare(store, schedule("a"))
        await store.close()
        await store.close()
        await store.open()
        assert await ids(store) == ["a"]

    with_store(path, run)


def test_the_due_query_walks_the_index_and_sorts_nothing(path):
    async def explain(store):
        from dutiful.stores.sqlite.reads import _DUE, _NEXT_WAKE

        plan = await store._read(
            lambda connection, _: [
                row[3]
                for query, values in ((_DUE, ("default", T0, 10)), (_NEXT_WAKE, ("default", 10)))
                for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values)
            ]
        )
        assert plan == [
            "SEARCH states USING INDEX states_due (namespace=? AND wake_at<?)",
            "SEARCH declarations USING INTEGER PRIMARY KEY (rowid=?)",
            "SEARCH states USING COVERING INDEX states_due (namespace=? AND wake_at>?)",
        ]

    with_store(path, explain)
