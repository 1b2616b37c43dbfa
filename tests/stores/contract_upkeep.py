"""What every store promises of leadership and upkeep; see `contract.py`."""

from __future__ import annotations

import pytest
from tests.stores.notation import (
    MINUTE,
    T0,
    declare,
    due_at,
    end,
    ending,
    open_run,
    pass_at,
    put,
    rows,
    schedule,
    stored,
)

from dutiful.core.cadence import Once
from dutiful.core.changes import Changes
from dutiful.core.errors import LostLeadershipError
from dutiful.core.policy import Capacity, CatchUp, Overlap, Reason
from dutiful.core.schedule import State
from dutiful.runtime.ports import Retention

ONE_PLACE = Capacity("agent", 1)


async def used(store, now=T0 + 10**9):
    return {group: n for group, n in (await store.load(now, 100)).batch.used.items() if n}


class LeadershipContract:
    """One leads at a time, and each time under a higher epoch."""

    @stored
    async def test_the_first_to_ask_leads_and_others_stand_by(self, store):
        assert [await store.lead(owner) for owner in ("me", "you", "me")] == [1, None, 1]

    @stored
    async def test_a_new_leadership_has_a_higher_epoch(self, store):
        epochs = []
        for owner in ("me", "you", "me"):
            epochs.append(await store.lead(owner))
            await store.close()
            await store.open()
        assert epochs == [1, 2, 3]

    @stored
    async def test_a_store_that_does_not_lead_writes_nothing(self, store):
        await declare(store, schedule())
        with pytest.raises(LostLeadershipError):
            await store.commit([], 0)
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        await store.close()
        await store.open()
        with pytest.raises(LostLeadershipError):
            await store.settle([ending(launch, T0)], 1)
        await store.lead("you")
        with pytest.raises(LostLeadershipError):
            await store.settle([ending(launch, T0)], 1)
        assert await open_run(store) == launch.run

    @stored
    async def test_schedules_with_open_runs_become_due_with_a_new_leader(self, store):
        await declare(store, *(schedule(id_, Once(T0), run_timeout=None) for id_ in ("busy", "idle")))
        await store.lead("me")
        _, idle = await pass_at(store, T0)
        await end(store, idle, T0)
        assert await due_at(store, T0 + 10**9) == []
        await store.close()
        await store.open()
        await store.lead("you")
        assert await due_at(store, 0) == ["busy"]


class UpkeepContract:
    """Clocks that went wrong, and ledgers that grew long."""

    @stored
    async def test_cursors_far_ahead_are_armed_again_from_now(self, store):
        near, far = T0 + 1000, T0 + 1001
        await store.apply(
            Changes([put(schedule("near"), near, near), put(schedule("far", paused=True), far, far)])
        )
        await store.lead("me")
        assert await store.rearm(T0, 1000) == 1
        assert (await store.get("far")).state == State(T0, decided_until=far)
        assert (await store.get("near")).state == State(near)
        assert await due_at(store, T0) == ["far"]

    @stored
    async def test_a_move_made_before_the_cursor_was_set_back_is_left_out(self, store):
        await declare(store, schedule())
        await store.lead("me")
        ahead = T0 + 9 * MINUTE
        await pass_at(store, ahead)
        before = await store.get("a")
        await store.rearm(T0, 1000)
        assert (await store.get("a")).version != before.version
        # What has run does not run again.
        assert await pass_at(store, ahead) == []

    @stored
    async def test_the_ledger_is_read_newest_first_up_to_an_instant(self, store):
        await declare(store, schedule(overlap=Overlap.ALLOW, catch_up=CatchUp.FIRE_IMMEDIATELY))
        await store.lead("me")
        launches = await pass_at(store, T0 + 3 * MINUTE)
        newest_first = [launch.run for launch in launches][::-1]
        assert await store.ledger("a", None, 10) == newest_first
        assert await store.ledger("a", T0 + MINUTE, 10) == newest_first[2:]
        assert await store.ledger("a", T0 + MINUTE - 1, 10) == newest_first[3:]
        assert await store.ledger("a", None, 1) == newest_first[:1]

    @stored
    async def test_pruning_keeps_the_newest_rows_and_the_young_ones(self, store):
        await self.fill(store)
        assert await store.prune(T0 + 9 * MINUTE, Retention(rows=3)) == 2
        assert [minute for minute, *_ in await rows(store)] == [4, 3, 2]
        assert await store.prune(T0 + 9 * MINUTE, Retention(age=6 * MINUTE)) == 1
        assert [minute for minute, *_ in await rows(store)] == [4, 3]

    @stored
    async def test_a_range_is_as_old_as_its_last_tick(self, store):
        await declare(store, schedule(paused=True))
        await store.lead("me")
        await pass_at(store, T0 + 4 * MINUTE)
        await store.apply(Changes([put(schedule(), cursor=T0 + 4 * MINUTE)]))
        assert await store.prune(T0 + 9 * MINUTE, Retention(age=5 * MINUTE)) == 0
        assert await store.prune(T0 + 9 * MINUTE + 1, Retention(age=5 * MINUTE)) == 1

    @stored
    async def test_pruning_never_touches_open_runs(self, store):
        await declare(store, schedule())
        await store.lead("me")
        await pass_at(store, T0)
        assert await store.prune(T0 + 10**9, Retention(0, 0)) == 0

    @stored
    async def test_pruning_never_goes_past_the_cursor(self, store):
        await self.fill(store)
        await store.apply(Changes([put(schedule(), cursor=T0 + MINUTE)]))
        assert await store.prune(T0 + 10**9, Retention(0, 0)) == 2
        assert [minute for minute, *_ in await rows(store)] == [4, 3, 2]

    @stored
    async def test_pruning_spares_the_range_that_still_grows(self, store):
        await declare(store, schedule(paused=True))
        await store.lead("me")
        await pass_at(store, T0 + 2 * MINUTE)
        assert await store.prune(T0 + 10**9, Retention(0, 0)) == 0
        await pass_at(store, T0 + 3 * MINUTE)
        [row] = await store.ledger("a", None, 10)
        assert (row.reason, row.ticks) == (Reason.PAUSED, 4)

    async def fill(self, store):
        """Leave five ended rows."""
        await declare(store, schedule())
        await store.lead("me")
        for minute in range(5):
            [launch] = await pass_at(store, T0 + minute * MINUTE)
            await end(store, launch, T0 + minute * MINUTE)
