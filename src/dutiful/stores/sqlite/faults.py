"""What SQLite's errors mean to the person who runs dutiful, and what they can do."""

from __future__ import annotations

import sqlite3

from dutiful.core.errors import StoreError

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
    """Return whether this was explained for a text that is no UTF-8: Python's words, SQLite does not mind."""
    return error is not None and str(error.__cause__).startswith("Could not decode to UTF-8")


def explained(error: Exception, path: str) -> Exception:
    """Return the error to raise for one that came out of SQLite, with that one as its cause."""
    # The other two come from values that a column cannot hold.
    if not isinstance(error, (sqlite3.Error, OverflowError, UnicodeError)):
        return error
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    problem, advice = _MEANINGS.get(primary, ("refused the work", f"{type(error).__name__}: {error}"))
    fault = StoreError(f"The database {path} {problem}", advice, path=path, cause=str(error))
    fault.__cause__ = error
    return fault
