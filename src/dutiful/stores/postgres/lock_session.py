"""The lock session: the one connection of a process whose advisory locks give the right to lead.

The server ends the session after a lease of silence, also when its process has stopped or its host is gone,
and this frees the locks. The process trusts its locks for a shorter time, counted from when it sent the last
question that was answered, so that it stops leading before the server can free the locks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import TYPE_CHECKING, Any

from asyncpg import exceptions as pg

from dutiful.core.errors import StoreError
from dutiful.runtime.clock import boottime
from dutiful.stores.postgres.connections import CLIENT_ERRORS, Deadlines, Session, connect, end, explained

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dutiful.stores.postgres.connections import Address

logger = logging.getLogger("dutiful.stores")
# The process treats its locks as lost this many seconds before the server can end its session; at most a
# quarter of a lease.
_MARGIN_S = 1.0
_RECONNECT_S = (0.05, 2.0)
_LOST = (pg.PostgresError, *CLIENT_ERRORS, OSError)
_WHO = "SELECT pg_backend_pid(), backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
# Match pid and start time: the pid may belong to another session by now.
_END_OLD = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2"

# Only where this session holds the lock: the server logs a warning for any other.
_UNLOCK = (
    "SELECT pg_advisory_unlock($1, $2) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
    " AND classid = $1::bigint::oid AND objid = $2::bigint::oid AND objsubid = 2"
)


def pooled(address: Address) -> StoreError:
    """Return the error for an address at which a pooler gives every transaction another session."""
    problem = (
        f"At {address.shown} a pooler gives one connection several sessions, and locks belong to a session"
    )
    return StoreError(problem, "name the address of the server itself", store=address.shown)


class LockSession:
    """Holds session advisory locks, keeps its session alive, and reconnects when it is lost.

    `generation` counts the sessions: a lock belongs to the generation in which it was taken.
    """

    def __init__(self, address: Address, lease: float) -> None:
        self._address, self._lease = address, lease
        # Called after a lost session was replaced, on the event loop of the session.
        self.on_regained: Callable[[], Awaitable[None]] | None = None
        self._heard: dict[str, Callable[[str], None]] = {}
        self._connection: Any = None
        self._who: Any = None
        self._turn = asyncio.Lock()
        self._keeping: asyncio.Task[None] | None = None
        self._is_ended = self._is_returning = False
        # Set when the session was lost, or must end.
        self._nudged = asyncio.Event()
        self._trust = lease - min(_MARGIN_S, lease / 4)
        self._asked_at = self._trusted_until = 0.0
        self.generation = 0

    async def open(self) -> None:
        """Connect and keep the session alive, unless that was done before. Raises StoreError."""
        if self._keeping is None:
            try:
                await self._connect()
            except _LOST as error:
                raise explained(error, self._address) from error
            self._keeping = asyncio.create_task(self._keep(), name="dutiful-lock-session")

    @property
    def is_open(self) -> bool:
        """Whether `open` was called; the session itself may be lost at the moment."""
        return self._keeping is not None

    @property
    def is_trusted(self) -> bool:
        """Whether the server cannot have ended the session yet."""
        return self._connection is not None and boottime() < self._trusted_until

    async def close(self) -> None:
        """End the session, and with it all its locks."""
        self._is_ended = True
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait([keeping])
        await self._drop()

    async def ask(self, question: Callable[[Session], Awaitable[Any]]) -> Any:
        """Return the answer to a query on this session. Raises StoreError while the session is lost.

        An answer proves that the session was alive when the query was sent.
        """
        async with self._turn:
            connection = self._connection
            if connection is None or connection.is_closed():
                self._lose(connection)
                raise self.in_doubt()
            sent_at = boottime()
            try:
                answer = await question(Session(connection, self._lease / 2))
            except asyncio.CancelledError:
                # Drop the connection: the next query on it could get the answer of this cancelled one.
                self._lose(connection)
                raise
            except _LOST as error:
                if isinstance(error, pg.LockNotAvailableError | pg.QueryCanceledError):
                    raise explained(error, self._address) from error
                self._lose(connection)
                raise self.in_doubt() from error
            self._believe(sent_at)
            return answer

    async def try_lock(self, kind: int, key: int) -> int | None:
        """Take a lock that is not held; return the generation that holds it, None where another does."""

        async def ask(session: Session) -> int | None:
            # Read the generation inside the job, where the session cannot be replaced: the job may have
            # waited for a new session.
            generation = self.generation
            is_held = await session.value("SELECT pg_try_advisory_lock($1, $2)", kind, key)
            return generation if is_held else None

        found: int | None = await self.ask(ask)
        return found

    async def unlock(self, kind: int, key: int) -> None:
        """Release a lock, however often it was taken; a lock of an earlier session is already gone."""

        async def ask(session: Session) -> None:
            while await session.value(_UNLOCK, kind, key):
                pass

        await self.ask(ask)

    async def listen(self, channel: str, heard: Callable[[str], None]) -> None:
        """Call a function with the payload of every notification on a channel, also after a reconnect."""
        self._heard[channel] = heard
        await self.ask(lambda session: session.listen(channel, heard))

    def check_backend(self, pid: int) -> None:
        """Raise StoreError where the answering backend is not the one with which the session began."""
        if self._who is not None and pid != self._who[0]:
            raise pooled(self._address)

    def in_doubt(self) -> StoreError:
        """Return the error for a query that cannot be answered while the session is lost."""
        problem = (
            f"The session with {self._address.shown} is lost, and whether its locks still hold is in doubt"
        )
        return StoreError(
            problem, "it is made anew; nothing is launched until then", store=self._address.shown
        )

    async def _connect(self) -> None:
        # Half a lease per query, so that an unanswered query leaves time for another one.
        settings = Deadlines(self._lease / 2, self._lease / 2).settings()
        milliseconds = f"{round(self._lease * 1000)}ms"
        settings |= {"idle_session_timeout": milliseconds, "tcp_user_timeout": milliseconds}
        sent_at = boottime()
        connection = await connect(self._address, settings)
        try:
            session = Session(connection, self._lease / 2)
            if self._who is not None:
                await session.rows(_END_OLD, *self._who)
            self._who = tuple(await session.row(_WHO))
            for channel, heard in [*self._heard.items()]:
                await session.listen(channel, heard)
        except BaseException:
            connection.terminate()
            raise
        connection.add_termination_listener(lambda _: self._nudged.set())
        self._connection = connection
        self._believe(sent_at)
        self.generation += 1

    def _believe(self, sent_at: float) -> None:
        self._asked_at, self._trusted_until = sent_at, sent_at + self._trust

    def _lose(self, connection: Any) -> None:
        if connection is not None:
            connection.terminate()
        if connection is self._connection:
            self._connection = None

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await end(connection)

    async def _keep(self) -> None:
        """Send a query three times per lease, and reconnect when the session is lost."""
        while not self._is_ended:
            await self._wait(_RECONNECT_S[0] if self._is_returning else self._lease / 3)
            try:
                await self._keep_once()
            except StoreError:
                continue
            except Exception:
                # Without this task the process would lose its locks and never take another one.
                logger.exception("The lock session met an unexpected error; it goes on")

    async def _keep_once(self) -> None:
        if self._connection is None or self._connection.is_closed():
            await self._reconnect()
        if self._is_returning:
            await self._return()
        elif boottime() - self._asked_at >= self._lease / 3:
            await self.ask(lambda session: session.value("SELECT 1"))

    async def _reconnect(self) -> None:
        while not self._is_ended:
            try:
                async with self._turn:
                    self._connection = None
                    await self._connect()
                break
            except (*_LOST, TimeoutError):
                # Spread the reconnects of many processes, so that they do not overload a starting database.
                await self._wait(random.uniform(*_RECONNECT_S))  # noqa: S311 - not a secret
        self._is_returning = True

    async def _return(self) -> None:
        """Report that the session was replaced; fails, to be repeated, while the old one holds its locks."""
        if self.on_regained is not None:
            await self.on_regained()
        self._is_returning = False

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._nudged.wait(), seconds)
        # Clear after the wait, so that a loss noted while this process was busy ends the next wait at once.
        self._nudged.clear()
