"""An event loop on a thread of its own, for work that nothing on the caller's loop may delay."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")
# `stop` waits at most this long (s) for functions still running in the loop's threads.
_JOIN_WITHIN_S = 5.0


class LoopThread:
    """`start` it, `run` coroutines on it from other loops, `stop` it. It runs until then."""

    def __init__(self, name: str) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread; return when its loop runs."""
        self._thread.start()
        self._ready.wait()

    @property
    def is_running(self) -> bool:
        """Whether the thread has been started and has not ended."""
        return self._thread.is_alive()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the thread's loop, and return its result."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def call(self, function: Callable[[], object]) -> None:
        """Have a function called on the thread's loop; a loop that has ended calls nothing."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    async def stop(self) -> None:
        """End the loop and its thread; tasks still running there are cancelled."""
        if not self.is_running:
            return
        self.call(self._ended.set)
        await asyncio.to_thread(self._thread.join, _JOIN_WITHIN_S)

    def _run(self) -> None:
        asyncio.run(self._until_ended())

    async def _until_ended(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._ended.wait()
