"""An agent document given as Python values: what it becomes, what is refused, what is only set aside."""

from __future__ import annotations

import pytest

from dutiful.fleet import Agent, AgentSchedule, FleetConfigError, agent_from, is_valid_cron_expression
from dutiful.fleet.file.agents import problems_of_schedule
from dutiful.fleet.types import Problem

CHECK = {"type": "interval", "interval": "5m"}
MAX_CONCURRENT = 'is unknown (did you mean "max_concurrent"?); write one of max_concurrent'


def schedule(**changes):
    return agent_from({"name": "writer", "schedules": {"check": CHECK | changes}}).schedules["check"]


def problems(**changes):
    return [(problem.path, problem.message) for problem in problems_of_schedule(schedule(**changes))]


def refusal(document):
    with pytest.raises(FleetConfigError) as caught:
        agent_from(document)
    return [str(problem) for problem in caught.value.problems]


def test_an_agent_stays_what_it_is():
    agent = Agent("writer")
    assert agent_from(agent) is agent


def test_a_name_is_enough():
    assert agent_from({"name": "writer"}) == Agent("writer", {})


def test_every_key_has_its_place():
    job, source = {"type": "command", "command": ["true"]}, {"type": "directory", "path": "todo"}
    entry = {
        "type": "interval",
        "interval": "1h",
        "prompt": "Check.",
        "enabled": False,
        "jitter_percent": 2.5,
        "work_source": source,
        "run_without_work": True,
        "job": job,
        "retries": 2,
        "retry_delay": "30s",
        "retry_backoff": 2,
        "on_failure": job,
    }
    document = {
        "name": "writer",
        "default_prompt": "Carry on.",
        "work_source": source,
        "job": job,
        "instances": {"max_concurrent": 3},
        "on_failure": job,
        "schedules": {"check": entry, "report": {"type": "cron", "cron": "@daily", "timezone": "Asia/Tokyo"}},
    }
    check = AgentSchedule(
        "interval", "1h", None, "Check.", False, 2.5, source, True, job, None, 2, "30s", 2, job
    )
    report = AgentSchedule("cron", expression="@daily", timezone="Asia/Tokyo")
    schedules = {"check": check, "report": report}
    assert agent_from(document) == Agent("writer", schedules, "Carry on.", 3, source, job, job)


@pytest.mark.parametrize(
    ("written", "read"), [("true", True), ("FALSE", False), ("off", False), (True, True), (None, True)]
)
def test_flags_may_be_texts(written, read):
    assert schedule(enabled=written).enabled is read


@pytest.mark.parametrize(("written", "read"), [("5", 5), ("2.5", 2.5), (10, 10), (0.5, 0.5), (None, 0)])
def test_numbers_may_be_texts(written, read):
    assert schedule(jitter_percent=written).jitter_percent == read
    assert problems(jitter_percent=written) == []


def test_a_key_with_the_value_none_counts_as_left_out():
    document = {"name": "writer", "instances": None, "schedules": None, "job": None, "default_prompt": None}
    assert agent_from(document) == Agent("writer", {})


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ("writer", ["'writer': must be a mapping with a `name` and `schedules`"]),
        (None, ["must be a mapping with a `name` and `schedules`"]),
        ({}, ["name: is missing; write `name: …`"]),
        ({"name": "a b"}, ["name: 'a b': must be 1 to 128 of the characters A-Z a-z 0-9 . _ -"]),
        (
            {"name": ".."},
            ["name: '..': would be another directory of the logs; write another name"],
        ),
        ({"name": 5}, ["name: 5: must be 1 to 128 of the characters A-Z a-z 0-9 . _ -"]),
        (
            {"name": "a", "schedules": []},
            ["schedules: must be a mapping, such as {NAME: {type: interval, interval: 5m}}"],
        ),
        (
            {"name": "a", "schedules": {"b c": CHECK}},
            ["schedules.b c: 'b c': must be 1 to 128 of the characters A-Z a-z 0-9 . _ -"],
        ),
        (
            {"name": "a", "instances": {"max_concurrent": 0}},
            ["instances.max_concurrent: 0: must be a whole number from 1 to 10000"],
        ),
        (
            {"name": "a", "instances": {"max_current": 1}},
            [f"instances.max_current: {MAX_CONCURRENT}"],
        ),
        ({"name": "a", "instances": 2}, ["instances: 2: must be a mapping, such as {max_concurrent: 2}"]),
    ],
)
def test_without_a_usable_agent_there_is_nothing_to_schedule(document, told):
    assert refusal(document) == told


def test_the_work_source_and_the_job_of_an_agent_are_checked():
    with pytest.raises(FleetConfigError) as caught:
        agent_from({"name": "a", "job": {"type": "x"}, "work_source": 5})
    assert [problem.path for problem in caught.value.problems] == ["work_source", "job.type"]


def test_the_error_names_the_agent():
    with pytest.raises(FleetConfigError, match=r"^The agent 'writer' cannot be used:\n  schedules: "):
        agent_from({"name": "writer", "schedules": "hourly"})


def test_a_bad_schedule_does_not_stop_its_agent():
    agent = agent_from({"name": "writer", "schedules": {"bad": "5m", "check": CHECK}})
    said = Problem((), "must be a mapping with a `type`", "5m")
    assert agent.schedules == {"bad": AgentSchedule("", problems=(said,)), "check": AgentSchedule(**CHECK)}
    assert [*problems_of_schedule(agent.schedules["bad"])] == [said]
    assert [*problems_of_schedule(agent.schedules["check"])] == []


@pytest.mark.parametrize(
    ("changes", "path", "told"),
    [
        (
            {"interval": "5x"},
            "interval",
            'Invalid time unit "x". Valid units are: s, m, h, d; write it such as 5m',
        ),
        ({"interval": None}, "interval", "is missing; `type: interval` needs it, such as 5m"),
        ({"interval": 300}, "interval", "Interval must be a string, not int"),
        ({"enabled": "maybe"}, "enabled", "must be true or false"),
        ({"enabled": 1}, "enabled", "must be true or false"),
        ({"jitter_percent": 11}, "jitter_percent", "must be from 0 to 10"),
        ({"jitter_percent": -1}, "jitter_percent", "must be a number from 0 to 10"),
        ({"jitter_percent": float("nan")}, "jitter_percent", "must be a number from 0 to 10"),
        ({"jitter_percent": True}, "jitter_percent", "must be a number from 0 to 10"),
        ({"prompt": 5}, "prompt", "must be a text that is not blank"),
        ({"type": None}, "type", "is missing; write one of interval, cron, webhook, chat"),
        (
            {"type": "intervall"},
            "type",
            'is unknown (did you mean "interval"?); write one of interval, cron, webhook, chat',
        ),
        ({"cron": "@daily"}, "expression", "means nothing with `type: interval`; remove it, or the type"),
        ({"type": "chat"}, "interval", "means nothing with `type: chat`; remove it, or the type"),
        (
            {"type": "cron", "interval": None, "expression": "0 25 * * *"},
            "expression",
            'Invalid cron expression "0 25 * * *" - hour must be 0-23; write it such as "0 9 * * 1-5"',
        ),
        (
            {"type": "cron", "interval": None, "expression": ""},
            "expression",
            'Cron expression cannot be empty; write it such as "0 9 * * 1-5"',
        ),
        (
            {"type": "cron", "interval": None, "cron": 5},
            "cron",
            'Invalid cron expression "5" - must be a string',
        ),
        (
            {"type": "cron", "interval": None, "cron": "@daily", "expression": "@daily"},
            "cron",
            "is the same as `expression`, which is there too; keep one",
        ),
    ],
)
def test_what_is_wrong_with_a_schedule_is_reported_by_its_key(changes, path, told):
    assert ((path,), told) in problems(**changes)


def test_an_unknown_key_is_a_problem_with_a_suggestion():
    (found,) = problems(promt="x")
    assert found[0] == ("promt",)
    assert found[1].startswith('is unknown (did you mean "prompt"?); write one of type, interval, ')


def test_the_configs_of_a_schedule_are_checked_too():
    assert [path for path, _ in problems(job={"type": "x"}, work_source={})] == [
        ("work_source", "type"),
        ("job", "type"),
    ]


def test_a_schedule_made_by_hand_is_checked_the_same_way():
    found = problems_of_schedule(AgentSchedule("interval", "0m", jitter_percent=50))
    assert [problem.path for problem in found] == [("interval",), ("jitter_percent",)]
    assert [problem.path for problem in problems_of_schedule(AgentSchedule(""))] == [("type",)]


@pytest.mark.parametrize("kind", ["webhook", "chat"])
def test_a_schedule_that_the_clock_never_fires_needs_nothing(kind):
    assert [*problems_of_schedule(AgentSchedule(kind, prompt="Answer."))] == []


def test_cron_expressions_are_checked_without_looking_up_the_zone_of_the_host(monkeypatch, caplog):
    # Each lookup warns of this zone; where the zone is a file without a name, each compares 600 files.
    monkeypatch.setenv("TZ", "Nowhere/Land")
    assert problems(type="cron", interval=None, expression="0 9 * * *") == []
    assert is_valid_cron_expression("0 9 * * *")
    assert caplog.messages == []
