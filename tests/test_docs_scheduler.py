"""The reference of the declarative scheduler is complete: every error and event, its cause, what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dutiful import errors
from dutiful.declarative import observe

REFERENCE = Path(__file__).resolve().parents[1] / "docs/reference"
ERRORS = (REFERENCE / "errors.md").read_text(encoding="utf-8")
EVENTS = (REFERENCE / "events-scheduler.md").read_text(encoding="utf-8")
# The events and errors of the specification, in its order.
EVENT_NAMES = [
    "SchedulerInitializationStarted",
    "SchedulerInitializationCompleted",
    "SchedulerInitializationFailed",
    "SchedulerStopRequested",
    "SchedulerStopped",
    "TaskRunStarted",
    "TaskRunCompleted",
    "TaskRunFailed",
    "TaskRetryStarted",
    "TaskRetryPreempted",
    "PollingStarted",
    "PollingStopped",
    "PollingStopRequested",
]
ERROR_NAMES = [
    "RegistrationsNotArrayError",
    "RegistrationShapeError",
    "InvalidRegistrationError",
    "ScheduleDuplicateTaskError",
    "SchedulerAlreadyActiveError",
    "CronExpressionInvalidError",
    "NegativeRetryDelayError",
    "InvalidCronExpressionError",
    "FieldParseError",
    "CronCalculationError",
    "TaskTryDeserializeError",
    "TaskMissingFieldError",
    "TaskInvalidTypeError",
    "TaskInvalidValueError",
    "TaskInvalidStructureError",
    "ScheduleTaskError",
    "StopSchedulerError",
]


def section(page, title):
    return re.split(r"^## ", page.partition(f"\n## {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("name", ERROR_NAMES)
def test_every_error_has_its_cause_and_what_to_do(name):
    assert name in errors.__all__
    cause, what_to_do, advice = section(ERRORS, f"`{name}`").partition("**What to do:** ")
    assert cause.strip()
    assert what_to_do
    assert advice.strip()


@pytest.mark.parametrize("name", EVENT_NAMES)
def test_every_event_of_the_specification_says_when_it_comes(name):
    (row,) = re.findall(rf"^\| `{name}` \|[^|]*\| (.+) \|$", EVENTS.partition("\n## ")[0], re.MULTILINE)
    assert row


@pytest.mark.parametrize("name", sorted(observe._WARNINGS))
def test_every_warning_has_a_cause_and_what_to_do(name):
    (row,) = re.findall(rf"^\| `{name}` \| (.+) \| (.+) \|$", section(EVENTS, "What to do"), re.MULTILINE)
    assert all(row)


def test_every_metric_is_documented():
    counts = observe.EventCounts()
    names = set(re.findall(r"^# TYPE (\w+)", counts.text(), re.MULTILINE))
    assert names == set(re.findall(r"^\| `(dutiful_\w+)", section(EVENTS, "As metrics"), re.MULTILINE))
