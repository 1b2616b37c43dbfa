"""Random fleets, pass by pass: what the pipeline says beforehand is what the pass does."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.fleet.rig import FleetRig, agent, cron, every

from dutiful.fleet import ConcurrencyLimitError

KINDS = [every("2s"), every("7s", jitter_percent=10), every("30s"), cron("* * * * *"), {"type": "chat"}]


class World:
    def __init__(self, folder, seed: int) -> None:
        self.rng = Random(seed)
        self.agents = [self._agent(name) for name in "abc"]
        # A pass is made when the test asks for it.
        self.rig = FleetRig(folder, *self.agents, behave=self._job, check_interval=1_000_000)

    def _agent(self, name: str):
        schedules = {f"s{n}": self.rng.choice(KINDS) for n in range(self.rng.randint(1, 5))}
        return agent(name, self.rng.randint(1, 3), **schedules)

    async def _job(self, _):
        # No job ends within the pass that started it: its place would be free again for the same pass.
        await self.rig.clock.sleep(self.rng.choice([1, 2, 5, 70]))
        if self.rng.random() < 0.2:
            raise RuntimeError("as it goes")

    def ids(self):
        return [(each["name"], name) for each in self.agents for name in each["schedules"]]

    async def interfere(self) -> list[tuple[str, str]]:
        """Do what people do now and then; return what was asked for by hand."""
        fleet, some = self.rig.fleet, self.rng.choice(self.ids())
        match self.rng.randrange(12):
            case 0:
                fleet.disable_schedule(*some)
            case 1 | 2:
                fleet.enable_schedule(*some)
            case 3:
                try:
                    await fleet.trigger(*some)
                except ConcurrencyLimitError:
                    return []
                return [some]
        return []


@pytest.mark.parametrize("seed", range(25))
def test_a_pass_does_what_the_pipeline_says(tmp_path, seed):
    async def story():
        world = World(tmp_path, seed)
        fleet, most = (
            world.rig.fleet,
            {each["name"]: each["instances"]["max_concurrent"] for each in world.agents},
        )
        async with world.rig as rig:
            for _ in range(80):
                await rig.clock.advance(world.rng.choice([1, 1, 3, 20]))
                asked = await world.interfere()
                before, seen = {id_: fleet.check_schedule(*id_) for id_ in world.ids()}, len(rig.infos)
                await fleet._pass()
                await rig.clock.advance(0)
                began = rig.infos[seen:]
                by_clock = {(i.agent.name, i.schedule_name) for i in began if i.trigger_type != "manual"}
                by_hand = [(i.agent.name, i.schedule_name) for i in began if i.trigger_type == "manual"]
                assert by_hand == asked
                assert {id_ for id_ in by_clock if not before[id_].should_trigger} == set()
                left = {id_ for id_, check in before.items() if check.should_trigger} - by_clock
                full = {name for name in most if len([i for i in began if i.agent.name == name]) > 0}
                assert {name for name, _ in left} <= full
                for name, places in most.items():
                    assert fleet.get_running_job_count(name) <= places

    asyncio.run(story())
