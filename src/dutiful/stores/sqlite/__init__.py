"""The embedded store: one SQLite file, one writer thread, one transaction for all waiting work."""

from dutiful.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
