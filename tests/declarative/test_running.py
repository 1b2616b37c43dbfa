"""A scheduler around a block of async code, and one beside a synchronous program."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading

import pytest

from dutiful import Scheduler, in_background, in_thread, running
from dutiful.errors import InvalidRegistrationError, SchedulerAlreadyActiveError, StoreError
from dutiful.testing import VirtualClock

START = "2026-01-01T10:00:00"


async def nothing():
    pass


def listening(events):
    return lambda event: events.append(event.name)


def test_a_block_starts_the_scheduler_and_stops_it_when_it_ends():
    ran, events = [], []

    async def work():
        ran.append(1)

    async def story():
        clock = VirtualClock(START)
        scheduler = Scheduler("memory:", clock=clock, observer=listening(events))
        async with running(scheduler, [("job", "* * * * *", work, 60)]) as same:
            assert same is scheduler
            await clock.advance(60)

    asyncio.run(story())
    assert (ran, events[-1]) == ([1, 1], "SchedulerStopped")


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError, KeyboardInterrupt])
def test_a_block_that_raises_stops_the_scheduler_all_the_same(error):
    events = []

    async def story():
        scheduler = Scheduler("memory:", clock=VirtualClock(START), observer=listening(events))
        async with running(scheduler, [("job", "0 12 * * *", nothing, 60)]):
            raise error

    with pytest.raises(error):
        asyncio.run(story())
    assert events[-1] == "SchedulerStopped"


def test_a_list_that_is_refused_leaves_an_active_scheduler_as_it_is():
    async def story():
        events = []
        scheduler = Scheduler("memory:", clock=VirtualClock(START), observer=listening(events))
        async with running(scheduler, []):
            with pytest.raises(SchedulerAlreadyActiveError):
                async with running(scheduler, []):
                    raise AssertionError("must not begin")
            return "SchedulerStopRequested" in events

    assert asyncio.run(story()) is False


def test_a_synchronous_program_runs_its_tasks_on_a_thread_and_stops_them(tmp_path):
    ran, events = threading.Event(), []

    def work():
        ran.set()

    registrations = [("job", "* * * * *", in_thread(work), 60)]
    with in_background(registrations, f"sqlite:{tmp_path / 'state.db'}", observer=listening(events)) as tasks:
        assert ran.wait(30)
    assert events[-2:] == ["PollingStopped", "SchedulerStopped"]
    tasks.stop()


def test_what_initialize_raises_is_raised_to_the_program(tmp_path):
    def work():
        pass

    with pytest.raises(InvalidRegistrationError):
        in_background([("job", "* * * * *", work, 60)], "memory:")
    with pytest.raises(StoreError, match="has no directory"):
        in_background([], f"sqlite:{tmp_path / 'nowhere' / 'state.db'}")
    assert not [thread for thread in threading.enumerate() if thread.name == "dutiful-scheduler"]


def test_any_thread_may_stop_it_and_all_return_when_it_has_stopped():
    before = sys.getswitchinterval()
    # Threads take turns often, so that some calls come while the loop is being closed.
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            assert stopped_by_eight_threads() == (1, [])
    finally:
        sys.setswitchinterval(before)


def stopped_by_eight_threads():
    """Return how often a scheduler told that it has stopped, and the threads that still wait for it."""
    events = []
    tasks = in_background([("job", "0 12 1 1 *", nothing, 60)], "memory:", observer=listening(events))
    stoppers = [threading.Thread(target=tasks.stop) for _ in range(8)]
    for stopper in stoppers:
        stopper.start()
    for stopper in stoppers:
        stopper.join(30)
    return events.count("SchedulerStopped"), [stopper for stopper in stoppers if stopper.is_alive()]


@pytest.mark.parametrize("blocking", [False, True])
def test_a_task_that_stops_its_own_scheduler_is_not_waited_for(blocking):
    events, holder, stopped = [], [], threading.Event()
    made = threading.Event()

    def stop():
        made.wait(30)
        holder[0].stop()

    async def stop_async():
        await asyncio.to_thread(made.wait, 30)
        holder[0].stop()

    def hear(event):
        events.append(event.name)
        if event.name == "SchedulerStopped":
            stopped.set()

    callback = in_thread(stop) if blocking else stop_async
    holder.append(in_background([("job", "* * * * *", callback, 60)], "memory:", observer=hear))
    made.set()
    assert stopped.wait(30)
    assert "TaskRunCompleted" in events
    holder[0].stop()


def test_a_program_that_ends_without_stop_waits_for_what_runs_and_ends(tmp_path):
    program = f"""
        import threading, time
        import dutiful

        begun = threading.Event()

        def work():
            begun.set()
            time.sleep(0.3)
            print("worked", flush=True)

        def tell(event):
            if event.name == "SchedulerStopped":
                print(event.name, flush=True)

        tasks = [("job", "* * * * *", dutiful.in_thread(work), 60)]
        dutiful.in_background(tasks, "sqlite:{tmp_path / "state.db"}", observer=tell)
        begun.wait(30)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("worked\nSchedulerStopped\n", "", 0)


def test_a_program_that_sets_up_no_log_still_reads_why_its_task_failed():
    program = """
        import asyncio
        import dutiful

        async def main():
            failed = asyncio.Event()

            async def work():
                raise ValueError("no such table")

            def tell(event):
                if event.name == "TaskRunFailed":
                    failed.set()

            scheduler = dutiful.Scheduler("memory:", observer=tell)
            async with dutiful.running(scheduler, [("job", "* * * * *", work, 60)]):
                await failed.wait()

        asyncio.run(main())
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    first, *traceback = done.stderr.splitlines()
    assert (done.returncode, first) == (0, "TaskRunFailed job error=ValueError: no such table")
    assert (traceback[0], traceback[-1]) == (
        "Traceback (most recent call last):",
        "ValueError: no such table",
    )


def test_a_run_at_the_end_of_a_program_may_use_its_threads_and_start_one_where_python_can():
    program = """
        import asyncio, threading
        import dutiful

        begun, ending = threading.Event(), threading.Event()

        async def work():
            await asyncio.to_thread(print, "began", flush=True)
            begun.set()
            while not ending.is_set():
                await asyncio.sleep(0.01)
            await asyncio.to_thread(print, "worked in the pool", flush=True)
            await dutiful.in_thread(print)("worked in a new thread", flush=True)

        def tell(event):
            if event.name == "SchedulerStopRequested":
                ending.set()
            if event.name == "TaskRunFailed":
                print(event.details["error"], flush=True)
            if event.name == "SchedulerStopped":
                print(event.name, flush=True)

        dutiful.in_background([("job", "* * * * *", work, 60)], "memory:", observer=tell)
        begun.wait(30)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    refusal = "RuntimeError: can't create new thread at interpreter shutdown"
    refused = (3, 12) <= sys.version_info < (3, 12, 2)
    told = refusal if refused else "worked in a new thread"
    assert done.stdout == f"began\nworked in the pool\n{told}\nSchedulerStopped\n"
    # The failed run is a warning of the log, with its traceback.
    assert done.stderr.splitlines()[-1:] == [refusal] * refused
    assert done.returncode == 0


def test_a_stop_that_fails_at_the_end_of_a_program_is_shown_and_the_others_are_stopped():
    program = """
        import dutiful

        def tell(event):
            if event.name == "SchedulerStopped":
                print(event.name, flush=True)

        def fail():
            stop()
            raise OSError("no disk")

        tasks = dutiful.in_background([], "memory:", observer=tell)
        other = dutiful.in_background([], "memory:", observer=tell)
        stop, tasks.stop = tasks.stop, fail
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "SchedulerStopped\nSchedulerStopped\n"
    assert (done.stderr.splitlines()[-1], done.returncode) == ("OSError: no disk", 0)


def test_a_forked_process_ends_without_waiting_for_the_scheduler_of_its_parent():
    program = """
        import os, signal, sys
        import dutiful

        with dutiful.in_background([], "memory:") as tasks:
            child = os.fork()
            if not child:
                signal.alarm(20)
                tasks.stop()
                sys.exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        print("stopped", flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("7\nstopped\n", 0)


def test_a_ctrl_c_while_it_starts_stops_what_has_begun_and_is_raised():
    program = """
        import os, signal, threading
        import dutiful

        def tell(event):
            if event.name == "SchedulerInitializationStarted":
                os.kill(os.getpid(), signal.SIGINT)
            if event.name == "SchedulerStopped":
                print(event.name, flush=True)

        try:
            dutiful.in_background([], "memory:", observer=tell)
        except KeyboardInterrupt:
            print("interrupted, threads:", threading.active_count(), flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    told = "SchedulerStopped\ninterrupted, threads: 1\n"
    assert (done.stdout, done.stderr, done.returncode) == (told, "", 0)
