"""The engine: registering, restarting, starting many at one instant with and without a record, idling."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from statistics import median

from benchmarks.report import Goal, Row, Section, at_most

# A million takes minutes; `DUTIFUL_BENCH_LARGE=1` adds it.
LARGE = bool(os.environ.get("DUTIFUL_BENCH_LARGE"))


def run() -> Section:
    """Measure the goals on capacity, dispatch, durable state and idling."""
    rows = [*_registering(), *_dispatching(), *_recording(), *_waiting()]
    notes = (
        "each case in a fresh process; wall time, median of three",
        "floor: the least work that records each start, runs a task and records its end (SQLite, FULL)",
        "a start is recorded before the task runs and its end afterwards, also in the rows without a floor",
    )
    return Section("engine", tuple(rows), notes)


def _registering() -> list[Row]:
    ours, peer = measure("register_memory", 100_000), measure("apscheduler", 2_000)
    each, theirs = ours["seconds"] / 100_000 * 1e6, peer["seconds"] / 2_000 * 1e6
    durable = measure("register_sqlite", 100_000)
    return [
        Row("register in memory, each", each, "us", {"APScheduler 3": theirs}, (at_most(each, 10, "us"),)),
        Row("memory per schedule", ours["bytes"], "bytes", {}, (at_most(ours["bytes"], 650, "bytes"),)),
        Row("register 100k durably", durable["seconds"], "s", {}, (at_most(durable["seconds"], 3, "s"),)),
        Row("restart with 100k", durable["restart"], "s", {}, (at_most(durable["restart"], 0.8, "s"),)),
    ]


def _dispatching() -> list[Row]:
    rows = []
    for n, limit in ((1_000, None), (10_000, 0.15), (100_000, 1.5)):
        ours = measure("dispatch_memory", n)["last"]
        peers = {"create_task": measure("floor_tasks", n)["last"]}
        if n <= 10_000:
            peers["APScheduler 3"] = measure("apscheduler", n, 1)["last"]
        goals = () if limit is None else (at_most(ours, limit, "s"),)
        rows.append(Row(f"{n:,} due at once, in memory: last started", ours, "s", peers, goals))
    return rows


def _recording() -> list[Row]:
    sizes = (1_000, 10_000, 100_000, *((1_000_000,) if LARGE else ()))
    limits = {10_000: 0.3, 100_000: 3.0, 1_000_000: 35.0}
    rows, seconds = [], {}
    for n in sizes:
        ours, floor = measure("dispatch_sqlite", n), measure("floor_sqlite", n)["recorded"]
        seconds[n] = ours["recorded"]
        goals = [Goal("first start < 0.5 s", ours["first"] < 0.5)]
        goals += (
            [
                at_most(seconds[n], limits[n], "s"),
                at_most(seconds[n] / floor, 2.2 if n == 1_000_000 else 2.5, "x floor"),
            ]
            if n in limits
            else []
        )
        rows.append(
            Row(f"{n:,} due at once, SQLite: all recorded", seconds[n], "s", {"floor": floor}, tuple(goals))
        )
    growth = seconds[100_000] / seconds[10_000]
    return [*rows, Row("time of 100k over time of 10k", growth, "x", {}, (at_most(growth, 15, "x"),))]


def _waiting() -> list[Row]:
    percent, late = measure("idle", 10_000, 1)["percent"], measure("lateness", 10_000, 1)
    return [
        Row("idle CPU, 10k schedules", percent, "%", {}, (at_most(percent, 0.2, "%"),)),
        Row("start lateness p50, 10k schedules", late["p50"], "ms", {}, (at_most(late["p50"], 5, "ms"),)),
        Row("start lateness p99, 10k schedules", late["p99"], "ms", {}, (at_most(late["p99"], 50, "ms"),)),
    ]


def measure(case: str, n: int, tries: int = 3) -> dict[str, float]:
    """Return the median figures of a case, each try in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.engine_cases", case, str(n)]
    answers = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(tries)
    ]
    return {name: median(answer[name] for answer in answers) for name in answers[0]}
