"""Store URLs: the store that a text such as "sqlite:state.db" names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dutiful.core.errors import InvalidArgumentError, redacted
from dutiful.core.name import checked_namespace, exact
from dutiful.stores.memory import MemoryStore

if TYPE_CHECKING:
    from dutiful.runtime.ports import Store

_FORMS = 'write "sqlite:FILE", "postgresql://USER@HOST/DATABASE" or "memory:"'


def store_for(url: object, namespace: object, *, shards: int = 1, lease: float = 5.0) -> Store:
    """Return the store, not yet opened, or raise InvalidArgumentError.

    A PostgreSQL namespace that does not exist yet is created with this number of `shards`, and its leader
    loses its lock after `lease` seconds of silence; the other stores have one shard and need no lease.
    """
    namespace = checked_namespace(namespace)
    if not isinstance(url, str):
        raise InvalidArgumentError("store", url, _FORMS)
    kind, _, rest = exact(url).partition(":")
    if kind == "memory" and not rest:
        return MemoryStore()
    if kind == "sqlite" and ":" in url:
        from dutiful.stores.sqlite import SqliteStore

        return SqliteStore(sqlite_path(url), namespace=namespace)
    if kind in ("postgresql", "postgres") and rest.startswith("//"):
        return _postgres_store(exact(url), namespace, shards, lease)
    is_file = re.fullmatch(r"[\w./-]+\.(?:db|sqlite3?)", url)
    raise InvalidArgumentError("store", redacted(url), f'write "sqlite:{url}"' if is_file else _FORMS)


def _postgres_store(url: str, namespace: str, shards: int, lease: float) -> Store:
    try:
        from dutiful.stores.postgres import PostgresStore
    except ModuleNotFoundError as error:
        advice = "PostgreSQL needs asyncpg: pip install 'dutiful[postgres]'"
        raise InvalidArgumentError("store", "postgresql://…", advice) from error
    return PostgresStore(url, namespace=namespace, shards=shards, lease=lease)


def sqlite_path(url: str) -> str:
    """Return the path in "sqlite:FILE", or raise InvalidArgumentError.

    The path is taken as written. After "sqlite://" it is read as SQLAlchemy reads it: "sqlite:///x.db" is
    relative to the current directory, and "sqlite:////x.db" absolute.
    """
    path = exact(url).removeprefix("sqlite:")
    if path == ":memory:":
        raise InvalidArgumentError("store", url, 'write "memory:" for a store that forgets all')
    if path.startswith("//"):
        if not path.startswith("///"):
            shown = redacted(url)
            advice = (
                f'write "sqlite:{redacted(path)[2:] or "FILE"}"; what follows two slashes would be a host'
            )
            raise InvalidArgumentError("store", shown, advice)
        path = path[3:]
    if not path:
        raise InvalidArgumentError("store", url, _FORMS)
    if "\0" in path:
        raise InvalidArgumentError("store", url, "a path cannot hold the character NUL")
    return path
