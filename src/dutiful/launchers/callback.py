"""Tasks that are callables of this process."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeAlias

from dutiful.core.plan.outcome import Failed, Outcome, Refused, Succeeded
from dutiful.core.policy import Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from dutiful.runtime.ports import Launch

_SUCCEEDED = Succeeded()

Callback: TypeAlias = "Callable[[], Awaitable[Any]]"


class CallbackLauncher:
    """Calls what is registered under the task's name, and waits for it."""

    in_process = True

    def __init__(self, callbacks: Mapping[str, Callback]) -> None:
        self._callbacks = callbacks

    async def launch(self, launch: Launch) -> Outcome:
        """Await the callback; what it raises is left to the engine."""
        name = launch.schedule.task.name
        callback = self._callbacks.get(name)
        if callback is None:
            return Refused(Reason.UNKNOWN_WORKFLOW, f"no callback is registered as {name!r}")
        answer: object = callback()
        if not inspect.isawaitable(answer):
            return Failed(f"callback {name!r} returned {type(answer).__name__}, not an awaitable")
        await answer
        return _SUCCEEDED
