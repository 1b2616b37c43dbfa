"""What receivers of all queues share: how many runs at once, and how they stop."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dutiful.receivers.delivery import BadMessageError
from dutiful.receivers.report import Reports
from dutiful.receivers.work import Settled, Work
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dutiful.receivers.delivery import Delivery
    from dutiful.receivers.seen import Seen
    from dutiful.runtime.ports import Clock

_log = logging.getLogger("dutiful.receivers")
_PAUSE_S = 0.5
SILENT_S = 30.0
# How long a message waits that another consumer is at work on.
LATER_S = 5.0
M = TypeVar("M")


class Receiver(Generic[M]):
    """Takes messages of a queue and does their work; subclasses know the queue.

    `handle(delivery)` is an async function, or a plain one, which is called on a thread. `service` is the
    URL to report to, `token` what it wants to see, `secret` what messages must be signed with.
    """

    def __init__(
        self,
        url: str,
        handle: Callable[[Delivery], Any],
        *,
        seen: Seen,
        service: str | None = None,
        token: str | Callable[[], str] | None = None,
        secret: str | None = None,
        concurrency: int = 8,
        silent: float = SILENT_S,
        clock: Clock | None = None,
    ) -> None:
        self._url, self._secret, self._concurrency = url, secret, concurrency
        # A message whose consumer has been silent for this long is delivered to another one.
        self._silent = silent
        self._clock = clock or SystemClock()
        self._seen = seen
        self._work = Work(handle, seen, Reports(service, token, self._clock))
        self._active: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Receive until `stop` is called, and then finish the runs that have begun.

        A broker that is away is waited for. When this call is cancelled, the runs that have begun are
        cancelled too, and their messages are delivered again.
        """
        try:
            await self._seen.prepare()
            while not self._stopping.is_set():
                try:
                    await self._receive()
                except self._errors() as error:
                    _log.warning("the queue does not answer, trying again: %s", error)
                    await self._clock.sleep(_PAUSE_S)
            await asyncio.gather(*self._active)
        finally:
            await self._end()

    def stop(self) -> None:
        """Take no more messages; `run` returns when the runs that have begun are done."""
        self._stopping.set()

    async def _receive(self) -> None:
        """Connect and start the work of messages until told to stop; raises what `_errors` names."""
        raise NotImplementedError

    def _errors(self) -> tuple[type[Exception], ...]:
        """Return what the client raises when the broker is away."""
        raise NotImplementedError

    def _read(self, message: M) -> Delivery:
        """Return the run of a message; raises BadMessageError."""
        raise NotImplementedError

    async def _alive(self, message: M) -> None:
        """Tell the queue that the work of a message goes on."""
        raise NotImplementedError

    async def _acknowledge(self, message: M) -> None:
        """Tell the queue that a message is done with."""
        raise NotImplementedError

    async def _put_back(self, message: M) -> None:
        """Tell the queue to deliver a message again later."""
        raise NotImplementedError

    async def _disconnect(self) -> None:
        raise NotImplementedError

    async def _room(self) -> int:
        """Return how many more runs may begin, at least one, as soon as there is room or a stop."""
        while len(self._active) >= self._concurrency:
            await asyncio.wait(self._active, return_when=asyncio.FIRST_COMPLETED)
        return self._concurrency - len(self._active)

    def _begin(self, messages: Iterable[M]) -> None:
        for message in messages:
            task = asyncio.create_task(self._settle(message), name="dutiful-delivery")
            self._active.add(task)
            task.add_done_callback(self._active.discard)

    async def _settle(self, message: M) -> None:
        try:
            settled = await self._done(message)
            if settled is Settled.ACKNOWLEDGE:
                await self._acknowledge(message)
            else:
                await self._put_back(message)
        except self._errors() as error:
            # The queue will deliver the message again, and the seen store knows what was done.
            _log.warning("a message could not be acknowledged: %s", error)

    async def _done(self, message: M) -> Settled:
        try:
            delivery = self._read(message)
        except BadMessageError as error:
            _log.error("a message is dropped: %s", error)
            return Settled.ACKNOWLEDGE
        keeping = asyncio.create_task(self._keep_alive(message))
        try:
            return await self._work.do(delivery)
        finally:
            keeping.cancel()

    async def _keep_alive(self, message: M) -> None:
        while True:
            await self._clock.sleep(self._silent / 3)
            with suppress(*self._errors()):
                await self._alive(message)

    async def _end(self) -> None:
        for task in self._active:
            task.cancel()
        await asyncio.gather(*self._active, return_exceptions=True)
        await self._disconnect()
        await self._seen.close()
