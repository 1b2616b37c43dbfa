"""The embedded store keeps the contract."""

from tests.stores.contract import StoreContract
from tests.stores.contract_pair import PairContract

from dutiful.stores.sqlite import SqliteStore


class TestSqlite(StoreContract):
    def new_store(self, directory):
        return SqliteStore(directory / "state.db")


class TestTwoOpeningsOfSqlite(PairContract):
    def new_pair(self, directory):
        return SqliteStore(directory / "state.db"), SqliteStore(directory / "state.db")

    async def depose(self, store):
        store._lock.release()
