"""A fleet whose clock was ahead and is set back: what runs, and what is shown as the next run."""

from __future__ import annotations

import asyncio

from tests.fleet.rig import FleetRig, agent, cron, every

DAY = 86_400


def next_runs(rig, *names):
    """Return the next run of each schedule, as the fleet shows it and as `state.yaml` has it."""
    shown = {name: rig.fleet.get_schedule("a", name).next_run_at for name in names}
    assert {name: rig.state("a", name).next_run_at for name in names} == shown
    return {name: f"{at:%d %H:%M:%S}" for name, at in shown.items()}


def test_the_next_run_is_that_of_the_clock_that_was_set_back(tmp_path):
    schedules = {"hourly": every("1h"), "daily": cron("0 9 * * *")}
    ran = []

    async def daily(info):
        if info.schedule_name == "daily":
            ran.append(f"{info.metadata.due_at:%d}")

    async def story():
        options = {"start": "2026-03-05T08:50:00+00:00", "behave": daily, "check_interval": 600}
        async with FleetRig(tmp_path, agent("a", 2, **schedules), **options) as rig:
            await rig.clock.advance(1200)
            shown = [next_runs(rig, *schedules)]
            await rig.clock.jump(-3 * DAY)
            for seconds in (1200, DAY, DAY):
                await rig.clock.advance(seconds)
                shown.append(next_runs(rig, *schedules))
            return shown

    ahead, back, second, third = asyncio.run(story())
    assert ahead == {"hourly": "05 09:50:00", "daily": "06 09:00:00"}
    assert back == {"hourly": "02 10:20:00", "daily": "03 09:00:00"}
    assert second == {"hourly": "03 10:20:00", "daily": "04 09:00:00"}
    # The tick of the fifth has run already.
    assert third == {"hourly": "04 10:20:00", "daily": "06 09:00:00"}
    assert ran == ["05", "03", "04"]


def test_a_fleet_that_starts_on_a_clock_that_was_set_back_shows_its_next_run(tmp_path):
    schedules = {"hourly": every("1h"), "daily": cron("0 9 * * *")}

    async def story():
        for start in ("05T08:50:00", "02T09:10:00"):
            options = {"start": f"2026-03-{start}+00:00", "check_interval": 600}
            async with FleetRig(tmp_path, agent("a", 2, **schedules), **options) as rig:
                await rig.clock.advance(1200)
                shown = next_runs(rig, *schedules)
        return shown

    assert asyncio.run(story()) == {"hourly": "02 10:10:00", "daily": "03 09:00:00"}
