"""File 000, "Task Lifecycle": awaiting a run, running, awaiting a retry, and the timestamps."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.spec.world import play

from dutiful.core.run import Phase


def run_for(seconds, start="10:00", **task):
    """Return the world after a task of this kind was scheduled for so long."""

    async def story(world):
        does = task.pop("does", None)
        await world.scheduler().initialize([world.task(**task, does=does and does(world))])
        await world.clock.advance(seconds)
        return await world.stored()

    return play(story, start)


def clock(instant):
    return None if instant is None else f"{datetime.fromtimestamp(instant / 1000, UTC):%H:%M:%S}"


def timestamps(world):
    state = world.answer.state
    return [clock(instant) for instant in (state.attempted_at, state.succeeded_at, state.failed_at)]


# AwaitingRun to Running


def test_tasks_case_a_a_matching_minute_starts_a_run_once():
    assert run_for(59, cron="0 10 * * *").ran == ["10:00 job"]


def test_tasks_case_b_a_missed_occurrence_starts_a_run():
    async def story(world):
        task = world.task(cron="0 * * * *")
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(1)
        await world.restart(scheduler, task, after=5400)

    assert play(story).ran == ["10:00 job", "11:30:01 job"]


def test_tasks_case_b_never_applies_to_what_lies_before_the_registration():
    assert run_for(600, cron="30 9 * * *").ran == []


def test_tasks_start_is_reported():
    assert run_for(0).names(prefix="Task") == [
        "TaskDifference job",
        "TaskRunStarted job",
        "TaskRunCompleted job",
    ]


# Running to AwaitingRun


def test_tasks_success_records_its_timestamp():
    world = run_for(60, cron="0 10 * * *", does=lambda world: world.sleeping(7))
    assert timestamps(world) == ["10:00:00", "10:00:07", None]
    assert world.answer.runs == ()


def test_tasks_success_clears_a_pending_retry():
    world = run_for(3 * 3600, "10:00", cron="0 * * * *", delay=5400, does=lambda world: world.failing(1))
    # The retry of 10:00 would have come at 11:30.
    assert world.ran == ["10:00 job", "11:00 job", "12:00 job", "13:00 job"]


# Running to AwaitingRetry


def test_tasks_failure_records_its_timestamp_and_when_to_try_again():
    world = run_for(60, cron="0 10 * * *", delay=90, does=lambda world: world.failing())
    (run,) = world.answer.runs
    assert timestamps(world) == ["10:00:00", None, "10:00:00"]
    assert (run.phase, clock(run.fire_at)) == (Phase.RETRY, "10:01:30")


def test_tasks_failure_is_reported_with_its_error():
    world = run_for(0, does=lambda world: world.failing())
    told = world.events[-1]
    assert (told["name"], told["task"], told["error"]) == ("TaskRunFailed", "job", "ValueError: as planned")


def test_tasks_retry_delay_counts_from_the_failure_not_from_the_start():
    async def story(world):
        async def fail_slowly():
            await world.clock.sleep(20)
            raise ValueError

        await world.scheduler().initialize([world.task(cron="0 10 * * *", does=fail_slowly, delay=60)])
        await world.clock.advance(200)

    assert play(story).ran == ["10:00 job", "10:01:20 job", "10:02:40 job"]


# AwaitingRetry to Running


def test_tasks_retry_starts_at_its_instant_and_not_before():
    assert run_for(89.999, cron="0 10 * * *", delay=90, does=lambda world: world.failing()).ran == [
        "10:00 job"
    ]
    world = run_for(90, cron="0 10 * * *", delay=90, does=lambda world: world.failing(1))
    assert world.ran == ["10:00 job", "10:01:30 job"]
    assert world.names(prefix="TaskR") == [
        "TaskRunStarted job",
        "TaskRunFailed job",
        "TaskRetryStarted job",
        "TaskRunCompleted job",
    ]


def test_tasks_retry_goes_on_until_it_succeeds():
    world = run_for(600, cron="0 10 * * *", delay=60, does=lambda world: world.failing(3))
    assert world.ran == ["10:00 job", "10:01 job", "10:02 job", "10:03 job"]
    assert timestamps(world) == ["10:03:00", "10:03:00", "10:02:00"]


def test_tasks_retry_with_zero_delay_is_at_once_and_lets_others_run():
    async def story(world):
        bad = world.task("bad", "0 10 * * *", world.failing(300), delay=0)
        await world.scheduler().initialize([bad, world.task("good")])
        await world.clock.advance(60)

    ran = play(story).ran
    assert ran.count("10:00 bad") == 301
    assert ran.index("10:00 good") < 10
    assert "10:01 good" in ran


# AwaitingRetry to AwaitingRun


def test_tasks_retry_is_pre_empted_by_a_cron_occurrence():
    world = run_for(600, cron="0,5 10 * * *", delay=480, does=lambda world: world.failing(1))
    assert world.ran == ["10:00 job", "10:05 job"]
    assert world.names(prefix="TaskR") == [
        "TaskRunStarted job",
        "TaskRunFailed job",
        "TaskRetryPreempted job",
        "TaskRunStarted job",
        "TaskRunCompleted job",
    ]


def test_tasks_retry_and_occurrence_at_one_instant_are_one_start():
    world = run_for(600, cron="0,5 10 * * *", delay=300, does=lambda world: world.failing(1))
    assert world.ran == ["10:00 job", "10:05 job"]
    assert world.names(prefix="TaskRetry") == ["TaskRetryPreempted job"]


def test_tasks_retry_of_the_pre_empting_run_is_its_own():
    world = run_for(900, cron="0,5 10 * * *", delay=480, does=lambda world: world.failing(2))
    assert world.ran == ["10:00 job", "10:05 job", "10:13 job"]


# Overrun


@pytest.mark.parametrize("fails", [False, True])
def test_tasks_overrun_leaves_one_obligation_whatever_the_outcome(fails):
    async def story(world):
        async def work():
            if len(world.ran) == 1:
                await world.clock.sleep(200)
                if fails:
                    raise ValueError

        await world.scheduler().initialize([world.task(does=work)])
        await world.clock.advance(245)

    world = play(story)
    assert world.ran == ["10:00 job", "10:03:20 job", "10:04 job"]
    assert ("TaskRetryPreempted job" in world.names()) == fails


def test_tasks_overrun_without_a_due_minute_leaves_nothing():
    world = run_for(3599, cron="0 * * * *", does=lambda world: world.sleeping(1800))
    assert world.ran == ["10:00 job"]


def test_tasks_overrun_into_the_next_hour_is_served_at_its_end():
    world = run_for(7200, cron="0 * * * *", does=lambda world: world.sleeping(4000))
    assert world.ran == ["10:00 job", "11:06:40 job"]


# Exactly one state, and the timestamps


def test_tasks_are_in_exactly_one_state():
    async def story(world):
        async def work():
            await world.clock.sleep(10)
            if len(world.ran) == 1:
                raise ValueError

        states = []
        await world.scheduler().initialize([world.task(cron="1 10 * * *", does=work, delay=30)])
        for _ in range(12):
            await world.clock.advance(10)
            runs = (await world.stored()).runs
            assert len(runs) <= 1
            states.append(runs[0].phase.value if runs else "-")
        return states

    # Waits until 10:01, runs, waits for its retry at 10:01:40, runs, waits.
    assert play(story).answer == ["-"] * 5 + ["launched"] + ["retry"] * 3 + ["launched"] + ["-"] * 2


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_tasks_timestamps_are_kept_through_restarts(kind, tmp_path):
    async def story(world):
        task = world.task(cron="0 * * * *", does=world.failing(1), delay=60)
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(90)
        await world.restart(scheduler, task, after=60)
        return await world.stored()

    url = "memory:" if kind == "memory" else f"sqlite:{tmp_path / 'state.db'}"
    assert timestamps(play(story, store=url)) == ["10:01:00", "10:01:00", "10:00:00"]
