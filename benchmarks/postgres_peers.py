"""Peers of the PostgreSQL store: `PYTHON postgres_peers.py PEER URL N` prints the seconds of N schedules.

Run by an interpreter of its own, with the packages of `peers.txt`, which contradict the project's lock.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime
from typing import Any

_started = 0


async def count() -> None:
    """Count a start."""
    global _started  # noqa: PLW0603 - peers that store their jobs import the function by name
    _started += 1


async def _all_started(n: int) -> None:
    while _started < n:  # noqa: ASYNC110 - a peer offers no event to wait for
        await asyncio.sleep(0.002)


async def apscheduler(url: str, n: int) -> float:
    """Return the seconds until APScheduler 4 has started n schedules that are due."""
    from apscheduler import AsyncScheduler
    from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
    from apscheduler.triggers.date import DateTrigger
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
    async with AsyncScheduler(SQLAlchemyDataStore(engine)) as scheduler:
        for number in range(n):
            await scheduler.add_schedule(count, DateTrigger(datetime.now(UTC)), id=str(number))
        begin = time.perf_counter()
        await scheduler.start_in_background()
        await _all_started(n)
        return time.perf_counter() - begin


async def pgqueuer(url: str, n: int) -> float:
    """Return the seconds until pgqueuer has started n schedules that are due."""
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver

    connection = await asyncpg.connect(url)
    driver = AsyncpgDriver(connection)
    queuer = PgQueuer(driver)
    await queuer.qm.queries.install()

    async def job(_: Any) -> None:
        await count()

    for number in range(n):
        queuer.schedule(f"s{number}", "* * * * *")(job)
    due_in = {entry: executor.next_in() for entry, executor in queuer.sm.registry.items()}
    await queuer.sm.queries.insert_schedule(due_in)
    await connection.execute("UPDATE pgqueuer_schedules SET next_run = now()")
    begin = time.perf_counter()
    running = asyncio.create_task(queuer.sm.run())
    await _all_started(n)
    seconds = time.perf_counter() - begin
    queuer.shutdown.set()
    running.cancel()
    return seconds


async def procrastinate(url: str, n: int) -> float:
    """Return the seconds in which procrastinate stores the jobs of n periodic tasks that are due."""
    from procrastinate import App, PsycopgConnector
    from procrastinate.periodic import PeriodicDeferrer

    app = App(connector=PsycopgConnector(conninfo=url))
    for number in range(n):
        app.periodic(cron="* * * * *")(app.task(name=f"s{number}")(count))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        deferrer = PeriodicDeferrer(registry=app.periodic_registry)
        due = [(task, int(time.time())) for task in app.periodic_registry.periodic_tasks.values()]
        begin = time.perf_counter()
        await deferrer.defer_jobs(due)
        return time.perf_counter() - begin


if __name__ == "__main__":
    # Imported by its name: peers store the name of the function, and import it from there.
    import postgres_peers

    peer, url, n = sys.argv[1:]
    print(asyncio.run(getattr(postgres_peers, peer)(url, int(n))))
