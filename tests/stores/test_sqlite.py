"""The embedded store keeps the contract."""

from tests.stores.contract import StoreContract

from dutiful.stores.sqlite import SqliteStore


class TestSqlite(StoreContract):
    def new_store(self, directory):
        return SqliteStore(directory / "state.db")
