"""The errors of the fleet: their families, words, facts, and that they survive the way to another process."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from dutiful.errors import DutifulError
from dutiful.fleet import errors
from dutiful.fleet.errors import (
    AgentNotFoundError,
    ConcurrencyLimitError,
    ConfigProblem,
    CronParseError,
    FleetConfigError,
    FleetControlError,
    FleetManagerError,
    FleetNotRunningError,
    IntervalParseError,
    JobNotStartedError,
    ScheduleNotFoundError,
    SchedulerError,
    SchedulerShutdownError,
    ScheduleTriggerError,
    StateFileError,
    WorkSourceError,
)

PROBLEM = ConfigProblem("fleet.yaml", 7, "agents[0].schedules.check.interval", "write a unit", "5")
EXAMPLES = [
    IntervalParseError("Missing time unit", "5"),
    CronParseError("Invalid", "0 25 * * *", "hour"),
    ScheduleTriggerError("writer", "check", RuntimeError("no")),
    SchedulerShutdownError(30_000, 2),
    FleetConfigError("fleet.yaml", [PROBLEM]),
    StateFileError("state.yaml", "is not UTF-8", "mend it"),
    FleetNotRunningError(".dutiful"),
    FleetControlError("There is none", "AgentNotFoundError"),
    JobNotStartedError("there is no such program"),
    WorkSourceError("work source `table`", "the file is no database"),
    AgentNotFoundError("writr", ["writer"]),
    ScheduleNotFoundError("writer", "chek", ["check"]),
    ConcurrencyLimitError("writer", 2, 2),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_every_error_is_of_one_root_and_has_details(error):
    assert isinstance(error, SchedulerError)
    assert isinstance(error, DutifulError)
    assert error.details


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_every_error_survives_pickling(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), repr(copy.details)) == (type(error), str(error), repr(error.details))
    assert repr(vars(copy)) == repr(vars(error))


def test_every_error_has_an_example_here():
    roots = {"SchedulerError", "FleetManagerError"}
    assert {type(error).__name__ for error in EXAMPLES} | roots == {*errors.__all__}


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_in_the_reference(name):
    page = Path(__file__).resolve().parents[2] / "docs/reference/errors.md"
    assert f"\n## `{name}`\n" in page.read_text(encoding="utf-8")


def test_the_family_of_what_the_fleet_was_asked_for():
    family = {type(error) for error in EXAMPLES if isinstance(error, FleetManagerError)}
    assert family == {CronParseError, AgentNotFoundError, ScheduleNotFoundError, ConcurrencyLimitError}


def test_errors_are_also_the_builtin_ones_they_resemble():
    assert issubclass(CronParseError, ValueError)
    assert issubclass(IntervalParseError, ValueError)
    assert issubclass(AgentNotFoundError, LookupError)
    assert issubclass(ScheduleNotFoundError, LookupError)


def test_a_shutdown_tells_how_long_it_waited_and_for_how_many():
    error = SchedulerShutdownError(30_000, 2)
    assert str(error) == "Scheduler shutdown timed out after 30000ms with 2 job(s) still running"
    assert (error.timed_out, error.running_job_count) == (True, 2)


def test_a_failed_trigger_names_the_schedule_and_the_cause():
    cause = RuntimeError("the disk is full")
    error = ScheduleTriggerError("writer", "check", cause)
    assert str(error) == 'Schedule "writer/check" failed: the disk is full'
    assert error.details == {"agent_name": "writer", "schedule_name": "check", "cause": cause}
    assert (error.agent_name, error.schedule_name) == ("writer", "check")


def test_an_unknown_agent_is_answered_with_those_there_are():
    error = AgentNotFoundError("writr", {"writer", "reader"})
    assert str(error) == 'There is no agent "writr" (did you mean "writer"?); known: reader, writer'
    assert error.details == {"agent_name": "writr", "known": ["reader", "writer"]}


def test_nothing_is_suggested_where_nothing_is_near():
    assert str(AgentNotFoundError("x", ["writer"])) == 'There is no agent "x"; known: writer'
    assert str(AgentNotFoundError("x", [])) == 'There is no agent "x"; there is none'


def test_an_unknown_schedule_is_answered_with_those_of_its_agent():
    error = ScheduleNotFoundError("writer", "chek", ["check", "report"])
    told = 'Agent "writer" has no schedule "chek" (did you mean "check"?); known: check, report'
    assert (str(error), error.agent_name, error.schedule_name) == (told, "writer", "chek")


def test_a_long_list_is_cut_in_the_message_and_whole_in_the_details():
    names = [f"agent-{n:03}" for n in range(80)]
    error = AgentNotFoundError("zzz", names)
    assert str(error).endswith("agent-049 and 30 more")
    assert error.details["known"] == names


def test_a_limit_gives_the_counts():
    error = ConcurrencyLimitError("writer", 2, 2)
    told = 'Agent "writer" is at its limit: 2 of 2 job(s) running;'
    assert str(error) == f"{told} wait for one to end, or raise instances.max_concurrent"
    assert (error.agent_name, error.running, error.max_concurrent) == ("writer", 2, 2)


def test_a_refused_file_lists_every_problem():
    other = ConfigProblem("fleet.yaml", None, "", "is empty; write a fleet")
    error = FleetConfigError("fleet.yaml", [PROBLEM, other])
    lines = ["fleet.yaml:7: agents[0].schedules.check.interval: '5': write a unit"]
    lines += ["fleet.yaml: is empty; write a fleet"]
    assert str(error) == "fleet.yaml cannot be used:\n  " + "\n  ".join(lines)
    assert error.problems == (PROBLEM, other)
    assert error.details == {"subject": "fleet.yaml", "problems": lines}


def test_a_message_lists_fifty_problems_and_counts_the_rest():
    error = FleetConfigError("fleet.yaml", [PROBLEM] * 51)
    assert str(error).count("\n") == 51
    assert str(error).endswith("\n  … and 1 more")
    assert len(error.problems) == 51
