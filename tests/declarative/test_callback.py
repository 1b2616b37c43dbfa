"""Which callables are refused as callbacks, and blocking functions in threads of their own."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
import types

import pytest
from tests.spec.world import play

from dutiful import InvalidArgumentError, Scheduler, in_thread
from dutiful.declarative.callback import callback_flaw
from dutiful.testing import VirtualClock


async def work():
    pass


def blocks():
    pass


def generates():
    yield


async def generates_async():
    yield


class Mixed:
    async def work(self):
        pass

    def blocks(self):
        pass

    async def __call__(self):
        pass


@functools.wraps(work)
def wrapper():
    return work()


@types.coroutine
def old_coroutine():
    yield


@pytest.mark.parametrize(
    "callback",
    [
        work,
        Mixed().work,
        Mixed(),
        wrapper,
        old_coroutine,
        lambda: asyncio.sleep(0),
        functools.partial(work),
        functools.partial(Mixed().work),
        in_thread(blocks),
        asyncio.Future,
        len,
    ],
)
def test_what_is_async_or_may_be_is_accepted(callback):
    assert callback_flaw(callback) is None


@pytest.mark.parametrize(
    "callback", [blocks, Mixed().blocks, functools.partial(blocks), functools.partial(Mixed().blocks)]
)
def test_what_is_plainly_not_async_is_refused(callback):
    assert "dutiful.in_thread(function)" in callback_flaw(callback)


@pytest.mark.parametrize("callback", [generates, generates_async, functools.partial(generates_async)])
def test_a_function_with_a_yield_is_refused(callback):
    assert "has a `yield`" in callback_flaw(callback)


def test_a_blocking_function_runs_in_a_thread_with_its_arguments_and_its_context():
    told = contextvars.ContextVar("told")

    def add(left, right):
        return left + right, told.get(), threading.current_thread() is not threading.main_thread()

    async def story():
        told.set("outside")
        return await in_thread(add)(1, right=2)

    assert asyncio.run(story()) == (3, "outside", True)
    assert in_thread(add).__name__ == "add"


def test_many_blocking_functions_run_at_the_same_time():
    together = threading.Barrier(40, timeout=30)

    async def story():
        return await asyncio.gather(*(in_thread(together.wait)() for _ in range(40)))

    assert sorted(asyncio.run(story())) == [*range(40)]


@pytest.mark.parametrize(
    ("error", "raised"),
    [(ValueError("no"), ValueError), (StopIteration(1), RuntimeError), (SystemExit, SystemExit)],
)
def test_what_a_blocking_function_raises_is_raised_where_it_is_awaited(error, raised):
    def fail():
        raise error

    with pytest.raises(raised):
        asyncio.run(in_thread(fail)())


def test_a_blocking_function_that_returns_a_coroutine_has_failed():
    with pytest.raises(TypeError, match="register async functions as they are"):
        asyncio.run(in_thread(lambda: asyncio.sleep(0))())


def test_a_blocking_function_that_returns_a_generator_has_failed():
    with pytest.raises(TypeError, match="returned a generator, so nothing of it was run"):
        asyncio.run(in_thread(lambda: (print(line) for line in "ab"))())


class Asynchronous:
    async def __call__(self):
        pass


class Generating:
    def __call__(self):
        yield


@pytest.mark.parametrize(
    "function",
    [generates, generates_async, functools.partial(generates), Generating(), Generating().__call__],
)
def test_a_function_with_a_yield_is_refused_for_a_thread_too(function):
    with pytest.raises(InvalidArgumentError, match="has a `yield`, so that calling it runs nothing"):
        in_thread(function)


@pytest.mark.parametrize("function", [work, functools.partial(work), old_coroutine, Asynchronous(), 5, None])
def test_what_needs_no_thread_or_cannot_run_in_one_is_refused(function):
    with pytest.raises(InvalidArgumentError, match="Invalid function"):
        in_thread(function)


def test_virtual_time_waits_for_a_thread_that_is_at_work():
    async def story(world):
        begun, go_on = threading.Event(), threading.Event()

        def blocks():
            begun.set()
            go_on.wait(30)
            world.ran.append(f"{world.time()} job")

        await world.scheduler().initialize([("job", "* * * * *", in_thread(blocks), 60)])
        release = asyncio.create_task(asyncio.to_thread(lambda: (begun.wait(30), go_on.set())))
        await world.clock.advance(30)
        await release

    world = play(story)
    assert (world.ran, world.names(prefix="TaskRun")) == (
        ["10:00 job"],
        ["TaskRunStarted job", "TaskRunCompleted job"],
    )


@pytest.mark.parametrize("observer", [5, "print", work, Mixed(), functools.partial(work)])
def test_an_observer_that_cannot_be_called_is_refused(observer):
    with pytest.raises(InvalidArgumentError, match="Invalid observer"):
        Scheduler("memory:", observer=observer)


def test_an_observer_that_fails_is_logged_once_for_each_event(caplog):
    def broken(event):
        raise ValueError(event.name)

    async def story():
        clock = VirtualClock("2026-01-01T10:00:00")
        scheduler = Scheduler("memory:", clock=clock, observer=broken)
        await scheduler.initialize([("job", "* * * * *", work, 60)])
        await clock.advance(180)
        await scheduler.stop()

    asyncio.run(story())
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert said.count("The observer failed at TaskRunStarted; the scheduler goes on") == 1
    assert "ValueError: TaskRunStarted" in caplog.text
