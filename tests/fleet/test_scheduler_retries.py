"""Failed runs of a fleet: when they are retried, when not, and which jobs and callers learn of it."""

from __future__ import annotations

import asyncio

import pytest
from tests.fleet.rig import FleetRig, agent, cron, every


def test_a_failing_run_is_retried_and_the_hook_hears_of_the_last_failure_only(tmp_path):
    heard = []

    async def fails(info):
        raise RuntimeError(f"attempt {info.metadata.attempt}")

    def on_failure(info, error):
        heard.append((f"{info.agent.name}/{info.schedule_name}", error))

    async def story():
        retried = every("1h", retries=2, retry_delay="10s", retry_backoff=3)
        async with FleetRig(tmp_path, agent(i=retried), behave=fails, on_failure=on_failure) as rig:
            await rig.clock.advance(120)
            rows = [(r.status, r.attempt, r.detail) for r in await rig.fleet.get_history("a", "i")]
            return rig.triggered, rows, rig.fleet.get_counts("a"), rig.fleet.get_schedule("a", "i")

    triggered, rows, counts, info = asyncio.run(story())
    assert triggered == ["08:59:58 a/i", "09:00:08 a/i", "09:00:38 a/i"]
    assert rows == [("FAILED", 3, "attempt 3")]
    assert heard == [("a/i", "attempt 3")]
    assert counts == {"done": 0, "failed": 1, "no_work": 0}
    assert f"{info.next_run_at:%H:%M:%S}" == "10:00:38"


def test_the_hook_may_be_async_and_take_longer_than_a_minute(tmp_path):
    heard = []

    async def fails(_info):
        raise RuntimeError("no luck")

    async def on_failure(info, error):
        await rig.clock.sleep(300)
        heard.append((rig.now(), info.schedule_name, error))
        raise RuntimeError("nobody reads this\nmail")

    rig = FleetRig(tmp_path, agent(i=every("1h")), behave=fails, on_failure=on_failure)

    async def story():
        async with rig:
            await rig.clock.advance(301)

    asyncio.run(story())
    assert heard == [("09:04:58", "i", "no luck")]
    assert rig.said.lines[-1] == "ERROR a/i: on_failure failed: nobody reads this\\nmail"


def test_a_stop_waits_for_the_hook_but_for_a_minute_at_most(tmp_path):
    ended = []

    async def fails(_info):
        raise RuntimeError("no luck")

    async def on_failure(_info, error):
        try:
            await rig.clock.sleep(30 if error == "short" else 3600)
        finally:
            ended.append(rig.now())

    rig = FleetRig(tmp_path, agent(i=every("1h")), behave=fails, on_failure=on_failure)

    async def story():
        async with rig:
            await rig.clock.advance(2)
        return rig.now()

    assert asyncio.run(story()) == "09:01:00"
    assert ended == ["09:01:00"]
    assert rig.said.lines[-1] == "ERROR on_failure takes longer than 60 s, and is cancelled"


@pytest.mark.parametrize("often", [every("1m", retries=3), cron("* * * * *", retries=3)])
def test_the_hook_hears_of_a_failed_run_whose_retry_the_next_run_replaces(tmp_path, often):
    heard, failed = [], []

    async def fails(info):
        failed.append(f"failed at {info.metadata.due_at:%H:%M:%S}")
        raise RuntimeError(failed[-1])

    def on_failure(info, error):
        heard.append((info.metadata.attempt, error))

    async def story():
        rig = FleetRig(tmp_path, agent(i=often), behave=fails, on_failure=on_failure)
        async with rig:
            await rig.clock.advance(150)
            return rig.fleet.get_counts("a")

    assert asyncio.run(story()) == {"done": 0, "failed": 2, "no_work": 0}
    assert (len(failed), heard) == (3, [(1, failed[0]), (1, failed[1])])


def test_a_failed_run_is_not_retried_once_its_schedule_is_disabled(tmp_path):
    heard = []

    async def fails(_info):
        raise RuntimeError("no")

    async def story():
        retried = every("1h", retries=2, retry_delay="10s")
        async with FleetRig(
            tmp_path, agent(i=retried), behave=fails, on_failure=lambda _, error: heard.append(error)
        ) as rig:
            await rig.clock.advance(1)
            rig.fleet.disable_schedule("a", "i")
            await rig.clock.advance(120)
            rows = [(r.status, r.detail) for r in await rig.fleet.get_history("a", "i")]
            return rig.triggered, rows, rig.fleet.get_counts("a")

    assert asyncio.run(story()) == (
        ["08:59:58 a/i"],
        [("FAILED", "no; not retried, because the schedule was disabled")],
        {"done": 0, "failed": 1, "no_work": 0},
    )
    assert heard == ["no"]


def test_a_schedule_that_waits_for_a_retry_shows_it_as_its_next_run(tmp_path):
    async def fails(_info):
        raise RuntimeError("no")

    async def story():
        retried = agent(i=every("1h", retries=1, retry_delay="30s"), j=every("2h"))
        shown = []
        async with FleetRig(tmp_path, retried, behave=fails) as rig:
            for pause in (10, 10, 20):
                await rig.clock.advance(pause)
                shown.append(f"{rig.fleet.get_schedule('a', 'i').next_run_at:%H:%M:%S}")
                # The view is made anew.
                rig.fleet.set_agents([retried])
            return shown

    assert asyncio.run(story()) == ["09:00:28", "09:00:28", "10:00:28"]


def test_a_manual_run_that_fails_is_not_retried(tmp_path):
    async def fails(_info):
        raise RuntimeError("no")

    async def story():
        hook = {"type": "webhook", "retries": 5, "retry_delay": "1s"}
        async with FleetRig(tmp_path, agent(x=hook), behave=fails) as rig:
            await rig.fleet.trigger("a", "x", prompt="Once.")
            await rig.clock.advance(30)
            return [info.prompt for info in rig.infos], await rig.history("a", "x")

    assert asyncio.run(story()) == (["Once."], ["FAILED task_failed"])
