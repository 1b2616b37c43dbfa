"""A service that only remembers reports, runs published as launchers do it, and a consumer to watch."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from tests.launchers.metas import DAG, META, SETTINGS
from tests.web_server import Asked, Reply, serving

from dutiful.launchers.url import executor_for
from dutiful.outbound.secret import Secret

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

SECRET = "s" * 32


class Reported:
    """The reports that arrived; `refusals` of them are answered 503 first."""

    def __init__(self, refusals: int = 0) -> None:
        self.url = ""
        self.refusals = refusals
        self.all: list[tuple[str, dict[str, Any]]] = []

    def hear(self, asked: Asked) -> Reply:
        self.all.append((asked.path.split("/")[2], json.loads(asked.body)))
        self.refusals -= 1
        return Reply(503 if self.refusals >= 0 else 200, {})

    def of(self, key: str) -> list[dict[str, Any]]:
        """Return how a run was said to have ended, each report once, in their order.

        STARTED is left out: it is sent beside the work, and may arrive after the end, where it means nothing.
        """
        said = [content for about, content in self.all if about == key and content["status"] != "STARTED"]
        return [content for n, content in enumerate(said) if content not in said[:n]]


@contextmanager
def reporting(refusals: int = 0) -> Iterator[Reported]:
    reported = Reported(refusals)
    with serving(reported.hear) as web:
        reported.url = web.url
        yield reported


async def publish(url: str, *keys: str, attempt: int = 1, secret: str | None = None, dag: Any = DAG) -> None:
    """Publish runs as the service does."""
    executor = executor_for(url, SETTINGS._replace(secret=secret and Secret(secret)))
    for key in keys:
        outcome = await executor.run(dag, META._replace(idempotency_key=key, attempt=attempt))
        assert type(outcome).__name__ == "Accepted", outcome
    await executor.close()


@asynccontextmanager
async def receiving(receiver: Any) -> AsyncIterator[None]:
    """Run a receiver until the block ends, and let it finish."""
    task = asyncio.create_task(receiver.run())
    try:
        yield
    finally:
        receiver.stop()
        await asyncio.wait_for(task, 30)


class Consumer:
    """Remembers what it was given; a test waits until that is so many deliveries."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self._changed = asyncio.Condition()

    async def __call__(self, delivery: Any) -> None:
        async with self._changed:
            self.done.append((delivery.key, delivery.attempt))
            self._changed.notify_all()
        if "fail" in delivery.dag:
            raise RuntimeError(delivery.dag["fail"])

    async def has(self, count: int) -> None:
        async with asyncio.timeout(30), self._changed:
            await self._changed.wait_for(lambda: len(self.done) >= count)
