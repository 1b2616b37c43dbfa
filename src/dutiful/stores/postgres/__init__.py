"""The store of many processes and hosts, in a PostgreSQL database."""

from dutiful.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
