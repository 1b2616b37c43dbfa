"""The database file: created, recognised, migrated and checked before the first read."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import TYPE_CHECKING

from dutiful.core.errors import StoreError, quoted
from dutiful.stores.schema import migrations
from dutiful.stores.sqlite import inline_runs
from dutiful.stores.sqlite.wal_check import lost_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dutiful.stores.schema import Migration


RESTORE = (
    "stop dutiful, keep a copy of the file, and restore a backup; without one, "
    "`sqlite3 FILE .recover | sqlite3 NEW` saves what can be read"
)
REINDEX = (
    "stop dutiful, keep a copy of the file, and restore a backup; without one, `sqlite3 FILE REINDEX` makes "
    "the indexes anew, and is enough if the tables are well"
)
RESTORE_LOG = (
    "stop dutiful, keep a copy of the file and its log, and restore a backup of both; without one, "
    "`sqlite3 FILE 'PRAGMA wal_checkpoint(TRUNCATE)'` goes back to before the damage, and what ran since "
    "then may run again"
)
_WRITABLE = "the file and its directory must be writable by the user that runs dutiful"
_IO = "check the disk, its space and the file size limit; nothing was written, and it is tried again"

# Primary result code -> what is wrong with the file, and what to do.
_MEANINGS = {
    sqlite3.SQLITE_FULL: ("cannot grow", "make space on its disk; dutiful goes on by itself then"),
    sqlite3.SQLITE_IOERR: ("cannot be read or written", _IO),
    sqlite3.SQLITE_READONLY: ("is read-only", _WRITABLE),
    sqlite3.SQLITE_PERM: ("may not be opened", _WRITABLE),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", _WRITABLE),
    sqlite3.SQLITE_BUSY: ("is locked by another program", "let that one finish; it is tried again"),
    sqlite3.SQLITE_CORRUPT: ("is damaged", RESTORE),
    sqlite3.SQLITE_NOTADB: ("is not a SQLite database", "name another file; this one was not changed"),
}


def is_garbled(error: Exception | None) -> bool:
    """Return whether the error means text that is not UTF-8: Python refuses such text, SQLite does not."""
    return error is not None and str(error.__cause__).startswith("Could not decode to UTF-8")


def explained(error: Exception, path: str) -> Exception:
    """Return the StoreError for an error of SQLite or of the file system, with that error as its cause."""
    if isinstance(error, OSError):
        reason = f"{error.strerror or error}: {error.filename or path}"
        fault = StoreError(f"The database {path} cannot be used", reason, path=path, cause=str(error))
        fault.__cause__ = error
        return fault
    # OverflowError and UnicodeError come from values that a column cannot hold.
    if not isinstance(error, (sqlite3.Error, OverflowError, UnicodeError)):
        return error
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    problem, advice = _MEANINGS.get(primary, ("refused the work", f"{type(error).__name__}: {error}"))
    fault = StoreError(f"The database {path} {problem}", advice, path=path, cause=str(error))
    fault.__cause__ = error
    return fault


_ORPHANS_ARE_DUE = (
    "UPDATE states SET wake_at = 0, version = version + 1 WHERE namespace = ?"
    " AND number IN (SELECT schedule FROM runs WHERE phase <> 'ended')"
    " AND number NOT IN (SELECT number FROM declarations WHERE damage IS NOT NULL)"
)


def stored_number(connection: sqlite3.Connection, namespace: str, name: str, default: int) -> int:
    """Return the number stored under `name`; raise StoreError where another type is stored."""
    query = "SELECT value FROM meta WHERE namespace = ? AND name = ?"
    found = connection.execute(query, (namespace, name)).fetchone()
    if found is None:
        return default
    if not isinstance(found[0], int):
        problem = f"{name!r} of the namespace {namespace!r} is {quoted(found[0])!r} in the table meta"
        raise StoreError(problem, f"it must be a number: {RESTORE}")
    return found[0]


def store_number(connection: sqlite3.Connection, namespace: str, name: str, value: int) -> None:
    """Store a number under `name`."""
    statement = "INSERT INTO meta VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
    connection.execute(statement, (namespace, name, value))


def raise_number(connection: sqlite3.Connection, namespace: str, name: str, value: int) -> None:
    """Store a number under `name`, unless a higher one is stored there."""
    store_number(connection, namespace, name, max(value, stored_number(connection, namespace, name, value)))


def owning_door(connection: sqlite3.Connection, namespace: str) -> str | None:
    """Return the door that owns the namespace, or None."""
    query = "SELECT value FROM meta WHERE namespace = ? AND name = 'door'"
    found = connection.execute(query, (namespace,)).fetchone()
    return None if found is None else str(found[0])


def claim_namespace(connection: sqlite3.Connection, namespace: str, claimant: str) -> str:
    """Give the namespace to the claimant unless another door owns it; return the owning door."""
    statement = "INSERT INTO meta VALUES (?, 'door', ?) ON CONFLICT DO NOTHING"
    connection.execute(statement, (namespace, claimant))
    return owning_door(connection, namespace) or claimant


def begin_leadership(connection: sqlite3.Connection, namespace: str) -> int:
    """Begin and return a new epoch; make schedules with runs in flight due, so that the runs are adopted."""
    epoch = stored_number(connection, namespace, "epoch", 0) + 1
    store_number(connection, namespace, "epoch", epoch)
    store_number(connection, namespace, "clean", 0)
    inline_runs.give_rows_to_all(connection, namespace)
    connection.execute(_ORPHANS_ARE_DUE, (namespace,))
    return epoch


# "duti" in ASCII: SQLite's application id, which marks the file as dutiful's.
APPLICATION_ID = 0x64757469
# The first version with strict tables, and with JSON in every build.
_VERSION_MIN = (3, 38, 0)
# SQLite takes a smaller file for an empty database, and would overwrite it.
_PAGE_MIN = 512
# File sizes in bytes up to which a check takes about a second: of indexes against tables, and of pages.
_INDEXES_CHECKED_MAX = 32 * 1024 * 1024
_PAGES_CHECKED_MAX = 512 * 1024 * 1024
# Each try waits until the file is free, but another process may take it first again.
_TRIES_MAX = 100
_NOT_OURS = "name another file; this one was not changed"
_UPGRADE = "upgrade dutiful to the release that wrote it, or a later one; nothing was changed"
_SETTINGS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA cache_size = -65536",
    # Savepoints spill to temporary storage with every batch, so keep that in memory.
    "PRAGMA temp_store = MEMORY",
    # With rare checkpoints, a page that changed many times is written once; the log stays below 64 MiB.
    "PRAGMA wal_autocheckpoint = 10000",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
)


class DatabaseFile:
    """One database path, and the identity of the files found there on opening."""

    def __init__(self, path: str, lock_path: str, busy_timeout: float) -> None:
        self.path, self._lock_path, self._busy_timeout = path, lock_path, busy_timeout
        self._identity: list[tuple[str, int, int]] = []

    def connect(self) -> sqlite3.Connection:
        """Return a connection to a database of the newest schema; refuse any other file unchanged."""
        require(sqlite3.sqlite_version_info)
        self._make()
        self._verify_log()
        connection = sqlite3.connect(self.path, timeout=self._busy_timeout, isolation_level=None)
        try:
            self._recognise(connection)
            self._write_ahead(connection)
            for setting in _SETTINGS:
                connection.execute(setting)
            self._migrate(connection)
            self._identity = [self._identify(self.path), self._identify(f"{self.path}-wal")]
        except BaseException:
            connection.close()
            raise
        return connection

    def check(self) -> None:
        """Raise StoreError when the path no longer leads to the files that were opened."""
        for path, device, inode in self._identity:
            if self._identify(path) != (path, device, inode):
                problem = f"{path} was deleted or replaced while it was in use"
                raise StoreError(problem, "put it back, then restart dutiful", path=path)

    def _verify_log(self) -> None:
        # Check before SQLite opens the file: on opening, SQLite drops all frames after the damage, and later
        # overwrites them. The log carries no lock that closing it here could drop.
        frame = None
        # SQLite will meet the same OSError, and `explained` turns it into a StoreError.
        with contextlib.suppress(OSError):
            frame = lost_at(f"{self.path}-wal")
        if frame is not None:
            problem = f"has a log, {self.path}-wal, that is damaged in frame {frame}, with commits after it"
            raise self._error(problem, RESTORE_LOG)

    def verify(self, connection: sqlite3.Connection, *, clean: bool) -> None:
        """Raise StoreError when the database is inconsistent; after a clean close skip a huge one."""
        size = os.path.getsize(self.path)
        if clean and size > _PAGES_CHECKED_MAX:
            return
        problem = _ask(connection, "integrity_check" if size <= _INDEXES_CHECKED_MAX else "quick_check")
        if problem is not None:
            pages_fit = _ask(connection, "quick_check") is None
            raise self._error(f"is damaged: {problem}", REINDEX if pages_fit else RESTORE, cause=problem)

    def _make(self) -> None:
        directory = os.path.dirname(self.path)
        if not os.path.isdir(directory):
            raise self._error("has no directory", f"create {directory}, or name another path")
        if os.path.isdir(self.path):
            raise self._error("is a directory", "name a file in it")
        # Do not open an existing file: closing it again would drop this process's locks on it.
        with contextlib.suppress(FileExistsError), self._permitted():
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            return
        size = os.path.getsize(self.path)
        if 0 < size < _PAGE_MIN:
            raise self._error("is not a SQLite database", _NOT_OURS)
        if size == 0 and os.path.exists(self._lock_path):
            advice = f"{RESTORE}; to begin anew, delete it and {self._lock_path}"
            raise self._error("is empty and was in use before", advice)
        for path in (self.path, directory):
            if not os.access(path, os.W_OK):
                advice = f"{path} must be writable by the user that runs dutiful"
                raise self._error("is read-only", advice)

    @contextlib.contextmanager
    def _permitted(self) -> Iterator[None]:
        try:
            yield
        except FileExistsError:
            raise
        except OSError as error:
            raise self._error("cannot be created", str(error), cause=str(error)) from error

    def _recognise(self, connection: sqlite3.Connection) -> None:
        # Ask in this order: another process may prepare the file between the two queries.
        empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        if owner != APPLICATION_ID and not empty:
            raise self._error("belongs to another program", _NOT_OURS)

    def _write_ahead(self, connection: sqlite3.Connection, tries: int = _TRIES_MAX) -> None:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or tries == 0:
                raise
            # Another process is preparing the file. This pragma does not wait for its lock; BEGIN EXCLUSIVE
            # does.
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
            self._write_ahead(connection, tries - 1)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        known = migrations("sqlite")
        if self._applied(connection, known) < len(known):
            connection.execute("BEGIN IMMEDIATE")
            # Check again inside the transaction: another process may have migrated first.
            pending = known[self._applied(connection, known) :]
            if pending:
                # Check before migrating: a table that is rewritten no longer shows what it has lost.
                self.verify(connection, clean=False)
            for migration in pending:
                _apply(connection, migration)
            connection.execute("COMMIT")

    def _applied(self, connection: sqlite3.Connection, known: tuple[Migration, ...]) -> int:
        """Return how many migrations the file has; raise StoreError where one is unknown or differs."""
        if not connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0]:
            return 0
        query = "SELECT value FROM meta WHERE namespace = '' AND name LIKE 'schema %' ORDER BY name"
        seen = [checksum for (checksum,) in connection.execute(query)]
        if len(seen) > len(known):
            problem = f"has schema {len(seen)}, and this release knows {len(known)}"
            raise self._error(problem, _UPGRADE)
        if seen != [migration.checksum for migration in known[: len(seen)]]:
            raise self._error("has a schema that this release does not know", _UPGRADE)
        return len(seen)

    def _identify(self, path: str) -> tuple[str, int, int]:
        try:
            found = os.stat(path)
        except OSError:
            return path, 0, 0
        return path, found.st_dev, found.st_ino

    def _error(self, problem: str, advice: str, **details: str) -> StoreError:
        return StoreError(f"The database {self.path} {problem}", advice, path=self.path, **details)


def require(version: tuple[int, ...]) -> None:
    """Raise StoreError when the SQLite library is too old for the statements used here."""
    if version < _VERSION_MIN:
        needed, found = (".".join(map(str, numbers)) for numbers in (_VERSION_MIN, version))
        raise StoreError(f"Python is linked to SQLite {found}", f"use one with {needed} or later")


def _ask(connection: sqlite3.Connection, check: str) -> str | None:
    found = str(connection.execute(f"PRAGMA {check}(1)").fetchone()[0])
    return None if found == "ok" else found


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    for statement in _statements(migration.sql):
        connection.execute(statement)
    connection.execute(
        "INSERT INTO meta VALUES ('', ?, ?)", (f"schema {migration.number:04}", migration.checksum)
    )
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _statements(sql: str) -> Iterator[str]:
    # Not executescript, which commits on its own.
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
