"""kill -9 at every labelled step of the engine, in real processes on a real file."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.crash.worker import ROUND_SECONDS, SCHEDULES

from dutiful.core.policy import Reason
from dutiful.core.run import IN_FLIGHT, Phase, Status
from dutiful.stores.sqlite import SqliteStore

LABELS = ("led", "loaded", "planned", "committed", "launching", "settling", "settled")
WORKER = Path(__file__).with_name("worker.py")
START = 1_772_928_000  # 2026-03-08T00:00:00Z
CHAINS, KILLS_EACH = 4, 52
NEVER = 1_000_000


class Line(NamedTuple):
    """One launch, as the launcher itself wrote it down."""

    schedule: str
    run_at: int
    attempt: int
    epoch: int


def play_round(folder, start, label, nth):
    """Run the worker for ten virtual minutes; return whether it was killed."""
    command = [
        sys.executable,
        str(WORKER),
        str(folder / "state.db"),
        str(folder / "log"),
        str(start),
        label,
        str(nth),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode != 0


def play_chain(folder, seed):
    """Kill one worker after the other on the same file; return (kills per label, the end of time)."""
    rng = random.Random(seed)
    kills = Counter()
    start = START
    while kills.total() < KILLS_EACH:
        label = LABELS[kills.total() % len(LABELS)]
        # A worker leads once; the other steps are passed many times in ten minutes.
        nth = 1 if label == "led" else rng.randrange(1, 12)
        kills[label] += play_round(folder, start, label, nth)
        start += rng.choice((0, 60, ROUND_SECONDS))
    assert not play_round(folder, start, "led", NEVER)
    return kills, start + ROUND_SECONDS


def read_ledger(folder):
    async def read():
        store = SqliteStore(folder / "state.db")
        await store.open()
        rows = {schedule.id: await store.ledger(schedule.id, None, 10**9) for schedule in SCHEDULES}
        cursors = {due.schedule.id: due.state.cursor for due in await store.every()}
        await store.close()
        return rows, cursors

    return asyncio.run(read())


def read_log(folder):
    lines = (folder / "log").read_text().splitlines()
    return [Line(name, *map(int, numbers)) for name, *numbers in map(str.split, lines)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, CHAINS))]
)
def test_no_key_is_launched_twice_and_no_tick_is_without_an_entry(tmp_path, seed):
    kills, end = play_chain(tmp_path, seed)
    rows, cursors = read_ledger(tmp_path)
    lines = read_log(tmp_path)
    assert kills.total() == KILLS_EACH
    assert set(kills) == set(LABELS)
    assert_every_tick_has_one_entry(rows, cursors, end)
    assert_launches_are_recorded_and_never_repeat_an_attempt(rows, lines)
    assert_at_most_once_is_launched_once(rows["at-most-once"], lines)
    assert_nothing_is_stuck(rows, end)


def assert_every_tick_has_one_entry(rows, cursors, end):
    for name in ("at-least-once", "at-most-once", "queues"):
        covered = Counter()
        for run in rows[name]:
            ticks = range(run.run_at, (run.run_until or run.run_at) + 1, 60_000)
            assert len(ticks) == run.ticks
            covered.update(ticks)
        assert cursors[name] >= (end - 60) * 1000
        assert covered == Counter(range((START + 60) * 1000, cursors[name] + 1, 60_000))


def assert_launches_are_recorded_and_never_repeat_an_attempt(rows, lines):
    recorded = {(name, run.run_at): run for name, runs in rows.items() for run in runs}
    attempts = defaultdict(list)
    for line in lines:
        attempts[line.schedule, line.run_at].append(line.attempt)
    for key, numbers in attempts.items():
        assert numbers == sorted(set(numbers)), key
        assert recorded[key].attempt >= numbers[-1]
    launched = {key for key, run in recorded.items() if run.status is Status.SUCCESS}
    assert launched <= set(attempts)


def assert_at_most_once_is_launched_once(runs, lines):
    assert max(Counter(line.run_at for line in lines if line.schedule == "at-most-once").values()) == 1
    unknown = [run for run in runs if run.reason is Reason.OUTCOME_UNKNOWN]
    assert unknown, "no kill left an outcome unknown: the campaign did not get where it should"


def assert_nothing_is_stuck(rows, end):
    for runs in rows.values():
        in_flight = [run for run in runs if run.phase in IN_FLIGHT]
        assert all(run.started_at >= (end - ROUND_SECONDS) * 1000 for run in in_flight), in_flight
        assert in_flight or not any(run.phase is Phase.QUEUED for run in runs)
