"""File 000, "Persistence Semantics & Overrides": what a restart finds, and what new registrations change."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys

import pytest
from tests.spec.world import play

from dutiful.errors import StoreError, TaskMissingFieldError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


def rows(path):
    """Return everything a file says about its tasks; not who leads, nor what was marked as damaged."""
    connection = sqlite3.connect(path)
    try:
        declared = "number, namespace, id, task, cadence_number, policy_number, paused, checksum"
        known = "number, cursor, runs_started, attempted_at, succeeded_at, failed_at, ended_at"
        tables = [f"SELECT {declared} FROM declarations", f"SELECT {known} FROM states"]
        tables += [f"SELECT * FROM {table}" for table in ("texts", "runs")]
        return [connection.execute(f"{table} ORDER BY 1").fetchall() for table in tables]
    finally:
        connection.close()


def differences(world):
    told = [event for event in world.events if event["name"] == "TaskDifference"]
    return [(event["task"], event["kind"]) for event in told]


def replace(old, new, path, after=600, runs_first=30, start="10:00"):
    """Return the world in which `old` ran a while and `new` was registered after a restart."""

    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(**task) for task in old])
        await world.clock.advance(runs_first)
        fresh = await world.restart(scheduler, *[world.task(**task) for task in new], after=after)
        world.due = await fresh._store.get("job")

    return play(story, start, store=f"sqlite:{path}")


HOURLY = {"cron": "0 * * * *"}


def test_persistence_a_new_task_is_created_with_first_startup_semantics(path):
    world = replace([], [{"cron": "10 10 * * *"}], path, after=600, runs_first=0)
    assert differences(world) == [("job", "added")]
    assert world.ran == ["10:10 job"]


def test_persistence_a_preserved_task_goes_on_and_is_not_a_difference(path):
    world = replace([HOURLY], [HOURLY], path, after=3600)
    assert differences(world) == [("job", "added")]
    assert world.ran == ["10:00 job", "11:00:30 job"]


def test_persistence_an_overridden_task_keeps_its_history(path):
    world = replace([HOURLY], [{"cron": "30 * * * *"}], path)
    assert differences(world) == [("job", "added"), ("job", "overridden")]
    state = world.due.state
    assert (
        state.runs_started,
        state.attempted_at == state.succeeded_at,
        str(world.due.schedule.cadence),
    ) == (
        1,
        True,
        "30 * * * *",
    )


def test_persistence_an_override_compares_the_new_cron_with_the_old_last_attempt(path):
    # Attempted at 10:00; at 10:10:30 the new cron has 10:05 behind it and 09:55 before the attempt.
    assert replace([HOURLY], [{"cron": "5 * * * *"}], path).ran == ["10:00 job", "10:10:30 job"]


def test_persistence_an_override_owes_nothing_from_before_the_last_attempt(path):
    assert replace([HOURLY], [{"cron": "55 9 * * *"}], path).ran == ["10:00 job"]


def test_persistence_a_pending_retry_survives_a_changed_delay(path):
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(**HOURLY, does=world.failing(), delay=300)])
        await world.clock.advance(30)
        await world.restart(scheduler, world.task(**HOURLY, delay=5), after=30)
        await world.clock.advance(600)

    assert play(story, store=f"sqlite:{path}").ran == ["10:00 job", "10:05 job"]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({}, None),
        ({"cron": "0  * * * *"}, "overridden"),
        ({"cron": "00 * * * *"}, "overridden"),
        ({"delay": 3600.001}, "overridden"),
        ({"delay": 3599}, "overridden"),
    ],
)
def test_persistence_any_difference_in_text_or_delay_is_an_override(change, kind, path):
    world = replace([HOURLY], [{**HOURLY, **change}], path)
    assert differences(world)[1:] == ([] if kind is None else [("job", kind)])


def test_persistence_names_must_match_exactly(path):
    world = replace([HOURLY], [{**HOURLY, "name": "Job"}], path)
    assert differences(world)[1:] == [("Job", "added"), ("job", "removed")]


def test_persistence_a_difference_is_reported_with_what_changed(path):
    world = replace([HOURLY], [{"cron": "30 * * * *", "delay": 1.5}], path)
    told = [event for event in world.events if event["name"] == "TaskDifference"][-1]
    assert told["cronExpression"] == "0 * * * * -> 30 * * * *"
    assert told["retryDelayMs"] == "3600000 -> 1500"


def test_persistence_a_changed_zone_is_an_override_and_told(path):
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(**HOURLY)])
        await scheduler.stop()
        await world.scheduler(timezone="Asia/Tokyo").initialize([world.task(**HOURLY)])
        return [event for event in world.events if event["name"] == "TaskDifference"][-1]

    # The monitor follows one zone.
    told = play(story, store=f"sqlite:{path}", monitored=False).answer
    assert (told["kind"], told["cronExpression"]) == (
        "overridden",
        "0 * * * * (UTC) -> 0 * * * * (Asia/Tokyo)",
    )


def test_persistence_an_orphan_restarts_at_once_and_once(path):
    async def story(world):
        task = world.task(**HOURLY, does=world.sleeping(60))
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(30)
        await world.restart(scheduler, task, after=600)
        await world.clock.advance(600)

    world = play(story, store=f"sqlite:{path}")
    assert world.ran == ["10:00 job", "10:10:30 job"]
    assert differences(world) == [("job", "added"), ("job", "orphaned")]


def test_persistence_an_orphan_is_overridden_too_and_restarts(path):
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(**HOURLY, does=world.sleeping(60))])
        await world.clock.advance(30)
        await world.restart(scheduler, world.task(cron="30 * * * *"), after=600)
        await world.clock.advance(1800)

    assert play(story, store=f"sqlite:{path}").ran == ["10:00 job", "10:10:30 job", "10:30 job"]


def test_persistence_an_orphaned_retry_restarts_at_once(path):
    async def story(world):
        async def work():
            if len(world.ran) == 1:
                raise ValueError
            await world.clock.sleep(60)

        task = world.task(**HOURLY, does=work, delay=60)
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(90)
        await world.restart(scheduler, task, after=10)

    assert play(story, store=f"sqlite:{path}").ran == ["10:00 job", "10:01 job", "10:01:40 job"]


KILLED = """
import asyncio, os, signal, sys
from dutiful import Scheduler
from dutiful.testing import VirtualClock

async def die():
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    clock = VirtualClock("2026-01-01T10:00:00")
    await Scheduler(f"sqlite:{sys.argv[1]}", clock=clock).initialize([("job", "0 10 * * *", die, 60)])
    await clock.advance(1)

asyncio.run(main())
"""


def test_persistence_a_run_that_was_killed_with_its_process_restarts_at_once(path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL

    async def story(world):
        await world.scheduler().initialize([world.task(cron="0 10 * * *", delay=60)])
        await world.clock.advance(3600)

    # What ran before is in the file and not in this trace.
    assert play(story, "10:05", store=f"sqlite:{path}", monitored=False).ran == ["10:05 job"]


def test_persistence_a_removed_task_is_deleted(path):
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task("a"), world.task("b")])
        await world.clock.advance(0)
        fresh = await world.restart(scheduler, world.task("b"))
        return [due.schedule.id for due in await fresh._store.every()]

    world = play(story, store=f"sqlite:{path}")
    assert world.answer == ["b"]
    assert differences(world)[2:] == [("a", "removed")]


def test_persistence_a_task_removed_and_registered_again_is_new_even_within_its_minute(path):
    async def story(world):
        scheduler = world.scheduler()
        for registrations in ([world.task()], [], [world.task()]):
            await scheduler.initialize(registrations)
            await world.clock.advance(5)
            await scheduler.stop()

    assert play(story, store=f"sqlite:{path}").ran == ["10:00 job", "10:00:10 job"]


def test_persistence_instances_have_identifiers_of_their_own():
    async def story(world):
        scheduler, owners = world.scheduler(), []
        for _ in range(3):
            await scheduler.initialize([world.task()])
            owners.append(scheduler._host._owner)
            await scheduler.stop()
        return owners

    assert len(set(play(story).answer)) == 3


def test_persistence_overrides_are_applied_all_together_or_not_at_all(path):
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(name) for name in "abc"])
        await world.clock.advance(0)
        await scheduler.stop()
        before = rows(path)
        connection = sqlite3.connect(path)
        connection.execute(
            "CREATE TRIGGER refuse BEFORE UPDATE ON declarations WHEN new.id = 'c'"
            " BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        connection.commit()
        with pytest.raises(StoreError):
            await scheduler.initialize([world.task(name, "0 9 * * *") for name in "bcd"])
        assert rows(path) == before
        connection.execute("DROP TRIGGER refuse")
        connection.commit()
        connection.close()
        await scheduler.initialize([world.task(name, "0 9 * * *") for name in "bcd"])
        return [due.schedule.id for due in await scheduler._store.every()]

    assert play(story, store=f"sqlite:{path}", monitored=False).answer == ["b", "c", "d"]


def test_persistence_a_damaged_record_of_a_registered_task_is_an_error_and_stays_as_it_is(path):
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task("a"), world.task("b")])
        await scheduler.stop()
        connection = sqlite3.connect(path)
        connection.execute("""INSERT INTO texts VALUES (1, '{"v":1,"kind":"cron"}')""")
        connection.execute("UPDATE declarations SET cadence_number = 1 WHERE id = 'a'")
        connection.commit()
        connection.close()
        before = rows(path)
        with pytest.raises(TaskMissingFieldError, match="Missing required field: cronExpression") as caught:
            await scheduler.initialize([world.task("a", "0 9 * * *"), world.task("c")])
        assert rows(path) == before
        # One that is no longer registered is left alone.
        await scheduler.initialize([world.task("b"), world.task("c")])
        return caught.value.details

    assert play(story, store=f"sqlite:{path}", monitored=False).answer == {"field": "cronExpression"}
