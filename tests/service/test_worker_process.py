"""A worker process: its words and answers, its death and its next start, and its stop."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys

import pytest

from dutiful.runtime.clock import SystemClock
from dutiful.service.types import Health
from dutiful.service.worker_process import WorkerProcess, WorkerProcessError
from dutiful.testing import VirtualClock

# A worker that answers at once. Each word is noted in the file `heard`.
CHILD = """
import json, os, socket, sys
lifeline = socket.socket(fileno=int(sys.argv[1]))
health = {"ok": True, "leading": True, "last_pass_at": "2026-01-05 10:00:00+00:00", "reason": None}
answers = {
    "start": None,
    "report": {"health": {**health, "error": None}, "samples": [["runs_emitted_total", {}, 3.0]]},
    "stop": ["cut"],
}
lines = lifeline.makefile()
with open("path", "w") as path:
    path.write(lines.readline())
for line in lines:
    word = line.strip()
    with open("heard", "a") as heard:
        heard.write(line)
    if word in answers:
        lifeline.sendall(json.dumps({"word": word, "answer": answers[word]}).encode() + b"\\n")
"""
REFUSING = CHILD.replace('"answer": answers[word]', '"error": "The disk is full"')
HANGING = CHILD.replace("if word in answers", "if word == 'start'") + "import signal\nsignal.pause()\n"
DYING = CHILD.replace("for line in lines:", "for line in []:")


def play(tmp_path, monkeypatch, story, child=CHILD, clock=None, drain_s=600):
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-I", "-S", "-c", child]

    async def main():
        worker = WorkerProcess(command, clock or SystemClock(), drain_s)
        try:
            async with asyncio.timeout(60):
                return await story(worker)
        finally:
            await worker.stop()

    return asyncio.run(main())


def heard(tmp_path):
    return (tmp_path / "heard").read_text().split()


def test_words_are_heard_in_their_order(tmp_path, monkeypatch):
    async def story(worker):
        await worker.start()
        worker.wake()
        report = await worker.report()
        return report.health.ok, report.samples, await worker.stop()

    assert play(tmp_path, monkeypatch, story) == (True, [["runs_emitted_total", {}, 3.0]], ["cut"])
    assert heard(tmp_path) == ["start", "wake", "report", "stop"]
    assert json.loads((tmp_path / "path").read_text()) == sys.path


def test_callers_that_ask_at_the_same_time_share_one_answer(tmp_path, monkeypatch):
    async def story(worker):
        await worker.start()
        reports = await asyncio.gather(*(worker.report() for _ in range(100)))
        return {report.health.ok for report in reports}

    assert play(tmp_path, monkeypatch, story) == {True}
    assert heard(tmp_path) == ["start", "report", "stop"]


def test_a_caller_that_is_cancelled_takes_the_answer_from_no_other(tmp_path, monkeypatch):
    async def story(worker):
        await worker.start()
        first, second = (asyncio.create_task(worker.report()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        return (await second).health.ok, first.cancelled(), (await worker.report()).health.ok

    assert play(tmp_path, monkeypatch, story) == (True, True, True)


def test_a_worker_that_cannot_start_is_reported_with_its_reason(tmp_path, monkeypatch):
    with pytest.raises(WorkerProcessError, match="The disk is full"):
        play(tmp_path, monkeypatch, WorkerProcess.start, REFUSING)


def test_a_worker_that_ends_before_it_starts_is_reported(tmp_path, monkeypatch):
    with pytest.raises(WorkerProcessError, match="The worker process has ended"):
        play(tmp_path, monkeypatch, WorkerProcess.start, DYING)


def test_a_worker_that_dies_is_started_again_after_a_pause(tmp_path, monkeypatch, caplog):
    clock = VirtualClock("2026-01-05T10:00:00Z")

    async def story(worker):
        await worker.start()
        first = worker.pid
        os.kill(first, signal.SIGKILL)
        while (dead := await worker.report()).health.ok:
            pass
        while not (alive := await worker.report()).health.ok:
            await clock.advance(1)
        return dead, alive.health.ok, worker.pid != first

    with caplog.at_level(logging.ERROR, "dutiful.service"):
        dead, *again = play(tmp_path, monkeypatch, story, clock=clock)
    assert (dead.health, dead.samples) == (
        Health(False, False, None, "the worker process is being started"),
        [],
    )
    assert again == [True, True]
    assert caplog.messages == ["the worker process ended with status -9; starting it in 1 s"]


def test_a_stop_kills_a_worker_that_does_not_stop(tmp_path, monkeypatch):
    async def story(worker):
        await worker.start()
        pid = worker.pid
        cut = await worker.stop()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        return cut

    # The process has 10 s beyond the drain.
    assert play(tmp_path, monkeypatch, story, HANGING, drain_s=-9.9) == []


def test_a_worker_that_was_never_started_is_ended_without_a_word(tmp_path, monkeypatch):
    assert play(tmp_path, monkeypatch, WorkerProcess.spawn) is None
    assert not (tmp_path / "heard").exists()


def test_a_stop_while_a_dead_worker_waits_for_its_next_start_ends_all(tmp_path, monkeypatch):
    async def story(worker):
        await worker.start()
        os.kill(worker.pid, signal.SIGKILL)
        while (await worker.report()).health.ok:
            pass
        return await worker.stop()

    clock = VirtualClock("2026-01-05T10:00:00Z")
    assert play(tmp_path, monkeypatch, story, clock=clock) == []
    assert heard(tmp_path).count("start") == 1
