"""Which runs the consumers of one machine have done, in a SQLite file."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import asynccontextmanager, closing, contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from dutiful.receivers.lease import renewing
from dutiful.receivers.seen import KEEP_S, LEASE_S, Answer, Claim, Record, TaskFailedError, judge
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from dutiful.runtime.ports import Clock

_TABLE = """CREATE TABLE IF NOT EXISTS dutiful_seen (
  key TEXT PRIMARY KEY, state TEXT NOT NULL, attempt INTEGER NOT NULL, until INTEGER NOT NULL,
  error TEXT, token TEXT NOT NULL, updated_at INTEGER NOT NULL) STRICT, WITHOUT ROWID"""
_PUT = "INSERT OR REPLACE INTO dutiful_seen VALUES (?, ?, ?, ?, ?, ?, ?)"


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
            await asyncio.to_thread(self._end, key, attempt, token, "failed", str(error))
            raise
        except BaseException:
            await asyncio.to_thread(self._release, key, token)
            raise
        await asyncio.to_thread(self._end, key, attempt, token, "done", None)

    async def close(self) -> None:
        """Do nothing: each question opens the file anew, so that it may be asked from any thread."""

    def _prepare(self) -> None:
        with self._writing() as database:
            database.execute(_TABLE)
            oldest = self._clock.epoch_ms() - round(self._keep * 1000)
            database.execute("DELETE FROM dutiful_seen WHERE updated_at < ?", (oldest,))

    def _claim(self, key: str, attempt: int, token: str) -> Claim:
        now = self._clock.epoch_ms()
        with self._writing() as database:
            found = database.execute(
                "SELECT state, attempt, until, error FROM dutiful_seen WHERE key = ?", (key,)
            ).fetchone()
            claim = judge(None if found is None else Record(*found), attempt, now)
            if claim.answer is Answer.NEW:
                row = (key, "busy", attempt, now + round(self._lease * 1000), None, token, now)
                database.execute(_PUT, row)
        return claim

    def _renew(self, key: str, token: str) -> None:
        until = self._clock.epoch_ms() + round(self._lease * 1000)
        with self._writing() as database:
            database.execute(
                "UPDATE dutiful_seen SET until = ? WHERE key = ? AND token = ? AND state = 'busy'",
                (until, key, token),
            )

    def _end(self, key: str, attempt: int, token: str, state: str, error: str | None) -> None:
        with self._writing() as database:
            holds = database.execute(
                "SELECT 1 FROM dutiful_seen WHERE key = ? AND token = ?", (key, token)
            ).fetchone()
            # Work that was done counts even where the lease was lost; a failure then belongs to the past.
            if holds or state == "done":
                database.execute(_PUT, (key, state, attempt, 0, error, token, self._clock.epoch_ms()))

    def _release(self, key: str, token: str) -> None:
        """End the lease and keep the attempt, so that an earlier one stays refused."""
        with self._writing() as database:
            database.execute("UPDATE dutiful_seen SET until = 0 WHERE key = ? AND token = ?", (key, token))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("BEGIN IMMEDIATE")
            with database:
                yield database
