"""Functions: the executor `python:MODULE:FUNCTION`, and the way every door calls a function."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import re
import threading
from typing import TYPE_CHECKING, Any, cast, get_args

from dutiful.core.errors import InvalidArgumentError, quoted
from dutiful.core.plan.outcome import Failed, Outcome, Succeeded, raised

if TYPE_CHECKING:
    from collections.abc import Callable

    from dutiful.launchers.executor import ExecutorSettings, Meta

_TIMEOUT = 3600.0
_DETAIL_MAX = 500
_DOTTED = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"


class Function:
    """A function named by a text, called within a time limit."""

    def __init__(self, setting: str, place: str, timeout: float) -> None:
        """Import the function; raises InvalidArgumentError for that `setting` if it cannot be found."""
        self._place, self._timeout = place, timeout
        self._function = find_function(setting, place)

    async def call(self, *arguments: object, results: tuple[type, ...], expected: str) -> object:
        """Return the function's result of one of the types `results`, or the outcome that its answer means.

        None and True are Succeeded, a text is Succeeded with that detail. False, any other answer and no end
        in time are Failed. An exception of the function is raised. A function that is no coroutine cannot be
        stopped: after the time limit its thread goes on alone. `expected` tells the author of the function
        what to return.
        """
        try:
            async with asyncio.timeout(self._timeout) as limit:
                answer = await call(self._function, *arguments)
        except TimeoutError:
            if not limit.expired():
                raise
            return Failed(f"{self._place} timed out after {self._timeout:g} s")
        match answer:
            case None | True:
                return Succeeded()
            case False:
                return Failed(f"{self._place} returned False")
            case str():
                return Succeeded(answer)
        if isinstance(answer, results):
            return answer
        return Failed(f"{self._place} returned {type(answer).__name__}; return {expected}")


class PythonExecutor:
    """Calls `function(dag, meta)` for every run."""

    in_process = True

    def __init__(self, place: str, settings: ExecutorSettings) -> None:
        """Import the function; raises InvalidArgumentError if it cannot be found."""
        if not is_place(place):
            raise InvalidArgumentError("executor", place, "write python:MODULE:FUNCTION")
        self._function = Function("executor", place, settings.timeout or _TIMEOUT)

    async def run(self, dag: Any, meta: Meta) -> Outcome:
        """Return the outcome of the function; `Function.call` describes the meaning of its answers.

        An exception of the function is Failed.
        """
        expected = "an outcome, a str, a bool or None"
        try:
            outcome = await self._function.call(dag, meta, results=get_args(Outcome), expected=expected)
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            outcome = raised(error)
            return outcome._replace(detail=quoted(outcome.detail, _DETAIL_MAX))
        if isinstance(outcome, Succeeded) and outcome.detail is not None:
            return outcome._replace(detail=quoted(outcome.detail, _DETAIL_MAX))
        return cast("Outcome", outcome)


def is_place(text: str) -> bool:
    """Return whether this has the form `module:function`."""
    return re.fullmatch(f"{_DOTTED}:{_DOTTED}", text, re.ASCII) is not None


def find_function(setting: str, place: str) -> Callable[..., Any]:
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


async def call(function: Callable[..., Any], *arguments: object) -> object:
    """Return the result of a function: coroutines run on this loop, other functions in a thread of their own.

    Exceptions of the function are raised. A cancelled call leaves its thread running: threads cannot be
    stopped.
    """
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    answer = await _in_thread(function, arguments)
    return await answer if inspect.isawaitable(answer) else answer


async def _in_thread(function: Callable[..., Any], arguments: tuple[object, ...]) -> object:
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
