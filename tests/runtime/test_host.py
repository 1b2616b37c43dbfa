"""The life of one engine, and the events that its owner gets."""

from __future__ import annotations

import asyncio

import pytest

from dutiful.core.errors import LostLeadershipError, StoreError
from dutiful.launchers.callback import CallbackLauncher
from dutiful.runtime.host import Host
from dutiful.runtime.ports import Retention
from dutiful.stores.memory import MemoryStore
from dutiful.testing import VirtualClock


class Unprunable(MemoryStore):
    def __init__(self, error):
        super().__init__()
        self._error = error

    async def prune(self, _now, _retention):
        raise self._error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            StoreError("The store is full", "make space"),
            ["the ledger was not pruned; it is tried again in ten minutes: The store is full: make space"],
        ),
        # Another process leads now, and prunes.
        (LostLeadershipError(1, 2), []),
    ],
)
def test_a_prune_that_failed_is_logged(caplog, error, said):
    async def story():
        clock = VirtualClock("2030-01-01T00:00:00")
        host = Host(
            "library", Unprunable(error), CallbackLauncher({}), clock, lambda _: None, retention=Retention
        )
        await host.open()
        host.start()
        await clock.advance(601)
        await host.close()

    asyncio.run(story())
    assert caplog.messages == said
