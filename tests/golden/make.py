"""Writes `sqlite-schema-1.sql`: run `python -m tests.golden.make` after every change of the schema.

Until the first release there is one golden file and it is written anew. From then on the file of a released
schema is never written again, because databases like it exist.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
from pathlib import Path
from zoneinfo import ZoneInfo

from tests.stores.notation import MINUTE, T0, declare, end, ending, make_moves, pass_at, put, report, schedule

from dutiful.core.cadence import Every, Once, OnDemand
from dutiful.core.changes import Changes, Note, Put
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.backfill import backfill
from dutiful.core.plan.edit import paused_until
from dutiful.core.plan.outcome import Accepted, Failed
from dutiful.core.policy import Capacity, CatchUp, OnOrphan, Overlap, Policy, Retry
from dutiful.core.run import Status
from dutiful.core.schedule import Schedule, Task, Window
from dutiful.core.workflow import PutWorkflow, Workflow
from dutiful.stores.sqlite import SqliteStore

FILE = Path(__file__).with_name("sqlite-schema-1.sql")

BERLIN = ZoneInfo("Europe/Berlin")
RICH = Policy(
    overlap=Overlap.QUEUE,
    catch_up=CatchUp.SPREAD,
    grace=1,
    catch_up_cap=2,
    jitter=3,
    jitter_early=False,
    retry=Retry(4, 5, 6),
    launch_retry=Retry(7, None, 8),
    capacity=Capacity("agent", 7),
    max_runs=8,
    on_orphan=OnOrphan.GIVE_UP,
    run_timeout=9,
    queue_limit=10,
    retention_age=11,
    retention_rows=12,
)
WEEKDAYS = Cron.parse("30 2 * * 1-5", "standard", BERLIN, "run_after", "first")
SCHEDULES = [
    schedule("asked", OnDemand()),
    schedule("busy", overlap=Overlap.ALLOW, capacity=Capacity("agent", 2)),
    schedule("failing", retry=Retry(5000, 2)),
    schedule("once", Once(T0), ledger=False),
    schedule("paused", paused=True),
    schedule("period", Every(90_000, "start")),
    schedule("plain"),
    Schedule("rich", Task("report", '{"to": "é日"}'), WEEKDAYS, RICH, Window(T0, T0 + 10**9)),
]
PAYLOAD = '{"workflow_id":"report","version":3,"user_id":"ada","labels":{"team":"é日"}}'
EVERY_MINUTE = Cron.parse("*/1 * * * *", "standard", BERLIN)
NIGHTLY = Schedule("nightly", Task("workflow", PAYLOAD), EVERY_MINUTE, Policy(overlap=Overlap.ALLOW))
OUTCOMES = {"failing": Failed("exit status 1"), "busy": Accepted("job 7")}


def golden() -> str:
    """Return the SQL of a database in which every kind of row occurs."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "state.db")
        for namespace, scenario in (("default", run_plain), ("service", run_service), ("inline", run_inline)):
            asyncio.run(_in_store(path, namespace, scenario))
        connection = sqlite3.connect(path)
        lines = [f"PRAGMA application_id = {connection.execute('PRAGMA application_id').fetchone()[0]};"]
        lines += connection.iterdump()
        connection.close()
    return "\n".join(lines) + "\n"


async def _in_store(path, namespace, scenario):
    store = SqliteStore(path, namespace=namespace)
    await store.open()
    assert await store.lead("me") == 1
    await scenario(store)
    await store.close()


async def run_plain(store):
    """Three minutes of schedules that do all that schedules do."""
    owing = [each for each in SCHEDULES if each.id not in ("asked", "rich")]
    await declare(store, *owing)
    asked, rich = (next(each for each in SCHEDULES if each.id == id_) for id_ in ("asked", "rich"))
    await store.apply(Changes([put(rich, T0 + 10**8, T0), put(asked, None)]))
    for minute in range(3):
        now = T0 + minute * MINUTE
        for launch in await pass_at(store, now):
            if launch.schedule.id != "once":
                await end(store, launch, now + 10, OUTCOMES.get(launch.schedule.id))


async def run_service(store):
    """A run that was accepted, skipped ticks while paused, and one of them run by a backfill."""
    workflow = Workflow("report", 3, "ada", '{"nodes":["\\u00e9\\u65e5"]}', T0)
    await store.apply(Changes(workflows=[PutWorkflow(workflow)]))
    await store.apply(Changes([put(NIGHTLY, T0 + MINUTE, T0)]))
    [launch] = await pass_at(store, T0 + MINUTE)
    await end(store, launch, T0 + MINUTE, Accepted("job 9"))
    due = await store.get("nightly")
    assert await report(store, due.runs[0], T0 + MINUTE, Status.STARTED)
    due = await store.get("nightly")
    paused = Put(paused_until(NIGHTLY, T0 + 10**9), due.state, T0 + 2 * MINUTE, due.version)
    await store.apply(
        Changes([paused], notes=[("nightly", Note(T0 + MINUTE, "moving house", T0 + MINUTE, "ada"))])
    )
    now = T0 + 5 * MINUTE
    await store.commit(await make_moves(store, now), 1)
    due, rows = await store.get("nightly"), await store.ledger("nightly", None, 10)
    await store.apply(backfill(due, [T0 + 3 * MINUTE], rows, Overlap.ALLOW, now).changes)
    [launch] = await pass_at(store, now)
    await store.settle([ending(launch, now + 1000, Failed("exit status 1"))], 1)


async def run_inline(store):
    """A run that has no row, because its state holds all facts of it."""
    await declare(store, schedule("inline", run_timeout=None, ledger=False))
    await pass_at(store, T0)


if __name__ == "__main__":
    FILE.write_text(golden(), encoding="utf-8")
    sys.stdout.write(f"wrote {FILE}\n")
