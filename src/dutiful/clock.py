"""The clock: the one place that reads the wall clock."""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

if TYPE_CHECKING:
    import asyncio

# Timers do not hear of a wall clock that is set, nor of a host that slept: look at it this often.
_NAP = 1.0


def local_zone() -> tzinfo:
    """Return the host's zone: $TZ, else what /etc/localtime points to, else UTC."""
    named = os.environ.get("TZ", "").removeprefix(":")
    link = os.path.realpath("/etc/localtime")
    name = named or link.partition("/zoneinfo/")[2]
    try:
        return ZoneInfo(name) if name else UTC
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return UTC


class SystemClock:
    """The host's clock."""

    def __init__(self) -> None:
        self.timezone = local_zone()

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that only move forward."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        # Here, because the command line reads this clock and has no use for an event loop.
        import asyncio

        await asyncio.sleep(seconds)

    async def wait(self, woken: asyncio.Future[None], seconds: float) -> None:
        """Return when `woken` is done, or after so many seconds, or after a short nap."""
        import asyncio

        await asyncio.wait([woken], timeout=min(seconds, _NAP))

    def hold(self) -> AbstractContextManager[None]:
        """Real time cannot be held."""
        return nullcontext()
