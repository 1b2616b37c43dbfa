"""The embedded store keeps the contract."""

from tests.stores.contract import StoreContract
from tests.stores.contract_damage import DamageContract
from tests.stores.contract_pair import PairContract
from tests.stores.sqlite_rig import edit

from dutiful.stores.sqlite import SqliteStore


class TestSqlite(StoreContract):
    def new_store(self, directory):
        return SqliteStore(directory / "state.db")


class TestTwoOpeningsOfSqlite(PairContract):
    def new_pair(self, directory):
        return SqliteStore(directory / "state.db"), SqliteStore(directory / "state.db")

    async def depose(self, store):
        store._lock.release()


class TestDamagedRowsOfSqlite(DamageContract):
    def new_store(self, directory):
        return SqliteStore(directory / "state.db")

    def edit(self, directory, statement):
        edit(directory / "state.db", statement)
