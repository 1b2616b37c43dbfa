"""A worker in a process of its own, so that no request can delay a tick.

Threads of one Python process take turns: while one of them answers requests, the worker's thread loses its
turn at every system call, and a tick needs hundreds of them. Two processes share the processors instead.

The two ends of a socket, the lifeline, belong to the process that answers requests and to the worker. The
first line is the import path of the parent as JSON, so that `python:` executors are found by both. Then the
worker takes one word per line and answers each word except `wake` with one JSON object per line. When the
lifeline ends, the worker ends at once, however its parent died.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dutiful.core.errors import DutifulError
from dutiful.service.types import Health

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dutiful.runtime.ports import Clock
    from dutiful.service.metrics import Samples

logger = logging.getLogger("dutiful.service")
# The worker is asked how it is, and must answer within this time (s).
_ANSWER_WITHIN_S = 5.0
# Seconds beyond the drain that the worker may take to stop.
_STOP_WITHIN_S = 10.0
# A worker that ended is started again after the first pause (s); the pause doubles up to the last one.
_PAUSE_S, _PAUSE_MAX_S = 1.0, 30.0
# A worker that lived this long (s) is started again after the first pause.
_LIVED_S = 60.0
_LINE_MAX = 16 * 1024 * 1024


class WorkerProcessError(DutifulError):
    """The worker process cannot start, or it ended."""


class Report(NamedTuple):
    """The state of a worker: its health and its metrics."""

    health: Health
    samples: Samples


class WorkerProcess:
    """The worker of a service, in a child process that is started again whenever it ends.

    `command` starts the child; the number of its end of the lifeline is added as the last argument.
    """

    def __init__(self, command: Sequence[str], clock: Clock, drain_s: float) -> None:
        self._command, self._clock, self._patience = command, clock, drain_s + _STOP_WITHIN_S
        self._process: asyncio.subprocess.Process | None = None
        # Answers that are awaited, by the word that asks for them.
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._keeping: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Return the process number of the worker, None before it is spawned."""
        return None if self._process is None else self._process.pid

    async def spawn(self) -> None:
        """Start the process without letting it work yet: it may load while the caller prepares the rest."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                str(theirs.fileno()),
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
            )
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=_LINE_MAX)
        self._writer.write(json.dumps(sys.path).encode() + b"\n")
        self._hearing = asyncio.create_task(self._hear(reader), name="dutiful-worker-lifeline")

    async def start(self) -> None:
        """Let the worker open its store and fire; raises WorkerProcessError when it cannot."""
        if self._process is None:
            await self.spawn()
        await self._ask("start")
        self._keeping = asyncio.create_task(self._keep(), name="dutiful-worker-process")

    async def stop(self) -> list[str]:
        """Drain the worker and end its process; return the schedules whose runs were cut short."""
        if self._process is None:
            return []
        cut: list[str] = []
        if self._keeping is not None:
            self._keeping.cancel()
            try:
                cut = await asyncio.wait_for(self._ask("stop"), self._patience)
            except WorkerProcessError:
                logger.warning("the worker process had ended before the stop")
            except TimeoutError:
                logger.error("the worker process did not stop in %g s; it is killed", self._patience)  # noqa: TRY400 - nothing was raised there
                self._process.kill()
        # The worker ends when its lifeline does, at once if it has not stopped.
        self._writer.close()
        await self._process.wait()
        self._process = None
        return cut

    def wake(self) -> None:
        """Make the worker pass at once."""
        if self._process is not None and not self._hearing.done():
            self._writer.write(b"wake\n")

    async def report(self) -> Report:
        """Return the health of the worker and its metrics; those of a dead or hanging worker are empty."""
        try:
            told = await asyncio.wait_for(self._ask("report"), _ANSWER_WITHIN_S)
        except WorkerProcessError:
            return Report(Health(False, False, None, "the worker process is being started"), [])
        except TimeoutError:
            silent = f"the worker process has not answered for {_ANSWER_WITHIN_S:.0f} s"
            return Report(Health(False, False, None, silent), [])
        return Report(_health(told["health"]), told["samples"])

    async def _ask(self, word: str) -> Any:
        """Return the worker's answer to a word; callers that ask at the same time share one answer."""
        if self._process is None or self._hearing.done():
            raise WorkerProcessError("The worker process has ended")
        if word not in self._answers:
            self._answers[word] = asyncio.get_running_loop().create_future()
            self._writer.write(f"{word}\n".encode())
        return await asyncio.shield(self._answers[word])

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        """Pass answers on to the callers that wait for them, until the worker's end of the lifeline ends."""
        with suppress(ConnectionError):
            while line := await reader.readline():
                told = json.loads(line)
                if "error" in told:
                    self._fail(told["word"], told["error"])
                else:
                    self._answers.pop(told["word"]).set_result(told["answer"])
        for word in [*self._answers]:
            self._fail(word, "The worker process has ended; its log tells why")

    def _fail(self, word: str, problem: str) -> None:
        waiting = self._answers.pop(word)
        waiting.set_exception(WorkerProcessError(problem))
        # Retrieve the error: after a timeout no caller does, and asyncio would log it as never retrieved.
        waiting.exception()

    async def _keep(self) -> None:
        """Start the worker again whenever it ends, without end."""
        pause, began = _PAUSE_S, self._clock.monotonic()
        while True:
            # Not awaited itself: `stop` cancels this task, and must still hear the worker.
            await asyncio.wait([self._hearing])
            assert self._process is not None
            status = await self._process.wait()
            if self._clock.monotonic() - began >= _LIVED_S:
                pause = _PAUSE_S
            logger.error("the worker process ended with status %d; starting it in %g s", status, pause)
            await self._clock.sleep(pause)
            pause, began = min(2 * pause, _PAUSE_MAX_S), self._clock.monotonic()
            await self.spawn()
            try:
                await self._ask("start")
            except WorkerProcessError as error:
                logger.error("the worker process cannot start: %s", error)  # noqa: TRY400 - the text suffices
                self._writer.close()


def _health(told: dict[str, Any]) -> Health:
    passed_at = told["last_pass_at"]
    return Health(
        **{**told, "last_pass_at": None if passed_at is None else datetime.fromisoformat(passed_at)}
    )


class Firing(Protocol):
    """What a parent process can ask of the service that fires for it."""

    async def start(self) -> object:
        """Open the store and fire."""

    async def stop(self) -> list[str]:
        """Drain; return the schedules whose runs were cut short."""

    def wake(self) -> None:
        """Pass at once."""

    async def health(self) -> Health:
        """Return whether the service is healthy."""

    def samples(self) -> Samples:
        """Return the metrics as plain values."""


class Lifeline:
    """The worker's end of the lifeline: does what the parent process says until the lifeline ends."""

    def __init__(self, descriptor: int, make_service: Callable[[], Firing]) -> None:
        self._socket, self._make_service = socket.socket(fileno=descriptor), make_service
        self._doing: set[asyncio.Task[None]] = set()
        self._is_stopped = False

    async def obey(self) -> None:
        """Return after a stop; end the process as a crash would when the parent is gone without one."""
        reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=_LINE_MAX)
        with suppress(ConnectionError):
            if path := await reader.readline():
                sys.path[:] = json.loads(path)
                self._service = self._made()
            while line := await reader.readline():
                if line == b"wake\n":
                    if not isinstance(self._service, DutifulError):
                        self._service.wake()
                    continue
                # In tasks: while a drain takes its time, the end of the lifeline must still be noticed.
                doing = asyncio.create_task(self._do(line.decode().strip()))
                self._doing.add(doing)
                doing.add_done_callback(self._doing.discard)
        if not self._is_stopped:
            os._exit(1)

    def _made(self) -> Firing | DutifulError:
        """Return the service, or the error that prevented it, which is sent to the parent process."""
        try:
            return self._make_service()
        except DutifulError as error:
            return error

    async def _do(self, word: str) -> None:
        try:
            told = {"word": word, "answer": await self._answer(word)}
        except DutifulError as error:
            told = {"word": word, "error": str(error)}
        self._writer.write(json.dumps(told, default=str).encode() + b"\n")

    async def _answer(self, word: str) -> Any:
        service = self._service
        if isinstance(service, DutifulError):
            raise service
        match word:
            case "start":
                await service.start()
            case "report":
                health = await service.health()
                return {"health": health._asdict(), "samples": service.samples()}
            case "stop":
                cut = await service.stop()
                self._is_stopped = True
                return cut
        return None
