"""A broker that is away for a minute under schedules that fire every second."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis
from tests.crash.test_service_kills import Service as ServiceProcess
from tests.ports import port_without_listener
from tests.servers import program

from dutiful.service import ScheduleInput, Service, settings_from
from dutiful.testing import VirtualClock

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
NAMES = [f"s{n}" for n in range(5)]
EVERY_SECOND = {
    "workflow_id": "w",
    "version": 1,
    "user_id": "u",
    "timezone": "UTC",
    "cron_expr": "* * * * * *",
}
OUTAGE_S, BACK_S = 60, 300


def added(port: int) -> list[tuple[str, str]]:
    """Return (schedule, tick) of every run in the stream."""
    with redis.Redis(port=port) as client:
        metas = [json.loads(fields[b"body"])["meta"] for _, fields in client.xrange("dutiful:runs")]
    return [(meta["schedule_id"], meta["scheduled_for"]) for meta in metas]


async def outage(server: program.Program, **policy: str):
    """Fire through an outage on a virtual clock; return the rows by schedule."""
    clock = VirtualClock(START.isoformat())
    url = f"redis://127.0.0.1:{server.port}/0"
    environ = {"DUTIFUL_STORE": "memory:", "DUTIFUL_EXECUTOR": url, "DUTIFUL_LAUNCH_RETRIES": "8"}
    service = await Service(settings_from(environ), clock).start()
    try:
        await service.workflows.save_dag("w", 1, {"nodes": []})
        for name in NAMES:
            given = ScheduleInput(schedule_id=name, **EVERY_SECOND, run_timeout_s=86_400, **policy)
            await service.registrar.upsert_schedule(given)
        await clock.advance(5)
        server.stop()
        await clock.advance(OUTAGE_S)
        server.start()
        for name in NAMES:
            await service.registrar.pause_schedule(name, paused=True)
        await clock.advance(BACK_S)
        return {name: (await service.registrar.runs(name, limit=1000)).items for name in NAMES}
    finally:
        await service.stop()


@pytest.mark.parametrize("overlap", ["allow", "skip"])
def test_every_tick_of_the_outage_is_published_once_or_skipped_with_its_reason(tmp_path, overlap):
    server = program.valkey(tmp_path)
    server.start()
    try:
        rows = asyncio.run(outage(server, overlap_policy=overlap))
        published = added(server.port)
    finally:
        server.close()
    for name in NAMES:
        fired = [row for row in rows[name] if row.reason != "paused"]
        assert sum(row.ticks for row in fired) == 5 + OUTAGE_S
        launched = {row.run_at for row in fired if row.status == "ENQUEUED"}
        # Nothing that the ledger calls launched is missing from the stream, and nothing is there twice.
        ticks = [datetime.fromisoformat(tick) for schedule, tick in published if schedule == name]
        assert sorted(ticks) == sorted(launched)
        assert {row.reason for row in fired} == ({None} if overlap == "allow" else {None, "overlap"})
        assert len(launched) == (5 + OUTAGE_S if overlap == "allow" else 1)


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_real_minute_without_broker_loses_nothing_and_takes_no_memory(tmp_path, capfd):
    (tmp_path / "broker").mkdir()
    server = program.valkey(tmp_path / "broker")
    with ExitStack() as stack:
        stack.callback(server.close)
        server.start()
        port = stack.enter_context(port_without_listener())
        service = ServiceProcess(tmp_path, f"redis://127.0.0.1:{server.port}/0", port)
        service._environ["DUTIFUL_LAUNCH_RETRIES"] = "8"
        service.start()
        stack.callback(lambda: service.kill(15))
        service.ask("PUT", "/workflows/w/1", {"nodes": []})
        for name in NAMES:
            given = {"schedule_id": name, **EVERY_SECOND, "overlap_policy": "allow", "run_timeout_s": 86_400}
            service.ask("POST", "/schedules/upsert", given)
        time.sleep(15)
        before = resident_mb(service._process.pid)
        server.stop()
        time.sleep(OUTAGE_S)
        during = resident_mb(service._process.pid)
        server.start()
        for name in NAMES:
            service.ask("POST", "/schedules/pause", {"schedule_id": name, "paused": True})
        rows = settled(service)
        published = added(server.port)
    with capfd.disabled():
        print(
            f"\n{len(published)} published, {before:.0f} MB before and {during:.0f} MB after", file=sys.stderr
        )
    launched = [(row["schedule_id"], row["run_at"]) for row in rows if row["reason"] != "paused"]
    assert sorted(published) == sorted(launched)
    assert len(launched) >= 5 * (OUTAGE_S + 10)
    assert during < before + 30


def settled(service) -> list[dict]:
    """Return the rows once the broker has every run that is not skipped."""
    deadline = time.monotonic() + 300
    while True:
        rows = [row for name in NAMES for row in service.ledger(name)]
        if all(row["run_id"] for row in rows if row["reason"] != "paused"):
            return rows
        assert time.monotonic() < deadline, [row for row in rows if not row["run_id"]][:3]
        time.sleep(1)
