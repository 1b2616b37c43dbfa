"""The clock: the one place that reads the wall clock."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractContextManager, nullcontext
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

    async def wait(self, woken: asyncio.Future[None], seconds: float) -> None:
        """Return when `woken` is done, or after so many seconds, or after a short nap."""
        await asyncio.wait([woken], timeout=min(seconds, _NAP))

    def hold(self) -> AbstractContextManager[None]:
        """Real time cannot be held."""
        return nullcontext()
