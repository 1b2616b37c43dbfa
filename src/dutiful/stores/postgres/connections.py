"""Connections to PostgreSQL: addresses, a small pool, a deadline for every statement, explained errors.

asyncpg's own pool resets a connection with a round trip after each use, and on a timeout asks the server to
cancel. Here a statement that misses its deadline loses its connection, so that no late answer arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import asyncpg
from asyncpg import exceptions as pg

from dutiful.core.errors import InvalidArgumentError, StoreError, redacted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence

    from dutiful.stores.rows import Row

T = TypeVar("T")
DEFAULT_SCHEMA = "dutiful"
_CONNECT_WITHIN_S = 10.0
# Repeat a transaction that lost against a concurrent one, or that met a row which the other had just added.
_TRIES = 4
_AGAIN = (pg.DeadlockDetectedError, pg.SerializationError, pg.UniqueViolationError)
# Errors of asyncpg itself. It raises InternalClientError when a connection is used after the server has
# announced the end of the session, and before its socket has closed. A RuntimeError ("dictionary changed size
# during iteration") was seen where connections were cut, so what was sent before it has an unknown fate.
CLIENT_ERRORS = (pg.InterfaceError, pg.InternalClientError, RuntimeError)

# Both sides notice dead peers within seconds; the units are those of PostgreSQL. A statement that has waited
# for a lock must see what the holder of the lock wrote, which it does in no isolation but "read committed".
_ALWAYS = {
    "application_name": "dutiful",
    "jit": "off",
    "timezone": "UTC",
    "default_transaction_isolation": "read committed",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "client_connection_check_interval": "1s",
}
# The same for the socket of this process: seconds, a number of probes, and milliseconds without an answer.
_TCP_OPTIONS = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20_000}


class Deadlines(NamedTuple):
    """Time limits of a statement in seconds: in the server, and until its answer arrives."""

    server: float
    client: float

    def settings(self) -> dict[str, str]:
        """Return the settings by which the server enforces the deadline."""
        return {
            "statement_timeout": f"{self.server:g}s",
            "lock_timeout": "2s",
            "idle_in_transaction_session_timeout": f"{max(2.0, self.server / 2):g}s",
        }


PASSES = Deadlines(4.0, 5.0)
"""Deadlines of statements for which passes and launches wait: a slow one is better repeated."""
EDITS = Deadlines(60.0, 65.0)
"""Deadlines of other reads and of edits: declaring a million schedules takes a while."""
MIGRATION = Deadlines(0.0, 86_400.0)
"""No deadline in the server: an index of a ledger of years takes as long as it takes."""

# A plan that the server made while a table was empty joins from the wrong side once the table is full: a
# settle of 20,000 runs took up to 60 s instead of 0.3. So the statements of a pass are planned each time.
# They write by keys: a batch of 2,000 must not scan a table of 20,000 rows, however cheap the server's
# planner believes that to be.
PASS_SETTINGS = {"plan_cache_mode": "force_custom_plan", "enable_seqscan": "off", "random_page_cost": "1.1"}


class Address(NamedTuple):
    """The location of a database, and the schema that holds dutiful's tables."""

    dsn: str
    # None: the first schema of the search path that the URL's `options` set.
    schema: str | None
    # Without user, password and options, for messages.
    shown: str


_SEVERAL_HOSTS = "name several servers as postgresql://USER@/DATABASE?host=ONE,OTHER&port=5432,5432"


def parse_address(url: str) -> Address:
    """Return the address that a URL names, such as "postgresql://USER@HOST:PORT/DATABASE?schema=NAME".

    Raises InvalidArgumentError.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        problem = _SEVERAL_HOSTS if "," in url.partition("?")[0].rpartition("@")[2] else str(error)
        raise InvalidArgumentError("store", redacted(url), problem) from error
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = options.pop("schema", None)
    if schema is None and "search_path" not in unquote(options.get("options", "")):
        schema = DEFAULT_SCHEMA
    if schema is not None and (not schema or "\0" in schema or len(schema.encode()) > 63):
        raise InvalidArgumentError("store", redacted(url), "a schema has a name of 1 to 63 bytes")
    dsn = urlunsplit(parts._replace(scheme="postgresql", query=urlencode(options), fragment=""))
    where = options.get("host") or host or "localhost"
    shown = f"postgresql://{where}{f':{port}' if port else ''}{parts.path}"
    return Address(dsn, schema, shown if schema in (None, DEFAULT_SCHEMA) else f"{shown}?schema={schema}")


class Session:
    """One connection in use; every statement has the deadline of its pool."""

    def __init__(self, connection: Any, deadline: float) -> None:
        self._connection, self._deadline = connection, deadline

    async def rows(self, statement: str, *values: object) -> list[Any]:
        """Return all rows of a statement."""
        with self._timed():
            found: list[Any] = await self._connection.fetch(statement, *values)
            return found

    async def row(self, statement: str, *values: object) -> Any:
        """Return the first row, None where there is none."""
        with self._timed():
            return await self._connection.fetchrow(statement, *values)

    async def value(self, statement: str, *values: object) -> Any:
        """Return the first column of the first row."""
        with self._timed():
            return await self._connection.fetchval(statement, *values)

    async def run(self, statement: str, *values: object) -> int:
        """Execute a statement, and return the number of rows written."""
        with self._timed():
            tag: str = await self._connection.execute(statement, *values)
        last = tag.rpartition(" ")[2]
        return int(last) if last.isdigit() else 0

    async def run_each(self, statement: str, rows: Sequence[Row]) -> None:
        """Execute a statement once for each row of values."""
        if rows:
            with self._timed():
                await self._connection.executemany(statement, rows)

    async def listen(self, channel: str, heard: Callable[[str], None]) -> None:
        """Call a function with the payload of every notification on a channel."""
        with self._timed():
            await self._connection.add_listener(channel, lambda *notified: heard(notified[-1]))

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Return a context that is one transaction; any exception rolls it back."""
        # asyncpg's own context would wait without limit for the answers to BEGIN, COMMIT and ROLLBACK.
        transaction = self._connection.transaction()
        with self._timed():
            await transaction.start()
        try:
            yield
        except BaseException:
            # A rollback that fails leaves a connection that is not used again, so the server rolls back.
            with contextlib.suppress(pg.PostgresError, *CLIENT_ERRORS, OSError), self._timed():
                await transaction.rollback()
            raise
        with self._timed():
            await transaction.commit()

    @contextlib.contextmanager
    def _timed(self) -> Any:
        # The timer terminates the connection, which makes the statement fail.
        timer = asyncio.get_running_loop().call_later(self._deadline, self._connection.terminate)
        try:
            yield
        finally:
            timer.cancel()


class Connections:
    """A pool of at most `size` connections of one event loop; the last used one is reused first."""

    def __init__(
        self, address: Address, size: int, deadlines: Deadlines, settings: Mapping[str, str] | None = None
    ) -> None:
        self.address, self._deadlines = address, deadlines
        self._settings = {**(settings or {}), **deadlines.settings()}
        self._idle: list[Any] = []
        self._free = asyncio.Semaphore(size)
        self._closed = False

    async def work(self, job: Callable[[Session], Awaitable[T]]) -> T:
        """Return the result of a job; a job that lost against another transaction is repeated.

        Raises StoreError where the database did not do the work, or did not say whether it did.
        """
        for tries_left in reversed(range(_TRIES)):
            try:
                async with self._used() as session:
                    return await job(session)
            except _AGAIN as error:
                if not tries_left:
                    raise explained(error, self.address) from error
            except (pg.PostgresError, *CLIENT_ERRORS, OSError, UnicodeError, OverflowError) as error:
                raise explained(error, self.address) from error
        raise AssertionError

    @contextlib.asynccontextmanager
    async def _used(self) -> AsyncIterator[Session]:
        async with self._free:
            connection = self._idle.pop() if self._idle else await connect(self.address, self._settings)
            try:
                if connection.is_closed():
                    connection = await connect(self.address, self._settings)
                yield Session(connection, self._deadlines.client)
            except BaseException as error:
                # Only after an error reported by the server itself is the state of the connection known. A
                # session that began on a read-only server stays read-only, also when the server is not.
                is_known = is_undone(error) and not isinstance(error, pg.ReadOnlySQLTransactionError)
                if is_known and not connection.is_closed() and not connection.is_in_transaction():
                    self._keep(connection)
                else:
                    connection.terminate()
                raise
            self._keep(connection)

    def _keep(self, connection: Any) -> None:
        if self._closed:
            connection.terminate()
        else:
            self._idle.append(connection)

    async def close(self) -> None:
        """Close the connections; those in use are closed when they are returned."""
        self._closed = True
        idle, self._idle = self._idle, []
        await asyncio.gather(*map(end, idle))


async def connect(address: Address, settings: Mapping[str, str]) -> Any:
    """Return a new connection with these server settings."""
    path = {} if address.schema is None else {"search_path": _quoted(address.schema)}
    connection = await asyncpg.connect(
        address.dsn, timeout=_CONNECT_WITHIN_S, max_cacheable_statement_size=0,
        server_settings={**_ALWAYS, **path, **settings},
    )  # fmt: skip
    _watch_network(connection._transport.get_extra_info("socket"))  # noqa: SLF001 - has no public name
    return connection


def _watch_network(connected: socket.socket) -> None:
    """Have the system end a connection whose network is silent; the options are those it knows."""
    if connected.family in (socket.AF_INET, socket.AF_INET6):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _TCP_OPTIONS.items():
            if (option := getattr(socket, name, None)) is not None:
                connected.setsockopt(socket.IPPROTO_TCP, option, value)


async def end(connection: Any) -> None:
    """Close a connection; drop it if it does not answer."""
    try:
        with contextlib.suppress(pg.PostgresError, *CLIENT_ERRORS, OSError, TimeoutError):
            await connection.close(timeout=1.0)
    finally:
        connection.terminate()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def is_undone(error: BaseException) -> bool:
    """Return whether a statement that failed with this error certainly has no effect, now or later."""
    if isinstance(error, pg.PostgresError):
        # 08: the connection broke; 57P: the server ended the session, maybe after the commit.
        return not str(error.sqlstate or "08").startswith(("08", "57P"))
    return not isinstance(error, (*CLIENT_ERRORS, OSError, asyncio.CancelledError))


def storable(texts: Iterable[str]) -> list[str]:
    """Return the texts among these that PostgreSQL can store; no row can hold the others."""
    return [text for text in texts if ("\0" not in text and text.isprintable()) or _is_storable(text)]


def _is_storable(text: str) -> bool:
    return "\0" not in text and text == text.encode("utf-8", "replace").decode()


_UPGRADE = "run `dutiful store migrate`, or install a newer dutiful"
_REACH = "check the address and that the server runs; it is tried again ({said})"
# Classes of errors, the problem with the database, and advice, in which `said` is the text of the error; the
# first class that fits counts.
_MEANINGS: Sequence[tuple[type[BaseException] | tuple[type[BaseException], ...], str, str]] = (
    (pg.InvalidCatalogNameError, "does not exist", "create it with `createdb`, or name another one"),
    (pg.InvalidAuthorizationSpecificationError, "refused the user or the password", "check both in the URL"),
    (pg.InsufficientPrivilegeError, "does not allow this", "grant the user rights on the schema and tables"),
    (pg.TooManyConnectionsError, "has no connection left", "raise max_connections, or close other programs"),
    (pg.DiskFullError, "cannot grow", "make space on its disk; dutiful goes on by itself then"),
    (pg.ReadOnlySQLTransactionError, "is read-only", "name the primary server, not a standby"),
    ((pg.UndefinedTableError, pg.UndefinedColumnError, pg.UndefinedFunctionError),
     "has another schema than this release", _UPGRADE),
    ((pg.InvalidSQLStatementNameError, pg.DuplicatePreparedStatementError),
     "is behind a pooler that gives each transaction another session", "name the server's own address"),
    (pg.LockNotAvailableError, "is locked by another program", "let that one finish; it is tried again"),
    (pg.QueryCanceledError, "took too long", "look into pg_stat_activity; it is tried again"),
    ((pg.CannotConnectNowError, pg.AdminShutdownError, pg.CrashShutdownError), "is starting or stopping",
     "wait for it; it is tried again"),
    (pg.ClientConfigurationError, "has a wrong URL", "{said}"),
    ((pg.PostgresConnectionError, *CLIENT_ERRORS, OSError, TimeoutError), "cannot be reached", _REACH),
)  # fmt: skip


# asyncpg passes the options of a URL that it does not know on to the server.
_OPTION_REFUSED = "does not know an option of the URL", "leave it out: {said}"
# PgBouncer refuses connections that set parameters which it does not know. Without these settings a session
# would outlive its silent process and use another schema, so telling it to ignore them is no way out.
_SETTINGS_REFUSED = (
    "is behind a pooler that refuses dutiful's settings",
    "name the server's own address: no pool_mode and no ignore_startup_parameters replaces them",
)


def explained(error: BaseException, address: Address) -> StoreError:
    """Return the StoreError for an error of the database or of the connection to it."""
    problem, advice = _meaning(error)
    said = str(error) or type(error).__name__
    return StoreError(
        f"The database {address.shown} {problem}", advice.replace("{said}", said), store=address.shown,
        cause=said,
        # Whether the work may have been done all the same, or may still be done.
        unknown=not is_undone(error),
    )  # fmt: skip


def _meaning(error: BaseException) -> tuple[str, str]:
    """Return the problem with the database, and advice."""
    if isinstance(error, pg.ProtocolViolationError) and "startup parameter" in str(error):
        return _SETTINGS_REFUSED
    if isinstance(error, pg.UndefinedObjectError) and "configuration parameter" in str(error):
        return _OPTION_REFUSED
    meanings = ((problem, advice) for kinds, problem, advice in _MEANINGS if isinstance(error, kinds))
    return next(meanings, ("refused the work", f"{type(error).__name__}: {error}"))
