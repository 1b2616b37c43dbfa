"""Functions named by a text, called without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import re
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from dutiful.core.errors import InvalidArgumentError

Function: TypeAlias = Callable[..., Any]

_DOTTED = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"


def is_place(text: str) -> bool:
    """Return whether this has the form `module:function`."""
    return re.fullmatch(f"{_DOTTED}:{_DOTTED}", text, re.ASCII) is not None


def find_function(setting: str, place: str) -> Function:
    """Import and return the function that `place` names; raises InvalidArgumentError for that `setting`."""
    module, _, path = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidArgumentError(setting, place, str(error)) from error
    if not callable(found):
        raise InvalidArgumentError(setting, place, f"is {type(found).__name__}, which cannot be called")
    return found  # type: ignore[no-any-return]  # only callability can be checked


async def call(function: Function, *arguments: object) -> object:
    """Return the result of a function: coroutines run on this loop, other functions in a thread of their own.

    Exceptions of the function are raised. A cancelled call leaves its thread running, because threads cannot
    be stopped.
    """
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    answer = await _in_thread(function, arguments)
    return await answer if inspect.isawaitable(answer) else answer


async def _in_thread(function: Function, arguments: tuple[object, ...]) -> object:
    # Not the loop's pool: it is small, and functions that hang there would block the resolution of host
    # names. A daemon thread, so that such a function does not keep the process alive either.
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(answer: object, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(answer)
        else:
            done.set_exception(error)

    def work() -> None:
        answer: object = None
        error: BaseException | None = None
        try:
            answer = context.run(function, *arguments)
        except StopIteration as raised:
            # A future refuses to hold StopIteration.
            error = RuntimeError(f"the function raised {raised!r}")
        except BaseException as raised:  # noqa: BLE001 - the caller gets any exception
            error = raised
        _tell(loop, settle, answer, error)

    threading.Thread(target=work, name="dutiful-job", daemon=True).start()
    return await done


def _tell(loop: asyncio.AbstractEventLoop, settle: Callable[..., None], *outcome: object) -> None:
    try:
        loop.call_soon_threadsafe(settle, *outcome)
    except RuntimeError:
        # The event loop is closed, so no task waits for this call any more.
        return
