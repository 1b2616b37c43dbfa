"""The lock of a fleet file: the process that runs the fleet, and its state directory."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading

import pytest

from dutiful.fleet.control.socket import FleetLock, running_fleet
from dutiful.fleet.errors import SchedulerError


def test_the_lock_tells_the_state_directory_while_it_is_held(tmp_path):
    file = tmp_path / "fleet.yaml"
    file.write_text("broken: [")
    lock = FleetLock(file, tmp_path / "elsewhere")
    before = running_fleet(file)
    lock.hold()
    starting = running_fleet(file)
    lock.tell_ready()
    held = running_fleet(file)
    lock.release()
    assert (before, running_fleet(file)) == (None, None)
    assert starting == (os.getpid(), tmp_path / "elsewhere", False)
    assert held == (os.getpid(), tmp_path / "elsewhere", True)
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.yaml"]


def test_a_second_process_is_refused_also_by_another_name_of_the_file(tmp_path):
    file, link = tmp_path / "fleet.yaml", tmp_path / "link.yaml"
    file.write_text("")
    link.symlink_to(file)
    lock = FleetLock(file, tmp_path)
    lock.hold()
    with pytest.raises(SchedulerError, match=rf"Process {os.getpid()} already runs the fleet of"):
        FleetLock(link, tmp_path / "other").hold()
    lock.release()


def test_a_lock_that_a_dead_process_left_is_taken_over(tmp_path):
    file = tmp_path / "fleet.yaml"
    (tmp_path / ".fleet.yaml.lock").write_text('{"pid": 1, "state_dir": "gone"}')
    assert running_fleet(file) is None
    lock = FleetLock(file, tmp_path)
    lock.hold()
    assert running_fleet(file) == (os.getpid(), tmp_path, False)
    lock.release()


def test_a_command_that_looks_at_the_lock_does_not_keep_a_fleet_from_starting(tmp_path):
    lock, looking = FleetLock(tmp_path / "fleet.yaml", tmp_path), threading.Event()

    def look():
        with open(tmp_path / ".fleet.yaml.lock", "w") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH)
            looking.set()
            # The fleet tries to take the lock meanwhile.
            hold.wait(0.05)

    hold = threading.Event()
    reader = threading.Thread(target=look)
    reader.start()
    looking.wait()
    lock.hold()
    reader.join()
    assert running_fleet(tmp_path / "fleet.yaml") == (os.getpid(), tmp_path, False)
    lock.release()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_full_disk_keeps_no_fleet_from_taking_its_lock(tmp_path):
    (tmp_path / ".fleet.yaml.lock").symlink_to("/dev/full")
    lock = FleetLock(tmp_path / "fleet.yaml", tmp_path)
    lock.hold()
    assert running_fleet(tmp_path / "fleet.yaml") is None
    lock.release()


# Makes every lock fail in this process, as on a network file system without them.
_WITHOUT_LOCKS = """
import errno, os, runpy, sys
def refuse(event, _):
    if event == "fcntl.flock":
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
sys.addaudithook(refuse)
sys.argv[0] = "dutiful"
runpy.run_module("dutiful", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["start"], ".fleet.yaml.lock cannot be locked (No locks available); put it on a file system"),
        (["disable", "a"], "state.yaml: cannot be written (No locks available)"),
    ],
)
def test_a_file_system_without_locks_is_reported(tmp_path, words, said):
    fleet = "version: 1\nagents: [{name: a, schedules: {s: {type: interval, interval: 1h}}}]\n"
    (tmp_path / "fleet.yaml").write_text(fleet)
    line = [sys.executable, "-c", _WITHOUT_LOCKS, "fleet", *words]
    ended = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ended.returncode > 0, said in ended.stderr, "Traceback" in ended.stderr) == (True, True, False)
