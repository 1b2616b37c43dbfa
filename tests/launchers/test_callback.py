"""Callables as tasks: whatever they are and whatever they do becomes an outcome."""

from __future__ import annotations

import asyncio

import pytest
from tests.core.plan.planner_notation import at, run, schedule
from tests.sim.rig import TEN

from dutiful.core.cadence import Once
from dutiful.core.plan.outcome import Failed, Refused, Succeeded
from dutiful.core.policy import Reason
from dutiful.core.run import Status
from dutiful.core.schedule import Task
from dutiful.launchers.callback import CallbackLauncher
from dutiful.runtime.engine import Engine
from dutiful.runtime.ports import Launch
from dutiful.runtime.registrar import Registrar
from dutiful.stores.memory import MemoryStore
from dutiful.testing import VirtualClock


def launched(callbacks, name="report"):
    launch = Launch(schedule()._replace(task=Task(name)), run("10:00"))
    return asyncio.run(CallbackLauncher(callbacks).launch(launch))


def future_of(value):
    """Return an awaitable that is no coroutine."""
    future = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future


class Later:
    """Something to await that is neither coroutine nor future."""

    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return "done"


async def nothing():
    pass


@pytest.mark.parametrize("callback", [nothing, lambda: future_of(5), Later, lambda: asyncio.sleep(0)])
def test_anything_that_returns_an_awaitable_succeeds(callback):
    assert launched({"report": callback}) == Succeeded()


def test_the_callback_is_awaited_to_its_end():
    seen = []

    async def steps():
        for step in range(3):
            await asyncio.sleep(0)
            seen.append(step)

    launched({"report": steps})
    assert seen == [0, 1, 2]


def test_an_unregistered_name_is_refused():
    refusal = Refused(Reason.UNKNOWN_WORKFLOW, "no callback is registered as 'report'")
    assert launched({"other": nothing}) == refusal


@pytest.mark.parametrize(("value", "kind"), [(None, "NoneType"), (5, "int"), ("text", "str"), ([], "list")])
def test_a_callback_that_returns_no_awaitable_has_done_its_work_and_is_warned_about_once(value, kind, caplog):
    launcher = CallbackLauncher({"report": lambda: value, "other": lambda: value})
    launches = [
        Launch(schedule()._replace(task=Task(name)), run("10:00")) for name in ("report", "report", "other")
    ]
    assert [asyncio.run(launcher.launch(launch)) for launch in launches] == [Succeeded()] * 3
    advice = "Register an async function, or dutiful.in_thread(function) for one that blocks"
    told = f"returned {kind}, not an awaitable; the run counts as a success. {advice}"
    assert caplog.messages == [f"The callback of task {name!r} {told}" for name in ("report", "other")]


async def several():
    yield 1


@pytest.mark.parametrize("callback", [several, lambda: (n for n in [1])])
def test_a_callback_that_returns_a_generator_has_run_nothing_and_failed(callback):
    failure = Failed("callback 'report' returned a generator, so nothing of it was run")
    assert launched({"report": callback}) == failure


class Peculiar(BaseException):
    """Raised by the task alone; not an Exception."""


def raising(error):
    def callback():
        raise error

    return callback


def raising_later(error):
    async def callback():
        await asyncio.sleep(0)
        raise error

    return callback


@pytest.mark.parametrize("when", [raising, raising_later])
@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (ValueError("no disk"), "ValueError: no disk"),
        (Peculiar("odd"), "Peculiar: odd"),
        (asyncio.CancelledError("mine"), "CancelledError: mine"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_an_exception_of_a_callback_fails_its_run_and_no_other(when, error, detail):
    async def story():
        store, clock = MemoryStore(), VirtualClock(TEN)
        launcher = CallbackLauncher({"bad": when(error), "good": nothing})
        engine = Engine(store, launcher, clock, lambda _: None, "instance")
        registrar = Registrar(store, clock, engine.wake)
        for name in ("bad", "good"):
            await registrar.upsert(schedule(Once(at("10:01")), name)._replace(task=Task(name)))
        engine.start()
        await clock.advance(60)
        rows = [(await store.ledger(name, None, 1))[0] for name in ("bad", "good")]
        return (await engine.stop()).in_flight, [(row.status, row.reason, row.detail) for row in rows]

    failed = Status.FAILED, Reason.TASK_FAILED, detail
    assert asyncio.run(story()) == ([], [failed, (Status.SUCCESS, None, None)])
