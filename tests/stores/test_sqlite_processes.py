"""Several processes and one file: one leads, the others stand by and take over."""

from __future__ import annotations

import subprocess

import pytest
from tests.stores.notation import T0, declare, due_at, ending, pass_at, schedule
from tests.stores.sqlite_rig import ROOT, command, process, say, with_store

from dutiful.core.errors import LostLeadershipError
from dutiful.core.policy import OnOrphan
from dutiful.stores.sqlite import SqliteStore

LEADER = """
    import asyncio, sys
    from dutiful.stores.sqlite import SqliteStore
    from tests.stores.notation import T0, pass_at

    async def main():
        store = SqliteStore(sys.argv[1])
        await store.open()
        epoch = await store.lead("other process")
        launches = await pass_at(store, T0, epoch)
        print(epoch, len(launches), flush=True)
        sys.stdin.readline()
        await store.close()
        print("closed", flush=True)

    asyncio.run(main())
"""


def test_the_second_process_stands_by_until_the_first_is_killed(tmp_path):
    async def stand_by(store):
        await declare(store, schedule("a", on_orphan=OnOrphan.RESTART))
        with process(LEADER, tmp_path / "state.db") as leader:
            assert leader.stdout.readline() == "1 1\n"
            assert await store.lead("me") is None
            leader.kill()
            leader.wait()
        assert await store.lead("me") == 2
        assert await due_at(store, 0) == ["a"]
        [launch] = await pass_at(store, T0 + 5, epoch=2)
        assert (launch.run.run_at, launch.run.attempt, launch.run.epoch) == (T0, 2, 2)

    with_store(tmp_path / "state.db", stand_by)


def test_a_process_that_stops_hands_over(tmp_path):
    async def stand_by(store):
        with process(LEADER, tmp_path / "state.db") as leader:
            assert leader.stdout.readline() == "1 0\n"
            assert await store.lead("me") is None
            say(leader)
            assert leader.stdout.readline() == "closed\n"
            assert await store.lead("me") == 2

    with_store(tmp_path / "state.db", stand_by)


def test_two_stores_of_one_process_do_not_lead_together(tmp_path):
    async def compete(store):
        other = SqliteStore(tmp_path / "state.db")
        await other.open()
        assert [await store.lead("me"), await other.lead("me")] == [1, None]
        await other.close()
        assert await store.lead("me") == 1

    with_store(tmp_path / "state.db", compete)


def test_with_the_lock_file_deleted_the_epoch_still_protects(tmp_path):
    path = tmp_path / "state.db"

    async def compete(store):
        await declare(store, schedule("a"))
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        (tmp_path / "state.db.default.lock").unlink()
        other = SqliteStore(path)
        await other.open()
        assert await other.lead("you") == 2
        with pytest.raises(LostLeadershipError, match="Leadership under epoch 1 is over: epoch 2 leads now"):
            await store.settle([ending(launch, T0)], 1)
        # The lock of the deleted file is worth nothing: it stands by like any other.
        assert await store.lead("me") is None
        await other.close()
        assert await store.lead("me") == 3

    with_store(path, compete)


def test_many_processes_may_create_the_file_at_once(tmp_path):
    script = """
        import asyncio, sys
        from dutiful.stores.sqlite import SqliteStore
        from tests.stores.notation import declare, schedule

        async def main():
            print("ready", flush=True)
            for path in iter(lambda: sys.stdin.readline().strip(), ""):
                store = SqliteStore(path)
                await store.open()
                await declare(store, schedule(sys.argv[1]))
                await store.close()
                print(path, flush=True)

        asyncio.run(main())
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    crowd = [subprocess.Popen(command(script, n), cwd=ROOT, **pipes) for n in range(4)]
    assert [each.stdout.readline() for each in crowd] == ["ready\n"] * 4
    # Often, because they have to meet within some tens of microseconds.
    paths = [tmp_path / f"state{n}.db" for n in range(25)]
    for path in paths:
        for each in crowd:
            each.stdin.write(f"{path}\n")
            each.stdin.flush()
        assert [each.stdout.readline() for each in crowd] == [f"{path}\n"] * 4
    for each in crowd:
        each.communicate()
    assert [each.returncode for each in crowd] == [0] * 4

    async def count(store):
        assert {due.schedule.id for due in await store.every()} == {"0", "1", "2", "3"}

    for path in paths:
        with_store(path, count)


def test_a_forked_child_may_not_use_the_store_and_does_not_keep_the_lock(tmp_path):
    script = """
        import asyncio, os, sys, warnings
        from dutiful.core.errors import StoreError
        from dutiful.stores.sqlite import SqliteStore

        async def use(store):
            for work in (store.every, store.close, lambda: store.lead("me")):
                try:
                    await work()
                except StoreError as error:
                    print(error, flush=True)

        async def main():
            store = SqliteStore(sys.argv[1])
            await store.open()
            await store.lead("me")
            return store

        store = asyncio.run(main())
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads, from 3.12 on
        if os.fork() == 0:
            asyncio.run(use(store))
            print("child", os.getpid(), flush=True)
            sys.stdin.readline()
            os._exit(0)
        else:
            os.wait()
    """
    path = tmp_path / "state.db"
    with process(script, path) as parent:
        refusals = [parent.stdout.readline() for _ in range(3)]
        problem = f"The database {path} was opened by a parent process"
        assert refusals == [f"{problem}: open a store of its own in each process\n"] * 3
        assert parent.stdout.readline().startswith("child ")
        parent.kill()
        parent.wait()

        async def take_over(store):
            # The child still lives, and holds nothing.
            assert await store.lead("heir") == 2

        with_store(path, take_over)
        say(parent)
