"""The fleet: what a pass over ten thousand schedules costs, with nothing due and after an edit."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time

from benchmarks.report import Row, Section, at_most

SCHEDULES, AGENTS = 10_000, 100


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
    )
    return Section("fleet", rows, ("a pass every second; half intervals, half cron",))


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
        await fleet.stop()
    return {"start": start, "idle": idle, "pass": one_pass * 1000, "edit": edit, "job": job_took}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure())))
