"""The registrar and runs: by hand, of the past, and what executors say of them; on virtual time."""

from __future__ import annotations

import asyncio

import pytest
from tests.core.plan.planner_notation import MINUTE, at, clock, schedule
from tests.runtime.registrar_notation import answering_rig, registrar, slow_rig, stretches
from tests.sim.rig import Rig

from dutiful.core.cadence import Every
from dutiful.core.changes import Changes, Note, Put
from dutiful.core.cron.cron import Cron
from dutiful.core.errors import (
    InvalidArgumentError,
    OversizedBackfillError,
    UnknownRunError,
    UnknownScheduleError,
)
from dutiful.core.plan.outcome import Accepted, Report, Unanswered
from dutiful.core.policy import Overlap, Retry
from dutiful.core.run import Status
from dutiful.core.schedule import State, tick_key

HOURLY = Cron.parse("0 * * * *")
SUCCESS, FAILED, STARTED = Report(Status.SUCCESS), Report(Status.FAILED), Report(Status.STARTED)


class OvertakenOnce:
    """A store in which a pass comes between the first look of an edit and its write."""

    def __init__(self, store):
        self._store, self._left = store, 1

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def apply(self, changes):
        if self._left and changes.puts:
            self._left -= 1
            due = await self._store.get("s")
            await self._store.apply(Changes([Put(due.schedule, due.state, None)]))
        await self._store.apply(changes)


def test_a_run_by_hand_starts_now_beside_the_ticks():
    async def story():
        async with Rig(schedule(HOURLY)) as rig:
            await rig.time.advance(90)
            run = await registrar(rig).trigger("s", "ab" * 32)
            await rig.time.advance(3600)
            return run.key, rig.calls.noted, await rig.rows()

    key, noted, rows = asyncio.run(story())
    assert key == "ab" * 32
    assert noted == [("10:01:30", "s", "10:01:30", 1), ("11:00", "s", "11:00", 1)]
    assert rows == ["10:01:30 SUCCESS", "11:00 SUCCESS"]


@pytest.mark.parametrize("paused", [True, False])
def test_neither_a_pause_nor_a_run_in_flight_keeps_a_run_by_hand_back(paused):
    async def story():
        async with slow_rig(600, schedule(HOURLY)) as rig:
            desk = registrar(rig)
            await desk.pause("s", paused)
            for key in ("aa" * 32, "bb" * 32):
                await desk.trigger("s", key)
            await rig.time.advance(0)
            return [tick for _, _, tick, _ in rig.calls.noted]

    # Two in one millisecond are two runs.
    assert asyncio.run(story()) == ["10:00", "10:00:00.001"]


def test_a_run_by_hand_moves_neither_the_cursor_nor_the_next_tick():
    async def story():
        async with Rig(schedule(HOURLY)) as rig:
            before = (await rig.store.get("s")).state.cursor
            await registrar(rig).trigger("s", "ab" * 32)
            await rig.time.advance(1)
            return before == (await rig.store.get("s")).state.cursor, await registrar(rig).preview("s", 1)

    assert asyncio.run(story()) == (True, [at("11:00")])


def test_a_schedule_that_cannot_be_computed_is_not_run_by_hand():
    async def story():
        async with Rig() as rig:
            broken = Put(schedule(Every(0, "start")), State(at("10:00"), quarantine="no period"), None)
            await rig.store.apply(Changes([broken]))
            with pytest.raises(InvalidArgumentError, match="quarantined: no period"):
                await registrar(rig).trigger("s", "ab" * 32)
            with pytest.raises(InvalidArgumentError, match="quarantined: no period"):
                await registrar(rig).backfill("s", at("10:00") - 300 * 86_400_000, at("10:00"))

    asyncio.run(story())


def test_an_edit_that_was_overtaken_is_made_again():
    async def story():
        async with Rig(schedule(HOURLY)) as rig:
            await rig.time.advance(60)
            rig.store = OvertakenOnce(rig.store)
            await registrar(rig).trigger("s", "ab" * 32)
            rig.store._left = 1
            done = await registrar(rig).backfill("s", at("09:00"), at("10:01"))
            rig.store._left = 1
            await registrar(rig).upsert_all(["s"], lambda _id, known: known.schedule)
            return done[1:3]

    assert asyncio.run(story()) == (2, 0)


def test_a_backfill_runs_past_ticks_in_their_order_and_not_again():
    async def story():
        async with slow_rig(10, schedule()) as rig:
            await rig.time.advance(120)
            first = await registrar(rig).backfill("s", at("09:57"), at("10:02"))
            again = await registrar(rig).backfill("s", at("09:57"), at("10:02"))
            await rig.time.advance(55)
            return first[1:3], again[1:3], rig.calls.noted, await rig.rows()

    first, again, noted, rows = asyncio.run(story())
    assert (first, again) == ((4, 1), (0, 5))
    assert [(instant, tick) for instant, _, tick, _ in noted] == [
        ("10:01", "10:01"),
        ("10:02", "10:02"),
        ("10:02:10", "09:57"),
        ("10:02:20", "09:58"),
        ("10:02:30", "09:59"),
        ("10:02:40", "10:00"),
    ]
    assert rows == [f"{tick} SUCCESS" for tick in ("09:57", "09:58", "09:59", "10:00", "10:01", "10:02")]


def test_a_backfill_turns_skipped_ticks_into_runs_and_splits_their_stretch():
    async def story():
        async with Rig(schedule()) as rig:
            desk = registrar(rig)
            await desk.pause("s", True)
            await rig.time.advance(600)
            done = await desk.backfill("s", at("10:03"), at("10:05"), Overlap.ALLOW)
            await rig.time.advance(600)
            return done[1:3], await stretches(rig), [tick for _, _, tick, _ in rig.calls.noted]

    assert asyncio.run(story()) == (
        (2, 0),
        ["paused 10:01-10:02 x2", "paused 10:05-10:10 x6", "paused 10:11-10:20 x10"],
        ["10:03", "10:04"],
    )


def test_a_long_history_is_looked_through_in_pages():
    async def story():
        every_second = schedule(Cron.parse("* * * * * *", "seconds"), overlap=Overlap.ALLOW)
        async with Rig(every_second) as rig:
            await rig.time.advance(2500)
            start = at("10:00") + 1000
            return (await registrar(rig).backfill("s", start, start + 1000_000))[1:3]

    assert asyncio.run(story()) == (0, 1000)


def test_a_backfill_of_a_year_is_refused():
    async def story():
        async with Rig(schedule()) as rig:
            with pytest.raises(OversizedBackfillError, match="ask for at most 1000"):
                await registrar(rig).backfill("s", at("10:00") - 300 * 86_400_000, at("10:00"))
            with pytest.raises(UnknownScheduleError):
                await registrar(rig).backfill("gone", 0, 1)

    asyncio.run(story())


def test_a_report_ends_a_run_and_lets_the_next_one_go():
    async def story():
        queue = schedule(overlap=Overlap.QUEUE)
        async with answering_rig(Accepted("r"), queue) as rig:
            await rig.time.advance(125)
            run = await registrar(rig).report(tick_key("s", at("10:01")), SUCCESS)
            await rig.time.advance(0)
            return run.status, [(instant, tick) for instant, _, tick, _ in rig.calls.noted]

    assert asyncio.run(story()) == ("SUCCESS", [("10:01", "10:01"), ("10:02:05", "10:02")])


def test_a_report_may_overtake_the_answer():
    async def story():
        async with slow_rig(30, schedule(HOURLY)) as rig:
            await rig.time.advance(3605)
            key = tick_key("s", at("11:00"))
            first = await registrar(rig).report(key, FAILED._replace(error="boom"))
            await rig.time.advance(60)
            again = await registrar(rig).report(key, SUCCESS)
            return first == again, again.status, again.detail, clock(again.ended_at)

    assert asyncio.run(story()) == (True, "FAILED", "boom", "11:00:05")


def test_a_report_spares_the_next_attempt_of_a_launch_that_had_arrived():
    async def story():
        retried = schedule(HOURLY, launch_retry=Retry(MINUTE, 3))
        async with answering_rig(Unanswered("timeout"), retried) as rig:
            await rig.time.advance(3605)
            run = await registrar(rig).report(tick_key("s", at("11:00")), STARTED._replace(run_id="r 9"))
            await rig.time.advance(600)
            return run.status, run.run_id, len(rig.calls.noted), await rig.rows()

    assert asyncio.run(story()) == ("STARTED", "r 9", 1, ["11:00 STARTED"])


def test_a_report_on_nothing_is_refused():
    async def story():
        async with Rig(schedule()) as rig:
            await registrar(rig).report("ab" * 32, SUCCESS)

    with pytest.raises(UnknownRunError, match="There is no run with the key"):
        asyncio.run(story())


def test_many_schedules_are_stored_together_and_keep_their_pauses():
    async def story():
        async with Rig(schedule(id_="a"), schedule(id_="b")) as rig:
            desk = registrar(rig)
            await desk.pause("a", True, "broken disk", "ada")
            await rig.time.advance(90)

            def edit(id_, known):
                return schedule(HOURLY, id_=id_, paused=known is not None and known.schedule.paused)

            stored = await desk.upsert_all(["a", "b", "c"], edit, by="bo")
            noted = at("10:01:30")
            assert await rig.store.notes(["a", "b", "c"]) == {
                "a": Note(noted, "broken disk", at("10:00"), "ada"),
                "b": Note(noted),
                "c": Note(noted),
            }
            return [(due.schedule.id, due.schedule.cadence.text, due.schedule.paused) for due in stored]

    assert asyncio.run(story()) == [
        ("a", "0 * * * *", True),
        ("b", "0 * * * *", False),
        ("c", "0 * * * *", False),
    ]


def test_a_note_says_why_a_schedule_is_paused_until_it_goes_on():
    async def story():
        async with Rig(schedule()) as rig:
            desk, seen = registrar(rig), []
            for paused, note, by in [(True, "why", "ada"), (True, "better", "bo"), (False, "ignored", "ada")]:
                await rig.time.advance(1)
                await desk.pause("s", paused, note, by)
                seen.append((await rig.store.notes(["s"]))["s"])
            return seen

    assert asyncio.run(story()) == [
        Note(at("10:00:01"), "why", at("10:00:01"), "ada"),
        Note(at("10:00:02"), "better", at("10:00:01"), "bo"),
        Note(at("10:00:03")),
    ]
