"""The clock: the one place that reads the wall clock."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime

# Timers do not hear of a wall clock that is set, nor of a host that slept: look at it this often.
_NAP = 1.0


class SystemClock:
    """The host's clock."""

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that only move forward."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        await asyncio.sleep(seconds)

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Return when the event is set, or after so many seconds, or after a short nap."""
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), min(seconds, _NAP))

    def hold(self) -> AbstractContextManager[None]:
        """Real time cannot be held."""
        return nullcontext()
