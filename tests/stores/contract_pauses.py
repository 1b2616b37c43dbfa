"""What every store promises of pauses that end by themselves; see `contract.py`."""

from __future__ import annotations

import pytest
from tests.stores.notation import MINUTE, T0, due_at, end, pass_at, put, rows, schedule, stored

from dutiful.core.changes import Changes, Note
from dutiful.core.errors import LostLeadershipError
from dutiful.core.plan.edit import paused_until
from dutiful.core.plan.jitter import first_wake
from dutiful.core.policy import Reason
from dutiful.runtime.ports import PausedUntil
from dutiful.runtime.registrar import end_pauses, without_ended_pauses

ADA = ("user", "ada")
UNTIL = T0 + 5 * MINUTE
PAUSED = Note(T0, "moving house", T0, "ada")


async def pause(store, *names, until=UNTIL, **policy):
    """Store schedules that are paused until an instant, and look at them then."""
    puts = [put(paused_until(schedule(name, **policy), until)) for name in names]
    puts = [each._replace(wake_at=first_wake(each.schedule, each.state)) for each in puts]
    await store.apply(Changes(puts, notes=[(name, PAUSED) for name in names]))


class PauseContract:
    """The end of a pause is one commit of the schedule, its skipped ticks and its note."""

    @stored
    async def test_the_end_of_a_pause_is_due_and_resumes_the_schedule(self, store):
        await store.lead("me")
        await pause(store, "a")
        assert await pass_at(store, T0) == []
        assert await due_at(store, UNTIL) == ["a"]
        loaded = await store.load(UNTIL, 10)
        rest = await without_ended_pauses(store, loaded, UNTIL, 1)
        assert (rest.batch.due, rest.next_wake) == ([], UNTIL)
        due = await store.get("a")
        assert due.schedule == schedule("a")
        assert await store.notes(["a"]) == {"a": Note(UNTIL)}
        [skipped] = await store.ledger("a", None, 10)
        assert (skipped.run_at, skipped.run_until, skipped.ticks) == (T0, UNTIL - MINUTE, 5)
        assert skipped.reason is Reason.PAUSED
        [launch] = await pass_at(store, UNTIL)
        assert launch.run.run_at == UNTIL
        assert (await store.count(paused=True), await store.count(paused=False)) == (0, 1)

    @stored
    async def test_schedules_are_counted_by_the_end_of_their_pause(self, store):
        await pause(store, "a", "b")
        await pause(store, "c", until=None)
        await store.apply(Changes([put(schedule("d"))], facets=[("a", [ADA]), ("c", [ADA]), ("d", [ADA])]))
        ends = (None, True, PausedUntil(UNTIL), PausedUntil(UNTIL + 1), PausedUntil(None))
        counts = [[await store.count(facets, end) for end in ends] for facets in ((), [ADA])]
        assert counts == [[4, 3, 2, 0, 1], [3, 2, 1, 0, 1]]

    @stored
    async def test_a_leader_that_was_deposed_ends_no_pause(self, store):
        await store.lead("me")
        await pause(store, "a")
        before = await store.get("a")
        await store.close()
        await store.open()
        await store.lead("you")
        with pytest.raises(LostLeadershipError):
            await end_pauses(store.apply, [before], UNTIL, 1)
        assert await store.get("a") == before
        assert (await store.notes(["a"]), await rows(store)) == ({"a": PAUSED}, [])

    @stored
    async def test_pauses_of_which_one_was_edited_meanwhile_end_the_next_time(self, store):
        await store.lead("me")
        await pause(store, "a", "b")
        read = await store.some(["a", "b"])
        await pause(store, "b", until=UNTIL + MINUTE)
        assert await end_pauses(store.apply, read, UNTIL, 1)
        assert [due.schedule.paused for due in await store.some(["a", "b"])] == [True, True]
        assert await end_pauses(store.apply, await store.some(["a", "b"]), UNTIL, 1)
        assert [due.schedule.pause_until for due in await store.some(["a", "b"])] == [None, UNTIL + MINUTE]
        assert not await end_pauses(store.apply, await store.some(["a", "b"]), UNTIL, 1)

    @stored
    async def test_a_run_in_flight_outlives_the_end_of_a_pause(self, store):
        await store.lead("me")
        await store.apply(Changes([put(schedule(ledger=False))]))
        [launch] = await pass_at(store, T0)
        due = await store.get("a")
        wanted = paused_until(due.schedule, UNTIL)
        await store.apply(Changes([put(wanted)._replace(state=due.state, version=due.version)]))
        assert await end_pauses(store.apply, await store.some(["a"]), UNTIL, 1)
        [run] = (await store.get("a")).runs
        assert run == launch.run
        assert await end(store, launch, UNTIL + 1)
