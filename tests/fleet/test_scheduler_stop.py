"""Stopping a fleet: any number of callers, at any time, and none of them is told that jobs have ended."""

from __future__ import annotations

import asyncio

import pytest
from tests.fleet.rig import FleetRig, agent, every

from dutiful.fleet import SchedulerShutdownError


async def _started(tmp_path, **options):
    rig = FleetRig(tmp_path, agent(s=every("1h")), **options)
    await rig.fleet.start(rig.agents)
    await rig.clock.advance(0)
    return rig


def test_a_stop_after_one_that_timed_out_waits_for_the_jobs_again(tmp_path):
    async def story():
        rig = await _started(tmp_path, lasts=50)
        with pytest.raises(SchedulerShutdownError):
            await rig.stop(timeout=10)
        with pytest.raises(SchedulerShutdownError) as again:
            await rig.stop(timeout=10)
        await rig.stop(timeout=60)
        return again.value.running_job_count, rig.now(), rig.state("a", "s").status, rig.fleet.get_status()

    assert asyncio.run(story()) == (1, "09:00:48", "idle", "stopped")


def test_a_stop_that_does_not_wait_can_be_followed_by_one_that_does(tmp_path):
    async def story():
        rig = await _started(tmp_path, lasts=50)
        await rig.stop(wait_for_jobs=False)
        left = rig.fleet.get_total_running_job_count()
        await rig.stop(timeout=60)
        return left, rig.fleet.get_total_running_job_count(), await _runs_again(rig)

    assert asyncio.run(story()) == (1, 0, True)


async def _runs_again(rig):
    await rig.fleet.start(rig.agents)
    running = rig.fleet.is_running()
    await rig.stop()
    return running


def test_two_stops_at_once_both_wait_each_for_its_own_time(tmp_path):
    async def story():
        rig = await _started(tmp_path, lasts=50)
        patient = asyncio.ensure_future(rig.fleet.stop(timeout=60))
        await asyncio.sleep(0)
        with pytest.raises(SchedulerShutdownError):
            await rig.stop(timeout=10)
        waits = not patient.done()
        await rig.clock.advance(60)
        await patient
        return waits, rig.state("a", "s").status

    assert asyncio.run(story()) == (True, "idle")


def test_a_stop_during_the_start_waits_for_the_start(tmp_path):
    async def story():
        rig = FleetRig(tmp_path, agent(s=every("1h")))
        starting = asyncio.ensure_future(rig.fleet.start(rig.agents))
        await asyncio.sleep(0)
        await rig.stop()
        await starting
        return rig.fleet.get_status(), len(rig.triggered), await _runs_again(rig)

    assert asyncio.run(story()) == ("stopped", 1, True)


def test_a_cancelled_stop_leaves_no_fleet_that_can_neither_stop_nor_start(tmp_path):
    async def story():
        rig = await _started(tmp_path, lasts=50)
        stopping = asyncio.ensure_future(rig.fleet.stop(timeout=60))
        await rig.clock.advance(1)
        stopping.cancel()
        await asyncio.wait([stopping])
        await rig.stop(timeout=60)
        return rig.now(), rig.fleet.get_status(), await _runs_again(rig)

    assert asyncio.run(story()) == ("09:00:48", "stopped", True)
