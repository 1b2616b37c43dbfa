"""A task's record as plain values: read strictly, or refused with the error that says why."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutiful.errors import (
    TaskInvalidStructureError,
    TaskInvalidTypeError,
    TaskInvalidValueError,
    TaskMissingFieldError,
    TaskTryDeserializeError,
)
from dutiful.stores.codec import task_from_record

RECORD = {
    "name": "job",
    "cronExpression": "0 9 * * *",
    "retryDelayMs": 60_000,
    "lastAttemptAt": None,
    "lastSuccessAt": None,
    "lastFailureAt": None,
    "pendingRetryUntil": None,
    "schedulerIdentifier": None,
}
NINE, LATER, RETRY = "2026-01-05T09:00:00Z", "2026-01-05T09:00:10Z", "2026-01-05T09:01:10Z"


def read(**changes):
    return task_from_record(RECORD | changes, [("job", "0 9 * * *", None, 60)])


def test_a_record_becomes_a_task():
    task = read(lastAttemptAt=NINE, lastSuccessAt=LATER, schedulerIdentifier="a1")
    assert (task.name, str(task.cron), task.retry_delay_ms, task.scheduler_identifier) == (
        "job",
        "0 9 * * *",
        60_000,
        "a1",
    )
    assert task.last_attempt_at == datetime(2026, 1, 5, 9, tzinfo=UTC)
    assert task.last_success_at - task.last_attempt_at == timedelta(seconds=10)


STATES = [
    ({}, "AwaitingRun"),
    ({"lastAttemptAt": NINE}, "Running"),
    ({"lastAttemptAt": NINE, "lastSuccessAt": NINE}, "AwaitingRun"),
    ({"lastAttemptAt": NINE, "lastSuccessAt": LATER}, "AwaitingRun"),
    ({"lastAttemptAt": LATER, "lastSuccessAt": NINE}, "Running"),
    ({"lastAttemptAt": LATER, "lastFailureAt": NINE}, "Running"),
    ({"lastAttemptAt": NINE, "lastFailureAt": LATER, "pendingRetryUntil": RETRY}, "AwaitingRetry"),
    ({"lastAttemptAt": NINE, "lastFailureAt": LATER, "pendingRetryUntil": LATER}, "AwaitingRetry"),
    ({"lastAttemptAt": NINE, "lastFailureAt": LATER}, "AwaitingRun"),
]


@pytest.mark.parametrize(("times", "state"), STATES)
def test_the_times_say_which_of_the_three_states_a_task_is_in(times, state):
    assert read(**times).state == state


@pytest.mark.parametrize("offset", [timedelta(hours=5, minutes=30), timedelta(hours=-8)])
def test_times_of_any_offset_are_the_same_instants(offset):
    local = datetime(2026, 1, 5, 9, tzinfo=UTC).astimezone(timezone(offset)).isoformat()
    assert read(lastAttemptAt=local) == read(lastAttemptAt=NINE)


def test_keys_of_a_later_release_are_passed_over():
    assert read(colour="blue") == read()


def test_names_may_be_given_as_a_mapping_too():
    assert task_from_record(RECORD, {"job": None}).name == "job"


@pytest.mark.parametrize("field", RECORD)
def test_every_field_is_required(field):
    record = {key: value for key, value in RECORD.items() if key != field}
    with pytest.raises(TaskMissingFieldError, match=f"Missing required field: {field}") as caught:
        task_from_record(record, ["job"])
    assert caught.value.details == {"field": field}


WRONG = {
    "name": [None, 5, ["job"]],
    "cronExpression": [None, 5, {}],
    "retryDelayMs": [None, "60000", True, [1]],
    "lastAttemptAt": [5, True, {}],
    "lastSuccessAt": [5.5],
    "lastFailureAt": [[]],
    "pendingRetryUntil": [0],
    "schedulerIdentifier": [5, False],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in WRONG.items() for value in values]
)
def test_a_field_of_the_wrong_type_is_refused(field, value):
    with pytest.raises(TaskInvalidTypeError) as caught:
        read(**{field: value})
    details = caught.value.details
    assert (details["field"], details["value"]) == (field, value)
    assert str(caught.value).endswith(f"expected {details['expectedType']}, got {details['actualType']}")


IMPOSSIBLE = [
    ("name", {"name": "unheard of"}),
    ("cronExpression", {"cronExpression": "@daily"}),
    ("retryDelayMs", {"retryDelayMs": -1}),
    ("retryDelayMs", {"retryDelayMs": 0.5}),
    ("retryDelayMs", {"retryDelayMs": float("nan")}),
    ("retryDelayMs", {"retryDelayMs": float("inf")}),
    ("lastAttemptAt", {"lastAttemptAt": "yesterday"}),
    ("lastAttemptAt", {"lastAttemptAt": "2026-02-30T00:00:00Z"}),
    ("lastAttemptAt", {"lastAttemptAt": "2026-01-05T09:00:00"}),
    ("lastAttemptAt", {"lastAttemptAt": "0001-01-01T00:00:00+14:00"}),
    ("lastSuccessAt", {"lastSuccessAt": NINE}),
    ("lastFailureAt", {"lastFailureAt": NINE}),
    ("pendingRetryUntil", {"pendingRetryUntil": NINE}),
    ("pendingRetryUntil", {"lastAttemptAt": NINE, "pendingRetryUntil": RETRY}),
    ("pendingRetryUntil", {"lastAttemptAt": NINE, "lastFailureAt": LATER, "pendingRetryUntil": NINE}),
    ("schedulerIdentifier", {"schedulerIdentifier": ""}),
]


@pytest.mark.parametrize(("field", "changes"), IMPOSSIBLE)
def test_a_value_that_cannot_be_is_refused(field, changes):
    with pytest.raises(TaskInvalidValueError) as caught:
        read(**changes)
    assert caught.value.details["field"] == field
    assert str(caught.value) == f"Invalid value for field '{field}': {caught.value.details['reason']}"


@pytest.mark.parametrize("record", [None, 5, "job", [], [RECORD], True])
def test_a_value_that_is_no_record_is_refused(record):
    with pytest.raises(TaskInvalidStructureError) as caught:
        task_from_record(record, ["job"])
    assert caught.value.details == {"value": record}


values = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers(), max_size=2)
)


@given(st.dictionaries(st.sampled_from([*RECORD]), values))
def test_whatever_is_stored_is_read_or_refused_with_a_task_error(changes):
    with suppress(TaskTryDeserializeError):
        assert read(**changes).state in ("AwaitingRun", "Running", "AwaitingRetry")
