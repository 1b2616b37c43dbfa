"""The registrar: an edit owns the ticks after it, never one before, and loses none on the way."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.core.plan.planner_notation import HOUR, MINUTE, at, clock, schedule
from tests.runtime.registrar_notation import registrar, slow_rig, stretches
from tests.sim.rig import Rig

from dutiful.core.cadence import Every, Once, OnDemand
from dutiful.core.changes import Changes, Put
from dutiful.core.cron.cron import Cron
from dutiful.core.errors import UnknownScheduleError
from dutiful.core.policy import CatchUp, Overlap, Policy
from dutiful.core.schedule import State, Task, Window


@pytest.mark.parametrize(
    ("cadence", "fires", "noted"),
    [
        (Cron.parse("* * * * *"), "10:01", ["10:01", "10:02"]),
        (Every(MINUTE), "10:00", ["10:00", "10:01", "10:02"]),
        (Every(MINUTE, "start"), "10:00", ["10:00", "10:01", "10:02"]),
        (Once(at("10:02")), "10:02", ["10:02"]),
        (Once(at("10:00")), None, []),
        (Once(at("09:00")), None, []),
        (OnDemand(), None, []),
    ],
    ids=str,
)
def test_a_new_schedule_owes_nothing_before_its_registration_and_a_period_runs_at_once(cadence, fires, noted):
    async def story():
        async with Rig() as rig:
            await rig.time.advance(0)
            next_fire = await registrar(rig).upsert(schedule(cadence))
            await rig.time.advance(150)
            return next_fire, rig.calls.noted

    next_fire, calls = asyncio.run(story())
    assert next_fire == (None if fires is None else at(fires))
    assert [instant for instant, *_ in calls] == noted


WINDOWS = [Window(), Window(at("1+10:00")), Window(None, at("11:30"))]


@pytest.mark.parametrize(
    ("old", "changes"),
    [
        (Cron.parse("0 12 * * *"), {"cadence": Cron.parse("0 9 * * *")}),
        (Cron.parse("0 12 * * *"), {"cadence": Cron.parse("30 * * * *", timezone="Asia/Kolkata")}),
        (Cron.parse("0 12 * * *"), {"cadence": Every(15 * MINUTE)}),
        (Cron.parse("0 12 * * *"), {"cadence": Every(15 * MINUTE, "start")}),
        (Every(6 * HOUR, "start"), {"cadence": Every(7 * MINUTE, "start")}),
        (Every(6 * HOUR), {"cadence": Every(7 * MINUTE)}),
        (Every(6 * HOUR), {"cadence": Every(7 * MINUTE, "start")}),
        (OnDemand(), {"cadence": Cron.parse("* * * * *")}),
        (OnDemand(), {"cadence": Every(MINUTE, "start")}),
        (OnDemand(), {"cadence": Once(at("13:00"))}),
        (Once(at("11:00")), {"cadence": Once(at("12:00"))}),
        (Cron.parse("0 * * * *"), {"window": Window()}),
        (Cron.parse("0 * * * *"), {"window": Window(at("10:30"), at("20:00"))}),
        (Every(HOUR, "start"), {"window": Window()}),
        (Every(HOUR), {"window": Window()}),
        (Cron.parse("0 * * * *"), {}),
        (Every(HOUR), {}),
        (Cron.parse("0 * * * *"), {"task": Task("another")}),
    ],
    ids=str,
)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_an_edit_never_makes_a_past_tick_due(old, changes, window):
    # The most eager policy there is; the edit also lifts the limit that two runs have reached.
    declared = schedule(
        old, window=window, catch_up=CatchUp.FIRE_IMMEDIATELY, overlap=Overlap.ALLOW, max_runs=2
    )
    edited = declared._replace(policy=replace(declared.policy, max_runs=None), **changes)

    async def story():
        async with Rig() as rig:
            await registrar(rig).upsert(declared)
            await rig.time.advance(4 * 3600 + 90)
            before = len(rig.calls.noted)
            next_fire = await registrar(rig).upsert(edited)
            await rig.time.advance(8 * 3600)
            return next_fire, rig.calls.noted[before:]

    next_fire, calls = asyncio.run(story())
    assert [call for call in calls if at(call[2]) < at("14:01:30")] == []
    assert next_fire is None or next_fire >= at("14:01:30")
    expected = [] if next_fire is None or next_fire > at("22:01:30") else [clock(next_fire)]
    assert [instant for instant, *_ in calls][:1] == expected


OTHER_TICKS = Cron.parse("0,30 * * * *")


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        (CatchUp.NONE, ["10:02-10:03 SKIPPED missed", "10:04 SUCCESS", "10:30 SUCCESS"]),
        (CatchUp.LATEST, ["10:02-10:03 SKIPPED coalesced", "10:04 SUCCESS", "10:30 SUCCESS"]),
        (CatchUp.FIRE_IMMEDIATELY, ["10:02 SUCCESS", "10:03 SUCCESS", "10:04 SUCCESS", "10:30 SUCCESS"]),
        (CatchUp.SPREAD, ["10:02 SUCCESS", "10:03 SUCCESS", "10:04 SUCCESS", "10:30 SUCCESS"]),
    ],
)
@pytest.mark.parametrize("new", [CatchUp.NONE, CatchUp.FIRE_IMMEDIATELY])
def test_owed_ticks_of_the_old_cadence_are_settled_by_the_old_catch_up(catch_up, new, expected):
    async def story():
        async with Rig(schedule(catch_up=catch_up, overlap=Overlap.ALLOW)) as rig:
            await rig.time.advance(60)
            await rig.crash()
            await rig.time.advance(3 * 60 + 30)
            edited = schedule(OTHER_TICKS, catch_up=new, overlap=Overlap.ALLOW)
            next_fire = await registrar(rig).upsert(edited)
            rig.boot()
            await rig.time.advance(30 * 60)
            return next_fire, await rig.rows()

    assert asyncio.run(story()) == (at("10:30"), ["10:01 SUCCESS", *expected])


@pytest.mark.parametrize(
    "changes",
    [{"task": Task("another")}, {"policy": Policy(Overlap.ALLOW, CatchUp.FIRE_IMMEDIATELY, jitter=5)}],
)
def test_an_edit_that_keeps_the_ticks_drops_none_that_is_owed(changes):
    async def story():
        declared = schedule(catch_up=CatchUp.FIRE_IMMEDIATELY, overlap=Overlap.ALLOW)
        async with Rig(declared) as rig:
            await rig.time.advance(60)
            await rig.crash()
            await rig.time.advance(3 * 60 + 30)
            await registrar(rig).upsert(declared._replace(**changes))
            rig.boot()
            await rig.time.advance(1)
            return [row.split()[0] for row in await rig.rows()]

    assert asyncio.run(story()) == ["10:01", "10:02", "10:03", "10:04"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (CatchUp.NONE, CatchUp.FIRE_IMMEDIATELY, ["10:02-10:03 SKIPPED missed", "10:04 SUCCESS"]),
        (CatchUp.FIRE_IMMEDIATELY, CatchUp.NONE, ["10:02 SUCCESS", "10:03 SUCCESS", "10:04 SUCCESS"]),
    ],
)
def test_a_new_catch_up_judges_only_ticks_that_pass_after_the_edit(old, new, expected):
    async def story():
        async with Rig(schedule(catch_up=old, overlap=Overlap.ALLOW)) as rig:
            await rig.time.advance(60)
            await rig.crash()
            await rig.time.advance(3 * 60 + 30)
            await registrar(rig).upsert(schedule(catch_up=new, overlap=Overlap.ALLOW))
            rig.boot()
            await rig.time.advance(1)
            return await rig.rows()

    assert asyncio.run(story()) == ["10:01 SUCCESS", *expected]


def test_more_than_an_edit_may_hold_is_one_range_beyond_the_cap():
    async def story():
        declared = schedule(catch_up=CatchUp.FIRE_IMMEDIATELY, catch_up_cap=2)
        async with Rig(declared) as rig:
            await rig.time.advance(60)
            await rig.crash()
            await rig.time.advance(10 * 60 + 30)
            await registrar(rig).upsert(schedule(OTHER_TICKS))
            return await rig.rows()

    expected = ["10:02-10:08 SKIPPED catchup_cap", "10:09 ENQUEUED", "10:10 ENQUEUED", "10:11 ENQUEUED"]
    assert asyncio.run(story()) == ["10:01 SUCCESS", *expected]


@pytest.mark.parametrize(
    ("edited", "skipped", "noted"),
    [
        # Its ticks are others now, so the one that waited is held under its own key …
        (schedule(OTHER_TICKS, overlap=Overlap.QUEUE), ["replaced 10:02 x1"], ["10:01", "10:03"]),
        (schedule(Every(HOUR, "start"), overlap=Overlap.QUEUE), ["replaced 10:02 x1"], ["10:01", "10:03"]),
        # … and otherwise goes on waiting, under the new policy.
        (schedule(overlap=Overlap.BUFFER_ONE, grace=HOUR), ["replaced 10:02 x1"], ["10:01", "10:03"]),
        (schedule(overlap=Overlap.BUFFER_ONE, paused=True), ["paused 10:02-10:29 x28"], ["10:01"]),
    ],
    ids=["another cron", "a period", "another policy", "paused"],
)  # fmt: skip
def test_a_tick_that_waits_for_a_run_in_flight_is_not_lost_by_an_edit(edited, skipped, noted):
    async def story():
        async with slow_rig(150, schedule(overlap=Overlap.BUFFER_ONE)) as rig:
            await rig.time.advance(3 * 60 + 10)
            await registrar(rig).upsert(edited)
            await rig.time.advance(26 * 60 + 50)
            started = [instant for _, _, instant, _ in rig.calls.noted]
            return started, await stretches(rig), (await rig.rows())[0]

    started, skips, first = asyncio.run(story())
    assert started[: len(noted)] == noted
    assert skips[: len(skipped)] == skipped
    assert first == "10:01 SUCCESS"


def test_a_tick_that_jitter_holds_back_is_not_lost_by_an_edit():
    declared = schedule(Cron.parse("0 * * * *"), jitter=10 * MINUTE, jitter_early=False)

    async def story():
        async with Rig(declared) as rig:
            await rig.time.advance(3600 + 5)
            held_back = await registrar(rig).preview("s", 1)
            await registrar(rig).upsert(schedule(Cron.parse("30 * * * *")))
            await rig.time.advance(3600)
            return held_back, await rig.rows()

    held_back, rows = asyncio.run(story())
    assert at("11:00:05") < held_back[0] < at("11:10")
    assert rows == ["11:00 SUCCESS", "11:30 SUCCESS"]


def test_an_edit_keeps_the_history_and_the_run_in_flight():
    async def story():
        async with slow_rig(20 * 60, schedule(Cron.parse("0 * * * *"))) as rig:
            await rig.time.advance(2 * 3600 + 60)
            before = await rig.store.get("s")
            await registrar(rig).upsert(schedule(Cron.parse("30 * * * *")))
            after = await rig.store.get("s")
            await rig.time.advance(3600)
            return before, after, await rig.rows()

    before, after, rows = asyncio.run(story())
    assert after.runs == before.runs
    assert after.state == before.state._replace(cursor=at("12:01"))
    assert rows == ["11:00 SUCCESS", "12:00 SUCCESS", "12:30 SUCCESS"]


def test_ticks_passed_at_the_limit_are_recorded_as_such_once_the_limit_is_lifted():
    async def story():
        async with Rig(schedule(max_runs=2)) as rig:
            await rig.time.advance(330)
            await registrar(rig).upsert(schedule())
            await rig.time.advance(60)
            return await rig.rows()

    assert asyncio.run(story()) == [
        "10:01 SUCCESS",
        "10:02 SUCCESS",
        "10:03-10:05 SKIPPED limit_reached",
        "10:06 SUCCESS",
    ]


@pytest.mark.parametrize(
    ("cadence", "expected"),
    [
        (Cron.parse("* * * * *"), ["10:01-10:03 SKIPPED coalesced", "10:04 SUCCESS"]),
        (Every(MINUTE), ["10:01 SUCCESS"]),
        (Every(MINUTE, "start"), ["10:01-10:03 SKIPPED coalesced", "10:04 SUCCESS"]),
    ],
    ids=str,
)
def test_saving_a_schedule_as_it_is_changes_nothing(cadence, expected):
    declared = schedule(cadence, catch_up=CatchUp.LATEST)

    async def story():
        async with Rig(declared) as rig:
            await rig.time.advance(0)
            await rig.crash()
            await rig.time.advance(290)
            before = await rig.store.get("s")
            await registrar(rig).upsert(declared)
            after = await rig.store.get("s")
            rig.boot()
            await rig.time.advance(0)
            return before, after, [row for row in await rig.rows() if not row.startswith("10:00")]

    before, after, rows = asyncio.run(story())
    assert after._replace(version=before.version) == before
    assert rows == expected


def test_editing_gives_a_quarantined_schedule_another_chance():
    async def story():
        async with Rig() as rig:
            # A period of nothing cannot come in by any door; a store may still hold one.
            await rig.store.apply(
                Changes([Put(schedule(Every(0, "start")), State(at("10:00")), at("10:00"))])
            )
            rig.engine.wake()
            await rig.time.advance(60)
            quarantined = await rig.store.get("s")
            nothing = await registrar(rig).preview("s", 5)
            await registrar(rig).upsert(schedule())
            await rig.time.advance(60)
            return quarantined, nothing, await rig.rows(), await rig.store.get("s")

    quarantined, nothing, rows, mended = asyncio.run(story())
    assert quarantined.state.quarantine == "ZeroDivisionError: integer division or modulo by zero"
    assert nothing == []
    assert (rows, mended.state.quarantine) == (["10:02 SUCCESS"], None)


def test_ticks_passed_in_quarantine_are_recorded_once_they_can_be_computed_again():
    async def story():
        async with Rig() as rig:
            state = State(at("10:00"), quarantine="the zone was missing for a while")
            await rig.store.apply(Changes([Put(schedule(), state, None)]))
            await rig.time.advance(5 * 60)
            await registrar(rig).upsert(schedule(Cron.parse("30 * * * *")))
            return await stretches(rig)

    assert asyncio.run(story()) == ["quarantined 10:01-10:05 x5"]


@pytest.mark.parametrize("id_", ["", "nobody", "a\nb"])
def test_an_id_that_is_not_stored_is_an_error(id_):
    async def story(ask):
        async with Rig(schedule()) as rig:
            await ask(registrar(rig), rig.time.now())

    questions = [
        lambda desk, _: desk.pause(id_, True),
        lambda desk, _: desk.remove(id_),
        lambda desk, _: desk.preview(id_, 1),
        lambda desk, now: desk.explain(id_, now),
    ]
    for ask in questions:
        with pytest.raises(UnknownScheduleError) as caught:
            asyncio.run(story(ask))
        assert caught.value.details == {"scheduleId": id_}


def test_a_removed_schedule_is_forgotten_with_its_history_and_its_run_in_flight():
    async def story():
        async with slow_rig(90, schedule(), schedule(id_="other")) as rig:
            await rig.time.advance(130)
            await registrar(rig).remove("s")
            await rig.time.advance(120)
            gone = await rig.store.get("s"), await rig.rows()
            await registrar(rig).upsert(schedule())
            again = await rig.store.get("s")
            return gone, again, (await rig.rows("other"))[:1]

    gone, again, other = asyncio.run(story())
    assert gone == (None, [])
    assert (again.state, again.runs) == (State(at("10:04:10")), ())
    assert other == ["10:01 SUCCESS"]
