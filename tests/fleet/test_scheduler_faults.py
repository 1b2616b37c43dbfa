"""Fleets in trouble: damaged files, empty polls, schedules that come and go, cancelled jobs."""

from __future__ import annotations

import asyncio

import pytest
from tests.fleet.rig import FleetRig, agent, cron, every

from dutiful.fleet import (
    AgentNotFoundError,
    ScheduleNotFoundError,
    ScheduleRunResult,
    ScheduleTriggerError,
    WorkItem,
    update_schedule_state,
)

HOOK = {"type": "webhook"}
EMPTY = ScheduleRunResult(True, "no file in inbox", ran=False)


def warnings(rig):
    return [line for line in rig.said.lines if not line.startswith("INFO")]


# The state file


def test_a_damaged_state_file_is_moved_aside_and_rebuilt_from_the_history(tmp_path):
    async def fails(_info):
        raise RuntimeError("no luck")

    async def story():
        agents = agent("a", 2, bad=every("5m"), off=every("5m"))
        async with FleetRig(tmp_path, agents, behave=fails) as rig:
            await rig.clock.advance(1)
            rig.fleet.disable_schedule("a", "off")
            await rig.clock.advance(1)
            (tmp_path / "state.yaml").write_text("agents: [")
            await rig.clock.advance(300)
            return (
                rig.triggered,
                rig.state("a", "bad").last_error,
                rig.state("a", "off").status,
                warnings(rig),
            )

    triggered, error, status, said = asyncio.run(story())
    assert triggered[2:] == ["09:04:58 a/bad"]
    assert (error, status) == ("no luck", "disabled")
    assert (tmp_path / "state.yaml.damaged-20260302T090001Z").read_text() == "agents: ["
    assert [line for line in said if "rebuilt from the history: 2 schedule(s)" in line] == [said[2]]


def test_a_state_file_that_is_damaged_at_the_start_stops_no_start(tmp_path):
    (tmp_path / "state.yaml").write_text("agents: {a: [what")

    async def story():
        async with FleetRig(tmp_path, agent(i=every("5s"))) as rig:
            return rig.triggered

    assert asyncio.run(story()) == ["08:59:58 a/i"]
    [aside] = tmp_path.glob("state.yaml.damaged-*")
    assert aside.read_text() == "agents: {a: [what"


def test_a_state_file_that_is_deleted_is_written_again_with_all_that_it_said(tmp_path):
    async def story():
        agents = agent("a", 2, on=every("5m"), off=every("5m"))
        async with FleetRig(tmp_path, agents) as rig:
            rig.fleet.disable_schedule("a", "off")
            await rig.clock.advance(1)
            before = (tmp_path / "state.yaml").read_text()
            (tmp_path / "state.yaml").unlink()
            await rig.clock.advance(1)
            after = (tmp_path / "state.yaml").read_text()
            await rig.clock.advance(298)
            return before == after, rig.triggered[2:], rig.state("a", "off").status, warnings(rig)

    same, triggered, status, said = asyncio.run(story())
    assert (same, triggered, status) == (True, ["09:04:58 a/on"], "disabled")
    advice = "to begin anew, stop the fleet first"
    assert said == [f"WARNING {tmp_path}/state.yaml was deleted and is written again as it was; {advice}"]


def test_a_history_that_is_deleted_is_reported_until_it_is_back(tmp_path):
    async def story():
        rig = FleetRig(tmp_path, agent(i=every("5s")))
        await rig.fleet.start(rig.agents)
        await rig.clock.advance(1)
        for file in tmp_path.glob("history.db*"):
            file.unlink()
        await rig.clock.advance(60)
        found = rig.fleet.get_state(), [*rig.triggered], warnings(rig)
        await rig.stop(timeout=1)
        async with FleetRig(tmp_path, agent(i=every("5s")), start="2026-03-02T10:00:00+00:00") as again:
            return *found, again.triggered

    state, triggered, said, later = asyncio.run(story())
    assert "history.db was deleted or replaced while it was in use" in state.problem
    assert f"{state.problem_since:%H:%M:%S}" == "09:00:00"
    assert triggered == ["08:59:58 a/i"]
    assert "no schedule is triggered" in said[0]
    assert later == ["10:00:00 a/i"]


def test_passes_that_fail_are_shown_and_logged_every_minute_until_they_succeed(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("5s"))) as rig:
            (tmp_path / "state.yaml").unlink()
            (tmp_path / "state.yaml").mkdir()
            await rig.clock.advance(150)
            state, seen, said = rig.fleet.get_state(), list(rig.triggered), warnings(rig)
            (tmp_path / "state.yaml").rmdir()
            await rig.clock.advance(2)
            return state, seen, said, rig.fleet.get_state().problem, rig.triggered[1:]

    state, seen, said, after, later = asyncio.run(story())
    assert "state.yaml" in state.problem
    assert f"{state.problem_since:%H:%M:%S}" == "08:59:59"
    assert seen == ["08:59:58 a/i"]
    assert len([line for line in said if "no schedule is triggered" in line]) == 3
    assert (after, len(later)) == (None, 1)


# Jitter


def test_the_first_run_is_at_once_whatever_the_jitter(tmp_path):
    async def story():
        many = {f"s{n}": every("1h", jitter_percent=10) for n in range(20)}
        async with FleetRig(tmp_path, agent("a", 20, **many), check_interval=10) as rig:
            first = [line.split()[0] for line in rig.triggered]
            await rig.clock.advance(3600)
            at_once_again = len(rig.triggered) - 20
            await rig.clock.advance(370)
            return first, at_once_again, len(rig.triggered)

    first, at_once_again, total = asyncio.run(story())
    assert first == ["08:59:58"] * 20
    assert at_once_again < 3
    assert total == 40


# Empty polls


def test_polls_without_work_are_one_entry_of_the_history_and_keep_the_last_error(tmp_path):
    answers = iter(
        [ScheduleRunResult(False, error="broken"), *[EMPTY] * 4, ScheduleRunResult(True, "did it")]
    )

    async def behave(_info):
        return next(answers, EMPTY)

    async def story():
        async with FleetRig(tmp_path, agent(i=every("5s")), behave=behave) as rig:
            await rig.clock.advance(23)
            error = rig.state("a", "i").last_error
            rows = await rig.fleet.get_history("a", "i")
            await rig.clock.advance(20)
            after = await rig.fleet.get_history("a", "i")
            return (
                error,
                [(row.status, row.ticks) for row in rows],
                [(row.status, row.ticks) for row in after],
            )

    error, rows, after = asyncio.run(story())
    assert error == "broken"
    assert rows == [("SKIPPED", 4), ("FAILED", 1)]
    assert after == [("SKIPPED", 3), ("SUCCESS", 1), ("SKIPPED", 4), ("FAILED", 1)]


def test_polls_without_work_are_one_entry_where_each_pass_begins_the_next(tmp_path):
    async def behave(_info):
        return EMPTY

    async def story():
        async with FleetRig(tmp_path, agent(i=every("5s")), behave=behave, check_interval=5) as rig:
            await rig.clock.advance(101)
            return [(row.status, row.ticks) for row in await rig.fleet.get_history("a", "i")]

    # The pass that records a poll begins the next one; the latest poll is merged by the pass after it.
    assert asyncio.run(story()) == [("SKIPPED", 1), ("SKIPPED", 20)]


def test_a_manual_run_without_work_keeps_its_entry_among_empty_polls(tmp_path):
    async def behave(_info):
        return EMPTY

    async def story():
        async with FleetRig(tmp_path, agent(i=every("5s")), behave=behave) as rig:
            await rig.clock.advance(12)
            asked = await rig.fleet.trigger("a", "i")
            await rig.clock.advance(12)
            found = await rig.fleet.get_manual_run("a", "i", asked.run_at)
            rows = await rig.fleet.get_history("a", "i")
            return found and found.reason, [(row.kind, row.ticks) for row in rows]

    assert asyncio.run(story()) == ("no_work", [("schedule", 2), ("manual", 1), ("schedule", 3)])


def test_the_history_names_the_work_item(tmp_path):
    item = WorkItem("list-1:7", "list", "7", "Fix it")

    async def behave(_info):
        return ScheduleRunResult(True, "fixed", work_item=item)

    async def story():
        async with FleetRig(tmp_path, agent(i=every("5m")), behave=behave) as rig:
            await rig.clock.advance(1)
            return [row.detail for row in await rig.fleet.get_history("a", "i")]

    assert asyncio.run(story()) == ["fixed (work item 7: Fix it)"]


# Schedules that come and go


def test_a_schedule_that_was_renamed_and_back_has_its_history_and_its_time(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("1h"), c=cron("0 9 * * *"))) as rig:
            await rig.clock.advance(5)
            rig.fleet.set_agents([agent(j=every("1h"), d=cron("0 9 * * *"))])
            await rig.clock.advance(600)
            rig.fleet.set_agents([agent(i=every("1h"), c=cron("0 9 * * *"))])
            await rig.clock.advance(600)
            infos = {info.name: f"{info.next_run_at:%d %H:%M:%S}" for info in rig.fleet.get_schedules()}
            return await rig.history("a", "i"), await rig.history("a", "c"), infos, rig.triggered

    interval, daily, infos, triggered = asyncio.run(story())
    assert (interval, daily) == (["SUCCESS"], ["SUCCESS"])
    assert infos == {"i": "02 09:59:58", "c": "03 09:00:00"}
    assert triggered == ["08:59:58 a/i", "09:00:00 a/c", "09:00:04 a/j"]


def test_a_schedule_that_is_removed_and_added_during_its_job_does_not_run_twice(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent("a", 3, i=every("5s")), lasts=60) as rig:
            await rig.clock.advance(2)
            rig.fleet.set_agents([agent("a", 3)])
            await rig.clock.advance(2)
            rig.fleet.set_agents([agent("a", 3, i=every("5s"))])
            await rig.clock.advance(30)
            during = list(rig.triggered), rig.reasons()
            await rig.clock.advance(40)
            return during, rig.triggered[1:]

    during, later = asyncio.run(story())
    assert during == (["08:59:58 a/i"], {"a/i": "already_running"})
    assert later == ["09:01:03 a/i"]


@pytest.mark.parametrize("waiting", [cron("1 9 * * *"), every("3s")])
def test_an_occurrence_that_waits_for_a_place_is_skipped_with_its_schedule(tmp_path, waiting):
    async def story():
        long = every("1h")
        async with FleetRig(tmp_path, agent(long=long), lasts=100) as rig:
            await rig.clock.advance(1)
            rig.fleet.set_agents([agent(long=long, w=waiting)])
            await rig.clock.advance(70)
            rig.fleet.set_agents([agent(long=long)])
            await rig.clock.advance(300)
            rig.fleet.set_agents([agent(long=long, w=cron("0 0 1 1 *"))])
            await rig.clock.advance(60)
            return rig.triggered, await rig.history("a", "w")

    assert asyncio.run(story()) == (["08:59:58 a/long"], ["SKIPPED paused"])


def test_a_schedule_that_is_gone_for_longer_than_the_retention_is_forgotten(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("1h"))) as rig:
            rig.fleet.set_agents([agent(j=every("1d"))])
            await rig.clock.advance(2)
            await rig.clock.jump(31 * 86_400)
            rig.fleet.set_agents([agent(j=every("1d"), k=HOOK)])
            await rig.clock.advance(2)
            return sorted(due.schedule.id for due in await rig.fleet._store.every())

    assert asyncio.run(story()) == ["a/j", "a/k"]


def test_a_schedule_can_be_triggered_right_after_set_agents(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(i=every("1h"))) as rig:
            rig.fleet.set_agents([agent(poll=HOOK)])
            shown = rig.fleet.get_schedule("a", "poll").type
            await rig.fleet.trigger("a", "poll")
            with pytest.raises(ScheduleNotFoundError):
                await rig.fleet.trigger("a", "i")
            await rig.clock.advance(1)
            return shown, rig.triggered[1:]

    assert asyncio.run(story()) == ("webhook", ["08:59:59 a/poll"])


def test_a_schedule_that_cannot_be_read_says_why_and_is_refused_as_trigger_error(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent(bad=every("5x"))) as rig:
            with pytest.raises(ScheduleTriggerError) as refused:
                await rig.fleet.trigger("a", "bad")
            return rig.fleet.get_schedule("a", "bad").problem, refused.value

    problem, error = asyncio.run(story())
    assert problem == 'interval: Invalid time unit "x". Valid units are: s, m, h, d; write it such as 5m'
    assert (error.agent_name, error.schedule_name) == ("a", "bad")
    assert problem in str(error)


# Jobs


def test_of_two_manual_runs_the_state_says_running_until_the_second_has_ended(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent("a", 2, x=HOOK), lasts=10) as rig:
            await rig.fleet.trigger("a", "x")
            await rig.clock.advance(5)
            await rig.fleet.trigger("a", "x")
            await rig.clock.advance(7)
            first = rig.state("a", "x").status
            await rig.clock.advance(7)
            return first, rig.state("a", "x").status

    assert asyncio.run(story()) == ("running", "idle")


def test_a_cancelled_job_has_failed_and_its_schedule_goes_on(tmp_path):
    async def story():
        options = {"lasts": 3600, "on_failure": lambda *_: pytest.fail("it was asked for")}
        async with FleetRig(tmp_path, agent(i=every("1m", retries=3)), **options) as rig:
            await rig.clock.advance(5)
            count = rig.fleet.cancel("a", "i")
            rig.lasts = 0
            await rig.clock.advance(2)
            state, rows = rig.state("a", "i"), await rig.fleet.get_history("a", "i")
            await rig.clock.advance(60)
            again = rig.fleet.cancel("a", "i")
            return (
                count,
                state.last_error,
                [(r.status, r.reason, r.detail) for r in rows],
                rig.triggered,
                again,
            )

    count, error, rows, triggered, again = asyncio.run(story())
    assert (count, error, again) == (1, "cancelled by request", 0)
    assert rows == [("FAILED", "task_failed", "cancelled by request")]
    assert triggered == ["08:59:58 a/i", "09:01:03 a/i"]


# Zones and switches


def test_a_cron_schedule_runs_in_its_own_zone(tmp_path):
    async def story():
        tokyo = cron("0 18 * * *", timezone="Asia/Tokyo")
        async with FleetRig(tmp_path, agent(t=tokyo, u=cron("0 18 * * *"))) as rig:
            await rig.clock.advance(5)
            return rig.triggered

    assert asyncio.run(story()) == ["09:00:00 a/t"]


def test_all_schedules_of_an_agent_are_disabled_and_enabled_together(tmp_path):
    async def story():
        agents = agent("a", 5, i=every("5s"), c=cron("* * * * *")), agent("b", i=every("5s"))
        async with FleetRig(tmp_path, *agents) as rig:
            off = [info.status for info in rig.fleet.disable_agent("a")]
            await rig.clock.advance(20)
            seen = [line for line in rig.triggered[2:] if " a/" in line]
            on = [info.status for info in rig.fleet.enable_agent("a")]
            await rig.clock.advance(2)
            return off, seen, on, [line for line in rig.triggered[2:] if " a/" in line]

    off, seen, on, later = asyncio.run(story())
    assert (off, seen, on) == (["disabled"] * 2, [], ["idle"] * 2)
    assert later == ["09:00:19 a/i"]


def test_a_state_that_says_disabled_survives_the_rebuilding_only_of_known_schedules(tmp_path):
    update_schedule_state(tmp_path, "a", "gone", {"status": "disabled"})

    async def story():
        async with FleetRig(tmp_path, agent(i=every("5s"))) as rig:
            await rig.clock.advance(1)
            return rig.state("a", "gone").status

    assert asyncio.run(story()) == "disabled"


def test_a_job_of_a_schedule_that_was_removed_can_be_cancelled_and_its_history_read(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent("a", 1, gone=every("1h")), lasts=600) as rig:
            rig.fleet.set_agents([agent("b", 1, other=HOOK)])
            await rig.clock.advance(2)
            cancelled = rig.fleet.cancel("a", "gone")
            await rig.clock.advance(2)
            with pytest.raises(AgentNotFoundError):
                rig.fleet.cancel("a", "gone")
            with pytest.raises(AgentNotFoundError):
                await rig.fleet.get_history("a", "never")
            return cancelled, await rig.history("a", "gone")

    assert asyncio.run(story()) == (1, ["FAILED task_failed"])


def test_an_interval_beyond_the_last_year_runs_once_and_hides_no_other_schedule(tmp_path):
    async def story():
        agents = agent("a", 2, never=every("99999999d"), often=every("1m"))
        async with FleetRig(tmp_path, agents) as rig:
            await rig.clock.advance(61)
            shown = {
                info.name: info.next_run_at and f"{info.next_run_at:%H:%M}"
                for info in rig.fleet.get_schedules()
            }
            explained = (await rig.fleet.explain("a", "never", rig.clock.now())).code
            return rig.triggered, shown, explained, rig.state("a", "never").status

    triggered, shown, explained, status = asyncio.run(story())
    assert triggered == ["08:59:58 a/never", "08:59:58 a/often", "09:00:58 a/often"]
    assert (shown, explained, status) == ({"never": None, "often": "09:01"}, "not_due", "idle")
