"""Callbacks of tasks: which functions are refused, and how a blocking function becomes an async one."""

from __future__ import annotations

import asyncio
import functools
import inspect
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from dutiful.core.errors import InvalidArgumentError
from dutiful.runtime.engine import carried_run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

P = ParamSpec("P")
T = TypeVar("T")

_WRITE_ASYNC = "must be an async function; write `async def`, or wrap it: dutiful.in_thread(function)"
_NO_GENERATOR = "must be an async function; this one has a `yield`, so that calling it runs nothing"
_NO_GENERATOR_IN_THREAD = (
    "has a `yield`, so that calling it runs nothing; write a function that does the work"
)


def callback_flaw(callback: object) -> str | None:
    """Return why a callable is certain not to be an async function; None where it may be one.

    A lambda, an object with `__call__` and a function with `__wrapped__` may return an awaitable.
    """
    # Decide the common cases by one flag: a list may have a million callbacks.
    called = callback if hasattr(callback, "__code__") else type(callback).__call__
    if getattr(getattr(called, "__code__", None), "co_flags", 0) & inspect.CO_COROUTINE:
        return None
    function = _innermost(callback)
    if _has_yield(function):
        return None if _is_marked_async(function) else _NO_GENERATOR
    is_plain = inspect.isfunction(function) and function.__name__ != "<lambda>"
    is_wrapper = hasattr(function, "__wrapped__") or _is_marked_async(function)
    return _WRITE_ASYNC if is_plain and not is_wrapper else None


def _innermost(callback: object) -> Any:
    """Return the function inside partials and bound methods."""
    while isinstance(callback, functools.partial) or inspect.ismethod(callback):
        callback = callback.func if isinstance(callback, functools.partial) else callback.__func__
    return callback


def _has_yield(function: Any) -> bool:
    return inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)


def _is_marked_async(function: Any) -> bool:
    # `asyncio` honours its own mark beside the one of `inspect`; so does `types.coroutine` by a flag.
    iterable = getattr(getattr(function, "__code__", None), "co_flags", 0) & inspect.CO_ITERABLE_COROUTINE
    return bool(iterable) or inspect.iscoroutinefunction(function) or hasattr(function, "_is_coroutine")


def in_thread(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Return an async function that runs a blocking one in a thread of its own and waits for it.

    A thread cannot be interrupted: after a timeout or a cancellation the run has ended, but the function
    itself runs to its end. Raises InvalidArgumentError for a function that is already async, or that has a
    `yield`.
    """
    if not callable(function):
        raise InvalidArgumentError("function", function, "must be a function")
    inner = _innermost(function)
    # What is called of an object with `__call__`.
    work = inner if hasattr(inner, "__code__") else _innermost(type(inner).__call__)
    generates = _has_yield(work)
    if inspect.iscoroutinefunction(work) or (generates and _is_marked_async(work)):
        raise InvalidArgumentError("function", function, "is async already; register it as it is")
    if generates:
        raise InvalidArgumentError("function", function, _NO_GENERATOR_IN_THREAD)

    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        name = getattr(function, "__name__", type(function).__name__)
        pool = ThreadPoolExecutor(1, thread_name_prefix=f"dutiful-{name}")
        work = functools.partial(copy_context().run, _finish, functools.partial(function, *args, **kwargs))
        carried = carried_run.get()
        try:
            # Virtual time stands still while the thread is at work.
            with nullcontext() if carried is None else carried[0].hold():
                return await asyncio.get_running_loop().run_in_executor(pool, work)
        finally:
            pool.shutdown(wait=False)

    # `wraps` leaves out names that a partial or an object with `__call__` lacks.
    return functools.wraps(function)(call)


def _finish(function: Callable[[], T]) -> T:
    try:
        answer = function()
    except StopIteration as error:
        # A future cannot carry a StopIteration: its awaiting caller would wait for ever.
        raise RuntimeError("the function raised StopIteration") from error
    if inspect.iscoroutine(answer):
        answer.close()
        raise TypeError("the function returned a coroutine; register async functions as they are")
    if inspect.isgenerator(answer) or inspect.isasyncgen(answer):
        raise TypeError("the function returned a generator, so nothing of it was run")
    return answer
