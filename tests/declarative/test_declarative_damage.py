"""A file that a person edited: `initialize` names the wrong field of each task, and changes nothing."""

from __future__ import annotations

import asyncio
import json
import sqlite3

import pytest

from dutiful import Scheduler
from dutiful.errors import (
    TaskInvalidStructureError,
    TaskInvalidTypeError,
    TaskInvalidValueError,
    TaskMissingFieldError,
)
from dutiful.testing import VirtualClock

NINE = 1_767_603_600_000  # 2026-01-05T09:00:00Z


async def fail():
    raise ValueError("as planned")


TASKS = [("job", "0 9 * * *", fail, 3600), ("other", "0 12 * * *", fail, 60)]


def initialize(path, tasks=TASKS, at="2026-01-05T09:00:00"):
    async def story():
        clock = VirtualClock(at)
        scheduler = Scheduler(f"sqlite:{path}", clock=clock)
        await scheduler.initialize(tasks)
        await clock.advance(1)
        await scheduler.stop()

    asyncio.run(story())


def edit(path, statement, *values):
    connection = sqlite3.connect(path)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


def content(path):
    """Return all that the file says of tasks; who leads and what was marked as damaged is not theirs."""
    connection = sqlite3.connect(path)
    schedules = "number, namespace, id, task, payload, cadence_number, policy_number, paused, checksum"
    states = "number, cursor, runs_started, attempted_at, succeeded_at, failed_at, ended_at"
    tables = [f"SELECT {schedules} FROM declarations", f"SELECT {states} FROM states"]
    tables += [f"SELECT * FROM {table}" for table in ("texts", "runs")]
    rows = [connection.execute(f"{query} ORDER BY 1").fetchall() for query in tables]
    connection.close()
    return rows


def change(path, column, changes):
    """Change keys of the JSON in a column of the task; None takes a key away."""
    value = json.loads(text(path, column))
    for key, new in changes.items():
        *outer, last = key.split(".")
        inner = value[outer[0]] if outer else value
        if new is None:
            del inner[last]
        else:
            inner[last] = new
    write(path, column, json.dumps(value))


def text(path, column):
    """Return the JSON that a column of the task refers to."""
    query = f"SELECT text FROM texts JOIN declarations ON texts.number = {column}_number WHERE id = 'job'"
    connection = sqlite3.connect(path)
    [(found,)] = connection.execute(query).fetchall()
    connection.close()
    return found


def write(path, column, changed):
    """Let a column of the task refer to another text, that of no other task."""
    edit(path, "INSERT INTO texts SELECT 1 + max(number), ? FROM texts", changed)
    edit(path, f"UPDATE declarations SET {column}_number = (SELECT max(number) FROM texts) WHERE id = 'job'")


@pytest.fixture
def path(tmp_path):
    """A file in which the task has failed and waits for its retry."""
    initialize(tmp_path / "state.db")
    return tmp_path / "state.db"


def refusal(path, tasks=TASKS):
    """Return what `initialize` raises, after looking that nothing has changed."""
    before = content(path)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one it is, is the question
        initialize(path, tasks)
    assert content(path) == before
    assert caught.value.__notes__ == ["in the stored record of the task 'job'"]
    return type(caught.value), str(caught.value), caught.value.details


MISSING = [
    ("cadence", "text", "cronExpression"),
    ("cadence", "zone", "cadence.zone"),
    ("policy", "retry", "retryDelayMs"),
    ("policy", "retry.delay", "retryDelayMs"),
    ("policy", "overlap", "policy.overlap"),
]


@pytest.mark.parametrize(("column", "key", "field"), MISSING)
def test_a_missing_field_is_named(path, column, key, field):
    change(path, column, {key: None})
    expected = (TaskMissingFieldError, f"Missing required field: {field}", {"field": field})
    assert refusal(path) == expected


MISTYPED = [
    ("cadence", "text", 5, "cronExpression", "string", "number"),
    ("cadence", "text", ["0 9 * * *"], "cronExpression", "string", "array"),
    ("policy", "retry.delay", "5m", "retryDelayMs", "number", "string"),
    ("policy", "retry.delay", 1.5, "retryDelayMs", "number", "number"),
    ("policy", "retry.delay", True, "retryDelayMs", "number", "boolean"),
    ("policy", "retry", "soon", "retryDelayMs", "object", "string"),
]


@pytest.mark.parametrize(("column", "key", "value", "field", "expected", "actual"), MISTYPED)
def test_a_field_of_the_wrong_type_is_named_with_its_value(path, column, key, value, field, expected, actual):
    change(path, column, {key: value})
    kind, message, details = refusal(path)
    assert kind is TaskInvalidTypeError
    assert message == f"Invalid type for field '{field}': expected {expected}, got {actual}"
    assert details == {"field": field, "value": value, "expectedType": expected, "actualType": actual}


def test_a_value_too_long_to_be_quoted_is_whole_in_the_details(path):
    change(path, "policy", {"retry.delay": "x" * 200})
    kind, _, details = refusal(path)
    assert (kind, details["actualType"], details["value"]) == (TaskInvalidTypeError, "string", "x" * 200)


IMPOSSIBLE = [
    ("cadence", {"text": "99 * * * *"}, "cronExpression", "99 * * * *"),
    ("cadence", {"text": "@daily"}, "cronExpression", "@daily"),
    ("cadence", {"kind": "moon"}, "cadence.kind", "moon"),
    ("policy", {"overlap": "maybe"}, "policy.overlap", "maybe"),
]


@pytest.mark.parametrize(("column", "changes", "field", "value"), IMPOSSIBLE)
def test_a_value_that_cannot_be_is_named(path, column, changes, field, value):
    change(path, column, changes)
    kind, message, details = refusal(path)
    assert (kind, details["field"], details["value"]) == (TaskInvalidValueError, field, value)
    assert message == f"Invalid value for field '{field}': {details['reason']}"


TIMES = [
    ("attempted_at = NULL", "lastFailureAt", "2026-01-05T09:00:00+00:00", "there was no attempt"),
    (
        "attempted_at = NULL, failed_at = NULL, succeeded_at = 0",
        "lastSuccessAt",
        "1970-01-01T00:00:00+00:00",
        "there was no attempt",
    ),
    ("failed_at = NULL", "pendingRetryUntil", "2026-01-05T10:00:00+00:00", "there was no failure"),
    (
        f"failed_at = {NINE + 7_200_000}",
        "pendingRetryUntil",
        "2026-01-05T10:00:00+00:00",
        "is before the failure",
    ),
    ("attempted_at = 1000000000000000000", "lastAttemptAt", 10**18, "is beyond the years 1 to 9999"),
    ("attempted_at = -1000000000000000000", "lastAttemptAt", -(10**18), "is beyond the years 1 to 9999"),
]


@pytest.mark.parametrize(("edits", "field", "value", "reason"), TIMES)
def test_times_that_no_history_can_have_are_named(path, edits, field, value, reason):
    edit(path, f"UPDATE states SET {edits} WHERE number = (SELECT number FROM declarations WHERE id = 'job')")
    message = f"Invalid value for field '{field}': {reason}"
    assert refusal(path) == (
        TaskInvalidValueError,
        message,
        {"field": field, "value": value, "reason": reason},
    )


def test_times_of_a_task_at_rest_are_looked_at_too(path):
    edit(path, "UPDATE states SET succeeded_at = 5 WHERE number = 2")
    before = content(path)
    with pytest.raises(TaskInvalidValueError) as caught:
        initialize(path)
    assert content(path) == before
    assert caught.value.__notes__ == ["in the stored record of the task 'other'"]
    assert caught.value.details == {
        "field": "lastSuccessAt",
        "value": "1970-01-01T00:00:00.005000+00:00",
        "reason": "there was no attempt",
    }


def test_times_before_1970_are_no_damage(path):
    edit(path, "UPDATE states SET attempted_at = -1 WHERE number = 2")
    initialize(path)


@pytest.mark.parametrize(
    ("column", "damage", "problem"),
    [
        ("cadence", lambda _: "soon", "cadence: is not JSON: "),
        ("policy", lambda _: "[]", "policy: is not a JSON object"),
        ("policy", lambda _: "{}", "policy: has version "),
        (
            "cadence",
            lambda text: text.replace("0 9", "0 8"),
            "declaration: the row was changed outside dutiful: its checksum does not match",
        ),
    ],
)
def test_what_is_no_record_at_all_is_refused_with_its_name(path, column, damage, problem):
    write(path, column, damage(text(path, column)))
    kind, message, details = refusal(path)
    assert (kind, details) == (TaskInvalidStructureError, {"value": "job"})
    assert message.startswith(f"Invalid task record: job: {problem}")


def test_a_damaged_record_is_found_again_and_again_and_a_repaired_one_goes_on(path):
    change(path, "cadence", {"text": 5})
    assert refusal(path) == refusal(path)
    change(path, "cadence", {"text": "0 9 * * *"})
    write(path, "cadence", text(path, "cadence").replace(": ", ":").replace(", ", ","))
    initialize(path)


def test_the_damage_of_a_task_that_is_not_registered_is_left_alone(path):
    change(path, "cadence", {"text": 5})
    edit(path, "UPDATE states SET attempted_at = NULL, succeeded_at = 5 WHERE number = 1")
    initialize(path, TASKS[1:])


def test_a_retry_after_the_end_of_all_datetimes_is_no_damage(tmp_path):
    path = tmp_path / "state.db"
    tasks = [("job", "0 9 * * *", fail, 3600 * 24 * 365 * 9000)]
    initialize(path, tasks)
    initialize(path, tasks)


def test_a_record_that_is_damaged_while_it_is_in_use_is_reported_once_and_the_others_run(tmp_path, caplog):
    path, told, ran = tmp_path / "state.db", [], []

    async def callback():
        ran.append(1)

    async def story():
        clock = VirtualClock("2026-01-05T09:00:00")
        scheduler = Scheduler(f"sqlite:{path}", clock=clock, observer=told.append)
        await scheduler.initialize([("job", "* * * * *", callback, 60), ("other", "* * * * *", callback, 60)])
        await clock.advance(1)
        edit(path, "UPDATE declarations SET checksum = checksum + 1 WHERE id = 'job'")
        await clock.advance(180)
        await scheduler.stop()

    asyncio.run(story())
    [damaged] = [event for event in told if event.name == "ScheduleDamaged"]
    assert (damaged.task, "checksum" in damaged.details["problem"]) == ("job", True)
    assert len(ran) == 2 + 3
    assert [record.levelname for record in caplog.records if "ScheduleDamaged" in record.message] == ["ERROR"]
