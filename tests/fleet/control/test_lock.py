"""The lock of a fleet file: who runs it, and where its state is."""

from __future__ import annotations

import os

import pytest

from dutiful.fleet.control.socket import FleetLock, running_fleet
from dutiful.fleet.errors import SchedulerError


def test_the_lock_tells_the_state_directory_while_it_is_held(tmp_path):
    file = tmp_path / "fleet.yaml"
    file.write_text("broken: [")
    lock = FleetLock(file, tmp_path / "elsewhere")
    before = running_fleet(file)
    lock.hold()
    held = running_fleet(file)
    lock.release()
    assert (before, held, running_fleet(file)) == (None, (os.getpid(), tmp_path / "elsewhere"), None)
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.yaml"]


def test_a_second_process_is_refused_also_by_another_name_of_the_file(tmp_path):
    file, link = tmp_path / "fleet.yaml", tmp_path / "link.yaml"
    file.write_text("")
    link.symlink_to(file)
    lock = FleetLock(file, tmp_path)
    lock.hold()
    with pytest.raises(SchedulerError, match="Another process already runs the fleet of"):
        FleetLock(link, tmp_path / "other").hold()
    lock.release()


def test_a_lock_that_a_dead_process_left_is_taken_over(tmp_path):
    file = tmp_path / "fleet.yaml"
    (tmp_path / ".fleet.yaml.lock").write_text('{"pid": 1, "state_dir": "gone"}')
    assert running_fleet(file) is None
    lock = FleetLock(file, tmp_path)
    lock.hold()
    assert running_fleet(file) == (os.getpid(), tmp_path)
    lock.release()
