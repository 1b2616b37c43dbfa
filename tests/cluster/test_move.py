"""A service that outgrew its machine: its file is copied to PostgreSQL, and workers there go on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
from tests.cli.test_serve import address, started
from tests.cluster.nemesis import until
from tests.stores.postgres_rig import execute

SCHEDULE = {
    "schedule_id": "all", "workflow_id": "w", "version": 1, "user_id": "ada", "cron_expr": "* * * * * *",
    "overlap_policy": "allow", "catchup_policy": "fire_immediately",
}  # fmt: skip
# Writes down which run it is at once, and ends it a second later, so that a kill finds runs in flight.
DEED = 'printf \'%s %s\\n\' "$DUTIFUL_IDEMPOTENCY_KEY" "$DUTIFUL_ATTEMPT" >> ran; sleep 1'
ROWS = (
    "SELECT idempotency_key, extract(epoch FROM run_at)::int, status, attempt FROM schedule_runs ORDER BY 2"
)


def ask(url, path, body):
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{url}{path}", data, {"content-type": "application/json"})
    request.method = "PUT" if path.startswith("/workflows") else "POST"
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def ran(folder):
    """Return (key, attempt) of every call of the command."""
    path = folder / "ran"
    return [tuple(line.split()) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.timeout(180)
def test_a_killed_service_goes_on_in_postgres_without_a_lost_or_doubled_tick(newest_postgres_url, tmp_path):
    (tmp_path / "deed.sh").write_text(DEED)
    executor = {"DUTIFUL_EXECUTOR": f"command:sh {tmp_path / 'deed.sh'}"}
    url, file = newest_postgres_url, f"sqlite:{tmp_path / 'service.db'}"
    with started(tmp_path, "serve", DUTIFUL_STORE=file, **executor) as service:
        api = address(service)
        ask(api, "/workflows/w/1", {})
        ask(api, "/schedules/upsert", SCHEDULE)
        until(lambda: len(ran(tmp_path)) >= 3, "three runs began")
        service.send_signal(signal.SIGKILL)
    copied = subprocess.run(
        [sys.executable, "-m", "dutiful", "store", "copy", file, url, "--namespace", "service"],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "80"},
    )  # fmt: skip
    assert copied.returncode == 0, copied.stderr
    [[shards]] = asyncio.run(execute(url, "SELECT count(*) FROM shards"))
    in_flight = {row[0] for row in asyncio.run(execute(url, ROWS)) if row[2] == "STARTED"}
    assert (shards, bool(in_flight)) == (16, True)
    moved = int(time.time()) + 1
    with started(tmp_path, "worker", DUTIFUL_STORE=url, **executor) as worker:
        rows = []

        def is_decided():
            rows[:] = [tuple(row) for row in asyncio.run(execute(url, ROWS))]
            return sum(tick > moved and status == "SUCCESS" for _, tick, status, _ in rows) >= 2

        until(is_decided, "runs end at the copy")
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)
    check(rows, ran(tmp_path), in_flight)


def check(rows, calls, in_flight):
    """Every second has one row, and was called once, or again with a higher attempt where a kill hit it."""
    ticks = [tick for _, tick, _, _ in rows]
    assert ticks == [*range(ticks[0], ticks[-1] + 1)]
    assert len(calls) == len({*calls})
    again = {key for key, attempt in calls if int(attempt) > 1}
    assert again <= in_flight
    ended = {key for key, _, status, _ in rows if status == "SUCCESS"}
    assert ended <= {key for key, _ in calls}
    assert in_flight <= ended
