"""Which store a text such as "sqlite:state.db" names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.errors import InvalidArgumentError
from dutiful.stores.memory import MemoryStore

if TYPE_CHECKING:
    from dutiful.runtime.ports import Store


def store_for(url: object, namespace: str) -> Store:
    """Return the store, not yet opened, or raise InvalidArgumentError."""
    kind, _, rest = url.partition(":") if isinstance(url, str) else ("", "", "")
    if kind == "memory" and not rest:
        return MemoryStore()
    if kind == "sqlite" and rest:
        from dutiful.stores.sqlite import SqliteStore

        return SqliteStore(rest, namespace=namespace)
    raise InvalidArgumentError("store", url, 'write "sqlite:FILE" or "memory:"')
