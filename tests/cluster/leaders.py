"""Asks the database, past all proxies, which node leads each schedule, several times a second."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

import asyncpg
from tests.cluster.excuses import Led

_EVERY_S = 0.2
# The row of a shard names its leader until another node leads it.
_LEADERS = (
    "SELECT id, name FROM declarations JOIN states USING (number) JOIN shards USING (shard)"
    " JOIN nodes ON nodes.owner = shards.owner"
)
_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    # A connection that was lost in the middle of a question.
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
)


class Leaders:
    """The leaders of all schedules as they change, from entry to exit."""

    def __init__(self, url: str) -> None:
        self.led: list[Led] = []
        self._url, self._over = url, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._watch()), daemon=True)

    def __enter__(self) -> Leaders:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)

    async def _watch(self) -> None:
        while not self._over.is_set():
            # Nothing is known of the time in which the database is away.
            with contextlib.suppress(*_AWAY):
                settings = {"search_path": "dutiful"}
                connection = await asyncpg.connect(self._url, timeout=5, server_settings=settings)
                try:
                    while not self._over.is_set():
                        self._note(await connection.fetch(_LEADERS, timeout=5))
                        await asyncio.sleep(_EVERY_S)
                finally:
                    connection.terminate()
            await asyncio.sleep(_EVERY_S)

    def _note(self, rows: list[asyncpg.Record]) -> None:
        self.led.append(Led(time.time(), {row["id"]: row["name"] for row in rows}))
