"""Names of every kind of text are stored and found under one exact text, in every door."""

from __future__ import annotations

import asyncio
from enum import Enum

import pytest
from tests.fleet.rig import FleetRig, every
from tests.service import rig as service_rig
from tests.spec.world import play

from dutiful.fleet import Agent


class Job(str, Enum):  # noqa: UP042 - the kind that formats as its own name
    NIGHTLY = "nightly"


@pytest.mark.parametrize("name", [Job.NIGHTLY, "👩‍👩‍👧 report", "non\u00a0breaking"], ids=ascii)
def test_a_task_of_any_name_runs_on_a_file_and_again_after_a_restart(name, tmp_path):
    async def story(world):
        first = world.scheduler()
        await first.initialize([world.task(name)])
        await world.clock.advance(60)
        await first.stop()
        again = world.scheduler()
        await again.initialize([world.task(name)])
        await world.clock.advance(60)
        return (await world.stored(str.__str__(name))).schedule.id

    world = play(story, store=f"sqlite:{tmp_path / 'state.db'}")
    assert type(world.answer) is str
    assert world.answer == name
    assert [text[:5] for text in world.ran] == ["10:00", "10:01", "10:02"]


def test_an_agent_and_its_schedules_may_be_named_by_members_of_an_enum(tmp_path):
    async def story():
        agents = {"name": Job.NIGHTLY, "schedules": {Job.NIGHTLY: every("1h")}}
        async with FleetRig(tmp_path, agents) as rig:
            return rig.triggered, [(info.agent_name, info.name) for info in rig.fleet.get_schedules()]

    assert asyncio.run(story()) == (["08:59:58 nightly/nightly"], [("nightly", "nightly")])
    agent = Agent(Job.NIGHTLY, {Job.NIGHTLY: None})
    assert [type(text) for text in (agent.name, *agent.schedules)] == [str, str]


def test_a_schedule_of_the_service_may_be_named_by_a_member_of_an_enum():
    async def story(rig):
        await rig.registrar.upsert_schedule(service_rig.given(schedule_id=Job.NIGHTLY))
        await rig.clock.advance(60)
        return [(meta.schedule_id, type(meta.schedule_id)) for meta in rig.calls.metas]

    assert service_rig.play(story) == [("nightly", str)]
