"""The store of many processes keeps the contract, on the oldest and the newest PostgreSQL at hand."""

from __future__ import annotations

import pytest
from tests.stores.contract import StoreContract

from dutiful.stores.postgres import PostgresStore


class TestPostgres(StoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_url):
        self.url = postgres_url

    def new_store(self, _directory):
        return PostgresStore(self.url)
