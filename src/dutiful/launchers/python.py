"""Functions: the executor `python:MODULE:FUNCTION`, and the way every door calls a function."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast, get_args

from dutiful.core.errors import InvalidArgumentError, quoted
from dutiful.core.plan.outcome import Failed, Outcome, Succeeded, raised
from dutiful.process.function import call, find_function, is_place

if TYPE_CHECKING:
    from dutiful.launchers.executor import ExecutorSettings, Meta

_TIMEOUT = 3600.0
_DETAIL_MAX = 500


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
