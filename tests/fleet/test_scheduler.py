"""What a fleet owes its users: parallel jobs, places that hold, and nothing stuck, whatever happens."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.fleet.rig import FleetRig, agent, cron, every

from dutiful.errors import InvalidArgumentError
from dutiful.fleet import (
    AgentNotFoundError,
    ConcurrencyLimitError,
    FleetConfigError,
    ScheduleNotFoundError,
    SchedulerError,
    ScheduleRunResult,
    update_schedule_state,
)


def test_max_concurrent_allows_that_many_and_no_more(tmp_path):
    most = 0

    async def story():
        async def job(_):
            nonlocal most
            most = max(most, rig.fleet.get_running_job_count("a"))
            await rig.clock.sleep(7)

        schedules = {f"s{n}": every("3s") for n in range(8)}
        rig = FleetRig(tmp_path, agent("a", 3, **schedules), agent("b", 1, s=every("3s")), behave=job)
        async with rig:
            await rig.clock.advance(60)
            return {text[9:] for text in rig.triggered}

    assert asyncio.run(story()) == {*(f"a/s{n}" for n in range(8)), "b/s"}
    assert most == 3


def test_an_occurrence_blocked_by_capacity_stays_due_until_the_next(tmp_path):
    async def story():
        fleet = agent(long=every("1h"), report=cron("0 9 * * *"))
        async with FleetRig(tmp_path, fleet, lasts=100) as rig:
            await rig.clock.advance(101)
            return rig.triggered

    assert asyncio.run(story()) == ["08:59:58 a/long", "09:01:38 a/report"]


def test_occurrences_that_pass_while_blocked_are_recorded_with_their_reason(tmp_path):
    async def story():
        fleet = agent(long=every("1h"), report=cron("* * * * *"))
        async with FleetRig(tmp_path, fleet, lasts=170) as rig:
            await rig.clock.advance(175)
            return rig.triggered[1:], await rig.history("a", "report")

    assert asyncio.run(story()) == (["09:02:48 a/report"], ["STARTED", "SKIPPED at_capacity"])


def test_occurrences_during_its_own_run_are_skipped(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(report=cron("* * * * *")), lasts=130) as rig:
            await rig.clock.advance(200)
            return rig.triggered, await rig.history("a", "report")

    triggered, history = asyncio.run(story())
    assert triggered == ["09:00:00 a/report", "09:03:00 a/report"]
    assert history == ["STARTED", "SKIPPED overlap", "SUCCESS"]


def test_what_passed_before_there_was_a_fleet_is_written_down_beside_what_has_run(tmp_path):
    async def run_from(start, seconds):
        fleet = agent(report=cron("0 */6 * * *"))
        async with FleetRig(tmp_path, fleet, start=start, check_interval=3600) as rig:
            await rig.clock.advance(seconds)
            return await rig.fleet.get_history("a", "report")

    async def story():
        await run_from("2026-03-02T11:00:00+00:00", 2 * 86_400)
        # The clock is set right, and somebody starts the fleet again a day later.
        await run_from("2026-03-01T00:30:00+00:00", 1)
        return await run_from("2026-03-02T19:00:00+00:00", 1)

    rows = [(row.status.value, row.ticks) for row in asyncio.run(story())]
    assert rows == [*[("SUCCESS", 1)] * 8, ("SKIPPED", 5)]


# By hand


@pytest.mark.parametrize("kind", [every("1h"), cron("0 9 * * *"), {"type": "webhook"}, {"type": "chat"}])
def test_any_schedule_can_be_triggered_by_hand(tmp_path, kind):
    async def story():
        async with FleetRig(tmp_path, agent(s={**kind, "prompt": "Usual."})) as rig:
            await rig.clock.advance(1)
            await rig.fleet.trigger("a", "s")
            await rig.clock.advance(1)
            await rig.fleet.trigger("a", "s", prompt="This once.")
            await rig.clock.advance(1)
            return [(info.trigger_type, info.prompt) for info in rig.infos if info.trigger_type == "manual"]

    assert asyncio.run(story()) == [("manual", "Usual."), ("manual", "This once.")]


def test_a_manual_run_takes_a_place_from_the_moment_it_is_asked_for(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(s={"type": "webhook"}, i=cron("0 9 * * *")), lasts=10) as rig:
            await rig.fleet.trigger("a", "s")
            with pytest.raises(ConcurrencyLimitError) as caught:
                await rig.fleet.trigger("a", "s")
            await rig.clock.advance(3)
            return str(caught.value), rig.triggered, rig.reasons()

    message, triggered, reasons = asyncio.run(story())
    assert "1 of 1 job(s) running" in message
    assert triggered == ["08:59:59 a/s"]
    assert reasons == {"a/i": "at_capacity", "a/s": "unsupported_type"}


def test_the_place_of_a_manual_run_is_free_again_afterwards(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(s={"type": "webhook"})) as rig:
            for _ in range(3):
                await rig.fleet.trigger("a", "s")
                await rig.clock.advance(1)
            return rig.triggered, await rig.history("a", "s")

    triggered, history = asyncio.run(story())
    assert (len(triggered), history) == (3, ["SUCCESS"] * 3)


def test_unknown_names_are_refused_with_the_known_ones(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent("writer", check=every("1h"))) as rig:
            with pytest.raises(AgentNotFoundError, match="writer"):
                rig.fleet.get_schedule("writr", "check")
            with pytest.raises(ScheduleNotFoundError, match="check"):
                await rig.fleet.trigger("writer", "chek")

    asyncio.run(story())


def test_disabling_holds_through_the_end_of_a_run_and_a_restart(tmp_path):
    async def story():
        rig = FleetRig(tmp_path, agent(i=every("5s")), lasts=3)
        async with rig:
            info = rig.fleet.disable_schedule("a", "i")
            assert (info.status, info.skip_reason) == ("disabled", "disabled")
            await rig.clock.advance(60)
        async with rig:
            await rig.clock.advance(60)
            disabled = rig.state("a", "i").status
            rig.fleet.enable_schedule("a", "i")
            await rig.clock.advance(1)
            return rig.triggered, disabled, rig.state("a", "i").status

    triggered, disabled, running = asyncio.run(story())
    assert (len(triggered), disabled, running) == (2, "disabled", "running")


def test_a_schedule_that_is_not_enabled_in_the_file_is_disabled(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("5s", enabled=False))) as rig:
            await rig.clock.advance(10)
            return rig.triggered, rig.reasons()

    assert asyncio.run(story()) == ([], {"a/i": "disabled"})


# The file on disk


def test_an_edit_of_the_state_file_acts_within_one_pass(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("5s"), j=every("1h"))) as rig:
            await rig.clock.advance(1)
            update_schedule_state(tmp_path, "a", "i", {"status": "disabled"})
            await rig.clock.advance(10)
            seen = list(rig.triggered)
            # Somebody wants it to look as if the last run were long ago.
            update_schedule_state(tmp_path, "a", "j", {"last_run_at": "2026-03-01T00:00:00Z"})
            await rig.clock.advance(1)
            return seen, rig.triggered[len(seen) :]

    assert asyncio.run(story()) == (["08:59:58 a/i", "08:59:59 a/j"], ["09:00:10 a/j"])


def test_one_bad_schedule_is_warned_of_once_and_stops_nobody(tmp_path):
    (tmp_path / "state.yaml").write_text("agents: {a: {schedules: {odd: {status: sleeping}}}}")

    async def story():
        fleet = agent("a", 3, good=every("5s"), bad=every("5x"), odd=every("5s"))
        async with FleetRig(tmp_path, fleet) as rig:
            await rig.clock.advance(3)
            return rig.triggered, rig.reasons(), [each for each in rig.said.lines if "WARNING" in each]

    triggered, reasons, warnings = asyncio.run(story())
    assert triggered == ["08:59:58 a/good"]
    assert reasons == {"a/bad": "quarantined", "a/good": "not_due", "a/odd": "quarantined"}
    assert [line.split(":")[0] for line in warnings] == ["WARNING a/bad", "WARNING a/odd"]
    assert 'Invalid time unit "x"' in warnings[0]


def test_a_schedule_that_turns_bad_is_held_back_and_goes_on_when_it_is_mended(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("5s"))) as rig:
            rig.fleet.set_agents([agent(i=every("5x"))])
            await rig.clock.advance(20)
            seen = list(rig.triggered)
            rig.fleet.set_agents([agent(i=every("5s"))])
            await rig.clock.advance(1)
            return seen, rig.triggered[1:]

    assert asyncio.run(story()) == (["08:59:58 a/i"], ["09:00:19 a/i"])


def test_a_state_that_cannot_be_written_wedges_nothing(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("5s"))) as rig:
            await rig.clock.advance(1)
            # A directory in the place where the new file is made: it cannot be opened for writing.
            (tmp_path / "state.yaml.new").mkdir()
            await rig.clock.advance(10)
            seen = list(rig.triggered), rig.fleet.get_total_running_job_count()
            (tmp_path / "state.yaml.new").rmdir()
            await rig.clock.advance(10)
            return seen, len(rig.triggered), rig.state("a", "i").status

    seen, triggered, status = asyncio.run(story())
    assert seen == (["08:59:58 a/i"], 0)
    assert triggered > 1
    assert status == "idle"


# Failures and results


def test_what_a_job_raises_is_its_last_error_and_the_next_success_clears_it(tmp_path):
    async def story():
        async def job(_):
            if len(rig.triggered) == 1:
                raise RuntimeError("the printer is on fire")

        rig = FleetRig(tmp_path, agent(i=every("5s")), behave=job)
        async with rig:
            failed = rig.state("a", "i")
            await rig.clock.advance(5)
            return (
                failed.last_error,
                failed.status,
                rig.state("a", "i").last_error,
                await rig.history("a", "i"),
            )

    assert asyncio.run(story()) == (
        "the printer is on fire",
        "idle",
        None,
        ["SUCCESS", "FAILED task_failed"],
    )


@pytest.mark.parametrize("kind", [SystemExit, asyncio.CancelledError, BaseException])
def test_a_job_that_ends_the_program_has_failed_and_says_why(tmp_path, kind):
    async def story():
        async def job(_):
            raise kind("bye")

        async with FleetRig(tmp_path, agent(i=every("5m")), behave=job) as rig:
            await rig.clock.advance(300)
            return rig.state("a", "i").last_error, await rig.history("a", "i")

    assert asyncio.run(story()) == ("bye", ["FAILED task_failed"] * 2)


@pytest.mark.parametrize(
    ("result", "error", "history"),
    [
        (ScheduleRunResult(True, "fine"), None, "SUCCESS"),
        (ScheduleRunResult(False, error="no disk"), "no disk", "FAILED task_failed"),
        (ScheduleRunResult(True, "no work", ran=False), None, "SKIPPED no_work"),
        ("anything else", None, "SUCCESS"),
        (ScheduleRunResult(True, {"done": 3}), None, "SUCCESS"),
        (ScheduleRunResult(False, error=OSError("no disk")), "no disk", "FAILED task_failed"),
    ],
)
def test_the_result_of_a_job_is_recorded(tmp_path, result, error, history):
    async def story():
        async def job(_):
            return result

        async with FleetRig(tmp_path, agent(i=every("5m")), behave=job) as rig:
            await rig.clock.advance(1)
            return rig.state("a", "i").last_error, await rig.history("a", "i")

    assert asyncio.run(story()) == (error, [history])


def test_a_second_scheduler_on_the_same_directory_is_refused(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("5s"))):
            other = FleetRig(tmp_path, agent(i=every("5s")))
            with pytest.raises(SchedulerError, match="Another process already runs the fleet"):
                await other.fleet.start(other.agents)

    asyncio.run(story())


def test_why_a_schedule_did_not_run_can_be_explained(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(report=cron("* * * * *")), lasts=90) as rig:
            await rig.clock.advance(100)
            at = rig.clock.now().replace(hour=9, minute=1, second=0)
            verdict = await rig.fleet.explain("a", "report", at)
            return verdict.code, verdict.setting

    assert asyncio.run(story()) == ("overlap", "overlap=skip")


def test_skip_reasons_say_since_when(tmp_path):
    async def story():
        fleet = [agent("a", 1, long=every("1h"), other=every("1h")), agent("b", 1, off=every("1h"))]
        async with FleetRig(tmp_path, *fleet, lasts=20) as rig:
            await rig.clock.advance(2)
            rig.fleet.disable_schedule("b", "off")
            await rig.clock.advance(3)
            since = {info.name: info.skipped_since for info in rig.fleet.get_schedules()}
            return {name: f"{at:%H:%M:%S}" for name, at in since.items()}

    assert asyncio.run(story()) == {"long": "08:59:58", "other": "08:59:58", "off": "09:00:01"}


def test_an_interval_has_its_jitter_later_only(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("100s", jitter_percent=10))) as rig:
            await rig.clock.advance(2)
            info = rig.fleet.get_schedule("a", "i")
            await rig.clock.advance(120)
            return info.next_run_at - info.last_run_at, rig.triggered

    ahead, triggered = asyncio.run(story())
    assert timedelta(seconds=100) <= ahead <= timedelta(seconds=110)
    assert len(triggered) == 2


def test_a_job_may_stop_its_own_fleet(tmp_path):
    async def story():
        async def job(_):
            await rig.fleet.stop()
            return ScheduleRunResult(True, "told everybody to go home")

        rig = FleetRig(tmp_path, agent(i=every("5m")), behave=job)
        await rig.fleet.start(rig.agents)
        await rig.clock.advance(1)
        return rig.now(), rig.fleet.get_status(), rig.state("a", "i").status

    assert asyncio.run(story()) == ("08:59:59", "stopped", "idle")


@pytest.mark.parametrize("interval", [0, -1, timedelta(0)])
def test_a_check_interval_must_be_longer_than_nothing(tmp_path, interval):
    with pytest.raises(InvalidArgumentError, match="check_interval"):
        FleetRig(tmp_path, check_interval=interval)


def test_two_agents_of_one_name_are_refused(tmp_path):
    rig = FleetRig(tmp_path)
    with pytest.raises(FleetConfigError, match="several agents"):
        rig.fleet.set_agents([agent("a"), agent("a")])
