"""What every store promises of lists of schedules, and of epochs; see `contract.py`."""

from __future__ import annotations

import pytest
from tests.stores.contract_requests import wanted
from tests.stores.notation import T0, declare, end, pass_at, put, schedule, stored

from dutiful.core.changes import Changes
from dutiful.core.errors import LostLeadershipError
from dutiful.runtime.ports import PART_OF_ID

ADA, BOB, TEAM = ("user", "ada"), ("user", "bob"), ("label", "team")


async def found(store, facets=(), paused=None, after="", limit=10):
    return [due.schedule.id for due in await store.page(after, limit, facets, paused)]


class ListContract:
    """Lists by index: what is returned is what was asked for, in its order."""

    @stored
    async def test_schedules_are_found_by_their_facets(self, store):
        puts = [put(schedule(id_, paused=id_ == "c")) for id_ in ("d", "c", "b", "a")]
        facets = [("a", [ADA, TEAM]), ("b", [BOB]), ("c", [ADA]), ("gone", [ADA])]
        await store.apply(Changes(puts, facets=facets))
        assert await found(store) == ["a", "b", "c", "d"]
        assert await found(store, [ADA]) == ["a", "c"]
        assert await found(store, [ADA], after="a") == ["c"]
        assert await found(store, [ADA], limit=1) == ["a"]
        assert await found(store, [ADA, TEAM]) == ["a"]
        assert await found(store, [ADA, BOB]) == []
        assert await found(store, [ADA], paused=True) == ["c"]
        assert await found(store, paused=False) == ["a", "b", "d"]
        counts = [await store.count(*asked) for asked in ((), ([ADA],), ([TEAM, ADA],), ((), True))]
        assert counts == [4, 2, 1, 1]

    @stored
    async def test_facets_are_replaced_and_go_with_their_schedule(self, store):
        await store.apply(
            Changes([put(schedule("a")), put(schedule("b"))], facets=[("a", [ADA]), ("b", [ADA])])
        )
        await store.apply(Changes(facets=[("a", [BOB, BOB])]))
        assert (await found(store, [ADA]), await found(store, [BOB])) == (["b"], ["a"])
        # A put says nothing of facets, so they stay.
        await declare(store, schedule("a"))
        assert await found(store, [BOB]) == ["a"]
        await store.apply(Changes(removes=["a"]))
        await declare(store, schedule("a"))
        assert await found(store, [BOB]) == []

    @stored
    async def test_schedules_are_found_by_a_part_of_their_ids(self, store):
        puts = [put(schedule(id_, paused=id_ == "b.one"), T0) for id_ in ("c.two", "b.one", "a.one", "d_one")]
        await store.apply(Changes(puts, facets=[("a.one", [ADA]), ("b.one", [ADA]), ("c.two", [ADA])]))
        one, dot, wild = (PART_OF_ID, "one"), (PART_OF_ID, "."), (PART_OF_ID, "%")
        assert await found(store, [one]) == ["a.one", "b.one", "d_one"]
        assert await found(store, [one], after="a.one", limit=1) == ["b.one"]
        assert await found(store, [one, dot]) == ["a.one", "b.one"]
        assert await found(store, [ADA, one], paused=False) == ["a.one"]
        assert await found(store, [wild]) == []
        asked = (([one],), ([one, dot],), ([ADA, one],), ([one], True), ([one, ADA], False))
        assert [await store.count(*each) for each in asked] == [3, 2, 2, 1, 1]
        assert [due.schedule.id for due in await store.soonest(9, [one])] == ["a.one", "d_one"]
        assert [due.schedule.id for due in await store.soonest(9, [ADA, one])] == ["a.one"]

    @stored
    async def test_schedules_that_wake_in_time_are_counted_up_to_a_limit(self, store):
        wakes = {"a": T0, "b": T0 + 1, "c": T0 + 2, "d": None, "e": T0, "f": T0}
        puts = [put(schedule(id_, paused=id_ == "e"), at) for id_, at in wakes.items()]
        await store.apply(Changes(puts, facets=[("a", [ADA]), ("c", [ADA])]))
        asked = (
            (T0 - 1, 9),
            (T0, 9),
            (T0 + 1, 9),
            (T0 + 1, 2),
            (T0 + 2, 9, [ADA]),
            (T0 + 2, 9, [(PART_OF_ID, "c")]),
        )
        assert [await store.count_due(*each) for each in asked] == [0, 2, 3, 2, 2, 1]

    @stored
    async def test_the_soonest_come_first(self, store):
        wakes = {"late": T0 + 9, "never": None, "soon": T0 + 1, "paused": T0, "later": T0 + 10}
        puts = [put(schedule(id_, paused=id_ == "paused"), at) for id_, at in wakes.items()]
        await store.apply(Changes(puts, facets=[("late", [ADA]), ("later", [ADA])]))
        assert [due.schedule.id for due in await store.soonest(2)] == ["soon", "late"]
        assert [due.schedule.id for due in await store.soonest(9, [ADA])] == ["late", "later"]

    @stored
    async def test_the_revision_is_another_one_after_every_write(self, store):
        # A server may change the revision by work of its own, such as a vacuum, but not at every read.
        unchanged = [await store.revision() for _ in range(5)]
        assert len({*unchanged}) < len(unchanged)
        seen = unchanged[-1:]

        async def noted(write):
            answer = await write
            seen.append(await store.revision())
            return answer

        await noted(declare(store, schedule()))
        await store.lead("me")
        [launch] = await noted(pass_at(store, T0))
        await noted(end(store, launch, T0 + 1))
        await noted(store.request(wanted("aa")))
        assert len({*seen}) == len(seen) == 5


class FenceContract:
    """An epoch is believed only while it leads."""

    @stored
    async def test_an_epoch_is_held_while_it_leads(self, store):
        assert not store.holds(0)
        epoch = await store.lead("me")
        assert (store.holds(epoch), store.holds(epoch - 1), store.holds(epoch + 1)) == (True, False, False)
        await store.close()
        assert not store.holds(epoch)
        await store.open()

    @stored
    async def test_changes_under_an_epoch_are_made_only_while_it_leads(self, store):
        await store.lead("me")
        await store.apply(Changes([put(schedule("a"))], under=1))
        await store.close()
        await store.open()
        await store.lead("you")
        with pytest.raises(LostLeadershipError):
            await store.apply(Changes([put(schedule("b"))], ["a"], under=1))
        assert [due.schedule.id for due in await store.every()] == ["a"]
