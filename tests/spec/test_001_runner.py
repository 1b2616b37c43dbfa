"""File 001, "Schedule Runner", "Execution Flow" and "Prompt Building"."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from tests.fleet.runs import ITEM, LOGGER, SOURCE, Executor, Sources, World

from dutiful.fleet.run.run_schedule import DEFAULT_PROMPT, build_schedule_prompt, run_schedule
from dutiful.fleet.types import Agent, AgentSchedule, JobResult, ScheduleRunResult, ScheduleState, WorkItem


@pytest.fixture
def world(tmp_path):
    schedule = AgentSchedule("interval", interval="5m", prompt="Check for ready issues.", work_source=SOURCE)
    return World(tmp_path, sources=Sources(), schedule=schedule)


def test_schedule_runner_the_example(tmp_path):
    agent = Agent("my-agent")
    schedule = AgentSchedule("interval", interval="5m", prompt="Check for ready issues.")
    executor, sources = Executor(), Sources()
    result = asyncio.run(
        run_schedule(
            agent=agent,
            schedule=schedule,
            schedule_name="check-issues",
            state_dir=tmp_path / ".herd",
            work_source_manager=sources,
            job_executor=executor,
            logger=LOGGER,
        )
    )
    assert result == ScheduleRunResult(True, "looked")
    (request,) = executor.requests
    assert request == (agent, "check-issues", schedule, "Check for ready issues.", None, None, None)
    assert sources.told == []


def test_execution_flow_1_update_state_to_running(world):
    states = []
    world.executor = Executor(lambda _: states.append(world.state()) or JobResult(True))
    world.run()
    assert states == [ScheduleState("running", datetime(2026, 1, 5, 9, tzinfo=UTC))]


def test_execution_flow_1_comes_before_2(world):
    seen = []

    class Watching(Sources):
        async def get_next_work_item(self, agent, work_source):
            seen.append(world.state().status)
            return await super().get_next_work_item(agent, work_source)

    world.sources = Watching()
    world.run()
    assert seen == ["running"]


def test_execution_flow_2_fetch_work_item(world):
    world.run()
    assert world.sources.told[0] == ("next", "scout", SOURCE)


def test_execution_flow_2_only_if_the_schedule_has_a_work_source(world):
    world.schedule = AgentSchedule("interval", interval="5m", prompt="Look.")
    world.run()
    assert world.sources.told == []


def test_execution_flow_3_build_prompt(world):
    world.run()
    (request,) = world.executor.requests
    assert request.prompt == build_schedule_prompt(world.schedule, ITEM)


def test_execution_flow_4_execute_job(world):
    result = world.run()
    (request,) = world.executor.requests
    assert (request.agent, request.schedule_name, request.work_item) == (world.agent, "look", ITEM)
    assert result == ScheduleRunResult(True, "looked", work_item=ITEM)


@pytest.mark.parametrize("result", [JobResult(True, "looked"), JobResult(False, "half", "no disk")])
def test_execution_flow_5_report_outcome(world, result):
    world.executor = Executor(lambda _: result)
    world.run()
    assert world.sources.told[1:] == [("report", ITEM.id, result)]


def test_execution_flow_5_comes_before_7(world):
    seen = []

    class Watching(Sources):
        async def report_outcome(self, item_id, result):
            seen.append((world.state().status, item_id, result.success))

    world.sources = Watching()
    world.run()
    assert seen == [("running", ITEM.id, True)]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        # The timer starts on completion: ten minutes of work and five of rest.
        (AgentSchedule("interval", interval="5m", prompt="Look."), datetime(2026, 1, 5, 9, 15, tzinfo=UTC)),
        # The occurrence at 09:05 passed during the run and is not made up for.
        (
            AgentSchedule("cron", expression="5 * * * *", prompt="Look."),
            datetime(2026, 1, 5, 10, 5, tzinfo=UTC),
        ),
    ],
    ids=["interval", "cron"],
)
def test_execution_flow_6_calculate_next_trigger_and_7_update_final_state(world, schedule, expected):
    world.schedule = schedule

    async def work(_request):
        await world.clock.sleep(600)
        return JobResult(True)

    world.executor = Executor(work)

    async def story():
        running = asyncio.create_task(world.start())
        await world.clock.advance(600)
        await running

    asyncio.run(story())
    assert world.state() == ScheduleState("idle", datetime(2026, 1, 5, 9, 10, tzinfo=UTC), expected, None)


def test_status_transitions_back_to_idle_also_with_an_error(world):
    world.executor = Executor(lambda _: JobResult(False, None, "no disk"))
    world.run()
    assert (world.state().status, world.state().last_error) == ("idle", "no disk")


def test_prompt_building_without_work_item_returns_the_prompt_of_the_schedule():
    assert build_schedule_prompt(AgentSchedule("interval", prompt="Check.")) == "Check."


def test_prompt_building_without_work_item_returns_the_default_prompt():
    assert build_schedule_prompt(AgentSchedule("interval")) == DEFAULT_PROMPT


def test_prompt_building_without_work_item_uses_the_default_of_the_agent(world):
    world.agent, world.schedule = (
        Agent("scout", default_prompt="Rest."),
        AgentSchedule("interval", interval="5m"),
    )
    world.run()
    (request,) = world.executor.requests
    assert request.prompt == "Rest."


def test_prompt_building_with_work_item_adds_its_details():
    item = WorkItem("a-1:42", "tracker", "42", "Fix it", "It fails.", "high", ("bug",), "https://x/42")
    prompt = build_schedule_prompt(AgentSchedule("interval", prompt="Check."), item)
    assert prompt.startswith("Check.\n")
    details = ("Fix it", "It fails.", "42", "a-1:42", "tracker", "high", "bug", "https://x/42")
    assert [detail for detail in details if detail not in prompt] == []
