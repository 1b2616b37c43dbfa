"""Functions as executors."""

from __future__ import annotations

import asyncio
import traceback

import pytest
from tests.launchers.metas import DAG, META, SETTINGS

from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.outcome import Accepted, Failed, Succeeded
from dutiful.launchers.python import PythonExecutor

HERE = "tests.launchers.executor_functions"


def ran(name: str, **settings):
    executor = PythonExecutor(f"{HERE}:{name}", SETTINGS._replace(**settings))
    return asyncio.run(executor.run(DAG, META))


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("told", Succeeded("α nightly False")),
        ("told_on_the_loop", Succeeded("α nightly True")),
        ("nothing", Succeeded()),
        ("yes", Succeeded()),
        ("accepted", Accepted("run-2")),
        ("no", Failed(f"{HERE}:no returned False")),
        ("number", Failed(f"{HERE}:number returned int; return an outcome, a str, a bool or None")),
    ],
)
def test_whatever_a_function_returns_becomes_an_outcome(name, outcome):
    assert ran(name) == outcome


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("raises", "ValueError: no disk\\n"),
        ("leaves", "SystemExit: 3"),
        ("cancels_itself", "CancelledError"),
        ("times_out_itself", "TimeoutError: upstream"),
    ],
)
def test_whatever_a_function_raises_is_a_failed_run_with_its_trace(name, detail):
    failed = ran(name)
    assert failed == Failed(detail, failed.error)
    assert traceback.extract_tb(failed.error.__traceback__)[-1].name == name


@pytest.mark.parametrize("name", ["hangs", "hangs_on_the_loop"])
def test_a_function_that_takes_too_long_has_failed(name):
    assert ran(name, timeout=0.1) == Failed(f"{HERE}:{name} timed out after 0.1 s")


def test_cancelling_the_run_cancels_it():
    async def cancelled():
        executor = PythonExecutor(f"{HERE}:hangs_on_the_loop", SETTINGS)
        task = asyncio.ensure_future(executor.run(DAG, META))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("", "write python:MODULE:FUNCTION"),
        ("module", "write python:MODULE:FUNCTION"),
        ("os:system('ls')", "write python:MODULE:FUNCTION"),
        ("../x:y", "write python:MODULE:FUNCTION"),
        ("no_such_module_here:f", "No module named 'no_such_module_here'"),
        (f"{HERE}:absent", "has no attribute 'absent'"),
        (f"{HERE}:WITHOUT_CALL", "is int, which cannot be called"),
    ],
)
def test_a_value_that_cannot_be_called_is_refused_at_once(place, reason):
    with pytest.raises(InvalidArgumentError) as caught:
        PythonExecutor(place, SETTINGS)
    assert reason in str(caught.value)
