"""A process that runs the engine on a SQLite file for ten virtual minutes, or until it kills itself.

Usage: worker.py DATABASE LOG START LABEL NTH. At the NTH time the engine passes the checkpoint LABEL
the process sends itself SIGKILL. Every launch is one line appended to LOG, which nothing takes back.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime

from dutiful.core.cadence import Every
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.edit import arm
from dutiful.core.plan.outcome import Failed, Succeeded
from dutiful.core.policy import CatchUp, OnOrphan, Overlap, Policy, Retry
from dutiful.core.schedule import Schedule, Task
from dutiful.runtime.engine import Engine
from dutiful.runtime.registrar import Registrar
from dutiful.stores.sqlite import SqliteStore
from dutiful.testing import VirtualClock

ROUND_SECONDS = 600
EVERY_MINUTE = Cron.parse("* * * * *")

SCHEDULES = [
    Schedule("at-least-once", Task("work"), EVERY_MINUTE, Policy(Overlap.ALLOW, CatchUp.FIRE_IMMEDIATELY)),
    Schedule(
        "at-most-once",
        Task("work"),
        EVERY_MINUTE,
        Policy(Overlap.SKIP, CatchUp.NONE, on_orphan=OnOrphan.GIVE_UP),
    ),
    Schedule(
        "restarts",
        Task("fails"),
        Cron.parse("0,2,4,6,8,10,12,14,16,18,20,30,40,50 * * * *"),
        Policy(
            Overlap.BUFFER_ONE,
            CatchUp.LATEST,
            0,
            retry=Retry(20_000),
            on_orphan=OnOrphan.RESTART,
            run_timeout=None,
        ),
    ),
    Schedule("queues", Task("slow"), EVERY_MINUTE, Policy(Overlap.QUEUE, CatchUp.SPREAD, queue_limit=5)),
    Schedule(
        "period", Task("slow"), Every(90_000), Policy(Overlap.SKIP, CatchUp.LATEST, on_orphan=OnOrphan.WAIT)
    ),
]


class LoggingLauncher:
    """Writes each launch down before it does anything else."""

    in_process = True

    def __init__(self, clock, path):
        self._clock = clock
        self._log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def launch(self, launch):
        run = launch.run
        os.write(self._log, f"{run.schedule_id} {run.run_at} {run.attempt} {run.epoch}\n".encode())
        if launch.schedule.task.name == "slow":
            await self._clock.sleep(95)
        fails = launch.schedule.task.name == "fails" and run.attempt < 3
        return Failed("as planned") if fails else Succeeded()


def killer(label, nth):
    """Return a checkpoint that ends this process at the nth passing of `label`."""
    left = nth

    def checkpoint(passed):
        nonlocal left
        left -= passed == label
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return checkpoint


async def main(database, log, start, label, nth):
    clock = VirtualClock(datetime.fromtimestamp(int(start), UTC))
    store = SqliteStore(database)
    await store.open()
    launcher = LoggingLauncher(clock, log)
    engine = Engine(
        store, launcher, clock, lambda _: None, f"worker-{os.getpid()}", checkpoint=killer(label, int(nth))
    )
    now = int(start) * 1000
    # The registrar is the first writer only; later rounds find the schedules as they were.
    if not await store.every():
        await Registrar(store, clock, lambda: None).declare(
            SCHEDULES, lambda schedule: arm(schedule, now).state
        )
    engine.start()
    await clock.advance(ROUND_SECONDS)
    engine.abandon()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
