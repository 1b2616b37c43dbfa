"""What programs hand to the fleet scheduler: loggers, answers, numbers, agents made in Python."""

from __future__ import annotations

import asyncio

import pytest
from tests.fleet.rig import START, FleetRig, agent, every

from dutiful.errors import InvalidArgumentError
from dutiful.fleet import (
    Agent,
    AgentSchedule,
    FleetConfigError,
    FleetScheduler,
    JobResult,
    SchedulerError,
    ScheduleRunResult,
)
from dutiful.testing import VirtualClock


class FourMethods:
    """A logger that has what `SchedulerLogger` asks for, and nothing else."""

    def __init__(self):
        self.lines = []

    def debug(self, msg, *args):
        self.lines.append("DEBUG " + msg % args)

    def info(self, msg, *args):
        self.lines.append("INFO " + msg % args)

    def warning(self, msg, *args):
        self.lines.append("WARNING " + msg % args)

    def error(self, msg, *args):
        self.lines.append("ERROR " + msg % args)


def test_a_logger_needs_the_four_methods_that_are_documented(tmp_path):
    logger, clock = FourMethods(), VirtualClock(START)
    mended = []

    def reload():
        if not mended:
            raise RuntimeError("100% broken")

    async def story():
        fleet = FleetScheduler(state_dir=tmp_path, logger=logger, clock=clock, reload=reload)
        await fleet.start([agent(i=every("1h"))])
        mended.append(True)
        await clock.advance(1)
        await fleet.stop()

    asyncio.run(story())
    since = "2026-03-02 08:59:58+0000"
    # The job may begin before the pass that has allowed it ends.
    assert sorted(logger.lines) == [
        f"ERROR no schedule is triggered, because passes fail since {since}: RuntimeError: 100% broken",
        "INFO a/i: triggered (interval)",
        "INFO passes succeed again",
    ]


async def _generates(_info):
    yield


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (None, None),
        ("anything else", None),
        (ScheduleRunResult(True, "did it"), None),
        (ScheduleRunResult(False, error="no luck"), "no luck"),
        (ScheduleRunResult(True, error="no luck"), "no luck"),
        (JobResult(True, "did it"), None),
        (JobResult(False, error="no luck"), "no luck"),
        (_generates(None), "on_trigger returned a generator, so nothing of it was run"),
        (iter(()), None),
    ],
)
def test_a_failure_is_one_in_whatever_form_on_trigger_answers_it(tmp_path, answer, error):
    async def job(_info):
        return answer

    async def story():
        async with FleetRig(tmp_path, agent(i=every("1h")), behave=job) as rig:
            await rig.clock.advance(1)
            return rig.state("a", "i").last_error

    assert asyncio.run(story()) == error


@pytest.mark.parametrize("interval", [0, -1, float("nan"), float("inf"), "5", None])
def test_a_check_interval_is_a_length_of_time(tmp_path, interval):
    said = "check_interval .* must be seconds or a timedelta, longer than nothing"
    with pytest.raises(InvalidArgumentError, match=said):
        FleetScheduler(state_dir=tmp_path, check_interval=interval)


ASKS = {
    "trigger": lambda fleet: fleet.trigger("a", "i"),
    "history": lambda fleet: fleet.get_history("a", "i"),
    "recent": lambda fleet: fleet.get_recent(),
    "manual run": lambda fleet: fleet.get_manual_run("a", "i", 1),
    "latest": lambda fleet: fleet.get_latest(["a/i"], 1),
    "explain": lambda fleet: fleet.explain("a", "i", VirtualClock(START).now()),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_a_scheduler_that_does_not_run_says_so(tmp_path, ask):
    async def story():
        rig = FleetRig(tmp_path, agent(i=every("1h")))
        with pytest.raises(SchedulerError, match=r"The scheduler is stopped.*; start it first"):
            await ask(rig.fleet)
        async with rig:
            await ask(rig.fleet)
        with pytest.raises(SchedulerError, match=r"The scheduler is stopped.*; start it first"):
            await ask(rig.fleet)

    asyncio.run(story())


def test_a_scheduler_that_waits_for_its_last_jobs_triggers_nothing_but_tells_its_history(tmp_path):
    async def story():
        async with FleetRig(tmp_path, agent("a", 2, i=every("1h")), lasts=50) as rig:
            stopping = asyncio.ensure_future(rig.fleet.stop(timeout=60))
            await rig.clock.advance(1)
            with pytest.raises(SchedulerError, match="The scheduler is stopping and triggers nothing"):
                await rig.fleet.trigger("a", "i")
            history = await rig.history("a", "i")
            await rig.clock.advance(60)
            await stopping
            return history

    assert asyncio.run(story()) == ["STARTED"]


HOURLY = {"type": "interval", "interval": "1h"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"interval": 300}, "interval: Interval must be a string, not int"),
        ({"jitter_percent": "some"}, "jitter_percent: must be a number from 0 to 10"),
        ({"retries": -1}, "retries: must be a whole number from 0 to 100"),
        ({"retry_backoff": 0.5}, "retry_backoff: must be a whole number from 1 to 10"),
        ({"enabled": "perhaps"}, "enabled: must be true or false"),
        (
            {"timezone": "Mars/Base"},
            "timezone: must be the name of a time zone, such as Europe/Berlin or UTC",
        ),
    ],
)
def test_a_schedule_made_in_python_that_cannot_be_used_stops_no_other(tmp_path, wrong, said):
    agents = [Agent("a", {"i": AgentSchedule(**HOURLY | wrong)}), Agent("b", {"i": AgentSchedule(**HOURLY)})]

    async def story():
        async with FleetRig(tmp_path, *agents) as rig:
            rig.fleet.set_agents(agents)
            await rig.clock.advance(2)
            return rig.triggered, rig.reasons()["a/i"], rig.said.lines[0]

    assert asyncio.run(story()) == (["08:59:58 b/i"], "quarantined", f"WARNING a/i: {said}")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Agent("a", max_concurrent=0), "max_concurrent: 0: must be a whole number from 1 to 10000"),
        (Agent("a", max_concurrent=True), "max_concurrent: True: must be a whole number"),
        (Agent("a/b"), "name: 'a/b': must be 1 to 128 of the characters"),
        (Agent("a", {"x/y": AgentSchedule("chat")}), "schedules.x/y: 'x/y': must be 1 to 128 of the"),
        ({"name": "a", "schedules": {5: {"type": "chat"}}}, "schedules.5: 5: must be 1 to 128 of the"),
    ],
)
def test_an_agent_that_cannot_be_used_is_refused_however_it_was_made(tmp_path, wrong, said):
    with pytest.raises(FleetConfigError) as refused:
        FleetRig(tmp_path).fleet.set_agents([wrong])
    assert said in str(refused.value)
