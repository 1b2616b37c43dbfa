"""A fleet file that changes while the fleet runs."""

from __future__ import annotations

import logging

import pytest
from tests.fleet.control.program import put_fleet
from tests.fleet.rig import Said

from dutiful.fleet.errors import FleetConfigError
from dutiful.fleet.file.watched_fleet import WatchedFleet

FLEET = "version: 1\nagents:\n  - path: a.yaml\n  - {name: b}\n"
SCHEDULES = "\nschedules: {%s: {type: interval, interval: 5m}}\n"


@pytest.fixture
def said():
    return Said()


@pytest.fixture
def watched(tmp_path, said):
    put_fleet(tmp_path, "name: a" + SCHEDULES % "one", "a.yaml")
    put_fleet(tmp_path, FLEET)
    logger = logging.Logger("watch of a test", logging.INFO)
    logger.addHandler(said)
    return WatchedFleet(tmp_path / "fleet.yaml", logger)


def names(agents):
    return [agent.name for agent in agents]


def test_files_that_did_not_change_are_not_read_again(watched, said):
    assert (watched.reload(), watched.reload(), said.lines) == (None, None, [])
    assert names(watched.fleet.agents) == ["a", "b"]


def test_a_changed_file_gives_the_new_agents_once(watched, tmp_path):
    put_fleet(tmp_path, FLEET + "  - {name: c}\n")
    assert names(watched.reload()) == ["a", "b", "c"]
    assert watched.reload() is None


def test_a_file_that_is_included_is_watched_too(watched, tmp_path):
    put_fleet(tmp_path, "name: a" + SCHEDULES % "two", "a.yaml")
    assert [*watched.reload()[0].schedules] == ["two"]


def test_a_file_that_is_included_later_is_watched_from_then_on(watched, tmp_path):
    put_fleet(tmp_path, "name: c", "c.yaml")
    put_fleet(tmp_path, FLEET + "  - path: c.yaml\n")
    assert names(watched.reload()) == ["a", "b", "c"]
    put_fleet(tmp_path, "name: d", "c.yaml")
    assert names(watched.reload()) == ["a", "b", "d"]


def test_a_broken_file_is_reported_once_and_changes_nothing(watched, tmp_path, said):
    put_fleet(tmp_path, FLEET + "  - {nme: c}\n")
    assert (watched.reload(), watched.reload()) == (None, None)
    assert names(watched.fleet.agents) == ["a", "b"]
    (line,) = said.lines
    assert line.startswith("WARNING ")
    assert 'fleet.yaml:5: agents[2].nme: is unknown (did you mean "name"?)' in line
    assert watched.problem in line


def test_another_mistake_is_reported_again(watched, tmp_path, said):
    for key in ("nme", "nam"):
        put_fleet(tmp_path, FLEET + f"  - {{{key}: c}}\n")
        watched.reload()
    assert len(said.lines) == 2


@pytest.mark.parametrize("name", ["fleet.yaml", "a.yaml"])
def test_a_file_that_is_gone_and_comes_back(watched, tmp_path, name):
    text = (tmp_path / name).read_text()
    (tmp_path / name).unlink()
    assert watched.reload() is None
    assert watched.problem is not None
    put_fleet(tmp_path, text, name)
    assert names(watched.reload()) == ["a", "b"]
    assert watched.problem is None


def test_a_mistake_can_be_mended_in_another_file_than_its_report_names(watched, tmp_path):
    put_fleet(tmp_path, "name: b", "a.yaml")
    assert watched.reload() is None
    assert "is the name of agents[0] too" in watched.problem
    put_fleet(tmp_path, "name: e", "a.yaml")
    assert names(watched.reload()) == ["e", "b"]


def test_a_check_interval_takes_effect_with_the_next_start(watched, tmp_path, said):
    put_fleet(tmp_path, FLEET + "check_interval: 5s\n")
    watched.reload()
    assert said.lines[0] == "WARNING fleet.yaml: `check_interval` takes effect with the next start"


def test_another_state_directory_is_refused_while_the_fleet_runs(watched, tmp_path, said):
    before = watched.fleet
    put_fleet(tmp_path, FLEET + "state_dir: elsewhere\n")
    assert watched.reload() is None
    assert "`state_dir` cannot change while the fleet runs; restart it to move" in watched.problem
    assert (watched.fleet, watched.state_dir, len(said.lines)) == (before, tmp_path / ".dutiful", 1)
    put_fleet(tmp_path, FLEET)
    assert (watched.reload(), watched.problem) == (before.agents, None)


def test_the_state_is_beside_the_file_unless_it_says_otherwise(watched, tmp_path):
    assert watched.state_dir == tmp_path / ".dutiful"
    put_fleet(tmp_path, FLEET + "state_dir: elsewhere\n")
    assert WatchedFleet(tmp_path / "fleet.yaml", logging.getLogger()).state_dir == tmp_path / "elsewhere"


def test_at_the_start_a_broken_file_is_an_error(tmp_path):
    put_fleet(tmp_path, "version: 2\n")
    with pytest.raises(FleetConfigError):
        WatchedFleet(tmp_path / "fleet.yaml", logging.getLogger())
