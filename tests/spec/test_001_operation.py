"""File 001, "Design Decisions", "Status Transitions" and "Public Exports"."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from tests.fleet.rig import FleetRig, agent, every

import dutiful.fleet
from dutiful.fleet import update_schedule_state

TYPES = """
SchedulerOptions SchedulerStatus SchedulerState SchedulerLogger ScheduleCheckResult ScheduleSkipReason
TriggerInfo SchedulerTriggerCallback AgentScheduleInfo StopOptions RunScheduleOptions ScheduleRunResult
ScheduleRunnerLogger TriggerMetadata
"""


def test_state_coherence_a_schedule_disabled_from_outside_is_skipped_by_the_next_pass(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("2s"))) as rig:
            await rig.clock.advance(2)
            update_schedule_state(tmp_path, "a", "i", {"status": "disabled"})
            await rig.clock.advance(10)
            disabled = len(rig.triggered), rig.reasons()
            update_schedule_state(tmp_path, "a", "i", {"status": "idle"})
            await rig.clock.advance(1)
            return disabled, len(rig.triggered)

    assert asyncio.run(story()) == ((2, {"a/i": "disabled"}), 3)


def test_status_transitions_disabled_persists_across_restarts(tmp_path):
    async def story():
        update_schedule_state(tmp_path, "a", "i", {"status": "disabled"})
        for _ in range(2):
            async with FleetRig(tmp_path, agent(i=every("2s"))) as rig:
                await rig.clock.advance(10)
                assert (rig.triggered, rig.state("a", "i").status) == ([], "disabled")

    asyncio.run(story())


def test_intervals_leave_at_least_their_length_between_two_runs(tmp_path):
    spans = []

    async def story():
        async def job(_):
            began = rig.clock.now()
            await rig.clock.sleep(7)
            spans.append((began, rig.clock.now()))

        async with FleetRig(tmp_path, agent(i=every("5s")), behave=job) as rig:
            await rig.clock.advance(60)

    asyncio.run(story())
    idle = [(after[0] - before[1]).total_seconds() for before, after in pairwise(spans)]
    assert idle == [5.0] * 4


@pytest.mark.parametrize("name", TYPES.split())
def test_public_exports_have_every_type(name):
    assert hasattr(dutiful.fleet, name)
    assert name in dutiful.fleet.__all__
