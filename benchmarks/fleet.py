"""The fleet: what a pass over ten thousand schedules costs, and how long five thousand rows take."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import Row, Section, at_most

SCHEDULES, AGENTS = 10_000, 100
# What `dutiful fleet schedules` prints, and what is read of the history.
ROWS = 5_000


def run() -> Section:
    """Measure the fleet in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.fleet"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    name = f"{SCHEDULES:,} schedules"
    rows = (
        Row(f"{name}: start", found["start"], "s", {}, (at_most(found["start"], 5, "s"),)),
        Row(f"{name}: pass with nothing due", found["pass"], "ms", {}, (at_most(found["pass"], 10, "ms"),)),
        Row(f"{name}: idle CPU", found["idle"], "%", {}, (at_most(found["idle"], 0.2, "%"),)),
        Row(f"{name}: pass after an edit of state.yaml", found["edit"], "s", {}, ()),
        Row(f"{name}: one job by hand, until it is recorded", found["job"], "s", {}, ()),
        Row(
            f"{ROWS:,} rows of the history, read",
            found["history"],
            "s",
            {},
            (at_most(found["history"], 1, "s"),),
        ),
        _row_of_command(),
    )
    notes = (
        "a pass every second; half intervals, half cron",
        "the command: a process of its own, which asks the running fleet and prints for 80 columns",
    )
    return Section("fleet", rows, notes)


def _row_of_command() -> Row:
    """Measure how long a user waits for the schedules of a running fleet."""
    schedules = "".join(f"      s{n}: {{type: cron, expression: 0 9 * * *}}\n" for n in range(ROWS // AGENTS))
    agents = "".join(f"  - name: agent-{n}\n    schedules:\n{schedules}" for n in range(AGENTS))
    words = [sys.executable, "-m", "dutiful", "fleet"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "fleet.yaml").write_text(f"version: 1\nagents:\n{agents}", encoding="utf-8")
        with subprocess.Popen([*words, "start"], cwd=folder, stdout=subprocess.PIPE, text=True) as fleet:
            try:
                assert fleet.stdout is not None
                assert any("started: " in line for line in fleet.stdout)
                took = min(_asked([*words, "schedules"], folder) for _ in range(3))
            finally:
                fleet.terminate()
    return Row(f"{ROWS:,} rows of `dutiful fleet schedules`", took, "s", {}, (at_most(took, 1, "s"),))


def _asked(command: list[str], folder: str) -> float:
    begin = time.perf_counter()
    environ = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(command, cwd=folder, env=environ, check=True, capture_output=True, text=True)
    took = time.perf_counter() - begin
    assert done.stdout.count("agent-") == ROWS
    return took


def _fleet() -> list[dict[str, object]]:
    kinds = [{"type": "interval", "interval": "1h"}, {"type": "cron", "expression": "0 9 * * *"}]
    schedules = {f"s{n}": kinds[n % 2] for n in range(SCHEDULES // AGENTS)}
    return [{"name": f"agent-{n}", "instances": {"max_concurrent": 1000}, "schedules": schedules}
            for n in range(AGENTS)]  # fmt: skip


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _measure() -> dict[str, float]:
    from dutiful.fleet import FleetScheduler

    async def job(_: object) -> None:
        pass

    with tempfile.TemporaryDirectory() as folder:
        fleet = FleetScheduler(state_dir=folder, on_trigger=job)
        begin = time.perf_counter()
        await fleet.start(_fleet())
        start = time.perf_counter() - begin
        await asyncio.sleep(5)
        used = _cpu()
        await asyncio.sleep(10)
        idle = (_cpu() - used) * 10
        begin = time.perf_counter()
        await fleet._pass()
        one_pass = time.perf_counter() - begin
        fleet.disable_schedule("agent-0", "s0")
        begin = time.perf_counter()
        await fleet._pass()
        edit = time.perf_counter() - begin
        begin = time.perf_counter()
        await fleet.trigger("agent-1", "s1")
        await fleet._pass()
        while (await fleet.get_history("agent-1", "s1", 1))[0].ended_at is None:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        job_took = time.perf_counter() - begin
        begin = time.perf_counter()
        rows = await fleet.get_recent(ROWS)
        history = time.perf_counter() - begin
        assert len(rows) == ROWS
        await fleet.stop()
    return {
        "history": history,
        "start": start,
        "idle": idle,
        "pass": one_pass * 1000,
        "edit": edit,
        "job": job_took,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure())))
