"""Settings of a fleet file as a running fleet obeys them, in virtual time."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import asynccontextmanager

import pytest
from tests.fleet.control.program import put_fleet

from dutiful.fleet import SchedulerShutdownError, get_agent_schedule_states, update_schedule_state
from dutiful.fleet.control.daemon import Daemon
from dutiful.fleet.control.socket import ask
from dutiful.fleet.errors import FleetNotRunningError
from dutiful.testing import VirtualClock


@asynccontextmanager
async def running(folder, text, start="2026-03-02T08:59:58+00:00"):
    """Run the fleet of a file, and yield it with its clock."""
    put_fleet(folder, text)
    clock = VirtualClock(start)
    daemon = Daemon(folder / "fleet.yaml", logging.Logger("fleet of a test"), clock)
    await daemon.start()
    try:
        yield daemon, clock
    finally:
        stopping = asyncio.ensure_future(daemon.stop(1_000_000))
        while not stopping.done():
            await clock.advance(1)
        await stopping


def written_by(folder, name="out"):
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


def test_the_time_zone_of_the_fleet_is_that_of_every_cron_schedule_without_one(tmp_path):
    text = """
version: 1
timezone: Asia/Tokyo
agents:
  - name: a
    job: {type: command, command: [echo, hi]}
    schedules:
      tokyo: {type: cron, expression: "0 18 * * *"}
      london: {type: cron, expression: "0 10 * * *", timezone: Europe/London}
"""

    async def story():
        async with running(tmp_path, text) as (daemon, _):
            return {each["schedule"]: each["next_run_at"] for each in await daemon.schedules(None)}

    assert asyncio.run(story()) == {"tokyo": "2026-03-02T09:00:00Z", "london": "2026-03-02T10:00:00Z"}


def test_the_retention_of_the_file_bounds_the_history(tmp_path):
    text = f"""
version: 1
check_interval: 10m
retention: {{runs: 5}}
agents:
  - name: a
    schedules:
      s: {{type: interval, interval: 10m, job: {{type: python, call: "{__name__}:work"}}}}
"""

    async def story():
        async with running(tmp_path, text) as (daemon, clock):
            await clock.advance(2 * 86_400)
            return len(await daemon.history("a", "s", 1000, failed=False))

    # There were 289 runs. The history is pruned daily: five rows stay, and those of the last day.
    assert asyncio.run(story()) < 5 + 144 + 2


async def work(_request):
    """Succeed."""


async def fail(_request):
    raise RuntimeError("no luck")


async def report(request):
    REPORTS.append((request.agent.name, request.schedule_name, request.error, request.prompt))


REPORTS: list[tuple[str, ...]] = []


def test_the_on_failure_job_runs_once_retries_are_used_up(tmp_path):
    REPORTS.clear()
    text = f"""
version: 1
agents:
  - name: a
    instances: {{max_concurrent: 2}}
    on_failure: {{type: python, call: "{__name__}:report"}}
    job: {{type: python, call: "{__name__}:fail"}}
    schedules:
      fails: {{type: interval, interval: 1h, retries: 1, retry_delay: 5s}}
      works: {{type: interval, interval: 1h, job: {{type: python, call: "{__name__}:work"}}}}
"""

    async def story():
        async with running(tmp_path, text) as (_, clock):
            await clock.advance(3)
            before = [*REPORTS]
            await clock.advance(10)
            return before, [*REPORTS]

    assert asyncio.run(story()) == ([], [("a", "fails", "no luck", "no luck")])


async def hang(_request):
    await asyncio.Event().wait()


def test_many_jobs_that_do_not_end_in_time_are_recorded_in_one_write(tmp_path):
    names = [f"s{number}" for number in range(200)]
    schedules = "".join(f"      {name}: {{type: interval, interval: 1h}}\n" for name in names)
    text = f"""
version: 1
agents:
  - name: a
    instances: {{max_concurrent: 200}}
    job: {{type: python, call: "{__name__}:hang"}}
    schedules:
{schedules}"""

    async def story():
        put_fleet(tmp_path, text)
        clock = VirtualClock("2026-03-02T08:59:58+00:00")
        daemon = Daemon(tmp_path / "fleet.yaml", logging.Logger("fleet of a test"), clock)
        await daemon.start()
        await clock.advance(2)
        began = time.monotonic()
        update_schedule_state(daemon.state_dir, "a", "s0", {"status": "running"})
        once = time.monotonic()
        with pytest.raises(SchedulerShutdownError):
            await daemon.stop(0)
        return (time.monotonic() - once) / (once - began), get_agent_schedule_states(daemon.state_dir, "a")

    times_as_long, states = asyncio.run(story())
    assert times_as_long < 50
    errors = {name: (state.last_error or "").partition(":")[0] for name, state in states.items()}
    assert errors == dict.fromkeys(names, "interrupted")


def test_a_fleet_that_is_stopping_answers_or_says_that_it_is_stopped(tmp_path):
    text = """
version: 1
agents:
  - name: a
    job: {type: command, command: ["true"]}
    schedules:
      s: {type: webhook}
"""

    request = {"ask": "history", "agent": "a", "schedule": "s", "limit": 9, "failed": True}

    async def ask_again_and_again(state_dir):
        while True:
            await ask(state_dir, request)

    async def story():
        async with running(tmp_path, text) as (daemon, _):
            asking = [asyncio.create_task(ask_again_and_again(daemon.state_dir)) for _ in range(8)]
        return await asyncio.gather(*asking, return_exceptions=True)

    assert {type(error) for error in asyncio.run(story())} == {FleetNotRunningError}


def test_literal_variables_and_those_passed_on_reach_a_command(tmp_path, monkeypatch):
    monkeypatch.setenv("PASSED", "from outside")
    program = 'echo "$LITERAL|$PASSED|$HIDDEN" > out'
    text = f"""
version: 1
agents:
  - name: a
    job:
      type: command
      command: [sh, -c, {program!r}]
      directory: {tmp_path}
      environment: [LITERAL=with = signs, PASSED]
    schedules:
      list: {{type: interval, interval: 1h}}
"""

    async def story():
        async with running(tmp_path, text) as (_, clock):
            await clock.advance(1)

    asyncio.run(story())
    assert written_by(tmp_path) == ["with = signs|from outside|"]


def test_a_program_that_only_the_fleet_finds_fails_with_the_way_out(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/own-program"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    text = """
version: 1
agents:
  - name: a
    instances: {max_concurrent: 2}
    job: {type: command, command: [own-program]}
    schedules:
      lost: {type: interval, interval: 1h}
      found: {type: interval, interval: 1h, job: {type: command, command: [own-program], environment: [PATH]}}
"""

    async def story():
        async with running(tmp_path, text) as (daemon, clock):
            await clock.advance(1)
            return {each["schedule"]: each["last_error"] for each in await daemon.schedules(None)}

    errors = asyncio.run(story())
    advice = "write that, or pass the PATH on with `environment: [PATH]`"
    assert errors["lost"].endswith(f"; it is {program} on the PATH of the fleet: {advice}")
    assert errors["found"] is None


def test_the_queries_for_a_list_do_not_grow_with_its_history(tmp_path):
    schedules = "".join(f"      s{n}: {{type: interval, interval: 1h}}\n" for n in range(40))
    text = f"""
version: 1
agents:
  - name: a
    instances: {{max_concurrent: 40}}
    job: {{type: command, command: ["true"]}}
    schedules:
{schedules}"""
    queries = []

    async def agents(daemon):
        return (await daemon.status())["agents"]

    async def asked(answer):
        queries.clear()
        rows = await answer
        return len(rows), len([query for query in queries if query.startswith("SELECT")])

    async def story():
        async with running(tmp_path, text) as (daemon, clock):
            # Nothing else asks the store once all runs are recorded as ended.
            while (await daemon.status())["agents"][0]["done"] < 40:
                await clock.advance(1)
            await daemon.scheduler._store._read(lambda opened, _: opened.set_trace_callback(queries.append))
            return {
                "status": await asked(agents(daemon)),
                "schedules": await asked(daemon.schedules(None)),
                "history": await asked(daemon.history(None, None, 1000, failed=False)),
                "of an agent": await asked(daemon.history("a", None, 1000, failed=False)),
                "of a schedule": await asked(daemon.history("a", "s7", 1000, failed=False)),
                "failed": await asked(daemon.history(None, None, 1000, failed=True)),
            }

    assert asyncio.run(story()) == {
        "status": (1, 0),
        "schedules": (40, 0),
        "history": (40, 1),
        # The names, and then the newest entries of each.
        "of an agent": (40, 1 + 40),
        "of a schedule": (1, 1),
        "failed": (0, 2),
    }
