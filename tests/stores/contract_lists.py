"""What every store promises of lists of schedules, and of epochs; see `contract.py`."""

from __future__ import annotations

import pytest
from tests.stores.contract_requests import wanted
from tests.stores.notation import T0, declare, end, pass_at, put, schedule, stored

from dutiful.core.errors import LostLeadershipError
from dutiful.core.plan.reconcile import Changes

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
    async def test_the_soonest_come_first(self, store):
        wakes = {"late": T0 + 9, "never": None, "soon": T0 + 1, "paused": T0, "later": T0 + 10}
        puts = [put(schedule(id_, paused=id_ == "paused"), at) for id_, at in wakes.items()]
        await store.apply(Changes(puts, facets=[("late", [ADA]), ("later", [ADA])]))
        assert [due.schedule.id for due in await store.soonest(2)] == ["soon", "late"]
        assert [due.schedule.id for due in await store.soonest(9, [ADA])] == ["late", "later"]

    @stored
    async def test_the_revision_is_another_one_after_every_write(self, store):
        seen = [await store.revision()]
        assert await store.revision() == seen[0]

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
