"""A lease that is renewed for as long as a block runs."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from dutiful.runtime.ports import Clock

_log = logging.getLogger("dutiful.receivers")


@asynccontextmanager
async def renewing(renew: Callable[[], Awaitable[object]], lease: float, clock: Clock) -> AsyncIterator[None]:
    """Call `renew` three times a lease; a call that fails is logged, and the next one may succeed."""

    async def again_and_again() -> None:
        while True:
            await clock.sleep(lease / 3)
            try:
                await renew()
            except Exception as error:  # noqa: BLE001 - the errors of every broker and database
                _log.warning("a lease could not be renewed: %s", error)

    task = asyncio.create_task(again_and_again(), name="dutiful-lease")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
