"""File 001, "Schedule Types": its YAML examples as a fleet file, and the types that no clock fires."""

from __future__ import annotations

import pytest

from dutiful.fleet import AgentSchedule, FleetConfigError, load_fleet

EXAMPLES = """\
version: 1
agents:
  - name: my-agent
    schedules:
      check-issues:
        type: interval
        interval: 5m
        prompt: "Check for ready issues."
      morning-report:
        type: cron
        expression: "0 9 * * 1-5" # 9am weekdays
        prompt: "Generate daily report."
      hook:
        type: webhook
      talk:
        type: chat
"""


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "fleet.yaml"
    found.write_text(EXAMPLES)
    return found


def test_schedule_types_are_read_as_they_are_written(path):
    (agent,) = load_fleet(path).agents
    assert agent.max_concurrent == 1
    assert agent.schedules == {
        "check-issues": AgentSchedule("interval", interval="5m", prompt="Check for ready issues."),
        "morning-report": AgentSchedule("cron", expression="0 9 * * 1-5", prompt="Generate daily report."),
        "hook": AgentSchedule("webhook"),
        "talk": AgentSchedule("chat"),
    }


def test_schedule_types_the_keys_are_attributes(path):
    schedule = load_fleet(path).agents[0].schedules["check-issues"]
    assert (schedule.type, schedule.interval, schedule.expression) == ("interval", "5m", None)
    assert (schedule.enabled, schedule.jitter_percent, schedule.work_source) == (True, 0, None)


def test_schedule_types_there_are_no_others(path):
    path.write_text(EXAMPLES.replace("webhook", "telegram"))
    with pytest.raises(
        FleetConfigError, match=r"hook\.type: 'telegram': is unknown; write one of interval, cron,"
    ):
        load_fleet(path)


def test_schedule_types_a_cron_without_quotes_is_answered_with_a_hint(path):
    path.write_text(EXAMPLES.replace('"0 9 * * 1-5"', "* 9 * * 1-5"))
    with pytest.raises(FleetConfigError) as caught:
        load_fleet(path)
    (problem,) = caught.value.problems
    assert (problem.line, problem.path) == (11, "agents[0].schedules.morning-report.expression")
    assert problem.message.endswith('put a text that begins with * in quotes, such as "*/5 * * * *"')
