"""The examples of queues, run as a team would paste them: real processes, real servers."""

from __future__ import annotations

import asyncio
import importlib
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from celery.schedules import crontab, schedule
from tests.crash.test_service_kills import Service
from tests.launchers.metas import DAG, KEY, META, META_JSON, SETTINGS
from tests.ports import port_without_listener

from dutiful.core.cron.cron import Cron
from dutiful.launchers import Accepted, Refused, Unreached
from dutiful.launchers.url import executor_for

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples/queues"


@contextmanager
def running(command: list[str], log: Path, **environ: str):
    """Run a program of the examples until the block ends."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=EXAMPLES, stdout=out, stderr=out, env={**os.environ, **environ}
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def serving(folder, executor: str):
    with port_without_listener() as port:
        service = Service(folder, executor, port)
        service.start()
        try:
            yield service
        finally:
            service.kill(15)


def succeeded(service, schedule: str, count: int, log: Path) -> list[dict]:
    """Return the rows of a schedule once so many of them are SUCCESS."""
    deadline = time.monotonic() + 60
    while True:
        rows = [row for row in service.ledger(schedule) if row["status"] == "SUCCESS"]
        if len(rows) >= count:
            return rows
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.1)


def every_second(service, dag) -> None:
    service.ask("PUT", "/workflows/w/1", dag)
    service.ask("POST", "/schedules/upsert", {
        "schedule_id": "s", "workflow_id": "w", "version": 1, "user_id": "u", "timezone": "UTC",
        "cron_expr": "* * * * * *", "overlap_policy": "allow",
    })  # fmt: skip


@pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)
def test_the_consumer_of_nats_writes_each_invoice_once(tmp_path, nats_url, postgres_url, own_name):
    async def ask(statement, *arguments):
        connection = await asyncpg.connect(postgres_url)
        try:
            return await connection.fetch(statement, *arguments)
        finally:
            await connection.close()

    url, log = f"{nats_url}?stream={own_name}&subject={own_name}", tmp_path / "consumer.log"
    asyncio.run(ask("CREATE TABLE invoices (run text, customer text)"))
    with ExitStack() as stack:
        service = stack.enter_context(serving(tmp_path, url))
        environ = {"NATS_URL": url, "POSTGRES_URL": postgres_url}
        environ["DUTIFUL_URL"] = f"http://127.0.0.1:{service.port}"
        stack.enter_context(running(["nats_consumer.py"], log, **environ))
        every_second(service, {"customer": "ada"})
        rows = succeeded(service, "s", 2, log)
    written = asyncio.run(ask("SELECT run, customer FROM invoices"))
    keys = [row["run"] for row in written]
    assert {row["idempotency_key"] for row in rows} <= {*keys}
    assert len(keys) == len({*keys})
    assert {row["customer"] for row in written} == {"ada"}


def test_the_consumer_of_a_stream_reports_its_runs(tmp_path, valkey_url, own_name):
    url, log = f"{valkey_url}?stream={own_name}", tmp_path / "consumer.log"
    with ExitStack() as stack:
        service = stack.enter_context(serving(tmp_path, url))
        address = f"http://127.0.0.1:{service.port}"
        stack.enter_context(running(["stream_consumer.py"], log, REDIS_URL=url, DUTIFUL_URL=address))
        every_second(service, {"n": 1})
        succeeded(service, "s", 2, log)
    assert log.read_text().count("of s: {'n': 1}") >= 2


def test_a_command_can_be_the_consumer(tmp_path, nats_url, own_name):
    url, log, out = f"{nats_url}?stream={own_name}&subject={own_name}", tmp_path / "log", tmp_path / "out"
    script = f'read dag; echo "$DUTIFUL_SCHEDULE_ID $dag" >> {out}'
    with ExitStack() as stack:
        service = stack.enter_context(serving(tmp_path, url))
        command = ["-m", "dutiful", "receiver", "run", "--from", url, "--seen", f"sqlite:{tmp_path}/seen.db"]
        command += ["--service", f"http://127.0.0.1:{service.port}", "--", "sh", "-c", script]
        stack.enter_context(running(command, log))
        every_second(service, {"n": 1})
        succeeded(service, "s", 2, log)
    assert out.read_text().splitlines()[:2] == ['s {"n": 1}'] * 2


def test_a_launcher_of_ones_own_is_a_function_of_under_60_lines(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    queue = tmp_path / "queue.db"
    monkeypatch.setenv("QUEUE_FILE", str(queue))
    monkeypatch.delitem(sys.modules, "own_launcher", raising=False)
    executor = executor_for("python:own_launcher:launch", SETTINGS)
    assert len((EXAMPLES / "own_launcher.py").read_text().splitlines()) < 60
    assert [asyncio.run(executor.run(DAG, META._replace(attempt=n))) for n in (2, 3)] == [Accepted(KEY)] * 2
    with sqlite3.connect(queue) as database:
        ((key, attempt, body),) = database.execute("SELECT * FROM queue").fetchall()
    database.close()
    assert (key, attempt) == (KEY, 2)
    assert f'"schedule_id": "{META_JSON["schedule_id"]}"' in body
    assert isinstance(asyncio.run(executor.run("x" * 1_000_001, META)), Refused)
    monkeypatch.setattr(sys.modules["own_launcher"], "PATH", str(tmp_path / "no" / "queue.db"))
    assert isinstance(asyncio.run(executor.run(DAG, META)), Unreached)


def test_every_usual_kind_of_beat_entry_gets_its_cron_text(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    cron_of = importlib.import_module("from_celery_beat").cron_of
    texts = {
        "*/30 * * * * *": [30, 30.0, timedelta(seconds=30), schedule(30)],
        "*/15 * * * *": [900, timedelta(minutes=15), schedule(timedelta(minutes=15))],
        "0 */2 * * *": [7200, timedelta(hours=2)],
        "0 */24 * * *": [timedelta(days=1)],
        "30 7 * * mon": [crontab(minute=30, hour=7, day_of_week="mon")],
    }
    for text, entries in texts.items():
        assert {cron_of(entry) for entry in entries} == {text}
        Cron.parse(text, "seconds" if text.count(" ") == 5 else "standard")
    for entry in (0.5, 0, 7, timedelta(minutes=7), timedelta(hours=5)):
        with pytest.raises(SystemExit, match="it divides no minute, hour or day"):
            cron_of(entry)
    with pytest.raises(SystemExit, match="it is no crontab and no interval"):
        cron_of("sunset")
