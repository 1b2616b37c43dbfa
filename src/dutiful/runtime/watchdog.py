"""A thread that names the task which blocks the event loop.

A callback that blocks the loop makes ticks late, never lost: their fire times are durable. The LoopBlocked
event tells its author.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

from dutiful.core.cron.zone import epoch_ms
from dutiful.core.event import LoopBlocked

if TYPE_CHECKING:
    from dutiful.runtime.ports import Clock, Observer


class Watchdog:
    """Checks every `beat` seconds whether the loop turned; reports once per blockade."""

    def __init__(self, clock: Clock, observer: Observer, beat: float = 1.0) -> None:
        self._clock, self._observer, self._beat = clock, observer, beat
        self._loop = asyncio.get_running_loop()
        self._turned = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="dutiful-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch the running event loop."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; returns when the thread has ended."""
        self._stopped.set()
        self._turned.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(self._beat):
            self._turned.clear()
            # Check after clearing: a `stop` just before the clear has set the event that was cleared.
            if self._stopped.is_set() or not self._ask():
                return
            if not self._turned.wait(self._beat):
                self._report()
                self._turned.wait()

    def _ask(self) -> bool:
        """Schedule a callback on the loop, and return whether the loop still exists."""
        try:
            self._loop.call_soon_threadsafe(self._turned.set)
        except RuntimeError:
            return False
        return True

    def _report(self) -> None:
        task = asyncio.current_task(self._loop)
        name = task.get_name() if task is not None else "a callback of the event loop"
        # A broken observer must not end the watch.
        with contextlib.suppress(Exception):
            self._observer(LoopBlocked(epoch_ms(self._clock.now()), name, self._beat))
