"""What is wrong with the description of a job, and where."""

from __future__ import annotations

import pytest

from dutiful.core.errors import InvalidArgumentError
from dutiful.fleet.run.jobs import executor_for, problems_of_job
from dutiful.fleet.types import Problem

ARGV = "must be a list, the program first, e.g. [python3, report.py]; no shell reads it"
KINDS = "command, http, python"


@pytest.mark.parametrize(
    "config",
    [
        {"type": "command", "command": ["true"]},
        {
            "type": "command",
            "command": ["sleep", 5],
            "timeout": "10m",
            "output_limit": "4096",
            "environment": ["TOKEN"],
            "directory": "jobs",
        },
        {"type": "http", "url": "https://example.com/x?y=z"},
        {
            "type": "http",
            "url": "http://10.0.0.1/",
            "headers": {"Authorization": "Bearer x"},
            "timeout": "5s",
            "allow": ["10.0.0.0/8", "build.internal"],
        },
        {"type": "python", "call": "reports.daily:build", "timeout": "1h"},
    ],
    ids=str,
)
def test_a_job_that_can_be(config):
    assert [*problems_of_job(config)] == []


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("true", Problem((), f"must be a mapping with a `type`: one of {KINDS}", "true")),
        ({}, Problem(("type",), f"is missing; write one of {KINDS}")),
        (
            {"type": "comand"},
            Problem(("type",), f'is unknown (did you mean "command"?); write one of {KINDS}', "comand"),
        ),
        ({"type": ["x"]}, Problem(("type",), f"is unknown; write one of {KINDS}", ["x"])),
        ({"type": "command"}, Problem(("command",), "is missing; write `command: …`")),
        ({"type": "command", "command": "ls -l"}, Problem(("command",), ARGV, "ls -l")),
        ({"type": "command", "command": []}, Problem(("command",), ARGV, [])),
        ({"type": "command", "command": [["a"]]}, Problem(("command",), ARGV, [["a"]])),
        (
            {"type": "command", "command": ["a"], "timeout": "5"},
            Problem(("timeout",), 'Missing time unit. Expected format: "{number}{unit}"', "5"),
        ),
        (
            {"type": "command", "command": ["a"], "timeuot": "5m"},
            Problem(
                ("timeuot",),
                'is unknown (did you mean "timeout"?); write one of command, timeout, output_limit,'
                " environment, directory",
            ),
        ),
        (
            {"type": "command", "command": ["a"], "output_limit": "9"},
            Problem(("output_limit",), "must be a whole number from 1024 to 67108864", "9"),
        ),
        (
            {"type": "command", "command": ["a"], "environment": ["A-B=c"]},
            Problem(("environment",), "'A-B' cannot be the name of an environment variable"),
        ),
        (
            {"type": "command", "command": ["a"], "directory": " "},
            Problem(("directory",), "must be a text that is not blank", " "),
        ),
        (
            {"type": "http", "url": "https://example.com/", "allow": ["http://x"]},
            Problem(("allow",), "'http://x' is neither a host name nor a network", ["http://x"]),
        ),
        (
            {"type": "python", "call": "reports"},
            Problem(("call",), "must be module:function, e.g. reports.daily:build", "reports"),
        ),
    ],
    ids=str,
)
def test_a_job_that_cannot_be(config, problem):
    assert [*problems_of_job(config)] == [problem]


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ("x", "must be a mapping of header names to texts"),
        ({"A": "canary\r\nB: c"}, "has a value for A that is no plain line of ASCII text"),
        ({"A": ["canary"]}, "has a value for A that is no plain line of ASCII text"),
        ({"Bad name": "canary"}, "has a header whose name cannot be sent"),
        ({"Host": "canary"}, "must leave Host to the request itself"),
    ],
    ids=str,
)
def test_headers_are_refused_without_showing_them(headers, message):
    config = {"type": "http", "url": "https://example.com/", "headers": headers}
    assert [*problems_of_job(config)] == [Problem(("headers",), message)]


def test_a_url_is_refused_without_showing_it():
    (problem,) = problems_of_job({"type": "http", "url": "https://ada:canary@example.com/"})
    assert problem.path == ("url",)
    assert "canary" not in str(problem)


def test_all_problems_are_found_at_once_and_raised_together():
    config = {"type": "command", "timeout": "x", "colour": "red"}
    assert [problem.path for problem in problems_of_job(config)] == [("colour",), ("command",), ("timeout",)]
    with pytest.raises(
        InvalidArgumentError, match=r"Invalid job 'command': colour is unknown; .*command is missing"
    ):
        executor_for(config)
