"""Two openings of one SQLite file, as two processes have it: one leads, the other stands by and may edit."""

from __future__ import annotations

import asyncio

import pytest
from tests.stores.notation import T0, declare, ending, open_run, pass_at, put, report, schedule

from dutiful.core.errors import LostLeadershipError, OvertakenError
from dutiful.core.plan.reconcile import Changes
from dutiful.stores.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


def with_pair(path, scenario):
    """Run a scenario over two openings of one file."""

    async def run():
        pair = SqliteStore(path), SqliteStore(path)
        for store in pair:
            await store.open()
        try:
            return await scenario(*pair)
        finally:
            for store in pair:
                await store.close()

    return asyncio.run(run())


def test_the_second_stands_by_and_takes_over_with_a_higher_epoch(path):
    async def story(first, second):
        assert (await first.lead("me"), await second.lead("you")) == (1, None)
        assert not second.holds(1)
        await declare(first, schedule())
        [launch] = await pass_at(first, T0)
        await first.close()
        assert await second.lead("you") == 2
        assert [due.schedule.id for due in (await second.load(0, 10)).batch.due] == ["a"]
        [again] = await pass_at(second, T0 + 1, epoch=2)
        await first.open()
        assert (launch.run.attempt, again.run.attempt) == (1, 2)

    with_pair(path, story)


def test_the_one_that_was_deposed_writes_nothing(path):
    async def story(first, second):
        await first.lead("me")
        await declare(first, schedule())
        [launch] = await pass_at(first, T0)
        # The lock is gone without a word, as after a copy of the lock file.
        first._lock.release()
        assert await second.lead("you") == 2
        for write in (
            first.settle([ending(launch, T0)], 1),
            first.commit([], 1),
            first.apply(Changes([put(schedule("b"))], under=1)),
        ):
            with pytest.raises(LostLeadershipError):
                await write
        assert not first.holds(1)
        assert await open_run(second) == launch.run

    with_pair(path, story)


def test_of_two_that_add_one_id_one_is_overtaken(path):
    async def story(first, second):
        new = put(schedule())._replace(version=0)
        await first.apply(Changes([new]))
        with pytest.raises(OvertakenError):
            await second.apply(Changes([new]))

    with_pair(path, story)


def test_a_report_may_come_by_the_other_opening(path):
    async def story(first, second):
        await first.lead("me")
        await declare(first, schedule())
        [launch] = await pass_at(first, T0)
        assert await report(second, launch.run, T0 + 5)
        return (await first.find(launch.run.key)).run.status

    assert with_pair(path, story) == "SUCCESS"


def test_the_revision_shows_what_the_other_opening_has_written(path):
    async def story(first, second):
        before = await second.revision()
        await declare(first, schedule())
        return before != await second.revision()

    assert with_pair(path, story)
