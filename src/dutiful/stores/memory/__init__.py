"""The reference store: plain dictionaries. Read it as the specification of the others."""

from dutiful.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
