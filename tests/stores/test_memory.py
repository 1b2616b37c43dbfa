"""The reference store keeps the contract."""

from tests.stores.contract import StoreContract

from dutiful.stores.memory import MemoryStore


class TestMemory(StoreContract):
    def new_store(self, _directory):
        return MemoryStore()
