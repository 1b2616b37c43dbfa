"""The declarative scheduler: many tasks of a few hundred cron texts, all due in the same minute, on SQLite.

A hundred thousand tasks by default; `DUTIFUL_BENCH_LARGE=1` measures a million, which takes minutes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from typing import Any

from benchmarks.engine_cases import TEXTS, Counter, resident
from benchmarks.report import Goal, Row, Section, at_most

TASKS = 1_000_000 if os.environ.get("DUTIFUL_BENCH_LARGE") else 100_000
_LIMITS = {
    # Registering durably, dispatching with records, restarting; seconds.
    100_000: (3.0, 3.0, 0.8),
    1_000_000: (30.0, 35.0, 10.0),
}


def run() -> Section:
    """Measure a first life, one that is killed half-way, and the one after it."""
    register, dispatch, restart = _LIMITS[TASKS]
    with tempfile.TemporaryDirectory() as folder:
        first = _life(f"{folder}/first.db")
        _life(f"{folder}/killed.db", kill=True)
        again = _life(f"{folder}/killed.db")
    name = f"{TASKS:,} tasks"
    figures = [
        (f"{name}: initialize", first["initialize"], "s", register),
        (f"{name}: memory per task", first["bytes"], "bytes", 734),
        (f"{name} due at once: last started, recorded", first["last"], "s", dispatch),
        ("after a kill half-way: initialize", again["initialize"], "s", restart),
        ("after a kill half-way: last started", again["last"], "s", dispatch),
    ]
    rows = [
        Row(text, value, unit, {}, (at_most(value, limit, unit),)) for text, value, unit, limit in figures
    ]
    rows.append(Row("of them started", first["started"], "", {}, (Goal("all", first["started"] == TASKS),)))
    notes = (
        f"{len(TEXTS)} distinct cron texts; each life in a fresh process; one try",
        f"the life after the kill started {again['started']:,}: what was still owed, and what was in flight",
    )
    return Section("declarative", tuple(rows), notes)


def _life(path: str, kill: bool = False) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.declarative", path, str(TASKS // 2 if kill else 0)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if kill:
        assert done.returncode == -signal.SIGKILL, done.stderr
        return {}
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout)
    return found


class _Doomed(Counter):
    """Counts starts, and ends the process at one of them."""

    def __init__(self, die_at: int) -> None:
        super().__init__()
        self._die_at = die_at

    async def __call__(self) -> None:
        await super().__call__()
        if self.starts == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)


async def _measure(path: str, die_at: int) -> dict[str, Any]:
    from dutiful import Scheduler
    from dutiful.testing import VirtualClock

    clock, counter = VirtualClock("2026-03-08T11:59:59+00:00"), _Doomed(die_at)
    delay = timedelta(minutes=1)
    before = resident()
    registrations = [(f"task-{n}", TEXTS[n % len(TEXTS)], counter, delay) for n in range(TASKS)]
    scheduler = Scheduler(f"sqlite:{path}", clock=clock, timezone="UTC")
    begin = time.perf_counter()
    await scheduler.initialize(registrations)
    initialized = time.perf_counter() - begin
    used = resident() - before
    begin = time.perf_counter()
    await clock.advance(1)
    last = counter.last - begin
    await scheduler.stop()
    return {
        "initialize": initialized, "bytes": used / TASKS, "last": last, "started": counter.starts,
    }  # fmt: skip


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    print(json.dumps(asyncio.run(_measure(sys.argv[1], int(sys.argv[2])))))
