"""Schedulers with a bounded life: around a block of async code, or beside a synchronous program."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread
import os
import sys
import threading
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from dutiful.declarative.scheduler import Scheduler, is_run_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from dutiful.declarative.registration import Registration


@asynccontextmanager
async def running(scheduler: Scheduler, registrations: Sequence[Registration]) -> AsyncIterator[Scheduler]:
    """Initialize the scheduler for the length of an `async with` block, and always stop it at the end.

    Raises the errors of `initialize`; a scheduler that was active before is left as it is.
    """
    # Outside the `try`: if the call itself raises, nothing has begun that could be stopped.
    initialized = scheduler.initialize(registrations)
    try:
        await initialized
        yield scheduler
    finally:
        await scheduler.stop()


def in_background(
    registrations: Sequence[Registration], store: str = "sqlite:dutiful.db", **settings: Any
) -> BackgroundScheduler:
    """Run the tasks on a thread with its own event loop, and return when they are durable.

    Takes the settings of `Scheduler`, and raises its errors and those of `initialize`.
    """
    return BackgroundScheduler(Scheduler(store, **settings), registrations)


class BackgroundScheduler:
    """A scheduler beside a synchronous program: `stop` it from any thread, or leave its `with` block."""

    def __init__(self, scheduler: Scheduler, registrations: Sequence[Registration]) -> None:
        self._scheduler = scheduler
        self._begun: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._asked = asyncio.Event()
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        # A daemon thread does not keep alive a program that ends without `stop`; `_stop_all` stops it then.
        self._thread = threading.Thread(
            target=self._live, args=(registrations,), name="dutiful-scheduler", daemon=True
        )
        try:
            self._thread.start()
            self._begun.result()
        except BaseException:
            # Also after a Ctrl-C, which leaves the thread at work: the caller gets no object to stop it by.
            self._ask_to_stop()
            if self._thread.is_alive():
                self._thread.join()
            raise
        _running.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Start no more runs, and return when the runs in flight have ended; a second call does nothing.

        May be called from any thread. A task that stops its own scheduler is not waited for: its call returns
        at once, and the stop completes after the task. Does nothing in a forked process, to which the thread
        does not carry over. Raises the errors of `Scheduler.stop`.
        """
        _running.discard(self)
        if os.getpid() != self._pid:
            return
        self._ask_to_stop()
        if self._is_called_by_task():
            return
        self._ended.result()
        self._thread.join()

    def _ask_to_stop(self) -> None:
        # A loop that is closed has been stopped by another call meanwhile, or could not begin.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._asked.set)

    def _is_called_by_task(self) -> bool:
        return threading.current_thread() is self._thread or is_run_of(self._scheduler)

    def _live(self, registrations: Sequence[Registration]) -> None:
        try:
            self._run_to_end(registrations)
            self._ended.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised in the waiting caller
            (self._ended if self._begun.done() else self._begun).set_exception(error)

    def _run_to_end(self, registrations: Sequence[Registration]) -> None:
        runner = asyncio.Runner(loop_factory=lambda: self._loop)
        try:
            runner.run(self._run(registrations))
        finally:
            # The loop starts a thread to wait for its thread pool. Python 3.12.0 and 3.12.1 cannot when the
            # program is ending; the loop is closed all the same, and Python itself waits for the pool.
            with suppress(RuntimeError):
                runner.close()

    async def _run(self, registrations: Sequence[Registration]) -> None:
        async with running(self._scheduler, registrations):
            self._begun.set_result(None)
            await self._asked.wait()


_running: set[BackgroundScheduler] = set()


def _stop_all() -> None:
    for scheduler in list(_running):
        try:
            scheduler.stop()
        except Exception as error:  # noqa: BLE001 - shown as an uncaught one; the others are stopped too
            sys.excepthook(type(error), error, error.__traceback__)


# Called when the main thread ends, before Python closes its thread pools, which runs in flight may need.
# `atexit` comes after that, and runs that began in between would fail. Hooks run in reverse order of their
# registration; importing `concurrent.futures.thread` registers the one that closes the pools.
getattr(threading, "_register_atexit", atexit.register)(_stop_all)
