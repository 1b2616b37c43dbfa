"""Edits at awkward moments: the engine and the registrar write the same schedules."""

from __future__ import annotations

import asyncio

import pytest
from tests.core.planner_notation import MINUTE, at, schedule
from tests.sim.gate import Gate
from tests.sim.rig import Rig

from dutiful.core.cadence import Once
from dutiful.core.outcome import Succeeded
from dutiful.core.policy import Overlap
from dutiful.engine import Settings
from dutiful.registrar import Registrar


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
