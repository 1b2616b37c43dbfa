"""File 001, "Scheduler Class", "Schedule Types", "Schedule Checking", "Concurrency" and "Shutdown"."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime, timedelta

import pytest
from tests.fleet.rig import FleetRig, agent, cron, every

from dutiful.fleet import (
    FleetScheduler,
    ScheduleCheckResult,
    SchedulerError,
    SchedulerShutdownError,
    SchedulerState,
    ScheduleSkipReason,
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-02T{text}+00:00")


# Construction, options and defaults


def test_options_check_interval_is_one_second():
    assert inspect.signature(FleetScheduler).parameters["check_interval"].default == 1.0


def test_options_the_state_directory_is_required():
    with pytest.raises(TypeError, match="state_dir"):
        FleetScheduler()


def test_options_the_logger_is_told(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("5m"))) as rig:
            return rig.said.lines

    assert asyncio.run(story()) == ["INFO a/i: triggered (interval)"]


def test_options_on_trigger_may_be_left_out(tmp_path):
    async def story():
        fleet = FleetScheduler(state_dir=tmp_path)
        await fleet.start([agent(i=every("5m"))])
        await fleet.stop()
        return fleet.get_state().trigger_count

    assert asyncio.run(story()) == 1


def test_options_on_trigger_is_told_who_and_why(tmp_path):
    async def story():
        async with FleetRig(tmp_path, {**agent(i=every("5m", prompt="Go.")), "default_prompt": "Hm."}) as rig:
            return rig.infos[0]

    info = asyncio.run(story())
    assert (info.agent.name, info.schedule_name, info.schedule.interval) == ("a", "i", "5m")
    assert (info.prompt, info.trigger_type) == ("Go.", "interval")


# Lifecycle methods


def test_lifecycle_status_is_stopped_running_stopping_stopped(tmp_path):
    async def story():
        rig = FleetRig(tmp_path, agent(i=every("5m")), lasts=5)
        seen = [rig.fleet.get_status()]
        async with rig:
            seen += [rig.fleet.get_status(), rig.fleet.is_running()]
            stopping = asyncio.ensure_future(rig.fleet.stop())
            await asyncio.sleep(0)
            seen += [rig.fleet.get_status(), rig.fleet.is_running()]
            await rig.clock.advance(5)
            await stopping
        return [*seen, rig.fleet.get_status()]

    assert asyncio.run(story()) == ["stopped", "running", True, "stopping", False, "stopped"]


def test_lifecycle_the_state_counts_checks_and_triggers(tmp_path):
    async def story():
        rig = FleetRig(tmp_path, agent(i=every("2s")))
        before = rig.fleet.get_state()
        async with rig:
            await rig.clock.advance(4)
            return before, rig.fleet.get_state()

    before, after = asyncio.run(story())
    assert before == SchedulerState("stopped", None, 0, 0, None)
    assert after == SchedulerState("running", at("08:59:58"), 5, 3, at("09:00:02"))


def test_lifecycle_a_running_scheduler_cannot_be_started(tmp_path):
    async def story():
        async with FleetRig(tmp_path) as rig:
            with pytest.raises(SchedulerError, match="already running"):
                await rig.fleet.start([])

    asyncio.run(story())


def test_lifecycle_a_stopped_scheduler_can_be_started_again(tmp_path):
    async def story():
        rig = FleetRig(tmp_path, agent(i=every("10s")))
        for _ in range(2):
            async with rig:
                await rig.clock.advance(12)
        return rig.triggered

    # The second life begins at 09:00:11; the interval counts from the last completion.
    assert asyncio.run(story()) == ["08:59:58 a/i", "09:00:08 a/i", "09:00:18 a/i"]


def test_lifecycle_set_agents_acts_in_the_next_pass(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(old=every("1m"))) as rig:
            rig.fleet.set_agents([agent(new=every("1m"))])
            await rig.clock.advance(1)
            return rig.triggered, [info.name for info in rig.fleet.get_schedules()]

    assert asyncio.run(story()) == (["08:59:58 a/old", "08:59:59 a/new"], ["new"])


# Polling loop and abort handling


def test_polling_loop_checks_every_interval_and_never_waits_for_a_job(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(most=2, i=every("1h"), j=every("3s")), lasts=10) as rig:
            await rig.clock.advance(5)
            return rig.fleet.get_state().check_count

    assert asyncio.run(story()) == 6


def test_polling_loop_goes_on_after_an_error(tmp_path):
    async def story():
        def broken():
            raise RuntimeError("no such disk")

        rig = FleetRig(tmp_path, agent(i=every("1h")), reload=lambda: None)
        rig.fleet._reload = broken
        async with rig:
            await rig.clock.advance(2)
            rig.fleet._reload = None
            await rig.clock.advance(1)
            return rig.triggered, rig.said.lines[0]

    said = (
        "ERROR no schedule is triggered, because passes fail since 2026-03-02 08:59:58+0000: "
        "RuntimeError: no such disk"
    )
    assert asyncio.run(story()) == (["09:00:01 a/i"], said)


def test_abort_handling_stop_does_not_wait_for_the_interval(tmp_path):
    async def story():
        rig = FleetRig(tmp_path, agent(i=every("1h")), check_interval=timedelta(hours=1))
        async with rig:
            await rig.fleet.stop()
            return rig.now()

    assert asyncio.run(story()) == "08:59:58"


# Schedule types


def test_interval_schedules_count_from_completion(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("5m")), lasts=600, check_interval=60) as rig:
            await rig.clock.advance(1900)
            return rig.triggered

    assert asyncio.run(story()) == ["08:59:58 a/i", "09:14:58 a/i", "09:29:58 a/i"]


def test_cron_schedules_fire_at_their_times(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(report=cron("0 9 * * 1-5")), check_interval=600) as rig:
            await rig.clock.advance(7 * 86_400)
            return [f"{info.agent.name}" for info in rig.infos], rig.triggered[0]

    triggered, first = asyncio.run(story())
    assert (len(triggered), first) == (5, "09:09:58 a/report")


def test_cron_schedules_do_not_catch_up(tmp_path):
    async def story():
        rig = FleetRig(tmp_path, agent(report=cron("0 9 * * *")))
        async with rig:
            pass
        await rig.clock.advance(30)
        async with rig:
            await rig.clock.advance(60)
            return rig.triggered, await rig.history("a", "report"), rig.fleet.get_schedule("a", "report")

    triggered, history, info = asyncio.run(story())
    assert (triggered, history) == ([], ["SKIPPED missed"])
    assert info.next_run_at == at("09:00:00") + timedelta(days=1)


@pytest.mark.parametrize("kind", ["webhook", "chat"])
def test_non_automatic_types_are_never_triggered_by_the_clock(tmp_path, kind):
    async def story():
        async with FleetRig(tmp_path, agent(w={"type": kind}), check_interval=60) as rig:
            await rig.clock.advance(3600)
            return rig.triggered, rig.reasons()

    assert asyncio.run(story()) == ([], {"a/w": "unsupported_type"})


# Schedule checking: the pipeline, in its order


def test_schedule_checking_a_due_schedule_should_trigger(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("5s"))) as rig:
            await rig.clock.jump(5)
            return rig.fleet.check_schedule("a", "i"), rig.triggered

    check, triggered = asyncio.run(story())
    assert check == ScheduleCheckResult(should_trigger=True, skip_reason=None)
    assert len(triggered) == 1


REASONS = {
    "unsupported_type": (agent(s={"type": "webhook"}), None, 0),
    "disabled": (agent(s=every("5s")), "disable", 0),
    "already_running": (agent(s=every("5s")), None, 60),
    "at_capacity": (agent(other=every("5s"), s=every("5s")), None, 60),
    "not_due": (agent(s=every("5m")), None, 0),
}


@pytest.mark.parametrize("reason", REASONS)
def test_skip_reasons(tmp_path, reason):
    declared, by_hand, lasts = REASONS[reason]

    async def story():
        async with FleetRig(tmp_path, declared, lasts=lasts) as rig:
            if by_hand == "disable":
                rig.fleet.disable_schedule("a", "s")
            await rig.clock.advance(2)
            return rig.fleet.check_schedule("a", "s")

    assert asyncio.run(story()) == ScheduleCheckResult(False, ScheduleSkipReason(reason))


def test_schedule_checking_names_the_first_condition_that_fails(tmp_path):
    # Not due, running, at its agent's limit, disabled and of an unsupported type, taken away one by one.
    async def story():
        async with FleetRig(tmp_path, agent(s={"type": "webhook"}), lasts=60) as rig:
            rig.fleet.disable_schedule("a", "s")
            await rig.fleet.trigger("a", "s")
            await rig.clock.advance(1)
            seen = [rig.reasons()["a/s"]]
            rig.fleet.set_agents([agent(s=every("1h"))])
            await rig.clock.advance(1)
            seen.append(rig.reasons()["a/s"])
            rig.fleet.enable_schedule("a", "s")
            await rig.clock.advance(1)
            seen.append(rig.reasons()["a/s"])
            rig.fleet.set_agents([agent(s=every("1h"), t=every("1h"))])
            await rig.clock.advance(1)
            seen.append(rig.reasons()["a/t"])
            await rig.clock.advance(180)
            return [*seen, rig.reasons()["a/s"]]

    assert asyncio.run(story()) == [
        "unsupported_type",
        "disabled",
        "already_running",
        "at_capacity",
        "not_due",
    ]


# Concurrency tracking


def test_concurrency_tracking_counts_running_jobs(tmp_path):
    async def story():
        fleet = [agent("a", 2, i=every("1m"), j=every("1m"), k=every("1m")), agent("b", 1, i=every("1m"))]
        async with FleetRig(tmp_path, *fleet, lasts=10) as rig:
            one = rig.fleet
            return [one.get_running_job_count(name) for name in "abc"], one.get_total_running_job_count()

    assert asyncio.run(story()) == ([2, 1, 0], 3)


def test_in_memory_vs_persisted_a_stale_running_status_blocks_nothing(tmp_path):
    (tmp_path / "state.yaml").write_text("agents: {a: {schedules: {i: {status: running}}}}")

    async def story():
        async with FleetRig(tmp_path, agent(i=every("5m"))) as rig:
            return rig.triggered, rig.state("a", "i").last_error

    assert asyncio.run(story()) == (["08:59:58 a/i"], None)


# Graceful shutdown


def test_graceful_shutdown_waits_for_running_jobs(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("5m")), lasts=10) as rig:
            await rig.stop()
            return rig.now() >= "09:00:08", rig.state("a", "i").status

    assert asyncio.run(story()) == (True, "idle")


def test_graceful_shutdown_triggers_nothing_new(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(most=2, i=every("1h"), j=every("3s")), lasts=20) as rig:
            await rig.stop()
            return rig.triggered

    assert asyncio.run(story()) == ["08:59:58 a/i", "08:59:58 a/j"]


def test_graceful_shutdown_without_waiting_leaves_the_jobs(tmp_path):
    async def story():
        rig = FleetRig(tmp_path, agent(i=every("5m")), lasts=10)
        async with rig:
            await rig.fleet.stop(wait_for_jobs=False)
            seen = rig.now(), rig.fleet.get_status(), rig.fleet.get_total_running_job_count()
            await rig.clock.advance(10)
            return seen, rig.state("a", "i").status

    assert asyncio.run(story()) == (("08:59:58", "stopped", 1), "idle")


def test_timeout_handling(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(most=2, i=every("5m"), j=every("5m")), lasts=60) as rig:
            with pytest.raises(SchedulerShutdownError) as caught:
                await rig.stop(timeout=timedelta(seconds=30))
            await rig.clock.advance(60)
            return caught.value, rig.fleet.get_status()

    error, status = asyncio.run(story())
    assert str(error) == "Scheduler shutdown timed out after 30000ms with 2 job(s) still running"
    assert (error.timed_out, error.running_job_count, status) == (True, 2, "stopped")


def test_state_follows_a_run_from_idle_to_running_and_back(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("5m")), lasts=10) as rig:
            seen = [rig.state("a", "i")]
            await rig.clock.advance(10)
            return [*seen, rig.state("a", "i")]

    running, idle = asyncio.run(story())
    assert (running.status, running.last_run_at) == ("running", at("08:59:58"))
    assert idle == ("idle", at("09:00:08"), at("09:05:08"), None)
    assert idle.last_run_at.tzinfo is UTC
