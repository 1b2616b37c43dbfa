"""The declarative scheduler on PostgreSQL: a whole life, a killed leader, damage, the database's clock."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta

import pytest
from tests.spec.world import play
from tests.stores.postgres_rig import execute

from dutiful import Scheduler
from dutiful.declarative.inspection import open_tasks
from dutiful.errors import (
    NamespaceOwnedError,
    TaskInvalidStructureError,
    TaskInvalidValueError,
    TaskMissingFieldError,
)
from dutiful.service import Service, settings_from
from dutiful.testing import VirtualClock

START = "2026-01-01T10:00:00+00:00"


async def nothing():
    pass


@pytest.fixture
def url(newest_postgres_url):
    return newest_postgres_url


def run(story):
    return asyncio.run(asyncio.wait_for(story, 60))


def test_a_whole_life_of_restarts_overrides_and_removals(url):
    async def story(world):
        first = world.scheduler()
        await first.initialize(
            [world.task("kept"), world.task("changed", "0 * * * *"), world.task("removed", "1 10 * * *")]
        )
        await world.clock.advance(60)
        await first.stop()
        second = world.scheduler()
        await second.initialize(
            [world.task("kept"), world.task("changed", "3 * * * *"), world.task("new", "3 * * * *")]
        )
        await world.clock.advance(120)
        await second.stop()
        async with open_tasks(url, "default") as tasks:
            return [(view["name"], view["cron"]) for view in await tasks.all()]

    world = play(story, store=url)
    # Within a minute the order is that of the declarations in the database.
    assert sorted(world.ran) == [
        *("10:00 changed", "10:00 kept", "10:01 kept", "10:01 removed"),
        *("10:02 kept", "10:03 changed", "10:03 kept", "10:03 new"),
    ]
    assert world.answer == [("changed", "3 * * * *"), ("kept", "* * * * *"), ("new", "3 * * * *")]
    kinds = [event["kind"] for event in world.events if event["name"] == "TaskDifference"]
    assert sorted(kinds) == ["added", "added", "added", "added", "overridden", "removed"]


LEADER = """
import asyncio, sys
from dutiful import Scheduler

async def hang():
    print("started", flush=True)
    await asyncio.Event().wait()

async def main():
    await Scheduler(sys.argv[1]).initialize([("job", "* * * * *", hang, 60)])
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_standby_takes_over_from_a_killed_process_and_restarts_its_run(url):
    async def stand_by(leader):
        told, restarted = [], asyncio.Event()

        async def callback():
            restarted.set()

        scheduler = Scheduler(url, observer=told.append)
        await scheduler.initialize([("job", "* * * * *", callback, 60)])
        [standby] = [event for event in told if event.name == "SchedulerStandby"]
        os.kill(leader.pid, signal.SIGKILL)
        killed = time.monotonic()
        await restarted.wait()
        took = time.monotonic() - killed
        await scheduler.stop()
        return standby.details["leaderPid"], took

    with subprocess.Popen([sys.executable, "-c", LEADER, url], stdout=subprocess.PIPE, text=True) as leader:
        try:
            assert leader.stdout.readline() == "started\n"
            pid, took = run(stand_by(leader))
        finally:
            leader.kill()
    assert pid == leader.pid
    # A standby looks every second; the rest is for a busy machine.
    assert took < 10


# Damage

BY_HAND = 12_345
TEXT = (
    f"WITH own AS (INSERT INTO texts SELECT {BY_HAND}, %s FROM texts JOIN declarations"
    " ON texts.number = {0}_number WHERE id = 'job')"
    f" UPDATE declarations SET {{0}}_number = {BY_HAND} WHERE id = 'job'"
)
JOB = "WHERE number = (SELECT number FROM declarations WHERE id = 'job')"
DAMAGE = {
    "a missing key": (
        TEXT.format("cadence") % "(text::jsonb - 'text')::text",
        *(TaskMissingFieldError, "Missing required field: cronExpression"),
    ),
    "no JSON": (
        TEXT.format("cadence") % "'soon'",
        *(TaskInvalidStructureError, "Invalid task record: job: cadence: is not JSON"),
    ),
    "a wrong checksum": (
        "UPDATE declarations SET task = 'other' WHERE id = 'job'",
        *(TaskInvalidStructureError, "Invalid task record: job: declaration: the row was changed outside"),
    ),
    "an impossible time": (
        f"UPDATE states SET attempted_at = NULL, succeeded_at = 0 {JOB}",
        *(TaskInvalidValueError, "Invalid value for field 'lastSuccessAt': there was no attempt"),
    ),
}
CONTENT = (
    "SELECT id, task, cadence_number, policy_number, checksum, cursor, attempted_at, succeeded_at"
    " FROM declarations JOIN states USING (number) ORDER BY id"
)


@pytest.mark.parametrize(("statement", "error", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_record_is_refused_by_name_and_kept(url, statement, error, message):
    async def story():
        clock = VirtualClock(START)
        tasks = [("job", "* * * * *", nothing, 60), ("other", "* * * * *", nothing, 60)]
        scheduler = Scheduler(url, clock=clock)
        await scheduler.initialize(tasks)
        await clock.advance(60)
        await scheduler.stop()
        await execute(url, statement)
        before = await execute(url, CONTENT)
        with pytest.raises(error) as caught:
            await scheduler.initialize(tasks)
        assert await execute(url, CONTENT) == before
        # Without the damaged task the others run.
        await scheduler.initialize(tasks[1:])
        await scheduler.stop()
        return caught.value

    refused = run(story())
    assert str(refused).startswith(message)
    assert refused.__notes__ == ["in the stored record of the task 'job'"]


# Doors


def test_a_namespace_of_the_service_is_refused_to_the_library(url):
    async def story():
        settings = settings_from({"DUTIFUL_STORE": url, "DUTIFUL_NAMESPACE": "shared"})
        service = await Service(settings, VirtualClock(START), worker=False).start()
        await service.stop()
        scheduler = Scheduler(url, namespace="shared", clock=VirtualClock(START))
        with pytest.raises(NamespaceOwnedError, match="belongs to the service"):
            await scheduler.initialize([("job", "* * * * *", nothing, 60)])

    run(story())


# The clock


@pytest.fixture
def later_url(url, own_name):
    """A database whose clock is an hour ahead of the clock of this host."""
    clock = f"CREATE FUNCTION {own_name}.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS"
    asyncio.run(execute(url, f"{clock} $$ SELECT pg_catalog.clock_timestamp() + interval '1 hour' $$"))
    return f"{url}%2Cpg_catalog"


def test_tasks_start_by_the_clock_of_the_database(later_url):
    async def story():
        told, started = [], asyncio.Event()

        async def callback():
            started.set()

        scheduler = Scheduler(later_url, observer=told.append)
        before = datetime.now().astimezone()
        await scheduler.initialize([("job", "* * * * *", callback, 60)])
        await started.wait()
        async with open_tasks(later_url, "default") as tasks:
            [view] = await tasks.all()
        await scheduler.stop()
        return told, before, view

    told, before, view = run(story())
    at = {event.name: event.at for event in told}
    hour = timedelta(hours=1)
    assert hour <= at["TaskRunStarted"] - before < hour + timedelta(minutes=1)
    assert at["TaskRunStarted"] <= datetime.fromisoformat(view["next"])
    [off] = [event for event in told if event.name == "ClockOff"]
    assert -3_600_100 < off.details["byMs"] <= -3_599_000


def test_a_clock_of_the_caller_is_left_alone(later_url):
    async def story():
        clock, ran = VirtualClock(START), []

        async def callback():
            ran.append(f"{clock.now():%Y-%m-%d %H:%M}")

        scheduler = Scheduler(later_url, clock=clock)
        await scheduler.initialize([("job", "* * * * *", callback, 60)])
        await clock.advance(0)
        await scheduler.stop()
        return ran

    assert run(story()) == ["2026-01-01 10:00"]
