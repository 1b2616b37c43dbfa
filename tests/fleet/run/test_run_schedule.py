"""One run of a schedule, where life interferes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.fleet.runs import ITEM, SOURCE, START, Executor, Sources, World

from dutiful.fleet.errors import JobNotStartedError
from dutiful.fleet.run.run_schedule import run_schedule
from dutiful.fleet.state.file import update_schedule_state
from dutiful.fleet.types import (
    Agent,
    AgentSchedule,
    JobResult,
    NextWorkItem,
    ScheduleRunResult,
    ScheduleState,
)

WITH_SOURCE = AgentSchedule("interval", interval="5m", prompt="Look.", work_source=SOURCE)
NOW, IN_FIVE = datetime(2026, 1, 5, 9, tzinfo=UTC), datetime(2026, 1, 5, 9, 5, tzinfo=UTC)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def raising(error: BaseException):
    def fail(_request):
        raise error

    return Executor(fail)


@pytest.mark.parametrize(
    ("executor", "error"),
    [
        (raising(ValueError("no disk")), "no disk"),
        (raising(KeyError()), "KeyError"),
        (raising(SystemExit(3)), "3"),
        (raising(asyncio.CancelledError()), "CancelledError"),
        (Executor(lambda _: JobResult(False, "half", "no disk")), "no disk"),
        (Executor(lambda _: JobResult(False)), "the job failed and did not say why"),
        (Executor(lambda _: None), "'NoneType' object has no attribute 'success'"),
        (Executor(lambda _: JobResult(False, error=OSError("no disk"))), "no disk"),
    ],
    ids=["raised", "without text", "exit", "its own cancellation", "failed", "silent", "nothing", "no text"],
)
def test_a_job_that_fails_is_recorded_reported_and_over(world, executor, error):
    world.executor, world.sources, world.schedule = executor, Sources(), WITH_SOURCE
    result = world.run()
    assert (result.success, result.error, result.work_item, result.ran) == (False, error, ITEM, True)
    assert world.state() == ScheduleState("idle", NOW, IN_FIVE, error)
    (_, (word, item_id, reported)) = world.sources.told
    assert (word, item_id, reported.success, reported.error) == ("report", ITEM.id, False, error)


def test_a_poll_without_work_keeps_the_last_error(world):
    update_schedule_state(world.state_dir, "scout", "look", {"last_error": "no disk"})
    world.sources, world.schedule = Sources(NextWorkItem(None, False, "the list is empty")), WITH_SOURCE
    world.run()
    assert world.state() == ScheduleState("idle", NOW, IN_FIVE, "no disk")


def test_a_success_clears_the_last_error(world):
    update_schedule_state(world.state_dir, "scout", "look", {"last_error": "no disk"})
    world.run()
    assert world.state().last_error is None


def test_a_source_with_nothing_to_do_means_no_job(world):
    world.sources, world.schedule = Sources(NextWorkItem(None, False, "the list is empty")), WITH_SOURCE
    assert world.run() == ScheduleRunResult(True, "the list is empty", ran=False)
    assert world.executor.requests == []
    assert world.state() == ScheduleState("idle", NOW, IN_FIVE, None)


def test_an_item_that_was_not_claimed_is_left_alone(world):
    world.sources, world.schedule = Sources(NextWorkItem(ITEM, False, "somebody else has it")), WITH_SOURCE
    assert world.run() == ScheduleRunResult(True, "somebody else has it", ran=False)
    assert world.executor.requests == []
    assert [told[0] for told in world.sources.told] == ["next"]


@pytest.mark.parametrize(
    "answer", [NextWorkItem(None, False), NextWorkItem(ITEM, False)], ids=["none", "unclaimed"]
)
def test_a_schedule_may_run_its_plain_prompt_without_work(world, answer):
    world.sources, world.schedule = Sources(answer), replace(WITH_SOURCE, run_without_work=True)
    assert world.run() == ScheduleRunResult(True, "looked")
    (request,) = world.executor.requests
    assert (request.prompt, request.work_item) == ("Look.", None)
    assert [told[0] for told in world.sources.told] == ["next"]


def test_a_source_that_fails_is_a_failed_run_without_a_job(world):
    world.sources, world.schedule = Sources(ConnectionError("the source is gone")), WITH_SOURCE
    assert world.run() == ScheduleRunResult(False, error="the source is gone", ran=False)
    assert world.executor.requests == []
    assert world.state() == ScheduleState("idle", NOW, IN_FIVE, "the source is gone")


@pytest.mark.parametrize("error", [SystemExit("bye"), asyncio.CancelledError("bye")])
def test_a_source_that_ends_the_program_fails_its_run_alone(world, error):
    class Leaving(Sources):
        async def get_next_work_item(self, *_):
            raise error

    world.sources, world.schedule = Leaving(), WITH_SOURCE
    assert world.run() == ScheduleRunResult(False, error="bye", ran=False)
    assert world.state() == ScheduleState("idle", NOW, IN_FIVE, "bye")


@pytest.mark.parametrize("error", [SystemExit("bye"), asyncio.CancelledError("bye")])
def test_a_report_that_ends_the_program_does_not_change_the_result(world, error):
    class Leaving(Sources):
        async def report_outcome(self, *_):
            raise error

    world.sources, world.schedule = Leaving(), WITH_SOURCE
    assert world.run() == ScheduleRunResult(True, "looked", work_item=ITEM)
    assert world.state() == ScheduleState("idle", NOW, IN_FIVE, None)


def test_the_work_source_of_the_agent_is_for_schedules_without_one(world):
    world.sources, world.agent = Sources(), Agent("scout", work_source={"type": "agent's"})
    world.run()
    world.schedule = WITH_SOURCE
    world.run()
    asked = [told[2] for told in world.sources.told if told[0] == "next"]
    assert asked == [{"type": "agent's"}, SOURCE]


def test_without_anybody_to_ask_the_prompt_runs_as_it_is(world):
    world.schedule = WITH_SOURCE
    assert world.run() == ScheduleRunResult(True, "looked")


def test_a_job_that_could_not_begin_gives_its_item_back(world):
    world.executor = raising(JobNotStartedError("there is no program 'x'"))
    world.sources, world.schedule = Sources(), WITH_SOURCE
    error = "the job could not be started: there is no program 'x'"
    assert world.run() == ScheduleRunResult(False, error=error, work_item=ITEM, ran=False)
    assert world.sources.told[1:] == [("release", ITEM.id, error)]
    assert world.state().last_error == error


def cancelled(world, up: asyncio.Event):
    async def story():
        task = asyncio.create_task(world.start())
        await up.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())


def test_a_cancelled_run_gives_its_item_back_and_leaves_nothing_running(world):
    up = asyncio.Event()

    async def hang(_request):
        up.set()
        await asyncio.Event().wait()

    world.executor, world.sources, world.schedule = Executor(hang), Sources(), WITH_SOURCE
    cancelled(world, up)
    assert world.sources.told[1:] == [("release", ITEM.id, "interrupted: the run was cancelled")]
    assert world.state() == ScheduleState("idle", NOW, IN_FIVE, "interrupted: the run was cancelled")


def test_a_run_that_is_cancelled_while_it_reports_has_reported(world):
    up, reported = asyncio.Event(), []

    class Slow(Sources):
        async def report_outcome(self, item_id, result):
            up.set()
            for _ in range(20):
                await asyncio.sleep(0)
            reported.append((item_id, result))

    world.sources, world.schedule = Slow(), WITH_SOURCE
    cancelled(world, up)
    assert reported == [(ITEM.id, JobResult(True, "looked"))]
    assert world.sources.told[1:] == []
    assert world.state() == ScheduleState("idle", NOW, IN_FIVE, None)


def test_a_source_that_takes_no_report_does_not_hide_the_result(world, caplog):
    world.sources, world.schedule = Sources(broken=True), WITH_SOURCE
    assert world.run() == ScheduleRunResult(True, "looked", work_item=ITEM)
    assert caplog.messages == ["scout/look: work item list-1:7 cannot be reported: the source is gone"]
    assert world.state() == ScheduleState("idle", NOW, IN_FIVE, None)


def test_a_source_that_cannot_take_back_does_not_hide_the_cancellation(world, caplog):
    up = asyncio.Event()

    async def hang(_request):
        up.set()
        await asyncio.Event().wait()

    world.executor, world.sources, world.schedule = Executor(hang), Sources(broken=True), WITH_SOURCE
    cancelled(world, up)
    assert caplog.messages == ["scout/look: work item list-1:7 cannot be released: the source is gone"]


def test_a_schedule_that_is_disabled_during_its_run_stays_disabled(world):
    def disable(_request):
        update_schedule_state(world.state_dir, "scout", "look", {"status": "disabled"})
        return JobResult(True)

    world.executor = Executor(disable)
    assert world.run().success
    assert world.state() == ScheduleState("disabled", NOW, IN_FIVE, None)


def test_a_disabled_schedule_that_is_run_by_hand_stays_disabled_throughout(world):
    update_schedule_state(world.state_dir, "scout", "look", {"status": "disabled"})
    seen = []
    world.executor = Executor(lambda _: seen.append(world.state().status) or JobResult(True))
    assert world.run().success
    assert (seen, world.state().status) == (["disabled"], "disabled")


def test_a_state_that_cannot_be_written_at_the_end_changes_nothing_about_the_result(world, caplog):
    def block(_request):
        (world.state_dir / "state.yaml").unlink()
        (world.state_dir / "state.yaml").mkdir()
        return JobResult(True, "looked")

    world.executor = Executor(block)
    assert world.run() == ScheduleRunResult(True, "looked")
    (message,) = caplog.messages
    assert message.startswith("scout/look: the state cannot be written: ")


def test_a_state_that_cannot_be_written_at_the_start_means_no_job_and_no_claim(world, caplog):
    (world.state_dir / "state.yaml").mkdir()
    world.sources, world.schedule = Sources(), WITH_SOURCE
    result = world.run()
    assert (result.success, result.ran, world.executor.requests, world.sources.told) == (False, False, [], [])
    assert caplog.messages == [f"scout/look: the state cannot be written: {result.error}"]


def test_a_next_run_that_cannot_be_calculated_is_left_out(world, caplog):
    world.schedule = AgentSchedule("interval", interval="5x", prompt="Look.")
    assert world.run().success
    assert world.state() == ScheduleState("idle", NOW, None, None)
    assert caplog.messages == [
        'scout/look: the next run cannot be calculated: Invalid time unit "x". Valid units are: s, m, h, d'
    ]


@pytest.mark.parametrize("kind", ["webhook", "chat"])
def test_what_no_clock_triggers_has_no_next_run(world, kind):
    world.schedule = AgentSchedule(kind, prompt="Look.")
    assert world.run().success
    assert world.state() == ScheduleState("idle", NOW, None, None)


def test_a_cron_schedule_is_next_due_in_the_zone_of_the_clock(world):
    from dutiful.testing import VirtualClock

    world.schedule = AgentSchedule("cron", expression="0 9 * * *", prompt="Look.")
    world.clock = VirtualClock(START, timezone="America/New_York")
    world.run()
    assert world.state().next_run_at == datetime(2026, 1, 5, 14, tzinfo=UTC)


def test_executors_and_sources_may_be_plain_functions(world):
    class Plain:
        told: list[object] = []  # noqa: RUF012 - one instance, one test

        def execute(self, request):
            return JobResult(True, request.prompt)

        def get_next_work_item(self, _agent, _source):
            return NextWorkItem(ITEM, True)

        def report_outcome(self, item_id, result):
            self.told.append((item_id, result.success))

    world.executor = world.sources = Plain()
    world.schedule = WITH_SOURCE
    result = world.run()
    assert result.success
    assert result.summary.startswith("Look.\n\n## Work item: Fix it")
    assert Plain.told == [(ITEM.id, True)]


def test_logger_and_clock_need_not_be_given(tmp_path):
    schedule = AgentSchedule("interval", interval="5m", prompt="Look.")
    running = run_schedule(
        agent=Agent("scout"),
        schedule=schedule,
        schedule_name="look",
        state_dir=str(tmp_path),
        job_executor=Executor(),
    )
    assert asyncio.run(running) == ScheduleRunResult(True, "looked")
