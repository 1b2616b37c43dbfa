"""The arithmetic of the page about growing, and the constants that it rests on.

`python -m benchmarks.postgres_growth` measures the constants anew, on a server of its own. The tables of the
page are made here, and a test compares them.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import defaultdict
from math import log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import asyncpg
from tests.servers import program

from benchmarks.engine_cases import Counter, with_ledger
from dutiful.core.cron.cron import Cron
from dutiful.core.placement import spread
from dutiful.core.plan.reconcile import Changes
from dutiful.launchers.callback import CallbackLauncher
from dutiful.runtime.engine import Engine
from dutiful.stores.postgres import PostgresStore
from dutiful.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

DAY = 86_400
SUNDAY = 1_772_323_200  # 2026-03-01T00:00:00Z


class Constants(NamedTuple):
    """What one schedule, and one run that is launched and ends, cost a database."""

    schedule_bytes: float
    run_bytes: float
    wal_bytes: float
    runs_per_s: float


# 18 November 2026, PostgreSQL 18.4, 20,000 schedules due at once, one engine and the server on two cores that
# other programs used more or less: three bursts had 4,700, 9,900 and 17,700 runs a second. Rounded.
MEASURED = Constants(schedule_bytes=530, run_bytes=540, wal_bytes=1200, runs_per_s=10_000)
# A mix of schedules: how many of a hundred have which cron text. Daily ones are spread over the hours.
MIX = {"0 {hour} * * *": 60, "0 * * * *": 20, "*/15 * * * *": 10, "0 3 * * 1": 9, "* * * * *": 1}
KEPT_DAYS, KEPT_ROWS = 30, 1000
NODES = (2, 5, 10, 20)
SHARDS = (16, 64, 256)


# Measuring


async def measure(url: str, count: int) -> Constants:
    """Declare schedules in the first schema of the search path, run each once, and return what that cost."""
    clock, counter = VirtualClock("2026-03-08T11:59:59+00:00"), Counter()
    store, database = PostgresStore(url), await asyncpg.connect(url)
    await store.open()
    try:
        await store.apply(Changes(with_ledger(count)))
        schedules = await _size(database, "declarations") + await _size(database, "states")
        engine = Engine(store, CallbackLauncher({"count": counter}), clock, lambda _: None, "growth")
        engine.start()
        await clock.advance(0)
        wal, begin = await database.fetchval(_WAL), time.perf_counter()
        await clock.advance(1)
        seconds = time.perf_counter() - begin
        await engine.stop()
        written = await database.fetchval(_WAL) - wal
        ledger = await _size(database, "runs")
    finally:
        await store.close()
        await database.close()
    assert counter.starts == count, counter.starts
    return Constants(schedules / count, ledger / count, float(written) / count, count / seconds)


_WAL = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"


async def _size(database: asyncpg.Connection, table: str) -> int:
    """Return the bytes of a table and its indexes."""
    size: int = await database.fetchval("SELECT pg_total_relation_size($1::regclass)", table)
    return size


# The model


def texts() -> Iterator[tuple[str, float]]:
    """Yield the cron texts of the mix, each with its share of all schedules."""
    for text, hundredths in MIX.items():
        hours = range(24) if "{hour}" in text else [0]
        for hour in hours:
            yield text.format(hour=hour), hundredths / 100 / len(hours)


def ticks(text: str) -> list[int]:
    """Return the ticks of a week, in seconds since its beginning on a Sunday."""
    cron, found = Cron.parse(text, dialect="standard"), [SUNDAY - 1]
    while (following := cron.next_epoch(found[-1])) < SUNDAY + 7 * DAY:
        found.append(following)
    return [tick - SUNDAY for tick in found[1:]]


class Load(NamedTuple):
    """What one schedule of the mix adds to a database, on average."""

    ticks_a_day: float
    rows_kept: float
    # The share of all schedules that is due at the fullest instant of a week.
    burst: float


def load() -> Load:
    """Return the load of the mix, from its ticks of a week."""
    daily, kept, due = 0.0, 0.0, defaultdict[int, float](float)
    for text, share in texts():
        week = ticks(text)
        daily += share * len(week) / 7
        kept += share * min(len(week) / 7 * KEPT_DAYS, KEPT_ROWS)
        for tick in week:
            due[tick] += share
    return Load(daily, kept, max(due.values()))


def scale_table() -> list[str]:
    """Return the table of what a database must do for so many schedules."""
    one, figures = load(), MEASURED
    lines = [
        "| schedules | ticks a day | a second | due at once | launched in | schedules | ledger | WAL a day |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for count in (100_000, 1_000_000, 10_000_000, 100_000_000):
        daily, burst = count * one.ticks_a_day, count * one.burst
        parts = [
            f"{count:,}", _amount(daily), f"{daily / DAY:,.0f}", _amount(burst),
            _duration(burst / figures.runs_per_s), _size_of(count * figures.schedule_bytes),
            _size_of(count * one.rows_kept * figures.run_bytes), _size_of(daily * figures.wal_bytes),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(parts)} |")
    return lines


def _amount(number: float) -> str:
    if number < 1e6:
        return f"{number:,.0f}"
    return f"{number / 1e6:,.1f} million" if number < 1e9 else f"{number / 1e9:,.1f} billion"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _size_of(size: float) -> str:
    return f"{size / 1e9:,.2g} GB" if size < 1e11 else f"{size / 1e12:,.2g} TB"


# Shards


def fullest_node(shards: int, nodes: int) -> float:
    """Return the load of the fullest node over the mean, as the real placement spreads shards."""
    owners = spread([None] * shards, [f"node-{n}" for n in range(nodes)])
    return max(owners.count(owner) for owner in owners) * nodes / shards


def fullest_shard(shards: int, schedules: int) -> float:
    """Return about how much the fullest shard has over the mean, if ids fall into shards at random."""
    return 1 + sqrt(2 * log(shards) * (shards - 1) / schedules)


def shards_table() -> list[str]:
    """Return the table of how even nodes and shards are."""
    lines = [
        f"| shards | {' | '.join(f'{nodes} nodes' for nodes in NODES)} | fullest shard of a million |",
        f"|---|{'---|' * len(NODES)}---|",
    ]
    for shards in SHARDS:
        nodes = [f"{fullest_node(shards, each):.2f}" for each in NODES]
        lines.append(f"| {shards} | {' | '.join(nodes)} | {fullest_shard(shards, 1_000_000):.3f} |")
    return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="dutiful-servers-") as name:
        folder = Path(name, "postgres")
        folder.mkdir(mode=0o711)
        server = program.postgres(folder, durable=True)
        server.start()
        try:
            address = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
            print(asyncio.run(measure(f"{address}?options=-c%20search_path%3Dpublic", 20_000)))
        finally:
            server.close()
