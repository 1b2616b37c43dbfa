"""Hand-offs to queues: what a launcher costs beside the bare client, against real servers in the same run."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.servers import program

from benchmarks.report import Row, Section, times_better
from dutiful.launchers.executor import ExecutorSettings, Meta
from dutiful.launchers.url import executor_for
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

RUNS, AT_ONCE, ROUNDS = 3_000, 64, 3
DAG = {"nodes": [{"id": "send", "action": "mail"}]}
META = Meta("schedule", "s", "report", 1, "ada", datetime(2026, 3, 1, 2, 30, tzinfo=UTC), "", 1, 1)
BODY = json.dumps({"dag": DAG, "meta": META.as_json()}).encode()


def run() -> Section:
    """Measure each queue in turn with its launcher and with its client alone."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            *_measured(program.nats, Path(folder, "nats"), {"nats": ("nats://127.0.0.1:{port}", _bare_nats)}),
            *_measured(
                program.valkey,
                Path(folder, "valkey"),
                {
                    "redis": ("redis://127.0.0.1:{port}/0", _bare_redis),
                    "celery": ("celery+redis://127.0.0.1:{port}/0?task=t", _bare_celery),
                },
            ),
        ]
    notes = (
        f"{RUNS} runs, {AT_ONCE} at once, best of {ROUNDS} rounds that alternate; servers sync to disk",
        "bare client: the same message by the client's own call, awaited; Celery: send_task in a loop",
    )
    return Section("queues", tuple(rows), notes)


def _measured(start: Any, folder: Path, queues: dict[str, tuple[str, Any]]) -> list[Row]:
    folder.mkdir()
    server = start(folder)
    server.start()
    try:
        return [_row(name, url.format(port=server.port), bare) for name, (url, bare) in queues.items()]
    finally:
        server.close()


def _row(name: str, url: str, bare: Callable[[str, int], Awaitable[float]]) -> Row:
    ours, peer = [], []
    for number in range(ROUNDS):
        peer.append(asyncio.run(bare(url, number)))
        ours.append(asyncio.run(_launcher(url, number)))
    best, best_bare = min(ours) * 1e6 / RUNS, min(peer) * 1e6 / RUNS
    peers = {f"bare {name}": best_bare}
    return Row(
        f"hand-off to {name}", best, "us a run", peers, times_better(best, peers, {f"bare {name}": 0.5})
    )


async def _timed(publish: Callable[[int], Awaitable[Any]]) -> float:
    """Return the seconds that RUNS publishes take, AT_ONCE of them at any time."""
    await publish(-1)
    pending = iter(range(RUNS))

    async def lane() -> None:
        for number in pending:
            await publish(number)

    began = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(AT_ONCE)))
    return time.perf_counter() - began


async def _launcher(url: str, number: int) -> float:
    executor: Any = executor_for(url, ExecutorSettings(SystemClock()))
    accepted: Sequence[str] = ("Accepted",)

    async def publish(run: int) -> None:
        outcome = await executor.run(DAG, META._replace(idempotency_key=f"ours-{number}-{run}"))
        assert type(outcome).__name__ in accepted, outcome

    try:
        return await _timed(publish)
    finally:
        await executor.close()


async def _bare_nats(url: str, number: int) -> float:
    from nats.aio.client import Client

    client = Client()
    await client.connect(servers=[url])
    stream = client.jetstream()
    await stream.add_stream(name="BARE", subjects=["bare.>"], duplicate_window=600)

    async def publish(run: int) -> None:
        await stream.publish("bare.report", BODY, headers={"Nats-Msg-Id": f"{number}-{run}"})

    try:
        return await _timed(publish)
    finally:
        await client.close()


async def _bare_redis(url: str, number: int) -> float:
    from redis.asyncio import BlockingConnectionPool, Redis

    pool = BlockingConnectionPool.from_url(url, max_connections=16)
    async with Redis(connection_pool=pool) as client:

        async def publish(run: int) -> None:
            await client.xadd(f"bare-{number}", {"key": str(run), "attempt": 1, "epoch": 1, "body": BODY})

        return await _timed(publish)


async def _bare_celery(url: str, number: int) -> float:
    from celery import Celery

    app = Celery("bare", broker=url.removeprefix("celery+").partition("?")[0], set_as_current=False)
    app.conf.task_ignore_result = True
    args = [DAG, META.as_json()]

    def send() -> float:
        with app.producer_or_acquire() as producer:
            app.send_task("t", args=args, producer=producer, queue="bare")
            began = time.perf_counter()
            for run in range(RUNS):
                app.send_task("t", args=args, task_id=f"{number}-{run}", producer=producer, queue="bare")
            return time.perf_counter() - began

    return await asyncio.to_thread(send)
