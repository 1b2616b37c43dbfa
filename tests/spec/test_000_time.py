"""File 000, "Operational Model & Time Semantics" and "Real-time bounds"."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest
from tests.spec.world import play

from dutiful.runtime.clock import SystemClock, local_zone

NEW_YORK = "America/New_York"
EVERY_QUARTER = "15,30,45,0 * * * *"


def run_for(seconds, cron="* * * * *", start="10:00", **settings):
    async def story(world):
        await world.scheduler().initialize([world.task(cron=cron)])
        await world.clock.advance(seconds)

    return play(story, start, **settings).ran


def test_time_granularity_is_the_minute_and_its_boundary_is_second_zero():
    assert run_for(150, start="10:00:17") == ["10:00:17 job", "10:01 job", "10:02 job"]


def test_time_every_minute_boundary_is_evaluated_exactly_once():
    ran = run_for(3 * 3600 - 1)
    assert ran == [f"{10 + n // 60}:{n % 60:02} job" for n in range(180)]


def test_time_nothing_runs_before_its_minute():
    assert run_for(59.999, "1 10 * * *") == []
    assert run_for(60, "1 10 * * *") == ["10:01 job"]


def test_time_the_source_is_the_clock_of_the_host():
    before = datetime.now(UTC)
    assert before <= SystemClock().now() <= datetime.now(UTC)


@pytest.mark.parametrize("name", ["Asia/Tokyo", ":America/New_York"])
def test_time_zone_is_the_one_of_the_host(monkeypatch, name):
    monkeypatch.setenv("TZ", name)
    assert str(local_zone()) == name.removeprefix(":")
    assert str(SystemClock().timezone) == name.removeprefix(":")


def test_time_zone_decides_all_calculations():
    assert run_for(86_399, "30 9 * * *", "2026-01-01T00:00", timezone="Asia/Kolkata") == ["09:30 job"]


def test_time_zone_can_be_given_instead():
    async def story(world):
        await world.scheduler(timezone="Asia/Tokyo").initialize([world.task(cron="0 19 * * *")])
        await world.clock.advance(3600)

    assert play(story, monitored=False).ran == ["10:00 job"]


def test_time_due_tasks_are_handled_in_parallel():
    async def story(world):
        tasks = [world.task(f"t{n}", does=world.sleeping(30)) for n in range(50)]
        await world.scheduler().initialize(tasks)
        await world.clock.advance(30)

    world = play(story)
    assert sorted(world.ran) == sorted(f"10:00 t{n}" for n in range(50))
    assert len(world.names(prefix="TaskRunCompleted")) == 50


def test_time_a_minute_that_dst_removes_is_skipped():
    ran = run_for(2 * 86_400, "30 2 * * *", "2026-03-07T12:00", timezone=NEW_YORK)
    # 8 March has no 02:30; the 9th has.
    assert ran == ["02:30 job"]


def test_time_a_task_in_the_lost_hour_does_not_run_that_day():
    assert run_for(86_400 - 3601, "30 2 * * *", "2026-03-08T00:00", timezone=NEW_YORK) == []


def test_time_a_minute_that_dst_repeats_runs_both_times():
    ran = run_for(86_400, "30 1 * * *", "2026-11-01T00:00", timezone=NEW_YORK)
    assert ran == ["01:30 job", "01:30 job"]


def test_time_every_minute_of_the_repeated_hour_runs_twice():
    ran = run_for(3 * 3600 - 1, "* 1 * * *", "2026-11-01T00:30", timezone=NEW_YORK)
    assert len(ran) == 120
    assert len(set(ran)) == 60


def test_time_restart_between_the_two_passes_of_a_repeated_minute_runs_the_second():
    async def story(world):
        task = world.task(cron="30 1 * * *")
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(3600)
        await scheduler.stop()
        await scheduler.initialize([task])
        await world.clock.advance(86_400 - 3600)

    assert play(story, "2026-11-01T01:00", NEW_YORK).ran == ["01:30 job", "01:30 job"]


@pytest.mark.parametrize(("day", "hours"), [("2026-03-08", 23), ("2026-11-01", 25)])
def test_time_scheduling_goes_on_after_a_transition_without_a_restart(day, hours):
    ran = run_for(hours * 3600 + 3 * 86_400 - 1, "0 12 * * *", f"{day}T00:00", timezone=NEW_YORK)
    assert ran == ["12:00 job"] * 4


@pytest.mark.parametrize(("day", "hours"), [("2026-03-08", 23), ("2026-11-01", 25)])
def test_time_an_hourly_task_runs_every_real_hour_through_a_transition(day, hours):
    assert len(run_for(hours * 3600 - 1, "0 * * * *", f"{day}T00:00", timezone=NEW_YORK)) == hours


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_time_no_make_up_one_run_for_an_outage_of_an_hour(store, tmp_path):
    async def story(world):
        task = world.task(cron=EVERY_QUARTER)
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(60)
        await world.restart(scheduler, task, after=3600)
        await world.clock.advance(840)

    url = {"memory": "memory:", "sqlite": f"sqlite:{tmp_path / 'state.db'}"}[store]
    assert play(story, store=url).ran == ["10:00 job", "11:01 job", "11:15 job"]


@pytest.mark.parametrize("days", [1, 30, 3650])
def test_time_no_make_up_however_long_the_outage(days):
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task()])
        await world.clock.advance(0)
        await world.restart(scheduler, world.task(), after=days * 86_400)

    assert play(story, start="10:00:30").ran == ["10:00:30 job", "10:00:30 job"]


def test_time_no_make_up_after_a_suspended_host():
    async def story(world):
        await world.scheduler().initialize([world.task(cron="0 * * * *")])
        await world.clock.advance(60)
        await world.suspend(12 * 3600 - 300)
        await world.clock.advance(600)

    world = play(story)
    assert world.ran == ["10:00 job", "21:56 job", "22:00 job"]
    assert "ClockStepped" in world.names()


def test_time_a_clock_that_is_set_back_makes_nothing_run_again():
    async def story(world):
        await world.scheduler().initialize([world.task()])
        await world.clock.advance(300)
        await world.clock.jump(-180)
        await world.clock.advance(240)

    ran = play(story, monitored=False).ran
    assert ran == [f"10:0{n} job" for n in range(7)]


def test_time_r1_a_start_is_at_its_minute_not_somewhen_within_it():
    async def story(world):
        await world.scheduler().initialize([world.task(f"t{n}", "5 10 * * *") for n in range(3000)])
        await world.clock.advance(301)

    assert play(story, lag=0.001).ran == [f"10:05 t{n}" for n in range(3000)]


def test_time_r2_a_run_cut_short_by_a_crash_starts_again_at_once():
    async def story(world):
        task = world.task(cron="0 10 * * *", does=world.sleeping(600))
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(10)
        await world.restart(scheduler, task, after=10)

    assert play(story, lag=0.001).ran == ["10:00 job", "10:00:20 job"]


def test_time_a_start_beyond_the_bound_is_reported_and_logged(caplog):
    async def story(world):
        await world.scheduler().initialize([world.task(cron="0 * * * *")])
        await world.clock.advance(0)
        await world.suspend(2 * 3600 + 60)
        return [event for event in world.events if event["name"] == "TaskStartLate"]

    with caplog.at_level(logging.WARNING, "dutiful"):
        (late,) = play(story, start="10:00:30").answer
    assert (late["task"], late["lateMs"]) == ("job", 90_000)
    assert "TaskStartLate job" in caplog.text


def test_time_a_start_within_the_bound_is_not_reported():
    async def story(world):
        await world.scheduler().initialize([world.task(cron="0 11 * * *")])
        await world.suspend(3600 + 59)
        await world.clock.advance(0)

    world = play(story)
    assert world.ran == ["11:00:59 job"]
    assert world.names(prefix="TaskStartLate") == []
