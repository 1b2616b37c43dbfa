"""The fleet file: what it says, and everything that is wrong in it at once."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dutiful.fleet import Agent, AgentSchedule, Fleet, FleetConfigError, load_fleet
from dutiful.fleet.file.agents import AGENT_KEYS, INSTANCES_KEYS, SCHEDULE_KEYS
from dutiful.fleet.file.config import FLEET_KEYS, INCLUDE_KEYS

CHECK = AgentSchedule("interval", "5m")
CHECK_TEXT = "schedules: {check: {type: interval, interval: 5m}}"

KEYS = f"write one of {', '.join(SCHEDULE_KEYS)}"
UNIT = 'Invalid time unit "x". Valid units are: s, m, h, d'
HOUR = 'Invalid cron expression "0 25 * * *" - hour must be 0-23; write it such as "0 9 * * 1-5"'
MISSING = "cannot be read (No such file or directory); check the path and its permissions"


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """Return a function that writes files and loads the first of them, all in one folder."""
    monkeypatch.chdir(tmp_path)

    def load(text, environ=None, **files):
        for name, content in {"fleet": text, **files}.items():
            (tmp_path / f"{name}.yaml").write_text(content, encoding="utf-8")
        return load_fleet("fleet.yaml", environ or {})

    return load


@pytest.fixture
def refused(fleet):
    """Return a function that gives the problems of such files."""

    def problems(text, environ=None, **files):
        with pytest.raises(FleetConfigError) as caught:
            fleet(text, environ, **files)
        lines = [str(problem) for problem in caught.value.problems]
        assert str(caught.value) == "fleet.yaml cannot be used:" + "".join(f"\n  {line}" for line in lines)
        return lines

    return problems


def test_agents_inline(fleet):
    text = f"version: 1\nagents:\n  - name: writer\n    {CHECK_TEXT}\n  - name: reader\n"
    assert fleet(text) == Fleet((Agent("writer", {"check": CHECK}), Agent("reader", {})))


def test_a_fleet_without_agents_is_a_fleet(fleet):
    assert fleet("version: 1\nagents: []\n") == Fleet(())


def test_where_to_keep_the_state_and_how_often_to_check(fleet, tmp_path):
    found = fleet("version: 1\nagents: []\nstate_dir: state\ncheck_interval: 5s\n")
    assert found.check_interval == timedelta(seconds=5)
    assert found.state_dir.absolute() == tmp_path / "state"


def test_an_absolute_state_dir_stays_where_it_is(fleet, tmp_path):
    assert fleet(f"version: 1\nagents: []\nstate_dir: {tmp_path}/s\n").state_dir == tmp_path / "s"


def test_numbers_and_flags_are_read_from_texts(fleet):
    agent = "{name: '007', instances: {max_concurrent: 010}, schedules: {a: {type: chat, enabled: no}}}"
    text = f"version: '1'\nagents: [{agent}]\n"
    assert fleet(text) == Fleet(
        (Agent("007", {"a": AgentSchedule("chat", enabled=False)}, max_concurrent=10),)
    )


def test_an_agent_may_have_a_file_of_its_own(fleet):
    text = "version: 1\nagents:\n  - path: writer.yaml\n"
    assert fleet(text, writer=f"name: writer\n{CHECK_TEXT}\n").agents == (Agent("writer", {"check": CHECK}),)


def test_a_path_is_relative_to_the_fleet_file(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "writer.yaml").write_text("name: writer\n")
    (tmp_path / "a/b/fleet.yaml").write_text("version: 1\nagents: [{path: ../../writer.yaml}]\n")
    assert load_fleet(str(tmp_path / "a/b/fleet.yaml")).agents == (Agent("writer", {}),)


def test_overrides_stand_above_the_file_and_defaults_below_it(fleet):
    text = """\
version: 1
defaults:
  default_prompt: from the defaults
  instances: {max_concurrent: 5}
  schedules:
    check: {type: interval, interval: 1h, prompt: from the defaults}
agents:
  - path: writer.yaml
    overrides:
      name: second
      schedules: {check: {interval: 10m}}
  - path: writer.yaml
"""
    writer = "name: first\ndefault_prompt: from the file\nschedules: {check: {interval: 5m}}\n"

    def schedule(interval):
        return {"check": AgentSchedule("interval", interval, prompt="from the defaults")}

    assert fleet(text, writer=writer).agents == (
        Agent("second", schedule("10m"), "from the file", 5),
        Agent("first", schedule("5m"), "from the file", 5),
    )


def test_null_takes_a_default_away(fleet):
    text = "version: 1\ndefaults: {default_prompt: x}\nagents: [{name: a, default_prompt: null}, {name: b}]\n"
    assert [agent.default_prompt for agent in fleet(text).agents] == [None, "x"]


def test_null_takes_a_schedule_of_the_defaults_away(fleet):
    defaults = "{schedules: {beat: {type: interval, interval: '${EVERY}'}}}"
    text = (
        f"version: 1\ndefaults: {defaults}\nagents: [{{name: a, schedules: {{beat: null}}}}, {{name: b}}]\n"
    )
    agents = fleet(text, {"EVERY": "5m"}).agents
    assert agents == (Agent("a", {}), Agent("b", {"beat": CHECK}))


def test_a_default_that_was_replaced_plays_no_part_in_a_problem(refused):
    text = "version: 1\ndefaults: {instances: {max_concurrent: '${N}'}}\nagents: [{name: a, instances: 5}]\n"
    said = "fleet.yaml:3: agents[0].instances: '5': must be a mapping, such as {max_concurrent: 2}"
    assert refused(text, {"N": "2222"}) == [said]


def test_variables_are_filled_in_everywhere_but_in_keys(fleet):
    text = "version: ${V:-1}\nagents:\n  - path: ${WHO}.yaml\n"
    writer = "name: ${WHO}\nschedules:\n  ${WHO:-x}: {type: chat}\n"
    with pytest.raises(FleetConfigError, match=r"schedules\.\$\{WHO:-x\}: .* must be 1 to 128"):
        fleet(text, {"WHO": "writer"}, writer=writer)
    writer = "name: ${WHO}\nschedules:\n  check: {type: interval, interval: '${EVERY:-5m}'}\n"
    assert fleet(text, {"WHO": "writer"}, writer=writer).agents == (Agent("writer", {"check": CHECK}),)


def test_variables_come_from_the_environment_of_the_process(tmp_path, monkeypatch):
    monkeypatch.setenv("DUTIFUL_TEST_NAME", "writer")
    path = tmp_path / "fleet.yaml"
    path.write_text("version: 1\nagents: [{name: '${DUTIFUL_TEST_NAME}'}]\n")
    assert load_fleet(path).agents == (Agent("writer", {}),)


def test_everything_wrong_is_reported_at_once_from_top_to_bottom(refused):
    text = """\
version: 2
agents:
  - name: the writer
    schedules:
      check: {type: interval, interval: 5x, promt: hi}
      report: {type: cron, cron: "0 25 * * *"}
  - path: reader.yaml
  - path: missing.yaml
  - 5
colour: blue
defaults:
  instances: {max_concurrent: none}
"""
    reader = "name: reader\nschedules:\n  a:\n    type: cron\n  a: {type: chat}\n"
    assert refused(text, reader=reader) == [
        "fleet.yaml:1: version: '2': must be 1; write `version: 1`",
        "fleet.yaml:3: agents[0].name: 'the writer': must be 1 to 128 of the characters A-Z a-z 0-9 . _ -",
        f'fleet.yaml:5: agents[0].schedules.check.promt: is unknown (did you mean "prompt"?); {KEYS}',
        f"fleet.yaml:5: agents[0].schedules.check.interval: '5x': {UNIT}; write it such as 5m",
        f"fleet.yaml:6: agents[0].schedules.report.cron: '0 25 * * *': {HOUR}",
        f"fleet.yaml:8: agents[2].path: 'missing.yaml': missing.yaml {MISSING}",
        "fleet.yaml:9: agents[3]: '5': must be a mapping: an agent, or {path: FILE}",
        f"fleet.yaml:10: colour: is unknown; write one of {', '.join(FLEET_KEYS)}",
        "fleet.yaml:12: defaults.instances.max_concurrent: 'none': must be a whole number from 1 to 10000",
        "reader.yaml:5: schedules.a: is there twice, first on line 3; keep one",
    ]


def test_two_agents_of_one_name_are_refused_wherever_they_are_written(refused):
    text = "version: 1\nagents:\n  - name: writer\n  - path: other.yaml\n  - name: writer\n"
    assert refused(text, other="# mine\nname: writer\n") == [
        "fleet.yaml:5: agents[2].name: 'writer': is the name of agents[0] too; give each agent its own",
        "other.yaml:2: name: 'writer': is the name of agents[0] too; give each agent its own",
    ]


def test_a_mistake_in_the_defaults_is_reported_once(refused):
    text = "version: 1\ndefaults: {job: 5}\nagents: [{name: a}, {name: b}, {name: c}]\n"
    (line,) = refused(text)
    assert line.startswith("fleet.yaml:2: defaults.job: '5': must be a mapping with a `type`")


def test_a_mistake_in_a_shared_file_is_reported_once(refused):
    text = "version: 1\nagents: [{path: a.yaml}, {path: a.yaml, overrides: {name: b}}]\n"
    known = "name, default_prompt, work_source, job, on_failure, instances, schedules"
    assert refused(text, a="name: a\nwho: me\n") == [f"a.yaml:2: who: is unknown; write one of {known}"]


def test_a_mistake_in_the_overrides_is_found_there(refused):
    text = "version: 1\nagents:\n  - path: a.yaml\n    overrides:\n      instances: 2\n"
    assert refused(text, a="name: a\n") == [
        "fleet.yaml:5: agents[0].overrides.instances: '2': must be a mapping, such as {max_concurrent: 2}"
    ]


def test_a_fleet_file_is_no_agent(refused):
    text = "version: 1\nagents: [{path: fleet.yaml}]\n"
    assert [line.split(": ")[1] for line in refused(text)] == ["version", "name", "agents"]


def test_a_file_of_an_agent_holds_a_mapping(refused):
    text = "version: 1\nagents: [{path: a.yaml}]\n"
    assert refused(text, a="# a list\n- name: a\n") == ["a.yaml:2: must be a mapping: an agent with a `name`"]


def test_a_secret_out_of_the_environment_is_not_shown(refused):
    text = (
        "version: 1\nagents: [{name: '${TOKEN}', schedules: {a: {type: cron, cron: '0 ${TOKEN} * * *'}}}]\n"
    )
    lines = refused(text, {"TOKEN": "canary token"})
    assert len(lines) == 2
    assert "canary" not in "".join(lines)


def test_a_thousand_agents_are_read(fleet):
    agents = "".join(f"  - name: a{n}\n    {CHECK_TEXT}\n" for n in range(1000))
    assert len(fleet(f"version: 1\nagents:\n{agents}").agents) == 1000


@pytest.mark.parametrize("path", ["missing.yaml", "."])
def test_a_fleet_file_that_cannot_be_read_is_named(path):
    with pytest.raises(FleetConfigError) as caught:
        load_fleet(path)
    assert [problem.file for problem in caught.value.problems] == [path]


def test_a_missing_version_is_reported_at_the_line_where_the_document_begins(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text("# A fleet.\n\nagents: []\n")
    with pytest.raises(FleetConfigError) as refused:
        load_fleet(path)
    (problem,) = refused.value.problems
    assert str(problem) == f"{path}:3: version: is missing; write `version: 1`"


def test_the_guide_has_every_key_and_no_other():
    text = (Path(__file__).resolve().parents[3] / "docs/guides/fleet-file.md").read_text(encoding="utf-8")
    told = {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")}
    assert told == {*FLEET_KEYS, *AGENT_KEYS, *SCHEDULE_KEYS}
    assert [key for key in (*INCLUDE_KEYS, *INSTANCES_KEYS) if f"`{key}`" not in text] == []
