"""Jobs that are functions of some module."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest
from tests.fleet.requests import request

from dutiful.core.errors import InvalidArgumentError
from dutiful.fleet.run.jobs import executor_for
from dutiful.fleet.types import JobResult

VARIABLE = contextvars.ContextVar("VARIABLE", default="unset")
NUMBER = 4


async def say(asked):
    return f"{asked.agent.name}: {asked.prompt}"


def name_thread(_asked):
    return f"{threading.current_thread().name} {threading.current_thread().daemon} {VARIABLE.get()}"


def nothing(_asked):
    return None


def yes(_asked):
    return True


def no(_asked):
    return False


def result(_asked):
    return JobResult(False, "half", "no disk")


def number(_asked):
    return 7


def later(asked):
    return say(asked)


class Kinds:
    def __call__(self, _asked):
        return "called"


kinds = Kinds()


def fall(_asked):
    raise ValueError("no such report")


def leave(_asked):
    raise SystemExit(3)


def stop(_asked):
    raise StopIteration(1)


async def run_out(_asked):
    raise TimeoutError("the disk did not answer")


async def hang(_asked):
    await asyncio.Event().wait()


def hang_in_a_thread(_asked):
    threading.Event().wait(60)


def do(name: str, **settings) -> JobResult:
    config = {"type": "python", "call": f"tests.fleet.run.jobs.test_python:{name}", **settings}
    return asyncio.run(executor_for(config).execute(request()))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("say", JobResult(True, "scout: Look around.")),
        ("later", JobResult(True, "scout: Look around.")),
        ("kinds", JobResult(True, "called")),
        ("nothing", JobResult(True)),
        ("yes", JobResult(True)),
        ("result", JobResult(False, "half", "no disk")),
    ],
)
def test_what_a_function_returns_is_the_result(name, expected):
    assert do(name) == expected


def test_what_is_no_success_says_which_function_it_was():
    assert do("no").error == "tests.fleet.run.jobs.test_python:no returned False"
    assert do("number").error == (
        "tests.fleet.run.jobs.test_python:number returned int; return a str, a bool, a JobResult or None"
    )


def test_a_plain_function_has_a_thread_of_its_own_and_the_context_of_the_run():
    async def in_context():
        import tests.fleet.run.jobs.test_python as module

        module.VARIABLE.set("set")
        config = {"type": "python", "call": "tests.fleet.run.jobs.test_python:name_thread"}
        return await executor_for(config).execute(request())

    assert asyncio.run(in_context()) == JobResult(True, "dutiful-job True set")


@pytest.mark.parametrize(
    ("name", "error"),
    [("fall", ValueError), ("leave", SystemExit), ("stop", RuntimeError), ("run_out", TimeoutError)],
)
def test_an_exception_of_a_function_is_raised(name, error):
    with pytest.raises(error):
        do(name)


@pytest.mark.parametrize("name", ["hang", "hang_in_a_thread"])
def test_a_function_that_takes_too_long_is_a_failure(name):
    place = f"tests.fleet.run.jobs.test_python:{name}"
    assert do(name, timeout="1s") == JobResult(False, error=f"{place} timed out after 1 s")


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("no.such.module:f", "No module named 'no'"),
        ("tests.fleet.run.jobs.test_python:absent", "has no attribute 'absent'"),
        ("tests.fleet.run.jobs.test_python:NUMBER", "is int, which cannot be called"),
    ],
)
def test_a_function_that_is_not_there_is_noticed_before_the_first_job(call, reason):
    with pytest.raises(InvalidArgumentError, match=reason):
        executor_for({"type": "python", "call": call})
