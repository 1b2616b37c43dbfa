"""What is done when a schedule is triggered: by which job, with which prompt, and what is said of it."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.fleet.rig import Said
from tests.fleet.runs import ITEM, SOURCE, Executor, Sources

from dutiful.fleet.errors import JobNotStartedError
from dutiful.fleet.run.run_schedule import JobRunner, run_job
from dutiful.fleet.types import Agent, AgentSchedule, JobResult, NextWorkItem, ScheduleRunResult, TriggerInfo
from dutiful.runtime.clock import SystemClock


def saying(text):
    return {"type": "command", "command": ["echo", text]}


def trigger(prompt="Look.", agent_job=None, **schedule):
    written = AgentSchedule("interval", interval="5m", prompt="The file's.", **schedule)
    agent = Agent("scout", {"look": written}, job=agent_job)
    return TriggerInfo(agent, "look", written, prompt, "manual")


def done(*triggers):
    """Return the results of the triggers, what was logged, and the runner."""
    said, logger = Said(), logging.Logger("runner of a test", logging.INFO)
    logger.addHandler(said)
    runner = JobRunner(logger, SystemClock())

    async def story():
        return [await runner(each) for each in triggers]

    return asyncio.run(story()), said.lines, runner


def test_the_job_of_the_schedule_wins_over_the_agents():
    both, agents = trigger(agent_job=saying("agent"), job=saying("own")), trigger(agent_job=saying("agent"))
    results, _, _ = done(both, agents)
    assert [result.summary for result in results] == ["own", "agent"]


def test_no_job_at_all_says_what_to_write():
    with pytest.raises(JobNotStartedError, match="neither it nor its agent has a `job`; write one, such as"):
        done(trigger())


def test_the_prompt_of_the_trigger_reaches_the_job():
    cat = {"type": "command", "command": ["cat"]}
    ((result,), _, _) = done(trigger("Only this once.", job=cat))
    assert result.summary == "Only this once."


def test_jobs_of_one_kind_share_an_executor_until_the_file_changes():
    _, _, runner = done(trigger(job=saying("a")), trigger(job=saying("a")), trigger(job=saying("b")))
    assert len(runner._executors) == 2
    runner.forget_executors()
    assert runner._executors == {}


def test_how_it_went_is_said(tmp_path):
    empty = {"type": "directory", "path": str(tmp_path)}
    _, lines, _ = done(
        trigger(job=saying("3 reports")),
        trigger(job={"type": "command", "command": ["sh", "-c", "exit 3"]}),
        trigger(job=saying("nothing"), work_source=empty),
    )
    assert [line.replace(str(tmp_path), "PLACE").partition(" after ")[0] for line in lines] == [
        "INFO scout/look: done",
        "WARNING scout/look: failed",
        "INFO scout/look: no work",
    ]
    assert lines[1].endswith(": exit code 3")


def tell(_request):
    return "all well\x1b[2J\n2026-03-02 09:00:00 INFO forged: done"


def test_a_result_of_several_lines_is_one_line_of_the_log():
    job = {"type": "python", "call": f"{__name__}:tell"}
    ((result,), (line,), _) = done(trigger(job=job))
    said = r"all well\x1b[2J\n2026-03-02 09:00:00 INFO forged: done"
    assert (result.summary, line.partition(" s: ")[2]) == (tell(None), said)


def test_the_latest_line_is_known_while_the_job_runs_and_forgotten_afterwards():
    runner = JobRunner(logging.getLogger("tests.fleet"), SystemClock())
    heard = []

    class Watching(dict):
        def __setitem__(self, key, line):
            heard.append((key, line))
            super().__setitem__(key, line)

    runner.latest = Watching()
    job = {"type": "command", "command": ["printf", "one\\n\\033[31mtwo\\n"]}
    asyncio.run(runner(trigger(job=job)))
    assert heard[-1] == ("scout/look", "[31mtwo")
    assert runner.latest == {}


def test_run_job_claims_executes_and_reports_with_the_prompt_of_the_trigger():
    executor, sources = Executor(), Sources()
    info = trigger("By hand.", work_source=SOURCE)
    assert asyncio.run(run_job(info, executor, sources)) == ScheduleRunResult(True, "looked", work_item=ITEM)
    (request,) = executor.requests
    assert request.prompt.startswith("By hand.\n\n## Work item: Fix it")
    assert sources.told[1:] == [("report", ITEM.id, JobResult(True, "looked"))]


def test_run_job_without_work_does_nothing():
    executor, sources = Executor(), Sources(NextWorkItem(None, claimed=False, reason="empty"))
    info = trigger(work_source=SOURCE)
    assert asyncio.run(run_job(info, executor, sources)) == ScheduleRunResult(True, "empty", ran=False)
    assert executor.requests == []


def test_a_cancelled_job_gives_its_item_back():
    sources = Sources()

    async def story():
        began = asyncio.Event()

        async def never(_):
            began.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(run_job(trigger(work_source=SOURCE), Executor(never), sources))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert sources.told[1:] == [("release", ITEM.id, "interrupted: the run was cancelled")]
