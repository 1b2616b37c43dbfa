"""The PostgreSQL store, for many processes and hosts."""

from dutiful.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
