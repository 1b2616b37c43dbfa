"""The PostgreSQL store: bursts through the engine beside the least SQL; the due query at growing sizes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
from tests.servers import program

from benchmarks.engine_cases import NOON, Counter, puts
from benchmarks.report import Goal, Row, Section, at_most, times_better
from dutiful.core.plan.reconcile import Changes
from dutiful.launchers.callback import CallbackLauncher
from dutiful.runtime.engine import Engine
from dutiful.stores.postgres import PostgresStore
from dutiful.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dutiful.core.plan.reconcile import Put

BURST = 100_000
CHUNK = 2000
SIZES = (1_000, 100_000) + ((1_000_000,) if os.environ.get("DUTIFUL_BENCH_LARGE") else ())
ASKED = 50
_FLOOR_TABLES = (
    "CREATE SCHEMA floor; CREATE TABLE floor.states (number bigint PRIMARY KEY, version bigint,"
    " wake_at bigint, attempted_at bigint, succeeded_at bigint) WITH (fillfactor = 50);"
    "CREATE INDEX ON floor.states (wake_at, number);"
    "CREATE TABLE floor.runs (run_at bigint, schedule bigint, status text, started_at bigint,"
    " ended_at bigint, key bytea, PRIMARY KEY (run_at, schedule)) WITH (fillfactor = 50);"
    "CREATE INDEX ON floor.runs (schedule, run_at); CREATE INDEX ON floor.runs (key)"
)


def run() -> Section:
    """Measure on a server of the newest version that syncs to disk."""
    with tempfile.TemporaryDirectory(prefix="dutiful-servers-") as name:
        folder = Path(name, "postgres")
        folder.mkdir(mode=0o711)
        server = program.postgres(folder, durable=True)
        server.start()
        try:
            rows = asyncio.run(_rows(f"postgresql://postgres@127.0.0.1:{server.port}/postgres"))
        finally:
            server.close()
    notes = (
        f"{BURST} schedules due at one instant, through the engine; the server syncs to disk",
        f"least SQL: load, claim and end by one statement each for {CHUNK} runs, one connection, no task",
        f"due query: nothing is due; median of {ASKED}",
    )
    return Section("postgres", tuple(rows), notes)


async def _rows(url: str) -> list[Row]:
    floor = await _least_sql(url, BURST)
    kept = [_with_ledger(put) for put in puts(BURST)]
    with_ledger = await _burst(f"{url}?schema=kept", kept)
    inline = await _burst(f"{url}?schema=inline", puts(BURST))
    due = {size: await _due_query(f"{url}?schema=due{size}", size) for size in SIZES}
    small, large = due[SIZES[0]], due[SIZES[-1]]
    peers = {"least SQL": floor}
    return [
        Row("100k due, ledger kept", with_ledger, "s", peers, _goals(with_ledger, 10, peers)),
        Row("100k due, no ledger", inline, "s", peers, _goals(inline, 6.5, peers)),
        Row(
            f"due query, {SIZES[-1]} schedules", large, "ms", {f"{SIZES[0]} schedules": small},
            (at_most(large / small, 2, f"x {SIZES[0]} schedules"),),
        ),
    ]  # fmt: skip


def _goals(seconds: float, limit: float, peers: dict[str, float]) -> tuple[Goal, ...]:
    return at_most(seconds, limit, "s"), *times_better(seconds, peers, {"least SQL": 0.4})


def _with_ledger(put: Put) -> Put:
    policy = replace(put.schedule.policy, ledger=True)
    return put._replace(schedule=put.schedule._replace(policy=policy))


@contextlib.asynccontextmanager
async def _opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def _burst(url: str, declared: list[Put]) -> float:
    """Return the seconds from the instant at which all schedules fall due until every end is recorded."""
    clock, counter = VirtualClock("2026-03-08T11:59:59+00:00"), Counter()
    async with _opened(url) as store:
        await store.apply(Changes(declared))
        await _analyze(url)
        engine = Engine(store, CallbackLauncher({"count": counter}), clock, lambda _: None, "bench")
        engine.start()
        await clock.advance(0)
        begin = time.perf_counter()
        await clock.advance(1)
        seconds = time.perf_counter() - begin
        await engine.stop()
    assert counter.starts == len(declared), counter.starts
    return seconds


async def _analyze(url: str) -> None:
    connection = await asyncpg.connect(url.partition("?")[0])
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


async def _due_query(url: str, size: int) -> float:
    """Return the median milliseconds of a load that finds nothing."""
    async with _opened(url) as store:
        await store.apply(Changes(puts(size)))
        await _analyze(url)
        times = []
        for _ in range(ASKED):
            begin = time.perf_counter()
            await store.load((NOON - 60) * 1000, CHUNK)
            times.append(time.perf_counter() - begin)
    return sorted(times)[ASKED // 2] * 1000


async def _least_sql(url: str, n: int) -> float:
    """Return the seconds of the least statements that find, claim and end n runs."""
    connection = await asyncpg.connect(url)
    await connection.execute("SET plan_cache_mode = force_custom_plan")
    await connection.execute(_FLOOR_TABLES)
    await connection.execute(
        "INSERT INTO floor.states SELECT n, 1, 0 FROM generate_series(1, $1::int) AS n", n
    )
    await connection.execute("ANALYZE floor.states")
    begin = time.perf_counter()
    while numbers := [row[0] for row in await connection.fetch(
        "SELECT number FROM floor.states WHERE wake_at <= 0 ORDER BY wake_at, number LIMIT $1", CHUNK
    )]:  # fmt: skip
        keys = [number.to_bytes(32) for number in numbers]
        await connection.execute(
            "WITH m AS (SELECT * FROM unnest($1::bigint[], $2::bytea[]) AS m (number, key)),"
            " moved AS (UPDATE floor.states AS s SET wake_at = 1, version = version + 1, attempted_at = 1"
            " FROM m WHERE s.number = m.number RETURNING m.*)"
            " INSERT INTO floor.runs SELECT 1, number, 'STARTED', 1, NULL, key FROM moved",
            numbers, keys,
        )  # fmt: skip
        await connection.execute(
            "WITH m AS (SELECT * FROM unnest($1::bigint[]) AS m (number)),"
            " ended AS (UPDATE floor.runs SET status = 'SUCCESS', ended_at = 2 FROM m"
            " WHERE run_at = 1 AND schedule = number RETURNING schedule)"
            " UPDATE floor.states SET succeeded_at = 2, version = version + 1 FROM ended"
            " WHERE number = schedule",
            numbers,
        )  # fmt: skip
    seconds = time.perf_counter() - begin
    await connection.close()
    return seconds
