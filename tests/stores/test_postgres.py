"""The store of many processes keeps the contract, on the oldest and the newest PostgreSQL at hand."""

from __future__ import annotations

import asyncio

import pytest
from tests.stores.contract import StoreContract
from tests.stores.contract_damage import DamageContract
from tests.stores.contract_pair import PairContract
from tests.stores.postgres_rig import OneOfFour, depose, execute

from dutiful.stores.postgres import PostgresStore


class TestPostgres(StoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_url):
        self.url = postgres_url

    def new_store(self, _directory):
        return PostgresStore(self.url)


@pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)
class TestAShardOfFour(StoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_url):
        self.url = postgres_url

    def new_store(self, _directory):
        return OneOfFour(self.url)


class TestTwoOpeningsOfPostgres(PairContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_url):
        self.url = postgres_url

    def new_pair(self, _directory):
        return PostgresStore(self.url), PostgresStore(self.url)

    async def depose(self, store):
        await depose(store)


class TestDamagedRowsOfPostgres(DamageContract):
    @pytest.fixture(autouse=True)
    def _database(self, newest_postgres_url):
        self.url = newest_postgres_url

    def new_store(self, _directory):
        return PostgresStore(self.url)

    def edit(self, _directory, statement):
        asyncio.run(execute(self.url, statement))
