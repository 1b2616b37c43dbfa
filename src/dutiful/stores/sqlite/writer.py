"""One thread that owns the connection and does all work on a database, in order.

All work that waits when the thread is free shares one transaction, and so one sync of the disk: the cost of
each piece of work falls as load rises.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dutiful.stores.sqlite.file import explained, is_garbled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

T = TypeVar("T")


class _Job(NamedTuple):
    work: Callable[[sqlite3.Connection], Any]
    writes: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class _Answer(NamedTuple):
    value: Any = None
    error: Exception | None = None


class Writer:
    """Runs functions on the connection, and resolves each one's future when its transaction is durable."""

    def __init__(
        self,
        path: str,
        connected: Callable[[], AbstractContextManager[sqlite3.Connection]],
        check: Callable[[], None],
    ) -> None:
        self._path, self._connected, self._check = path, connected, check
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()

    async def start(self) -> None:
        """Connect, or raise the error that prevents it."""
        started = _job(_end, writes=False)
        name = f"dutiful {self._path}"
        threading.Thread(target=self._run, args=(started,), name=name, daemon=True).start()
        try:
            await started.future
        except asyncio.CancelledError:
            # The caller was cancelled and will not use the connection.
            self.stop()
            raise

    def write(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Run `work` in a transaction that may write."""
        return self._submit(_job(work, writes=True))

    def read(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Run `work` on one consistent view of the database; it cannot write."""
        return self._submit(_job(work, writes=False))

    def stop(self) -> asyncio.Future[None]:
        """Finish the waiting work, then disconnect."""
        return self._submit(_job(_end, writes=False))

    def _submit(self, job: _Job) -> asyncio.Future[Any]:
        self._jobs.put(job)
        return job.future

    # On the thread

    def _run(self, started: _Job) -> None:
        with contextlib.ExitStack() as opened:
            try:
                connection = opened.enter_context(self._connected())
            except Exception as error:  # noqa: BLE001 - any error must reach the caller of `start`
                _deliver([started], [_Answer(error=explained(error, self._path))])
                return
            _deliver([started], [_Answer()])
            last = None
            while last is None:
                last = self._serve(connection)
        _deliver([last], [_Answer()])

    def _serve(self, connection: sqlite3.Connection) -> _Job | None:
        """Wait for jobs and do them; return the job that ends the thread, if it was among them.

        A separate function, so that no job stays referenced while the thread waits: a job may hold a million
        declared schedules.
        """
        jobs = self._take()
        waiting = [job for job in jobs if job.work is not _end and not job.future.cancelled()]
        if waiting:
            _deliver(waiting, self._answers(connection, waiting))
        return next((job for job in jobs if job.work is _end), None)

    def _take(self) -> list[_Job]:
        jobs = [self._jobs.get()]
        with contextlib.suppress(queue.Empty):
            while jobs[-1].work is not _end:
                jobs.append(self._jobs.get_nowait())
        return jobs

    def _answers(self, connection: sqlite3.Connection, jobs: Sequence[_Job]) -> list[_Answer]:
        """Return the answers to all jobs; jobs that met invalid UTF-8 are done again with escapes."""
        answers = self._transact(connection, jobs)
        garbled = [place for place, answer in enumerate(answers) if is_garbled(answer.error)]
        if garbled:
            # Only after a failure: a text factory in Python would make every pass a tenth slower.
            connection.text_factory = _escaped
            again = self._transact(connection, [jobs[place] for place in garbled])
            connection.text_factory = str
            for place, answer in zip(garbled, again, strict=True):
                answers[place] = answer
        return answers

    def _transact(self, connection: sqlite3.Connection, jobs: Sequence[_Job]) -> list[_Answer]:
        """Return the answers to all jobs; if the transaction is not committed, every answer is the error."""
        try:
            self._check()
            _begin(connection, writes=any(job.writes for job in jobs))
            if len(jobs) == 1:
                answers = [_Answer(jobs[0].work(connection))]
            else:
                answers = [self._attempt(connection, job) for job in jobs]
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the caller of `read` or `write` gets it
            _roll_back(connection)
            return [_Answer(error=explained(error, self._path)) for _ in jobs]
        return answers

    def _attempt(self, connection: sqlite3.Connection, job: _Job) -> _Answer:
        """Do one of several jobs; one that writes in a savepoint, so that its failure undoes no other job."""
        if job.writes:
            connection.execute("SAVEPOINT job")
        try:
            answer = _Answer(job.work(connection))
        except Exception as error:
            # After some failures, such as a full disk, SQLite rolls back the whole transaction.
            if not connection.in_transaction:
                raise
            if job.writes:
                connection.execute("ROLLBACK TO job")
            answer = _Answer(error=explained(error, self._path))
        if job.writes:
            connection.execute("RELEASE job")
        return answer


def _end(_: sqlite3.Connection) -> None:
    """Do nothing: marks the job that ends the thread."""


def _escaped(text: bytes) -> str:
    # Readable wherever it is shown; the checksum of the row no longer matches, which marks it damaged.
    return text.decode("utf-8", "backslashreplace")


def _job(work: Callable[[sqlite3.Connection], Any], *, writes: bool) -> _Job:
    loop = asyncio.get_running_loop()
    return _Job(work, writes, loop, loop.create_future())


def _begin(connection: sqlite3.Connection, *, writes: bool) -> None:
    # A transaction that began as a read may fail to start writing at once, whatever the busy timeout: refuse
    # that.
    connection.execute(f"PRAGMA query_only = {int(not writes)}")
    connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")


def _roll_back(connection: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _deliver(jobs: Sequence[_Job], answers: Sequence[_Answer]) -> None:
    by_loop = defaultdict[asyncio.AbstractEventLoop, list[tuple[_Job, _Answer]]](list)
    for job, answer in zip(jobs, answers, strict=True):
        by_loop[job.loop].append((job, answer))
    for loop, pairs in by_loop.items():
        # A closed loop has no waiting callers.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, pairs)


def _settle(pairs: Sequence[tuple[_Job, _Answer]]) -> None:
    for job, answer in pairs:
        if job.future.done():
            continue
        if answer.error is None:
            job.future.set_result(answer.value)
        else:
            job.future.set_exception(answer.error)
