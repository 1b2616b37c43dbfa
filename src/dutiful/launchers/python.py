"""Runs workflows by a function of this process."""

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


class PythonExecutor:
    """Calls `function(dag, meta)` for every run."""

    in_process = True

    def __init__(self, place: str, settings: ExecutorSettings) -> None:
        """Import the function; raises InvalidArgumentError if it cannot be found."""
        if not is_place(place):
            raise InvalidArgumentError("executor", place, "write python:MODULE:FUNCTION")
        self._place, self._function = place, find_function("executor", place)
        self._timeout = settings.timeout or _TIMEOUT

    async def run(self, dag: Any, meta: Meta) -> Outcome:
        """Return the outcome that the function returned, or what its answer means.

        None and True are Succeeded, a text is Succeeded with that detail. False, anything else, what it
        raises and no end in time are Failed; a function that is no coroutine then goes on by itself.
        """
        try:
            async with asyncio.timeout(self._timeout) as limit:
                return self._judged(await call(self._function, dag, meta))
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            if limit.expired() and isinstance(error, TimeoutError):
                return Failed(f"{self._place} timed out after {self._timeout:g} s")
            failed = raised(error)
            return failed._replace(detail=quoted(failed.detail, _DETAIL_MAX))

    def _judged(self, answer: object) -> Outcome:
        match answer:
            case None | True:
                return Succeeded()
            case False:
                return Failed(f"{self._place} returned False")
            case str():
                return Succeeded(quoted(answer, _DETAIL_MAX))
        if isinstance(answer, get_args(Outcome)):
            return cast("Outcome", answer)
        kind = type(answer).__name__
        return Failed(f"{self._place} returned {kind}; return an outcome, a str, a bool or None")
