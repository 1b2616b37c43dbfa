"""The parts that receivers of all queues share: concurrency, settling of messages, and stopping."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dutiful.receivers.delivery import BadMessageError, Delivery, Reports, Settled, Work
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dutiful.receivers.delivery import Envelope
    from dutiful.receivers.seen import Seen
    from dutiful.runtime.ports import Clock

_log = logging.getLogger("dutiful.receivers")
_PAUSE_S = 0.5
# A message whose consumer was silent for this long (s) is delivered to another one.
SILENT_S = 30.0
# Seconds after which a message is tried again while another consumer works on it.
LATER_S = 5.0
M = TypeVar("M")


class Queue(Protocol[M]):
    """The queue of a receiver, with messages of its client's own type `M`.

    All methods raise the `errors` while the broker is away; the next call connects again.
    """

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of the client while the broker is away."""

    async def take(self, room: int) -> Sequence[M]:
        """Return at most `room` messages; waits about a second for the first one."""

    def open(self, message: M) -> Envelope:
        """Return the content of a message."""

    async def keep(self, message: M) -> None:
        """Tell the broker that the work of a message goes on."""

    async def acknowledge(self, message: M) -> None:
        """Tell the broker that a message is done with."""

    async def put_back(self, message: M) -> None:
        """Have a message delivered again later."""

    async def close(self) -> None:
        """Close the connections."""


class Receiver(Generic[M]):
    """Takes messages of a queue and does their work.

    `handle(delivery)` is an async function, or a plain one, which is called on a thread. Reports go to the
    URL `service` with this `token`; messages must be signed with `secret`.
    """

    def __init__(
        self,
        queue: Queue[M],
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
        self._queue, self._secret, self._concurrency, self._silent = queue, secret, concurrency, silent
        self._clock = clock or SystemClock()
        self._seen = seen
        self._work = Work(handle, seen, Reports(service, token, self._clock))
        self._active: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._problem: str | None = None

    async def run(self) -> None:
        """Receive until `stop` is called, and then finish the runs that have begun.

        While the broker is away, waits for it. When this call is cancelled, the runs that have begun are
        cancelled too, and their messages are delivered again.
        """
        try:
            await self._seen.prepare()
            while not self._stopping.is_set():
                await self._receive()
            await asyncio.gather(*self._active)
        finally:
            await self._end()

    def stop(self) -> None:
        """Take no more messages; `run` returns when the runs that have begun are done."""
        self._stopping.set()

    async def _receive(self) -> None:
        while len(self._active) >= self._concurrency:
            await asyncio.wait(self._active, return_when=asyncio.FIRST_COMPLETED)
        try:
            messages = await self._queue.take(self._concurrency - len(self._active))
        except self._queue.errors as error:
            self._tell(str(error) or type(error).__name__)
            await self._clock.sleep(_PAUSE_S)
            return
        self._tell(None)
        for message in messages:
            task = asyncio.create_task(self._settle(message), name="dutiful-delivery")
            self._active.add(task)
            task.add_done_callback(self._active.discard)

    def _tell(self, problem: str | None) -> None:
        """Log why the queue does not answer, once for each problem, and when it answers again."""
        if problem is not None and problem != self._problem:
            _log.warning("the queue does not answer, trying again: %s", problem)
        elif problem is None and self._problem is not None:
            _log.info("the queue answers again")
        self._problem = problem

    async def _settle(self, message: M) -> None:
        try:
            if await self._done(message) is Settled.ACKNOWLEDGE:
                await self._queue.acknowledge(message)
            else:
                await self._queue.put_back(message)
        except self._queue.errors as error:
            # The queue will deliver the message again, and the seen store knows that its work is done.
            _log.warning("a message could not be acknowledged: %s", error)

    async def _done(self, message: M) -> Settled:
        try:
            delivery = Delivery.read(self._queue.open(message), self._secret)
        except BadMessageError as error:
            _log.error("a message is dropped: %s", error)
            return Settled.ACKNOWLEDGE
        keeping = asyncio.create_task(self._keep(message))
        try:
            return await self._work.do(delivery)
        finally:
            keeping.cancel()

    async def _keep(self, message: M) -> None:
        while True:
            await self._clock.sleep(self._silent / 3)
            with suppress(*self._queue.errors):
                await self._queue.keep(message)

    async def _end(self) -> None:
        for task in self._active:
            task.cancel()
        await asyncio.gather(*self._active, return_exceptions=True)
        await self._queue.close()
        await self._seen.close()
