"""The PostgreSQL store: bursts beside the least SQL and peers, workers, the due query, idling, edits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import asyncpg
from tests.servers import program

from benchmarks.engine_cases import NOON, Counter, puts, with_ledger
from benchmarks.postgres_worker import SHARDS
from benchmarks.report import Goal, Row, Section, at_most, times_better
from dutiful.core.cadence import Once
from dutiful.core.changes import Changes
from dutiful.launchers.callback import CallbackLauncher
from dutiful.runtime.cluster_ports import Member
from dutiful.runtime.engine import Engine
from dutiful.stores.postgres import PostgresStore
from dutiful.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator

    from dutiful.core.changes import Put

BURST, SHARED_BURST, PEER_BURST = 100_000, 40_000, 500
CHUNK = 2000
LARGE = bool(os.environ.get("DUTIFUL_BENCH_LARGE"))
SIZES = (1_000, 100_000) + ((1_000_000,) if LARGE else ())
WORKERS = (1, 2, 4)
ASKED, IDLE_S = 50, 10.0
ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / "build" / "peers" / "bin" / "python"
MINUTE, NEXT_DAY = 60_000, (NOON + 86_400) * 1000
_FLOOR_TABLES = (
    "CREATE SCHEMA floor; CREATE TABLE floor.states (number bigint PRIMARY KEY, version bigint,"
    " wake_at bigint, attempted_at bigint, succeeded_at bigint) WITH (fillfactor = 50);"
    "CREATE INDEX ON floor.states (wake_at, number);"
    "CREATE TABLE floor.runs (run_at bigint, schedule bigint, status text, started_at bigint,"
    " ended_at bigint, key bytea, PRIMARY KEY (run_at, schedule)) WITH (fillfactor = 50);"
    "CREATE INDEX ON floor.runs (schedule, run_at); CREATE INDEX ON floor.runs (key)"
)
_HOT = (
    "SELECT 100.0 * (n_tup_upd - n_tup_hot_upd) / greatest(n_tup_upd, 1) FROM pg_stat_user_tables"
    " WHERE schemaname = $1 AND relname = 'runs'"
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
    notes = [
        f"{BURST} schedules due at one instant, through the engine; the server syncs to disk",
        f"least SQL: load, claim and end by one statement each for {CHUNK} runs, one connection, no task",
        f"workers: {SHARED_BURST} schedules of {SHARDS} shards due at once, each worker a process",
        f"due query: nothing is due; median of {ASKED}. Held snapshot: a transaction older than all moves",
        f"peers: {PEER_BURST} schedules due; procrastinate stores its jobs, the others start them",
    ]
    if not PEERS.exists():
        notes.append(f"no peers: {PEERS.relative_to(ROOT)} is missing; `make peers` installs them")
    return Section("postgres", tuple(rows), tuple(notes))


async def _rows(url: str) -> list[Row]:
    return [
        *await _bursts(url),
        *await _shared_bursts(url),
        *await _due_queries(url),
        await _idle(f"{url}?schema=idle"),
        await _edit_seen(f"{url}?schema=edits"),
        *await _beside_peers(url),
    ]


@contextlib.asynccontextmanager
async def _opened(url: str, shards: int = 1) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, shards=shards)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def _ask(url: str, statement: str, *values: object) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url.partition("?")[0])
    try:
        found: list[asyncpg.Record] = await connection.fetch(statement, *values)
        return found
    finally:
        await connection.close()


async def _median_ms(job: Callable[[], Awaitable[object]]) -> float:
    times = []
    for _ in range(ASKED):
        begin = time.perf_counter()
        await job()
        times.append(time.perf_counter() - begin)
    return median(times) * 1000


# One burst, one process


async def _bursts(url: str) -> list[Row]:
    floor = {"least SQL": await _least_sql(url, BURST)}
    kept = await _burst(f"{url}?schema=kept", with_ledger(BURST))
    inline = await _burst(f"{url}?schema=inline", puts(BURST))
    [[indexed]] = await _ask(url, _HOT, "kept")
    million = await _burst(f"{url}?schema=million", puts(1_000_000)) if LARGE else None
    return [
        Row("100k due, ledger kept", kept, "s", floor, _goals(kept, 10, floor)),
        Row("100k due, no ledger", inline, "s", floor, _goals(inline, 6.5, floor)),
        *(
            ()
            if million is None
            else [Row("1M due, no ledger", million, "s", {}, (at_most(million, 75, "s"),))]
        ),
        Row("ends of runs that touch an index", float(indexed), "%", {}, (at_most(float(indexed), 5, "%"),)),
    ]


def _goals(seconds: float, limit: float, peers: dict[str, float]) -> tuple[Goal, ...]:
    return at_most(seconds, limit, "s"), *times_better(seconds, peers, {"least SQL": 0.4})


async def _burst(url: str, declared: list[Put]) -> float:
    """Return the seconds from the instant at which all schedules fall due until every end is recorded."""
    clock, counter = VirtualClock("2026-03-08T11:59:59+00:00"), Counter()
    async with _opened(url) as store:
        await store.apply(Changes(declared))
        await _ask(url, "VACUUM ANALYZE")
        engine = Engine(store, CallbackLauncher({"count": counter}), clock, lambda _: None, "bench")
        engine.start()
        await clock.advance(0)
        begin = time.perf_counter()
        await clock.advance(1)
        seconds = time.perf_counter() - begin
        await engine.stop()
    assert counter.starts == len(declared), counter.starts
    return seconds


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


# Several workers


async def _shared_bursts(url: str) -> list[Row]:
    """Measure one burst for each number of workers; the number of cores bounds what more workers gain."""
    took = {n: await _shared_burst(f"{url}?schema=workers{n}", n) for n in WORKERS}
    alone, best = took[1], min(took.values())
    return [
        Row(f"{SHARED_BURST // 1000}k due, {n} workers", seconds, "s", {"1 worker": alone})
        for n, seconds in took.items()
        if n > 1
    ] + [
        Row("best number of workers over one", best / alone, "x", {}, (at_most(best / alone, 1 / 1.2, "x"),))
    ]


async def _shared_burst(url: str, workers: int) -> float:
    schema = url.rpartition("=")[2]
    async with _opened(url, SHARDS) as store:
        # Due long ago, asleep until all are stored and the shards have their leaders.
        past = Once(int(time.time() * 1000) - MINUTE)
        await store.claim("bench")
        await store.apply(Changes([
            put._replace(schedule=put.schedule._replace(cadence=past), wake_at=None)
            for put in with_ledger(SHARED_BURST)
        ]))  # fmt: skip
        await _ask(url, "VACUUM ANALYZE")
        with _workers(url, workers):
            await _until_led(store, workers)
            begin = time.perf_counter()
            await _ask(url, f'UPDATE "{schema}".states SET wake_at = 0, version = version + 1')
            left = f'SELECT EXISTS (SELECT 1 FROM "{schema}".states WHERE succeeded_at IS NULL)'
            while (await _ask(url, left))[0][0]:  # noqa: ASYNC110 - the workers are other processes
                await asyncio.sleep(0.05)
            return time.perf_counter() - begin


@contextlib.contextmanager
def _workers(url: str, count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep so many worker processes."""
    command = [sys.executable, "-m", "benchmarks.postgres_worker", url]
    processes = [
        subprocess.Popen([*command, f"worker-{n}"], stdin=subprocess.PIPE, cwd=ROOT) for n in range(count)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.communicate(timeout=60)


async def _until_led(store: PostgresStore, workers: int) -> None:
    """Return once every shard has a leader, and every worker as many shards as the others."""
    async with asyncio.timeout(120):
        while True:
            owners = (await store.look()).owners
            led = [owners.count(owner) for owner in {*owners} - {None}]
            if len(led) == workers and sum(led) == SHARDS and max(led) - min(led) <= 1:
                return
            await asyncio.sleep(0.1)


# The due query


async def _due_queries(url: str) -> list[Row]:
    """Measure loads at growing sizes, and at the largest size under a held snapshot."""
    took, held, thousand = {}, 0.0, 0.0
    for size in SIZES:
        async with _opened(f"{url}?schema=due{size}") as store:
            await store.lead("bench")
            await store.apply(Changes(puts(size)))
            await _ask(url, "VACUUM ANALYZE")
            took[size] = await _median_ms(lambda store=store: store.load((NOON - 60) * 1000, CHUNK))  # type: ignore[misc]
            if size == SIZES[-1]:
                thousand = await _median_ms(lambda store=store: store.load(NOON * 1000, 1000))  # type: ignore[misc]
                held = await _under_held_snapshot(f"{url}?schema=due{size}", store)
    least, most = took[SIZES[0]], took[SIZES[-1]]
    small = {f"{SIZES[0]} schedules": least}
    return [
        Row(f"due query, {SIZES[-1]} schedules", most, "ms", small, (at_most(most / least, 2, "x 1k"),)),
        Row(f"load of 1000 due of {SIZES[-1]}", thousand, "ms", {}, (at_most(thousand, 12, "ms"),)),
        Row("due query, 100k moves under a held snapshot", held, "ms", small, (at_most(held, 5, "ms"),)),
    ]


async def _under_held_snapshot(url: str, store: PostgresStore) -> float:
    """Return the median milliseconds of a load after moves whose old index entries must be kept."""
    shown = url.partition("?")[0]
    schema = url.rpartition("=")[2]
    connection = await asyncpg.connect(shown)
    try:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetch(f'SELECT 1 FROM "{schema}".states LIMIT 1')
            for _ in range(5):
                await _ask(url, f'UPDATE "{schema}".states SET wake_at = wake_at + 1 WHERE number <= 20000')
            await _ask(url, f'UPDATE "{schema}".states SET wake_at = {NEXT_DAY}')
            # An hour later, so that the moves are no longer of the last minute.
            return await _median_ms(lambda: store.load((NOON + 3600) * 1000, CHUNK))
    finally:
        await connection.close()


# Idling and edits


async def _idle(url: str) -> Row:
    """Measure what a worker of all shards costs while nothing is due."""
    async with _opened(url, SHARDS) as store:
        far = Once(4_000_000_000_000)
        await store.claim("bench")
        await store.apply(Changes([
            put._replace(schedule=put.schedule._replace(cadence=far), wake_at=far.at) for put in puts(10_000)
        ]))  # fmt: skip
        with _workers(url, 1) as [process]:
            await _until_led(store, 1)
            await asyncio.sleep(2)
            begin = _cpu(process.pid)
            await asyncio.sleep(IDLE_S)
            percent = (_cpu(process.pid) - begin) / IDLE_S * 100
    return Row(f"idle worker of {SHARDS} shards", percent, "% CPU", {}, (at_most(percent, 0.4, "% CPU"),))


def _cpu(pid: int) -> float:
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _edit_seen(url: str) -> Row:
    """Measure from an edit on one node until another one is told of it."""
    heard: asyncio.Queue[Collection[int]] = asyncio.Queue()
    async with _opened(url) as first, _opened(url) as second:
        await second.join(Member("other", "other", "bench", os.getpid()), heard.put_nowait)
        await asyncio.sleep(0.5)
        edits = iter(puts(ASKED))

        async def edit() -> None:
            while not heard.empty():
                heard.get_nowait()
            await first.apply(Changes([next(edits)]))
            while not await asyncio.wait_for(heard.get(), 10):
                pass

        took = await _median_ms(edit)
    return Row("edit, told to another node", took, "ms", {}, (at_most(took, 10, "ms"),))


# Peers


async def _beside_peers(url: str) -> list[Row]:
    if not PEERS.exists():
        return []
    ours = await _burst(f"{url}?schema=peers", with_ledger(PEER_BURST))
    took = {name: await _peer(url, name) for name in ("pgqueuer", "procrastinate", "apscheduler")}
    peers = {name: seconds for name, seconds in took.items() if seconds is not None}
    return [
        Row(f"{PEER_BURST} due", ours, "s", peers, times_better(ours, peers, dict.fromkeys(peers, 2.0))),
    ]


async def _peer(url: str, name: str) -> float | None:
    """Return the seconds of a peer on a database of its own; None if it fails or takes over two minutes."""
    await _ask(url, f'CREATE DATABASE "{name}"')
    command = [str(PEERS), "postgres_peers.py", name, f"{url.rpartition('/')[0]}/{name}", str(PEER_BURST)]
    try:
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=ROOT / "benchmarks", capture_output=True, text=True, timeout=120,
            check=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    except subprocess.CalledProcessError as error:
        print(f"{name} failed: {error.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return float(done.stdout)
