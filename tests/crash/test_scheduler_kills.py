"""kill -9 during runs, during initialize and during stop; afterwards exactly what is owed starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.crash.scheduler_judge import Judge

WORKER = Path(__file__).with_name("scheduler_worker.py")
KINDS = ["initialize", "runs", "stop"]


def campaign(folder, kind, kills, seed):
    """Kill so many times; return the judge who has read what happened."""
    command = [sys.executable, str(WORKER), str(folder), kind, str(kills), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{kills}\n"), done.stderr
    judge = Judge()
    judge.read((folder / "log").read_text().splitlines())
    return judge


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_kill_exactly_what_is_owed_starts(tmp_path, kind):
    judge = campaign(tmp_path, kind, 20, seed=1)
    assert judge.problems == []
    assert judge.seen["restart"] > 2, "no run was cut short: the campaign did not get where it should"


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("kind", KINDS)
def test_after_each_of_a_hundred_kills_exactly_what_is_owed_starts(tmp_path, kind, seed):
    judge = campaign(tmp_path, kind, 100, seed)
    assert judge.problems == []
    assert judge.seen["restart"] > 10


BEGIN = "initialize 30 A; start 30 minute; ended 30 minute; settled 30 minute; "
BEGIN += "start 30 slow; start 30 fails; ended 30 fails; settled 30 fails; start 30 flips; "
STORIES = [
    (BEGIN + "time 35", []),
    (BEGIN + "ended 30 flips; time 35", ["flips had ended at 30.0 and was not settled"]),
    (BEGIN + "start 31 minute", ["it was not owed"]),
    (BEGIN + "start 31 slow", ["it runs already"]),
    (BEGIN + "time 60; time 61", ["minute was owed a start at 60.0"]),
    (BEGIN + "time 60; start 60 minute; time 61", []),
    (BEGIN + "stops 31; time 60; time 61", []),
    (BEGIN + "stops 31; start 60 minute", ["nothing may start now"]),
    (BEGIN + "stopped 31", ["stop returned before ['slow', 'flips']"]),
    (BEGIN + "next 31; start 31 slow", ["nothing may start now"]),
    (BEGIN + "next 31; initialize 31 A; start 31 slow; start 31 flips; time 32", []),
    (BEGIN + "next 31; initialize 31 A; start 31 slow; time 32", ["flips was owed a start at 31.0"]),
    (BEGIN + "next 31; initialize 31 A; start 31 fails", ["it was not owed"]),
    (BEGIN + "ended 31 slow; next 31; initialize 31 A; start 31 slow", []),
    (
        BEGIN + "ended 31 slow; next 31; initialize 31 A; start 31 flips; time 32; start 32 slow",
        ["it was not owed"],
    ),
    (
        BEGIN + "failed 31 flips; settled 31 flips; time 60; start 60 minute; time 76; time 77",
        ["flips was owed a start at 76.0"],
    ),
    (BEGIN + "failed 31 flips; settled 31 flips; start 75 flips", ["it was not owed"]),
    ("initialize 60 A; next 70; initialize 70 B; start 70 flips", ["it was not owed"]),
    ("initialize 180 A; next 190; initialize 190 B; start 190 flips", []),
    (
        BEGIN + "failed 31 flips; settled 31 flips; next 31; initialize 31 B; start 31 slow; start 76 flips",
        [],
    ),
]


@pytest.mark.parametrize(("story", "problems"), STORIES)
def test_the_judge_finds_what_is_wrong_and_nothing_else(story, problems):
    found = Judge().read(story.split("; "))
    assert [problem.split(": ", 2)[2] for problem in found] == problems
