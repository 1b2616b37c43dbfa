"""Pausing, declaring, waking: what passes meanwhile is written down, and nothing is written twice."""

from __future__ import annotations

import asyncio

import pytest
from tests.core.plan.planner_notation import MINUTE, SECOND, at, run, schedule
from tests.runtime.registrar_notation import registrar, slow_rig, stretches
from tests.sim.rig import TEN, Rig

from dutiful.core.cadence import Every, OnDemand
from dutiful.core.changes import Changes, Put
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.edit import arm
from dutiful.core.plan.reconcile import Difference
from dutiful.core.policy import CatchUp, Overlap
from dutiful.core.schedule import State, Task, Window
from dutiful.runtime.registrar import Registrar
from dutiful.stores.memory import MemoryStore
from dutiful.testing import VirtualClock


@pytest.mark.parametrize("catch_up", CatchUp)
@pytest.mark.parametrize("grace", [1, MINUTE, 60 * MINUTE])
@pytest.mark.parametrize("down", [False, True], ids=["engine up", "engine down"])
def test_ticks_passed_while_paused_are_one_stretch_whatever_the_catch_up_and_the_grace(catch_up, grace, down):
    async def story():
        async with Rig(schedule(catch_up=catch_up, grace=grace)) as rig:
            await rig.time.advance(90)
            await registrar(rig).pause("s", True)
            if down:
                await rig.crash()
            await rig.time.advance(10 * 60)
            await registrar(rig).pause("s", False)
            if down:
                rig.boot()
            await rig.time.advance(60)
            return [tick for _, _, tick, _ in rig.calls.noted], await stretches(rig)

    assert asyncio.run(story()) == (["10:01", "10:12"], ["paused 10:02-10:11 x10"])


@pytest.mark.parametrize(
    ("cadence", "skipped", "noted"),
    [
        (Cron.parse("* * * * *"), ["paused 10:02-10:04 x3"], ["10:01", "10:05", "10:06"]),
        (Cron.parse("0 * * * *"), [], []),
        (Every(MINUTE, "start"), ["paused 10:02-10:04 x3"], ["10:00", "10:01", "10:05", "10:06"]),
        (Every(7 * SECOND, "start"), ["paused 10:01:31-10:04:26 x26"], None),
        # Counted from completion there is one tick at a time; late, it is run once, at the resumption.
        (Every(90 * SECOND), [], ["10:00", "10:01:30", "10:03", "10:06"]),
        (OnDemand(), [], []),
    ],
    ids=str,
)
def test_a_pause_counts_the_ticks_of_every_cadence(cadence, skipped, noted):
    async def story():
        async with Rig(schedule(cadence)) as rig:
            await rig.time.advance(90)
            await registrar(rig).pause("s", True)
            await rig.time.advance(180)
            await registrar(rig).pause("s", False)
            await rig.time.advance(90)
            return await stretches(rig), [tick for _, _, tick, _ in rig.calls.noted]

    skips, ticks = asyncio.run(story())
    assert skips == skipped
    assert noted is None or ticks == noted


def test_two_pauses_without_a_run_between_them_are_still_one_stretch():
    async def story():
        async with Rig(schedule()) as rig:
            await registrar(rig).pause("s", True)
            await rig.time.advance(150)
            await registrar(rig).pause("s", False)
            await rig.time.advance(10)
            await registrar(rig).pause("s", True)
            await rig.time.advance(60)
            await registrar(rig).pause("s", False)
            return await stretches(rig)

    assert asyncio.run(story()) == ["paused 10:01-10:03 x3"]


def test_a_run_in_flight_goes_on_through_a_pause_and_what_waited_for_it_does_not_start():
    async def story():
        async with slow_rig(200, schedule(overlap=Overlap.BUFFER_ONE)) as rig:
            await rig.time.advance(61)
            await registrar(rig).pause("s", True)
            await rig.time.advance(100)
            await registrar(rig).pause("s", False)
            await rig.time.advance(105)
            return await rig.rows()

    assert asyncio.run(story()) == [
        "10:01 SUCCESS",
        "10:02 SKIPPED paused",
        "10:03 SKIPPED replaced",
        "10:04 STARTED",
    ]


@pytest.mark.parametrize("paused", [True, False])
def test_pausing_a_paused_schedule_writes_nothing(paused):
    async def story():
        async with Rig(schedule(paused=paused)) as rig:
            await rig.time.advance(150)
            before = await rig.store.get("s")
            await registrar(rig).pause("s", paused)
            return before, await rig.store.get("s")

    before, after = asyncio.run(story())
    assert after == before


def test_an_edit_wakes_an_engine_that_had_nothing_to_wait_for():
    async def story():
        async with Rig() as rig:
            await rig.time.advance(0)
            await registrar(rig).upsert(schedule())
            await rig.time.advance(60)
            return rig.calls.noted

    assert asyncio.run(story()) == [("10:01", "s", "10:01", 1)]


class Journal(MemoryStore):
    """A store that also remembers what was applied to it, transaction by transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.applied: list[Changes] = []

    async def apply(self, changes: Changes) -> None:
        self.applied.append(changes)
        await super().apply(changes)


def named(id_, text="* * * * *", **changes):
    return schedule(Cron.parse(text), id_)._replace(**changes)


def test_a_declaration_says_what_became_of_each_schedule_and_is_one_transaction():
    state = State(at("09:59"), runs_started=7)
    stored = [named("kept"), named("gone"), named("changed"), named("flying")]
    in_flight = run("09:59", schedule_id="flying")
    declared = [
        named("kept"),
        named("new", "0 * * * *"),
        named("changed", "30 * * * *", task=Task("other"), window=Window(None, at("20:00"))),
        named("flying"),
    ]

    async def story():
        store, woken = Journal(), []
        await store.apply(Changes([Put(old, state, at("10:01")) for old in stored], rows=[in_flight]))
        desk = Registrar(store, VirtualClock(TEN), lambda: woken.append(True))
        differences = await desk.declare(declared, lambda new: arm(new, at("10:00")).state)
        return differences, store.applied[1:], woken

    differences, applied, woken = asyncio.run(story())
    assert differences == [
        Difference("new", "added"),
        Difference(
            "changed",
            "overridden",
            (
                ("task", Task("task"), Task("other")),
                ("cadence", Cron.parse("* * * * *"), Cron.parse("30 * * * *")),
                ("window", Window(), Window(None, at("20:00"))),
            ),
        ),
        Difference("flying", "orphaned"),
        Difference("gone", "removed"),
    ]
    puts = [
        Put(declared[1], State(at("10:00")), at("11:00"), version=0),
        Put(declared[2], state, at("10:30"), version=1),
    ]
    assert applied == [Changes(puts, ["gone"])]
    assert woken == [True]


def test_declaring_the_same_again_writes_no_schedule():
    async def story():
        store = Journal()
        desk = Registrar(store, VirtualClock(TEN), lambda: None)
        for _ in range(2):
            differences = await desk.declare([named("a"), named("b")], lambda _: State(at("10:00")))
        return differences, store.applied[1]

    assert asyncio.run(story()) == ([], Changes([], []))


@pytest.mark.parametrize(
    ("text", "looks_within", "times"),
    [("1 10 * * *", 60_000, 1), ("2 10 * * *", 60_000, 0), ("2 10 * * *", None, 1)],
)
def test_an_edit_wakes_the_engine_only_for_ticks_before_its_next_look(text, looks_within, times):
    async def story():
        woken = []
        desk = Registrar(Journal(), VirtualClock(TEN), lambda: woken.append(True), looks_within)
        await desk.upsert_all(["job"], lambda *_: named("job", text))
        edited = len(woken)
        await desk.remove("job")
        return edited, len(woken) - edited

    assert asyncio.run(story()) == (times, 1)
