"""`PostgresSeen`: the finished runs, recorded in the consumer's own PostgreSQL transaction."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from dutiful.core.errors import InvalidArgumentError
from dutiful.receivers.seen import KEEP_S, Answer, Claim, Record, TaskFailedError, judge

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_TABLE = """CREATE TABLE IF NOT EXISTS {table} (
  key text PRIMARY KEY, state text NOT NULL, attempt int NOT NULL, error text, starts int NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now())"""
_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))"
_WAIT = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"
_FIND = "SELECT state, attempt, error, starts FROM {table} WHERE key = $1"
_PUT = """INSERT INTO {table} (key, state, attempt, error, starts) VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (key) DO UPDATE SET state = $2, attempt = $3, error = $4, starts = $5, updated_at = now()
  WHERE {table}.state <> 'done'"""
_FORGET = "DELETE FROM {table} WHERE updated_at < now() - make_interval(secs => $1)"


class PostgresSeen:
    """Records keys in the same transaction as the effect, so that each effect happens once per key.

    The consumer writes its effect through `Delivery.connection`. A consumer that dies leaves neither effect
    nor record; its lock falls with its session, and the next delivery does the work.
    """

    def __init__(self, url: str, *, table: str = "dutiful_seen", keep: float = KEEP_S) -> None:
        """Raises InvalidArgumentError if `table` is not a plain name."""
        if not all(part.isidentifier() and part.isascii() for part in table.split(".")):
            raise InvalidArgumentError("table", table, "write a name of letters, digits and underscores")
        self._url, self._table, self._keep = url, table, keep
        self._pool: Any = None
        self._connecting = asyncio.Lock()

    async def prepare(self) -> None:
        """Create the table if it is missing, and forget keys that are older than `keep`."""
        pool = await self._connected()
        async with pool.acquire() as connection, connection.transaction():
            # IF NOT EXISTS does not help two consumers that create the table at the same moment.
            await connection.execute(_WAIT, self._table)
            await connection.execute(self._sql(_TABLE))
        await pool.execute(self._sql(_FORGET), self._keep)

    @asynccontextmanager
    async def once(self, key: str, attempt: int, connection: Any = None) -> AsyncIterator[Claim]:
        """Claim a delivery as `Seen.once` says.

        With a `connection`, which has begun a transaction, the record is part of that transaction, and the
        caller commits it.
        """
        if connection is not None:
            yield await self._claim(connection, key, attempt)
            return
        pool = await self._connected()
        try:
            async with pool.acquire() as own, own.transaction():
                claim = await self._claim(own, key, attempt)
                yield claim
        except TaskFailedError as error:
            problem = str(error).replace("\x00", "")
            await pool.execute(self._sql(_PUT), key, "failed", attempt, problem, claim.starts)
            raise

    async def close(self) -> None:
        """Close the connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def _claim(self, connection: Any, key: str, attempt: int) -> Claim:
        # The lock excludes consumers at work now; the row is for later ones.
        if not await connection.fetchval(_LOCK, f"{self._table}:{key}"):
            return Claim(Answer.BUSY)
        row = await connection.fetchrow(self._sql(_FIND), key)
        record = row and Record(row["state"], row["attempt"], 0, row["error"], row["starts"])
        claim = judge(record, attempt, 0)
        if claim.answer is Answer.NEW:
            await connection.execute(self._sql(_PUT), key, "done", attempt, None, claim.starts)
        return claim._replace(connection=connection)

    def _sql(self, text: str) -> str:
        return text.format(table=self._table)

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._pool is None:
                import asyncpg

                self._pool = await asyncpg.create_pool(self._url, min_size=1, max_size=16)
            return self._pool
