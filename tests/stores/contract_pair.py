"""What two openings of one store promise, as two processes have them: one leads, the other may still edit.

A store is bound to it by a class with a `new_pair`, and with a `depose` that takes the lock of a leader away
without a word, as a lost session or a copied lock file would.
"""

from __future__ import annotations

import asyncio
from functools import wraps

import pytest
from tests.stores.notation import T0, declare, ending, open_run, pass_at, put, report, schedule

from dutiful.core.changes import Changes
from dutiful.core.errors import LostLeadershipError, OvertakenError


def paired(test):
    """Turn a coroutine function over two openings into a test that makes, opens and closes them."""

    @wraps(test)
    def run(self, tmp_path):
        async def scenario():
            pair = self.new_pair(tmp_path)
            for store in pair:
                await store.open()
            try:
                await test(self, *pair)
            finally:
                for store in pair:
                    await store.close()

        asyncio.run(scenario())

    # pytest takes the fixtures from the signature.
    del run.__wrapped__
    return run


class PairContract:
    """One of two openings leads; both read and edit."""

    @paired
    async def test_the_second_stands_by_and_takes_over_with_a_higher_epoch(self, first, second):
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

    @paired
    async def test_a_deposed_leader_writes_nothing_and_holds_nothing(self, first, second):
        await first.lead("me")
        await declare(first, schedule())
        [launch] = await pass_at(first, T0)
        await self.depose(first)
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

    @paired
    async def test_of_two_that_add_one_id_at_once_one_is_overtaken(self, first, second):
        new = Changes([put(schedule())._replace(version=0)])
        answers = await asyncio.gather(first.apply(new), second.apply(new), return_exceptions=True)
        assert sorted(map(type, answers), key=str) == [type(None), OvertakenError]
        assert len(await first.every()) == 1

    @paired
    async def test_a_report_may_come_by_the_other_opening(self, first, second):
        await first.lead("me")
        await declare(first, schedule())
        [launch] = await pass_at(first, T0)
        assert await report(second, launch.run, T0 + 5)
        assert (await first.find(launch.run.key)).run.status == "SUCCESS"

    @paired
    async def test_the_revision_shows_what_the_other_opening_has_written(self, first, second):
        before = await second.revision()
        await declare(first, schedule())
        assert before != await second.revision()
