"""What every receiver does with a delivery: ask whether it is new, do the work, report, acknowledge."""

from __future__ import annotations

import asyncio
import inspect
import logging
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from dutiful.core.plan.outcome import raised
from dutiful.receivers.seen import Answer, Claim, TaskFailedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dutiful.receivers.delivery import Delivery
    from dutiful.receivers.report import Reports
    from dutiful.receivers.seen import Seen

_log = logging.getLogger("dutiful.receivers")


class Settled(Enum):
    """What becomes of the message."""

    ACKNOWLEDGE = auto()
    LATER = auto()


class Work:
    """Calls `handle(delivery)` for each run that is new."""

    def __init__(self, handle: Callable[[Delivery], Any], seen: Seen, reports: Reports) -> None:
        self._handle, self._seen, self._reports = handle, seen, reports

    async def do(self, delivery: Delivery) -> Settled:
        """Return what becomes of the message, after the service has answered the report."""
        try:
            claim = await self._claimed(delivery)
        except TaskFailedError as error:
            claim = Claim(Answer.DONE, str(error))
        except Exception:  # noqa: BLE001 - every database has errors of its own
            # The seen store did not answer: whether the work is done is found out with the next delivery.
            _log.exception("run %s is left for later", delivery.key)
            return Settled.LATER
        if claim.answer is Answer.BUSY:
            return Settled.LATER
        if claim.answer is not Answer.OLDER:
            status = "SUCCESS" if claim.error is None else "FAILED"
            await self._reports.send(delivery.key, delivery.attempt, status, claim.error)
        return Settled.ACKNOWLEDGE

    async def _claimed(self, delivery: Delivery) -> Claim:
        """Return the answer for this delivery, after its work where it was new; raises TaskFailedError."""
        async with self._seen.once(delivery.key, delivery.attempt) as claim:
            if claim.answer is not Answer.NEW:
                return claim
            started = asyncio.create_task(self._reports.send(delivery.key, delivery.attempt, "STARTED"))
            try:
                await self._call(delivery._replace(connection=claim.connection))
            finally:
                started.cancel()
                with suppress(asyncio.CancelledError):
                    await started
        return Claim(Answer.DONE)

    async def _call(self, delivery: Delivery) -> None:
        try:
            if inspect.iscoroutinefunction(self._handle):
                await self._handle(delivery)
            elif inspect.isawaitable(answer := await asyncio.to_thread(self._handle, delivery)):
                await answer
        except Exception as error:
            _log.exception("run %s failed", delivery.key)
            raise TaskFailedError(raised(error).detail or type(error).__name__) from error
