"""Which runs a consumer has done: the rule that judges a delivery, and `SqliteSeen`, which uses a file."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol
from uuid import uuid4

from dutiful.core.errors import DutifulError
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from dutiful.runtime.ports import Clock


# At least as long as a service keeps its ledger (30 days), and one day more for late messages.
KEEP_S = 31 * 86_400.0
LEASE_S = 60.0


class Answer(StrEnum):
    """What a consumer must do with a delivery."""

    NEW = "new"
    """Do the work now."""
    DONE = "done"
    """The work has ended: report that again, and acknowledge the message."""
    BUSY = "busy"
    """Another consumer is at work: leave the message and look again later."""
    OLDER = "older"
    """A later attempt has been seen: acknowledge the message and do nothing."""


class Claim(NamedTuple):
    """The answer for one delivery; `error` is the failure of an attempt already recorded as failed."""

    answer: Answer
    error: str | None = None
    connection: Any = None
    starts: int = 0
    """How often the work has been started, this start included, if the answer is NEW."""


class TaskFailedError(DutifulError):
    """The consumer's own code raised; the text of this error is reported."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, problem=problem)


class Seen(Protocol):
    """Durable memory of a consumer."""

    async def prepare(self) -> None:
        """Make ready for use; may be called again."""

    def once(self, key: str, attempt: int) -> AbstractAsyncContextManager[Claim]:
        """Claim a delivery for as long as the block runs.

        When the block of a NEW delivery ends, the key is recorded as done. When the block raises
        TaskFailedError, the attempt is recorded as failed, so that only a higher attempt is NEW. When it
        raises anything else, nothing is recorded. The exception goes on in both cases.
        """

    async def close(self) -> None:
        """Close the connections."""


class Record(NamedTuple):
    """The record of a key in the seen store."""

    state: Literal["busy", "done", "failed"]
    attempt: int
    until: int = 0
    """When the lease of a busy consumer ends, in epoch milliseconds."""
    error: str | None = None
    starts: int = 1
    """How often the work has been started."""


def judge(record: Record | None, attempt: int, now: int) -> Claim:
    """Return the answer for a delivery of this attempt."""
    if record is None:
        return Claim(Answer.NEW, starts=1)
    if record.state == "done":
        return Claim(Answer.DONE)
    if attempt < record.attempt:
        return Claim(Answer.OLDER)
    if record.state == "failed" and attempt == record.attempt:
        return Claim(Answer.DONE, record.error)
    if record.state == "busy" and now < record.until:
        return Claim(Answer.BUSY)
    return Claim(Answer.NEW, starts=record.starts + 1)


_log = logging.getLogger("dutiful.receivers")


@asynccontextmanager
async def renewing(renew: Callable[[], Awaitable[object]], lease: float, clock: Clock) -> AsyncIterator[None]:
    """Call `renew` three times per lease; a failed call is logged, and the next one may succeed."""

    async def again_and_again() -> None:
        while True:
            await clock.sleep(lease / 3)
            try:
                await renew()
            except Exception as error:  # noqa: BLE001 - brokers and databases have their own errors
                _log.warning("a lease could not be renewed: %s", error)

    task = asyncio.create_task(again_and_again(), name="dutiful-lease")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


_TABLE = """CREATE TABLE IF NOT EXISTS dutiful_seen (
  key TEXT PRIMARY KEY, state TEXT NOT NULL, attempt INTEGER NOT NULL, until INTEGER NOT NULL,
  error TEXT, starts INTEGER NOT NULL, token TEXT NOT NULL, updated_at INTEGER NOT NULL)
  STRICT, WITHOUT ROWID"""
_PUT = "INSERT OR REPLACE INTO dutiful_seen VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class SqliteSeen:
    """Records keys in a file, shared by all consumers of one machine.

    A consumer at work holds a lease, which is renewed while it lives. An effect may repeat if a consumer is
    killed between the effect and the record.
    """

    def __init__(
        self, path: str | Path, *, lease: float = LEASE_S, keep: float = KEEP_S, clock: Clock | None = None
    ) -> None:
        self._path, self._lease, self._keep = path, lease, keep
        self._clock = clock or SystemClock()

    async def prepare(self) -> None:
        """Create the table if it is missing, and forget keys that are older than `keep`."""
        await asyncio.to_thread(self._prepare)

    @asynccontextmanager
    async def once(self, key: str, attempt: int) -> AsyncIterator[Claim]:
        """Claim a delivery as `Seen.once` says."""
        token = uuid4().hex
        claim = await asyncio.to_thread(self._claim, key, attempt, token)
        if claim.answer is not Answer.NEW:
            yield claim
            return
        try:
            async with renewing(lambda: asyncio.to_thread(self._renew, key, token), self._lease, self._clock):
                yield claim
        except TaskFailedError as error:
            await asyncio.to_thread(self._end, key, attempt, claim.starts, token, "failed", str(error))
            raise
        except BaseException:
            await asyncio.to_thread(self._release, key, token)
            raise
        await asyncio.to_thread(self._end, key, attempt, claim.starts, token, "done", None)

    async def close(self) -> None:
        """Do nothing: each call opens the file anew, so that any thread may call."""

    def _prepare(self) -> None:
        with self._writing() as database:
            database.execute(_TABLE)
            oldest = self._clock.epoch_ms() - round(self._keep * 1000)
            database.execute("DELETE FROM dutiful_seen WHERE updated_at < ?", (oldest,))

    def _claim(self, key: str, attempt: int, token: str) -> Claim:
        now = self._clock.epoch_ms()
        with self._writing() as database:
            found = database.execute(
                "SELECT state, attempt, until, error, starts FROM dutiful_seen WHERE key = ?", (key,)
            ).fetchone()
            claim = judge(None if found is None else Record(*found), attempt, now)
            if claim.answer is Answer.NEW:
                until = now + round(self._lease * 1000)
                row = (key, "busy", attempt, until, None, claim.starts, token, now)
                database.execute(_PUT, row)
        return claim

    def _renew(self, key: str, token: str) -> None:
        until = self._clock.epoch_ms() + round(self._lease * 1000)
        with self._writing() as database:
            database.execute(
                "UPDATE dutiful_seen SET until = ? WHERE key = ? AND token = ? AND state = 'busy'",
                (until, key, token),
            )

    def _end(self, key: str, attempt: int, starts: int, token: str, state: str, error: str | None) -> None:
        with self._writing() as database:
            holds = database.execute(
                "SELECT 1 FROM dutiful_seen WHERE key = ? AND token = ?", (key, token)
            ).fetchone()
            # Finished work counts even if the lease was lost; a failure after losing the lease does not.
            if holds or state == "done":
                database.execute(_PUT, (key, state, attempt, 0, error, starts, token, self._clock.epoch_ms()))

    def _release(self, key: str, token: str) -> None:
        """End the lease and keep the attempt, so that earlier attempts stay refused."""
        with self._writing() as database:
            database.execute("UPDATE dutiful_seen SET until = 0 WHERE key = ? AND token = ?", (key, token))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("BEGIN IMMEDIATE")
            with database:
                yield database
