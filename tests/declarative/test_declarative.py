"""The scheduler in the real world: the host's clock, a real file, a program that ends."""

from __future__ import annotations

import asyncio
import fnmatch
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dutiful
from dutiful import Scheduler
from dutiful.errors import InvalidArgumentError, SchedulerAlreadyActiveError, StoreError
from dutiful.testing import VirtualClock


def test_the_scheduler_is_a_public_name_that_is_loaded_when_it_is_used():
    loaded = "'asyncio' in sys.modules"
    code = f"import sys, dutiful; print({loaded}, dutiful.Scheduler.__module__, {loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "dutiful.declarative.scheduler", "True"]
    with pytest.raises(AttributeError, match="no attribute 'Schedular'"):
        _ = dutiful.Schedular


@pytest.mark.parametrize("settings", [{"timezone": "Mars/Phobos"}, {"timezone": "+5"}, {"timezone": ""}])
def test_a_zone_that_does_not_exist_is_refused_when_the_scheduler_is_made(settings):
    with pytest.raises(InvalidArgumentError):
        Scheduler("memory:", **settings)


@pytest.mark.parametrize("clock", [VirtualClock, 5, "", "2026-01-01"])
def test_a_clock_that_is_none_is_refused_when_the_scheduler_is_made(clock):
    with pytest.raises(InvalidArgumentError, match=r"must be a clock, such as dutiful\.testing"):
        Scheduler("memory:", clock=clock)


def test_a_namespace_that_cannot_name_a_file_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="namespace"):
        Scheduler(f"sqlite:{tmp_path / 'state.db'}", namespace="../up")


def test_making_a_scheduler_touches_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Scheduler()
    assert list(tmp_path.iterdir()) == []


def test_without_an_event_loop_a_valid_list_is_refused_and_can_be_given_again():
    ran = []

    async def callback():
        ran.append(1)

    clock = VirtualClock("2026-01-01T10:00:00")
    scheduler = Scheduler("memory:", clock=clock)
    registrations = [("job", "* * * * *", callback, 60)]
    with pytest.raises(RuntimeError, match=r"no running event loop: .* dutiful\.in_background") as caught:
        scheduler.initialize(registrations)
    assert caught.value.__suppress_context__

    async def story():
        await scheduler.initialize(registrations)
        await clock.advance(0)
        await scheduler.stop()

    asyncio.run(story())
    assert ran == [1]


def test_on_the_clock_of_the_host_a_due_task_starts_at_once(tmp_path):
    async def story():
        started = asyncio.Event()

        async def callback():
            started.set()

        scheduler = Scheduler(f"sqlite:{tmp_path / 'state.db'}")
        await scheduler.initialize([("job", "* * * * *", callback, 60)])
        began = time.monotonic()
        await asyncio.wait_for(started.wait(), 30)
        took = time.monotonic() - began
        await scheduler.stop()
        return took

    assert asyncio.run(story()) < 20


def test_on_the_clock_of_the_host_a_retry_comes_after_its_delay():
    async def story():
        calls, done = [], asyncio.Event()

        async def callback():
            calls.append((time.monotonic(), int(time.time()) // 60))
            if len(calls) < 3:
                raise ValueError
            done.set()

        scheduler = Scheduler("memory:")
        await scheduler.initialize([("job", "* * * * *", callback, 0.1)])
        await asyncio.wait_for(done.wait(), 30)
        await scheduler.stop()
        return calls

    calls = asyncio.run(story())
    # A minute that begins meanwhile starts it too, whatever its delay.
    while len({minute for _, minute in calls}) > 1:
        calls = asyncio.run(story())
    first, second, third = [at for at, _ in calls]
    assert min(second - first, third - second) >= 0.09


def test_an_initialize_that_is_given_up_leaves_the_scheduler_usable(tmp_path):
    async def story():
        clock = VirtualClock("2026-01-01T09:30:00")
        scheduler = Scheduler(f"sqlite:{tmp_path / 'state.db'}", clock=clock)
        registrations = [("job", "0 10 * * *", asyncio.Event().wait, 60)]
        begun = scheduler.initialize(registrations)
        await asyncio.sleep(0)
        begun.cancel()
        with pytest.raises(asyncio.CancelledError):
            await begun
        await scheduler.initialize(registrations)
        with pytest.raises(SchedulerAlreadyActiveError):
            scheduler.initialize(registrations)
        await scheduler.stop()

    asyncio.run(story())


def test_after_a_failed_initialize_the_state_is_free_only_when_the_store_is_let_go(tmp_path):
    async def story():
        scheduler = Scheduler(f"sqlite:{tmp_path / 'no' / 'state.db'}")
        begun = scheduler.initialize([])
        while not begun.done():
            with pytest.raises(SchedulerAlreadyActiveError):
                scheduler.initialize([])
            await asyncio.sleep(0)
        with pytest.raises(StoreError):
            await begun

    asyncio.run(story())


def test_many_tasks_of_one_minute_all_run():
    ran = set()

    async def story():
        clock = VirtualClock("2026-01-01T10:00:00")

        def callback(name):
            async def note():
                ran.add(name)

            return note

        names = [f"t{n}" for n in range(5000)]
        scheduler = Scheduler("memory:", clock=clock)
        await scheduler.initialize([(name, "* * * * *", callback(name), 60) for name in names])
        await clock.advance(0)
        await scheduler.stop()

    asyncio.run(story())
    assert len(ran) == 5000


def test_the_table_of_conformance_names_tests_that_exist_and_leaves_none_out():
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs/internals/spec-000.md").read_text(encoding="utf-8")
    source = "".join(path.read_text(encoding="utf-8") for path in (root / "tests/spec").glob("test_000_*.py"))
    tests = re.findall(r"^def (test_\w+)", source, re.MULTILINE)
    named = re.findall(r"`(test_(?!000)\w+\*?)`", page)
    assert [name for name in named if not fnmatch.filter(tests, name)] == []
    assert [name for name in tests if not any(fnmatch.fnmatch(name, each) for each in named)] == []
