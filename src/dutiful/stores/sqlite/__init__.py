"""The embedded store: one SQLite file, one writer thread, one transaction for all that is waiting."""

from dutiful.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
