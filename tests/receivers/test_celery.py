"""A real Celery worker on Valkey that does the runs of dutiful."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from celery import Celery
from tests.launchers.metas import DAG, KEY, META_JSON
from tests.receivers.rig import SECRET, publish, reporting

from dutiful.receivers import PostgresSeen, SqliteSeen, ValkeySeen, celery_task
from dutiful.receivers.celery import run_on_loop

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def worker(folder, broker: str, name: str, pool: str = "solo", **environ: str):
    """Run a Celery worker until the block ends."""
    environ = {
        **os.environ,
        "BROKER": broker,
        "QUEUE": name,
        "SEEN": str(folder / "seen.db"),
        "EFFECTS": str(folder / "effects"),
        **environ,
    }
    command = [sys.executable, "-m", "celery", "-A", "tests.receivers.celery_app", "worker", "--pool", pool]
    command += ["--concurrency", "2", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(command, env=environ, cwd=ROOT, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def effects(folder) -> list[str]:
    path = folder / "effects"
    return path.read_text().splitlines() if path.exists() else []


def wait_until(holds, what="", seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.05)


def test_a_worker_does_each_run_once_and_reports(tmp_path, valkey_url, own_name):
    url = f"celery+{valkey_url}?task=app.run&queue={own_name}"
    with (
        reporting(refusals=2) as reported,
        worker(tmp_path, valkey_url, own_name, SERVICE=reported.url, SECRET=SECRET),
    ):
        asyncio.run(publish(url, "a", "b", secret=SECRET))
        asyncio.run(publish(url, "forged"))
        asyncio.run(publish(url, "c", dag={"fail": "no paper"}, secret=SECRET))
        asyncio.run(publish(url, "a", attempt=2, secret=SECRET))
        wait_until(
            lambda: {"status": "SUCCESS", "attempt": 2} in reported.of("a"),
            lambda: (tmp_path / "worker.log").read_text()[-3000:],
        )
    assert effects(tmp_path) == ["a 1", "b 1", "c 1"]
    assert {"status": "SUCCESS", "attempt": 1} in reported.of("a")
    assert reported.of("b")[-1] == {"status": "SUCCESS", "attempt": 1}
    assert reported.of("c")[-1] == {"status": "FAILED", "attempt": 1, "error": "RuntimeError: no paper"}
    assert reported.of("forged") == []


def test_a_worker_process_that_is_killed_at_work_gets_the_run_again(tmp_path, valkey_url, own_name):
    url = f"celery+{valkey_url}?task=app.run&queue={own_name}"
    with (
        reporting() as reported,
        worker(tmp_path, valkey_url, own_name, "prefork", SERVICE=reported.url),
    ):
        asyncio.run(publish(url, "a", dag={"die": True}))
        wait_until(
            lambda: {"status": "SUCCESS", "attempt": 1} in reported.of("a"),
            lambda: (tmp_path / "worker.log").read_text()[-3000:],
        )
    # Killed between effect and record: without a transaction the effect repeats.
    assert effects(tmp_path) == ["a 1", "a 1"]


@pytest.mark.parametrize("store", ["valkey", "postgres"])
def test_the_threads_of_one_worker_share_the_seen_store(store, request, own_name, caplog):
    if store == "valkey":
        seen = ValkeySeen(request.getfixturevalue("valkey_url"), prefix=own_name)
    else:
        port = request.getfixturevalue("newest_postgres")
        seen = PostgresSeen(f"postgresql://postgres@127.0.0.1:{port}/postgres", table=own_name)
    app = Celery("tests", broker="redis://127.0.0.1:1/0", set_as_current=False)
    done: list[str] = []
    task = celery_task(app, "t", seen=seen)(lambda delivery: done.append(delivery.key))
    # As a worker does before its threads begin.
    app.finalize()
    together = threading.Barrier(4)

    def work(thread: int) -> None:
        for number in range(5):
            key = f"{thread}-{number}"
            together.wait(30)
            task.apply(args=[DAG, {**META_JSON, "idempotency_key": key}], task_id=key)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    run_on_loop(seen.close())
    assert sorted(done) == [f"{thread}-{number}" for thread in range(4) for number in range(5)]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_run_waits_for_a_seen_store_that_does_not_answer_yet(tmp_path):
    class Late(SqliteSeen):
        tries = 0

        async def prepare(self):
            self.tries += 1
            if self.tries == 1:
                raise OSError("the disk is not there yet")
            await super().prepare()

    app = Celery("tests", broker="redis://127.0.0.1:1/0", set_as_current=False)
    done: list[str] = []
    seen = Late(tmp_path / "seen.db")
    task = celery_task(app, "t", seen=seen)(lambda delivery: done.append(delivery.key))
    # A task that is called at once is also retried at once.
    task.apply(args=[DAG, META_JSON], task_id=KEY)
    assert (done, seen.tries) == ([KEY], 2)


@pytest.mark.parametrize(("visible_after", "warnings"), [(10, 1), (7200, 0)])
def test_a_broker_that_delivers_again_too_soon_is_warned_about(tmp_path, caplog, visible_after, warnings):
    app = Celery("tests", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.broker_transport_options = {"visibility_timeout": visible_after}
    celery_task(app, "t", seen=SqliteSeen(tmp_path / "seen.db"))(print)
    with caplog.at_level(logging.WARNING):
        app.finalize()
    told = [record for record in caplog.records if "visibility_timeout is 10 s" in record.getMessage()]
    assert len(told) == warnings
