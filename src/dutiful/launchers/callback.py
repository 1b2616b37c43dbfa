"""The launcher of tasks that are callables of this process."""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any, TypeAlias

from dutiful.core.plan.outcome import Failed, Outcome, Refused, Succeeded
from dutiful.core.policy import Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from dutiful.runtime.ports import Launch

logger = logging.getLogger("dutiful")

_SUCCEEDED = Succeeded()
_NOT_ASYNC = (
    "The callback of task %r returned %s, not an awaitable; the run counts as a success. Register an async "
    "function, or dutiful.in_thread(function) for one that blocks"
)

Callback: TypeAlias = "Callable[[], Awaitable[Any]]"


class CallbackLauncher:
    """Calls the callback that is registered under the task's name, and awaits it."""

    in_process = True

    def __init__(self, callbacks: Mapping[str, Callback]) -> None:
        self._callbacks = callbacks
        self._warned: set[str] = set()

    async def launch(self, launch: Launch) -> Outcome:
        """Await the callback; the engine handles its exceptions."""
        name = launch.schedule.task.name
        callback = self._callbacks.get(name)
        if callback is None:
            return Refused(Reason.UNKNOWN_WORKFLOW, f"no callback is registered as {name!r}")
        answer: object = callback()
        if inspect.isawaitable(answer):
            await answer
            return _SUCCEEDED
        if inspect.isgenerator(answer) or inspect.isasyncgen(answer):
            return Failed(f"callback {name!r} returned a generator, so nothing of it was run")
        self._warn(name, answer)
        return _SUCCEEDED

    def _warn(self, name: str, answer: object) -> None:
        """Log once per task that its callback is not async; the call has already done the work."""
        if name not in self._warned:
            self._warned.add(name)
            logger.warning(_NOT_ASYNC, name, type(answer).__name__)
