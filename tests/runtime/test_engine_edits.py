"""Edits at awkward moments: the engine and the registrar write the same schedules."""

from __future__ import annotations

import asyncio

import pytest
from tests.core.plan.planner_notation import MINUTE, at, schedule
from tests.sim.gate import Gate, honest
from tests.sim.rig import Rig

from dutiful.core.cadence import Once
from dutiful.core.changes import Changes, Put
from dutiful.core.event import RunEndedByPlan, RunHeld, TicksSkipped
from dutiful.core.plan.outcome import Succeeded
from dutiful.core.policy import Overlap
from dutiful.core.schedule import State, Task
from dutiful.runtime.engine import Settings
from dutiful.runtime.registrar import Registrar


class SlowAnswers(Gate):
    """A store that is asked, and whose first answer is a minute on its way."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig.store)
        self._rig, self._asked = rig, False

    async def _call(self, name, *args):
        answer = await super()._call(name, *args)
        if name == "get" and not self._asked:
            self._asked = True
            await self._rig.time.advance(60)
        return answer


def test_an_edit_that_is_overtaken_by_a_tick_does_not_make_it_due_again():
    async def story():
        async with Rig(schedule(ledger=False)) as rig:
            await rig.time.advance(30)
            registrar = Registrar(SlowAnswers(rig), rig.time, rig.engine.wake)
            await registrar.upsert(schedule(ledger=False, overlap=Overlap.ALLOW))
            await rig.time.advance(60)
            return [tick for _, _, tick, _ in rig.calls.noted]

    assert asyncio.run(story()) == ["10:01", "10:02"]


@pytest.mark.parametrize("edit", ["pause", "upsert", "remove"])
def test_an_edit_during_a_run_leaves_the_run(edit):
    async def story():
        async def slow(_):
            await rig.time.sleep(90)

        rig = Rig(schedule(), behave=slow)
        async with rig:
            await rig.time.advance(70)
            registrar = Registrar(rig.store, rig.time, rig.engine.wake)
            if edit == "pause":
                await registrar.pause("s", paused=True)
            elif edit == "upsert":
                await registrar.upsert(schedule(overlap=Overlap.QUEUE))
            else:
                await registrar.remove("s")
            await rig.time.advance(60)
            return await rig.rows()

    expected = {
        "pause": ["10:01 STARTED", "10:02 SKIPPED paused"],
        "upsert": ["10:01 STARTED", "10:02 ENQUEUED"],
        "remove": [],
    }
    assert asyncio.run(story()) == expected[edit]


def edited_before_the_commit_of_10_02(declared, edit, verdict=honest):
    """Return a rig with a run that hangs since 10:01; `edit(registrar)` comes before that commit."""

    async def hang(_):
        await asyncio.Event().wait()

    async def edit_before_commit(method, *_):
        if method == "commit" and rig.time.now().minute == 2:
            for once in edits:
                await once(Registrar(rig.store, rig.time, rig.engine.wake))

    edits = iter([edit])
    rig = Rig(declared, behave=hang, through=lambda store: Gate(store, verdict, edit_before_commit))
    return rig


def test_a_run_whose_end_an_edit_overtook_goes_on_without_an_event_of_its_end():
    edited = schedule(overlap=Overlap.SKIP)
    rig = edited_before_the_commit_of_10_02(
        schedule(overlap=Overlap.CANCEL_OTHER), lambda registrar: registrar.upsert(edited)
    )

    async def story():
        async with rig:
            await rig.time.advance(150)
            return await rig.rows(), rig.told(RunEndedByPlan)

    assert asyncio.run(story()) == (["10:01 STARTED", "10:02 SKIPPED overlap"], [])


@pytest.mark.parametrize(("overlap", "kind"), [(Overlap.SKIP, TicksSkipped), (Overlap.QUEUE, RunHeld)])
def test_a_move_that_an_edit_has_overtaken_emits_no_event(overlap, kind):
    rig = edited_before_the_commit_of_10_02(
        schedule(overlap=overlap), lambda registrar: registrar.upsert(schedule(overlap=Overlap.ALLOW))
    )

    async def story():
        async with rig:
            await rig.time.advance(150)
            return rig.told(kind)

    assert asyncio.run(story()) == []


def test_a_schedule_edited_by_another_process_during_a_pass_is_planned_again_at_once():
    once = schedule(Once(at("10:02")))

    async def edit(_):
        put = Put(once._replace(task=Task("another")), State(at("10:00")), at("10:02"))
        await rig.store.apply(Changes([put]))

    rig = edited_before_the_commit_of_10_02(once, edit)

    async def story():
        async with rig:
            await rig.time.advance(150)
            return rig.calls.noted

    assert asyncio.run(story()) == [("10:02", "s", "10:02", 1)]


def test_a_run_whose_schedule_was_removed_goes_on_also_when_the_commit_that_would_end_it_has_failed():
    lost = iter(["before"])
    rig = edited_before_the_commit_of_10_02(
        schedule(overlap=Overlap.CANCEL_OTHER),
        lambda registrar: registrar.remove("s"),
        lambda method: next(lost, None) if method == "commit" and rig.time.now().minute == 2 else None,
    )

    async def story():
        async with rig:
            await rig.time.advance(150)
            return len((await rig.engine.stop(within=0)).in_flight)

    assert asyncio.run(story()) == 1


def test_ticks_passed_while_paused_are_paused_even_within_the_grace():
    async def story():
        async with Rig(schedule()) as rig:
            registrar = Registrar(rig.store, rig.time, rig.engine.wake)
            await rig.time.advance(30)
            await registrar.pause("s", paused=True)
            await rig.time.advance(40)
            await registrar.pause("s", paused=False)
            await rig.time.advance(60)
            return await rig.rows()

    assert asyncio.run(story()) == ["10:01 SKIPPED paused", "10:02 SUCCESS"]


def test_a_removed_schedule_does_not_fill_the_engine_for_ever():
    async def story():
        async def hang(launch):
            if launch.run.schedule_id == "gone":
                await asyncio.Event().wait()
            return Succeeded()

        settings = Settings(in_flight_max=1)
        gone = schedule(Once(at("10:01")), id_="gone", run_timeout=5 * MINUTE)
        async with Rig(gone, behave=hang, settings=settings) as rig:
            await rig.time.advance(70)
            await Registrar(rig.store, rig.time, rig.engine.wake).remove("gone")
            await rig.declare(schedule())
            rig.engine.wake()
            await rig.time.advance(600)
            return [id_ for _, id_, *_ in rig.calls.noted]

    assert "s" in asyncio.run(story())


def test_adopted_runs_are_among_those_in_flight():
    async def story():
        async def slow(_):
            await rig.time.sleep(1000)
            return Succeeded()

        group = [
            schedule(Once(at("10:01")), id_="a"),
            schedule(Once(at("10:02")), id_="b", grace=60 * MINUTE),
        ]
        async with Rig(*group, behave=slow, settings=Settings(in_flight_max=1)) as rig:
            await rig.time.advance(70)
            await rig.crash()
            await rig.time.advance(60)
            rig.boot()
            await rig.time.advance(10)
            return [id_ for _, id_, *_ in rig.calls.noted]

    assert asyncio.run(story()) == ["a", "a"]
