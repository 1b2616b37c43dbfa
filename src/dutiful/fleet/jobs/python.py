"""Jobs that are functions: coroutines on the event loop, others in a thread of their own."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import re
import threading
from typing import TYPE_CHECKING, Any

from dutiful.core.errors import InvalidArgumentError
from dutiful.fleet.settings import Key, seconds
from dutiful.fleet.types import JobResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dutiful.fleet.types import JobRequest

_DOTTED = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"


def place(value: object) -> str:
    """Read where a function is: its module, a colon and its name."""
    if not isinstance(value, str) or not re.fullmatch(f"{_DOTTED}:{_DOTTED}", value, re.ASCII):
        raise ValueError("must be module:function, e.g. reports.daily:build")
    return value


KEYS = {"call": Key(place, required=True), "timeout": Key(seconds, 3600.0)}


class PythonJob:
    """Calls a function with every job's request."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._function = _found(settings["call"])
        self._name, self._timeout = settings["call"], settings["timeout"]

    async def execute(self, request: JobRequest) -> JobResult:
        """Return what the function returned, made into a result; what it raises is raised.

        A function that is no coroutine cannot be stopped: after a timeout its thread is left to itself.
        """
        try:
            async with asyncio.timeout(self._timeout) as limit:
                return self._judged(await self._called(request))
        except TimeoutError:
            if not limit.expired():
                raise
            return JobResult(False, error=f"{self._name} timed out after {self._timeout:g} s")

    async def _called(self, request: JobRequest) -> object:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(request)
        answer = await _in_thread(self._function, request)
        return await answer if inspect.isawaitable(answer) else answer

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


def _found(place: str) -> Callable[[JobRequest], Any]:
    module, _, path = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidArgumentError("call", place, str(error)) from error
    if not callable(found):
        raise InvalidArgumentError("call", place, f"is {type(found).__name__}, which cannot be called")
    return found  # type: ignore[no-any-return]  # callable is all that can be known


async def _in_thread(function: Callable[[JobRequest], Any], request: JobRequest) -> object:
    # Not the loop's pool: it is small, and a job that hangs there would keep host names from resolving.
    # Daemonic, so that such a job does not keep the process from ending either.
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
            answer = context.run(function, request)
        except StopIteration as raised:
            # No future may hold this one.
            error = RuntimeError(f"the function raised {raised!r}")
        except BaseException as raised:  # noqa: BLE001 - whatever it is, the job has failed with it
            error = raised
        _tell(loop, settle, answer, error)

    threading.Thread(target=work, name="dutiful-job", daemon=True).start()
    return await done


def _tell(loop: asyncio.AbstractEventLoop, settle: Callable[..., None], *outcome: object) -> None:
    try:
        loop.call_soon_threadsafe(settle, *outcome)
    except RuntimeError:
        # The loop is closed: nobody waits for this job any more.
        return
