"""Many processes, one state file: no update is lost, and no reader ever sees half a file."""

from __future__ import annotations

import subprocess
import sys

from dutiful.fleet import get_agent_schedule_states
from dutiful.fleet.state.file import read_states

WRITER = """
import sys
from dutiful.fleet import update_schedule_state
folder, agent, count = sys.argv[1:]
for number in range(int(count)):
    update_schedule_state(folder, "shared", "last", {"last_error": agent})
    update_schedule_state(folder, agent, f"s{number}", {"last_error": str(number)})
    print(number, flush=True)
"""


def writer(folder, agent, count):
    command = [sys.executable, "-c", WRITER, str(folder), agent, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_no_update_is_lost(tmp_path):
    running = [writer(tmp_path, f"agent-{n}", 40) for n in range(4)]
    while any(process.poll() is None for process in running):
        assert read_states(tmp_path).problems == {}
    for n, process in enumerate(running):
        _, complaints = process.communicate()
        assert (process.returncode, complaints) == (0, "")
        found = get_agent_schedule_states(tmp_path, f"agent-{n}")
        assert {name: state.last_error for name, state in found.items()} == {
            f"s{i}": f"{i}" for i in range(40)
        }


def test_whoever_is_killed_leaves_a_whole_file_and_no_lock(tmp_path):
    for n in range(8):
        process = writer(tmp_path, f"agent-{n}", 1000)
        told = [process.stdout.readline() for _ in range(n + 1)]
        process.kill()
        process.communicate()
        assert told[-1] == f"{n}\n"
        states = get_agent_schedule_states(tmp_path, f"agent-{n}")
        assert {f"s{i}" for i in range(n + 1)} <= {*states}
    assert {entry.name for entry in tmp_path.iterdir()} <= {"state.yaml", "state.yaml.lock", "state.yaml.new"}
