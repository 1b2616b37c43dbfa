"""Functions named by a text, and called wherever they do not block."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dutiful.core.errors import InvalidArgumentError
from dutiful.launchers.python import call, find_function, is_place


@pytest.mark.parametrize("text", ["a:b", "a.b.c:D.e", "_x:y1"])
def test_a_place_is_a_module_and_a_name(text):
    assert is_place(text)


@pytest.mark.parametrize(
    "text", ["", "a", "a:", ":b", "a:b:c", "a-b:c", "a:b()", "ä:b", "a:b\n", "a..b:c", "1:b"]
)
def test_nothing_else_is(text):
    assert not is_place(text)


def test_a_function_is_found_by_its_place():
    assert find_function("call", "json:JSONDecoder.decode").__name__ == "decode"


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("no_such_module_here:f", "No module named 'no_such_module_here'"),
        ("json:absent", "module 'json' has no attribute 'absent'"),
        ("json:__name__", "is str, which cannot be called"),
    ],
)
def test_a_function_that_cannot_be_found_is_reported(place, reason):
    with pytest.raises(InvalidArgumentError) as caught:
        find_function("call", place)
    assert str(caught.value) == f"Invalid call {place!r}: {reason}"


def thread_of() -> int:
    return threading.get_ident()


async def thread_of_coroutine() -> int:
    return threading.get_ident()


def coroutine_of_thread():
    return thread_of_coroutine()


def test_coroutines_run_on_the_loop_and_the_rest_in_threads_of_their_own():
    here = threading.get_ident()
    assert asyncio.run(call(thread_of_coroutine)) == here
    assert asyncio.run(call(thread_of)) != here
    # A plain function may return something to await, which belongs to the loop.
    assert asyncio.run(call(coroutine_of_thread)) == here


def test_an_exception_of_a_function_is_raised():
    def raises():
        raise KeyError("x")

    def stops():
        raise StopIteration(3)

    with pytest.raises(KeyError):
        asyncio.run(call(raises))
    with pytest.raises(RuntimeError, match=r"StopIteration\(3\)"):
        asyncio.run(call(stops))


def test_a_thread_that_ends_after_the_loop_does_no_harm():
    go, ended = threading.Event(), threading.Event()

    def late():
        go.wait(10)
        ended.set()

    async def given_up():
        async with asyncio.timeout(0.05):
            await call(late)

    with pytest.raises(TimeoutError):
        asyncio.run(given_up())
    go.set()
    assert ended.wait(10)
