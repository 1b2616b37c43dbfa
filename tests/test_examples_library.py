"""The examples of the library as whole files, run as a newcomer would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def start(folder, *command):
    environ = os.environ | {
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": f"{EXAMPLES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, *command], cwd=folder, env=environ, text=True, **pipes)


def test_a_synchronous_program_runs_its_task_beside_its_own_work_and_ends(tmp_path):
    with start(tmp_path, EXAMPLES / "sync_program.py") as process:
        assert process.stdout.readline() == "cleaning up\n"
        # A new minute may begin just now, and run the task again.
        out, error = process.communicate("a line\n", timeout=60)
    assert (out.replace("cleaning up\n", ""), error, process.returncode) == ("read a line\n", "", 0)


def test_collected_tasks_run_with_their_arguments(tmp_path):
    with start(tmp_path, "-m", "dutiful", "run", "collected_tasks:TASKS", "--quiet") as process:
        lines = {process.stdout.readline() for _ in range(3)}
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert lines == {"alive\n", "report for eu in short\n", "report for us in detail\n"}
