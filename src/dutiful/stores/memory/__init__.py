"""The reference store: plain dictionaries. Read it as the specification of the other stores."""

from dutiful.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
