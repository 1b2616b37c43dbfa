"""What the engine section measures, one case per fresh process: `python -m benchmarks.engine_cases CASE N`.

Each case prints one JSON object of figures in seconds, bytes or percent.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sqlite3
import sys
import tempfile
import time
from dataclasses import replace
from statistics import quantiles

from dutiful.core.cadence import Once
from dutiful.core.changes import Changes, Put
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.jitter import first_wake
from dutiful.core.plan.reconcile import reconcile
from dutiful.core.policy import CatchUp, OnOrphan, Overlap, Policy, Retry
from dutiful.core.schedule import Schedule, State, Task
from dutiful.launchers.callback import CallbackLauncher
from dutiful.runtime.clock import SystemClock
from dutiful.runtime.engine import Engine
from dutiful.stores.memory import MemoryStore
from dutiful.stores.sqlite import SqliteStore
from dutiful.testing import VirtualClock

NOON = 1_772_971_200  # 2026-03-08T12:00:00Z
# A few hundred texts, as a million schedules would have; all are due at noon.
TEXTS = [f"0 12 * * {day}" for day in ("*", "0", "0-6")] + [f"{n},0 12 * * *" for n in range(1, 60)]
DECLARED = Policy(
    Overlap.BUFFER_ONE, CatchUp.LATEST, 0, retry=Retry(60_000), on_orphan=OnOrphan.RESTART,
    run_timeout=None, ledger=False,
)  # fmt: skip


def puts(n: int, texts: list[str] = TEXTS) -> list[Put]:
    """Return n schedules that were armed an hour before noon."""
    crons = [Cron.parse(text) for text in texts]
    state = State(cursor=(NOON - 3600) * 1000)
    schedules = (Schedule(f"task-{i}", Task("count"), crons[i % len(crons)], DECLARED) for i in range(n))
    return [Put(schedule, state, first_wake(schedule, state)) for schedule in schedules]


def with_ledger(n: int) -> list[Put]:
    """Return the same schedules, whose runs stay in the ledger."""
    made = puts(n)
    policies = {id(put.schedule.policy): replace(put.schedule.policy, ledger=True) for put in made}
    return [
        put._replace(schedule=put.schedule._replace(policy=policies[id(put.schedule.policy)])) for put in made
    ]


def resident() -> int:
    """Return the resident bytes of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu() -> float:
    """Return the CPU seconds of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Counter:
    """A task that only counts its starts and remembers the instants of the first and the last."""

    def __init__(self) -> None:
        self.starts = 0
        self.first = self.last = 0.0

    async def __call__(self) -> None:
        self.last = time.perf_counter()
        self.first = self.first or self.last
        self.starts += 1


async def register_memory(n: int) -> dict[str, float]:
    """Register n schedules in the memory store."""
    store = MemoryStore()
    gc.collect()
    before, begin = resident(), time.perf_counter()
    await store.apply(Changes(puts(n)))
    seconds = time.perf_counter() - begin
    gc.collect()
    return {"seconds": seconds, "bytes": (resident() - before) / n}


async def register_sqlite(n: int) -> dict[str, float]:
    """Register n schedules durably in one commit; then start anew and declare all of them again."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(f"{folder}/state.db")
        await store.open()
        changes = Changes(puts(n))
        declared = [put.schedule for put in changes.puts]
        begin = time.perf_counter()
        await store.apply(changes)
        seconds = time.perf_counter() - begin
        await store.close()
        begin = time.perf_counter()
        await store.open()
        await store.lead("again")
        differences, changes = reconcile(await store.survey(declared), lambda _: State(0))
        await store.apply(changes)
        restart = time.perf_counter() - begin
        assert differences == []
        await store.close()
    return {"seconds": seconds, "restart": restart}


async def dispatch(n: int, store: MemoryStore | SqliteStore) -> dict[str, float]:
    """Let n schedules fall due at one instant; until the last has started, and until all is recorded."""
    clock = VirtualClock("2026-03-08T11:59:59+00:00")
    counter = Counter()
    await store.open()
    await store.apply(Changes(puts(n)))
    engine = Engine(store, CallbackLauncher({"count": counter}), clock, lambda _: None, "bench")
    engine.start()
    await clock.advance(0)
    gc.collect()
    gc.freeze()
    begin = time.perf_counter()
    await clock.advance(1)
    ended = time.perf_counter()
    await engine.stop()
    await store.close()
    assert counter.starts == n, counter.starts
    return {"first": counter.first - begin, "last": counter.last - begin, "recorded": ended - begin}


async def dispatch_memory(n: int) -> dict[str, float]:
    """Dispatch from the memory store."""
    return await dispatch(n, MemoryStore())


async def dispatch_sqlite(n: int) -> dict[str, float]:
    """Dispatch from a SQLite file with full synchronisation."""
    with tempfile.TemporaryDirectory() as folder:
        return await dispatch(n, SqliteStore(f"{folder}/state.db"))


async def floor_sqlite(n: int) -> dict[str, float]:
    """Do the least work that records each start, runs a task and records each end, in chunks of 10,000."""
    counter = Counter()
    with tempfile.TemporaryDirectory() as folder:
        db = sqlite3.connect(f"{folder}/floor.db", isolation_level=None)
        db.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-65536;"
            "CREATE TABLE runs (run_at INTEGER, schedule INTEGER, status INTEGER, started INTEGER,"
            " ended INTEGER,"
            " PRIMARY KEY (run_at, schedule)) WITHOUT ROWID;"
            "CREATE TABLE schedules (number INTEGER PRIMARY KEY, next INTEGER, attempted INTEGER,"
            " succeeded INTEGER)"
        )
        db.executemany("INSERT INTO schedules (number, next) VALUES (?, ?)", ((i, NOON) for i in range(n)))
        begin = time.perf_counter()
        for low in range(0, n, 10_000):
            chunk = range(low, min(low + 10_000, n))
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO runs VALUES (?, ?, 1, ?, NULL)", ((NOON, i, NOON) for i in chunk))
            db.executemany("UPDATE schedules SET attempted = ? WHERE number = ?", ((NOON, i) for i in chunk))
            db.execute("COMMIT")
            await asyncio.gather(*(asyncio.create_task(counter()) for _ in chunk))
            db.execute("BEGIN IMMEDIATE")
            db.executemany(
                "UPDATE runs SET status = 2, ended = ? WHERE run_at = ? AND schedule = ?",
                ((NOON, NOON, i) for i in chunk),
            )
            db.executemany(
                "UPDATE schedules SET succeeded = ?, next = ? WHERE number = ?",
                ((NOON, NOON + 86400, i) for i in chunk),
            )
            db.execute("COMMIT")
        seconds = time.perf_counter() - begin
        db.close()
    return {"recorded": seconds}


async def floor_tasks(n: int) -> dict[str, float]:
    """Create n tasks and wait until all have run."""
    counter = Counter()
    gc.collect()
    begin = time.perf_counter()
    await asyncio.gather(*(asyncio.create_task(counter()) for _ in range(n)))
    return {"last": counter.last - begin}


async def idle(n: int) -> dict[str, float]:
    """Hold n schedules of which none is due, and measure what waiting costs."""
    store = MemoryStore()
    far = Policy()
    state = State(cursor=0)
    one = Once(4_000_000_000_000)
    await store.apply(Changes([Put(Schedule(f"s{i}", Task("x"), one, far), state, one.at) for i in range(n)]))
    engine = Engine(store, CallbackLauncher({}), SystemClock(), lambda _: None, "bench")
    engine.start()
    await asyncio.sleep(1)
    seconds, begin = 10.0, cpu()
    await asyncio.sleep(seconds)
    used = cpu() - begin
    await engine.stop()
    return {"percent": used / seconds * 100}


async def lateness(n: int) -> dict[str, float]:
    """Let one schedule of n be due every second, by the real clock, and see how late it starts."""
    late: list[float] = []

    async def note() -> None:
        late.append(time.time() % 1)

    store = MemoryStore()
    await store.apply(Changes(puts(n)))
    every_second = Cron.parse("* * * * * *", "seconds")
    now = int(time.time() * 1000)
    schedule, state = Schedule("tick", Task("note"), every_second, Policy()), State(cursor=now)
    await store.apply(Changes([Put(schedule, state, first_wake(schedule, state))]))
    engine = Engine(
        store, CallbackLauncher({"note": note, "count": note}), SystemClock(), lambda _: None, "bench"
    )
    engine.start()
    await asyncio.sleep(12)
    await engine.stop()
    cuts = quantiles(late[-10:], n=100)
    return {"p50": cuts[49] * 1000, "p99": cuts[98] * 1000}


async def apscheduler(n: int) -> dict[str, float]:
    """Register n cron jobs with APScheduler 3 in memory, and start them all at one instant."""
    from datetime import UTC, datetime

    from apscheduler.schedulers.asyncio import AsyncIOScheduler
    from apscheduler.triggers.cron import CronTrigger

    counter = Counter()

    async def job() -> None:
        await counter()

    scheduler = AsyncIOScheduler(timezone=UTC)
    scheduler.start(paused=True)
    begin = time.perf_counter()
    for i in range(n):
        trigger = CronTrigger.from_crontab("0 12 * * *", timezone=UTC)
        scheduler.add_job(job, trigger, id=str(i), misfire_grace_time=None)
    seconds = time.perf_counter() - begin
    for job in scheduler.get_jobs():
        job.modify(next_run_time=datetime.now(UTC))
    begin = time.perf_counter()
    scheduler.resume()
    async with asyncio.timeout(120):
        while counter.starts < n:  # noqa: ASYNC110 - a peer offers no event to wait for
            await asyncio.sleep(0.001)
    scheduler.shutdown(wait=False)
    return {"seconds": seconds, "last": counter.last - begin}


CASES = {
    case.__name__: case
    for case in (
        register_memory, register_sqlite, dispatch_memory, dispatch_sqlite, floor_sqlite, floor_tasks,
        idle, lateness, apscheduler,
    )
}  # fmt: skip

if __name__ == "__main__":
    print(json.dumps(asyncio.run(CASES[sys.argv[1]](int(sys.argv[2])))))
