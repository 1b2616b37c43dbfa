"""Jobs that are functions: coroutines on the event loop, others in a thread of their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dutiful.fleet.file.settings import Key, seconds
from dutiful.fleet.types import JobResult, Problem
from dutiful.process.function import call, find_function, is_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dutiful.fleet.types import JobRequest


def place(value: object) -> str:
    """Read where a function is: its module, a colon and its name."""
    if not isinstance(value, str) or not is_place(value):
        raise ValueError("must be module:function, e.g. reports.daily:build")
    return value


KEYS = {"call": Key(place, required=True), "timeout": Key(seconds, 3600.0)}


def unready(settings: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield why the function could not be called; its module is imported for that."""
    try:
        find_function("call", settings["call"])
    except Exception as error:  # noqa: BLE001 - importing runs code of the user, which may raise anything
        yield Problem(("call",), f"cannot be imported: {error}", settings["call"])


class PythonJob:
    """Calls a function with every job's request."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._function = find_function("call", settings["call"])
        self._name, self._timeout = settings["call"], settings["timeout"]

    async def execute(self, request: JobRequest) -> JobResult:
        """Return the value of the function as a result; an exception of the function is raised.

        A function that is no coroutine cannot be stopped: after a timeout its thread is left to itself.
        """
        try:
            async with asyncio.timeout(self._timeout) as limit:
                return self._judged(await call(self._function, request))
        except TimeoutError:
            if not limit.expired():
                raise
            return JobResult(False, error=f"{self._name} timed out after {self._timeout:g} s")

    def _judged(self, answer: object) -> JobResult:
        match answer:
            case JobResult():
                return answer
            case True | None:
                return JobResult(True)
            case False:
                return JobResult(False, error=f"{self._name} returned False")
            case str():
                return JobResult(True, answer)
        kind = type(answer).__name__
        return JobResult(
            False, error=f"{self._name} returned {kind}; return a str, a bool, a JobResult or None"
        )
