"""One thread that owns the connection and does all the work on a database, in its order.

Whatever waits when the thread is free shares one transaction, and so one sync of the disk: the
busier it gets, the less each piece of work costs.
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
    """Runs closures over the connection and answers each one's future when it is durable."""

    def __init__(
        self, path: str, connect: Callable[[], sqlite3.Connection], check: Callable[[], None]
    ) -> None:
        self._path, self._connect, self._check = path, connect, check
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()

    async def start(self) -> None:
        """Connect, or raise what keeps the database from being used."""
        started = _job(_end, writes=False)
        name = f"dutiful {self._path}"
        threading.Thread(target=self._run, args=(started,), name=name, daemon=True).start()
        try:
            await started.future
        except asyncio.CancelledError:
            # Nobody will use the connection that is being made.
            self.stop()
            raise

    def write(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Have `work` done in a transaction that may write."""
        return self._submit(_job(work, writes=True))

    def read(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Have `work` done on one unchanging view of the database; it cannot write."""
        return self._submit(_job(work, writes=False))

    def stop(self) -> asyncio.Future[None]:
        """Do what is waiting, then disconnect."""
        return self._submit(_job(_end, writes=False))

    def _submit(self, job: _Job) -> asyncio.Future[Any]:
        self._jobs.put(job)
        return job.future

    # On the thread

    def _run(self, started: _Job) -> None:
        try:
            connection = self._connect()
        except Exception as error:  # noqa: BLE001 - whatever it is, who waits for the start must hear it
            _deliver([started], [_Answer(error=explained(error, self._path))])
            return
        _deliver([started], [_Answer()])
        last = None
        while last is None:
            last = self._serve(connection)
        connection.close()
        _deliver([last], [_Answer()])

    def _serve(self, connection: sqlite3.Connection) -> _Job | None:
        """Wait for jobs and do them; return the last of all, if it was among them.

        A call of its own, so that nothing of a job is held on to while waiting for the next: a million
        schedules that were declared would be.
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
        """Return the answers to all jobs; those that met bytes that are no text are done once more."""
        answers = self._transact(connection, jobs)
        garbled = [place for place, answer in enumerate(answers) if is_garbled(answer.error)]
        if garbled:
            # Not always: a function of Python for each text would make the passes a tenth slower.
            connection.text_factory = _escaped
            again = self._transact(connection, [jobs[place] for place in garbled])
            connection.text_factory = str
            for place, answer in zip(garbled, again, strict=True):
                answers[place] = answer
        return answers

    def _transact(self, connection: sqlite3.Connection, jobs: Sequence[_Job]) -> list[_Answer]:
        """Return the answers to all jobs, none of which is good unless the transaction was committed."""
        try:
            self._check()
            _begin(connection, writes=any(job.writes for job in jobs))
            if len(jobs) == 1:
                answers = [_Answer(jobs[0].work(connection))]
            else:
                answers = [self._attempt(connection, job) for job in jobs]
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - it is raised where the work was asked for
            _roll_back(connection)
            return [_Answer(error=explained(error, self._path)) for _ in jobs]
        return answers

    def _attempt(self, connection: sqlite3.Connection, job: _Job) -> _Answer:
        """Do one of several jobs, so that its failure undoes nothing of the others."""
        connection.execute("SAVEPOINT job")
        try:
            answer = _Answer(job.work(connection))
        except Exception as error:
            # Some failures, such as a full disk, make SQLite give up the whole transaction.
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO job")
            answer = _Answer(error=explained(error, self._path))
        connection.execute("RELEASE job")
        return answer


def _end(_: sqlite3.Connection) -> None:
    """Mark the last job."""


def _escaped(text: bytes) -> str:
    # Legible wherever it is shown, and no longer what the checksum of its row was made of.
    return text.decode("utf-8", "backslashreplace")


def _job(work: Callable[[sqlite3.Connection], Any], *, writes: bool) -> _Job:
    loop = asyncio.get_running_loop()
    return _Job(work, writes, loop, loop.create_future())


def _begin(connection: sqlite3.Connection, *, writes: bool) -> None:
    # A read that turned into a write half-way could fail where no busy timeout helps: it cannot.
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
        # A loop that is closed has nobody waiting in it.
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
