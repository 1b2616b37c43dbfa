"""A pause with an end: the engine resumes the schedule, and the ledger is that of a resumption by hand."""

from __future__ import annotations

import asyncio

import pytest
from tests.core.plan.planner_notation import MINUTE, SECOND, at, clock, schedule
from tests.runtime.registrar_notation import crash_and_boot, explained, registrar, slow_rig, stretches
from tests.sim.gate import Crashed, Gate, depose
from tests.sim.rig import Rig

from dutiful.core.cadence import Every, OnDemand
from dutiful.core.changes import Note
from dutiful.core.cron.cron import Cron
from dutiful.core.policy import Capacity, CatchUp, Overlap
from dutiful.runtime.registrar import Registrar

CADENCES = [
    Cron.parse("* * * * *"),
    Cron.parse("0,5,10 * * * *"),
    Every(MINUTE, "start"),
    Every(7 * SECOND, "start"),
    Every(90 * SECOND),
    OnDemand(),
]
POLICIES = [
    {},
    {"ledger": False},
    {"jitter": 20 * SECOND},
    {"overlap": Overlap.BUFFER_ONE, "catch_up": CatchUp.NONE},
    {"overlap": Overlap.QUEUE, "catch_up": CatchUp.FIRE_IMMEDIATELY},
    {"overlap": Overlap.ALLOW, "catch_up": CatchUp.SPREAD, "grace": 1},
    {"overlap": Overlap.CANCEL_OTHER, "capacity": Capacity("g", 1)},
    {"max_runs": 4},
]

# Every tick that was not skipped runs, however late.
OWING = schedule(catch_up=CatchUp.FIRE_IMMEDIATELY, overlap=Overlap.ALLOW)


async def ledger(declared, end, by_hand, down):
    """Return ledger, launches, schedule and cursor after a pause that ends by hand or by itself."""
    async with slow_rig(80, declared) as rig:
        await rig.time.advance(90)
        await registrar(rig).pause("s", True, until=None if by_hand else at(end))
        if down:
            await rig.crash()
        await rig.time.advance((at(end) - at("10:01:30")) / 1000)
        if by_hand:
            await registrar(rig).pause("s", False)
        if down:
            await rig.time.advance(200)
            rig.boot()
        await rig.time.advance(400)
        rows = await rig.store.ledger("s", None, 1000)
        facts = [(row.run_at, row.kind, row.status, row.reason, row.run_until, row.ticks) for row in rows]
        due = await rig.store.get("s")
        return facts, rig.calls.noted, due.schedule, due.state.cursor


@pytest.mark.parametrize("down", [False, True], ids=["engine up", "engine down"])
@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("cadence", CADENCES, ids=str)
def test_a_pause_that_ends_by_itself_leaves_what_a_resumption_by_hand_leaves(cadence, policy, down):
    declared = schedule(cadence, **policy)
    itself, by_hand = (asyncio.run(ledger(declared, "10:07:33", hand, down)) for hand in (False, True))
    assert itself == by_hand
    assert itself[2] == declared


def test_the_tick_at_the_end_of_a_pause_runs():
    async def story():
        async with Rig(schedule()) as rig:
            await registrar(rig).pause("s", True, until=at("10:05"))
            await rig.time.advance(6 * 60)
            return await stretches(rig), rig.calls.noted

    skipped, noted = asyncio.run(story())
    assert skipped == ["paused 10:01-10:04 x4"]
    assert noted == [("10:05", "s", "10:05", 1), ("10:06", "s", "10:06", 1)]


def test_the_end_of_a_pause_clears_the_note_and_says_when_it_was():
    async def story():
        async with Rig(schedule()) as rig:
            await registrar(rig).pause("s", True, "moving house", "ada", at("10:05:30"))
            before = await rig.store.notes(["s"])
            await rig.time.advance(10 * 60)
            return before, await rig.store.notes(["s"])

    assert asyncio.run(story()) == (
        {"s": Note(at("10:00"), "moving house", at("10:00"), "ada")},
        {"s": Note(at("10:05:30"))},
    )


class DyingGate(Gate):
    """Dies at the first resumption, before or after it is written."""

    def __init__(self, store, written):
        super().__init__(store)
        self._written = written

    async def _call(self, name, *args):
        if name == "apply" and not self.dead:
            self.dead = True
            if self._written:
                await self._store.apply(*args)
            raise Crashed
        return await super()._call(name, *args)


@pytest.mark.parametrize("written", [False, True], ids=["before the commit", "after the commit"])
def test_a_crash_at_the_end_of_a_pause_changes_nothing(written):
    async def story():
        async with Rig(OWING) as rig:
            await registrar(rig).pause("s", True, until=at("10:03:30"))
            await rig.crash()
            rig.boot(DyingGate(rig.store, written))
            await rig.time.advance(4 * 60)
            await crash_and_boot(rig, 120)
            return await rig.rows()

    assert asyncio.run(story()) == [
        "10:01-10:03 SKIPPED paused",
        "10:04 SUCCESS",
        "10:05 SUCCESS",
        "10:06 SUCCESS",
    ]


def test_a_leader_that_was_deposed_resumes_nothing():
    async def story():
        async with Rig(schedule()) as rig:
            await registrar(rig).pause("s", True, until=at("10:03:30"))
            await rig.crash()

            async def rival(name, *_):
                if name == "apply":
                    await depose(rig.store)

            rig.boot(Gate(rig.store, between=rival))
            await rig.time.advance(4 * 60)
            return (await rig.store.get("s")).schedule.paused, rig.calls.noted

    assert asyncio.run(story()) == (True, [])


def test_a_store_that_fails_at_the_end_of_a_pause_is_asked_again():
    async def story():
        failures = iter(["before", "after"])

        def verdict(name):
            return next(failures, None) if name == "apply" else None

        async with Rig(schedule(), through=lambda store: Gate(store, verdict)) as rig:
            await registrar(rig).pause("s", True, until=at("10:03:30"))
            await rig.time.advance(4 * 60)
            return await rig.rows(), (await rig.store.get("s")).schedule

    assert asyncio.run(story()) == (["10:01-10:03 SKIPPED paused", "10:04 SUCCESS"], schedule())


def test_an_edit_that_comes_first_is_not_lost():
    async def story():
        async def edit(name, *_):
            if name == "apply" and not done:
                done.append(name)
                await Registrar(rig.store, rig.time, lambda: None).pause("s", True, until=at("10:08:30"))

        done = []
        async with Rig(schedule()) as rig:
            await registrar(rig).pause("s", True, until=at("10:03:30"))
            await rig.crash()
            rig.boot(Gate(rig.store, between=edit))
            await rig.time.advance(9 * 60)
            return await rig.rows()

    assert asyncio.run(story()) == ["10:01-10:08 SKIPPED paused", "10:09 SUCCESS"]


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        ((True, None), [True, None]),
        ((True, "10:20"), [True, "10:20"]),
        ((False, None), [False, None]),
    ],
)
def test_a_resumption_clears_the_end_and_another_pause_replaces_it(again, expected):
    async def story():
        async with Rig(schedule()) as rig:
            await registrar(rig).pause("s", True, "first", "ada", until=at("10:10"))
            await rig.time.advance(60)
            paused, end = again
            await registrar(rig).pause("s", paused, "next", "bob", until=None if end is None else at(end))
            found, note = (await rig.store.get("s")).schedule, (await rig.store.notes(["s"]))["s"]
            shown = None if found.pause_until is None else clock(found.pause_until)
            return [found.paused, shown], note.paused_at

    assert asyncio.run(story()) == (expected, at("10:00") if again[0] else None)


@pytest.mark.parametrize("edit", ["upsert", "upsert_all", "backfill", "pause"])
def test_an_edit_after_the_end_of_a_pause_finds_the_schedule_resumed(edit):
    """The engine is down when the pause ends; the ticks after the end are owed all the same."""

    async def story():
        async with Rig(OWING) as rig:
            desk = registrar(rig)
            await desk.pause("s", True, "moving house", until=at("10:03:30"))
            await rig.crash()
            await rig.time.advance(5 * 60)
            if edit == "upsert":
                await desk.upsert(OWING)
            elif edit == "upsert_all":
                await desk.upsert_all(["s"], lambda _, known: known.schedule)
            elif edit == "backfill":
                await desk.backfill("s", at("10:01"), at("10:02"))
            else:
                await desk.pause("s", False)
            rig.boot()
            await rig.time.advance(1)
            return await stretches(rig), sorted(tick for _, _, tick, _ in rig.calls.noted)

    owed = ["10:04", "10:05"]
    asked = {"backfill": (["paused 10:02-10:03 x2"], ["10:01", *owed])}
    assert asyncio.run(story()) == asked.get(edit, (["paused 10:01-10:03 x3"], owed))


@pytest.mark.parametrize("end", [None, "10:03:30", "10:30"])
@pytest.mark.parametrize("overlap", [None, Overlap.SKIP])
def test_a_backfill_does_what_was_foreseen_of_it(end, overlap):
    """While the engine is down, ticks of a paused schedule are not recorded until an edit needs them."""

    async def story():
        async with Rig(OWING) as rig:
            desk, asked = registrar(rig), ("s", at("10:01"), at("10:05"), overlap)
            await desk.pause("s", True, until=None if end is None else at(end))
            await rig.crash()
            await rig.time.advance(10 * 60)
            before = await rig.store.get("s"), await rig.store.ledger("s", None, 9)
            foreseen = await desk.foresee_backfill(*asked)
            assert (await rig.store.get("s"), await rig.store.ledger("s", None, 9)) == before
            return foreseen[1:], (await desk.backfill(*asked))[1:]

    foreseen, done = asyncio.run(story())
    assert foreseen == done
    assert sum(done) == (3 if end == "10:03:30" else 4)


def test_a_tick_after_the_end_of_a_pause_is_explained_as_one_that_runs():
    async def story():
        async with Rig(schedule()) as rig:
            await registrar(rig).pause("s", True, until=at("10:05"))
            return [(await explained(rig, when)).text for when in ("10:04", "10:05")]

    assert asyncio.run(story()) == [
        "s at 2026-01-05T10:04:00Z will be SKIPPED: paused, decided by paused=True",
        "s at 2026-01-05T10:05:00Z will fire at 2026-01-05T10:05:00Z",
    ]


def test_many_pauses_end_together_while_others_run():
    async def story():
        names = [f"p{n}" for n in range(5)]
        async with Rig(*(schedule(id_=name) for name in [*names, "other"])) as rig:
            for name in names:
                await registrar(rig).pause(name, True, until=at("10:02"))
            await rig.time.advance(150)
            return sorted((tick, id_) for _, id_, tick, _ in rig.calls.noted)

    assert asyncio.run(story()) == [
        ("10:01", "other"),
        ("10:02", "other"),
        *(("10:02", f"p{n}") for n in range(5)),
    ]
