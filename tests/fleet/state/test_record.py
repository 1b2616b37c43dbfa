"""One record of the state file: what is read, what is refused, and how changes are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutiful.errors import InvalidArgumentError
from dutiful.fleet.state.file import read_changes, read_record
from dutiful.fleet.types import ScheduleState
from dutiful.fleet.yaml_tree import Node, compose, to_yaml

NOON = datetime(2025, 1, 19, 12, 0, tzinfo=UTC)
ADVICE = "write a time with its zone, such as 2026-03-08T02:30:00Z"


def record(text):
    return compose(text, 100).root or Node(None)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("{}", ScheduleState()),
        ("null", ScheduleState()),
        ("status: disabled", ScheduleState("disabled")),
        ("last_error: null", ScheduleState()),
        ("last_error:", ScheduleState()),
        ("last_error: 'null'", ScheduleState(last_error="null")),
        ("last_error: 5", ScheduleState(last_error="5")),
        ("last_run_at: 2025-01-19T12:00:00Z", ScheduleState(last_run_at=NOON)),
        ("last_run_at: '2025-01-19T12:00:00.000Z'", ScheduleState(last_run_at=NOON)),
        ("next_run_at: 2025-01-19 13:00:00+01:00", ScheduleState(next_run_at=NOON)),
        ("mood: [good]", ScheduleState()),
    ],
)
def test_what_a_record_says(text, state):
    assert read_record(record(text)) == state


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("idle", "is not a mapping with `status`"),
        ("[]", "is not a mapping with `status`"),
        ("status: paused", "status is paused; write one of idle, running, disabled"),
        ("status: null", "status is None; write one of idle, running, disabled"),
        ("status: []", "status is []; write one of idle, running, disabled"),
        ("last_error: {a: b}", "last_error is no text"),
        (
            "last_run_at: soon",
            f"last_run_at is soon; {ADVICE}",
        ),
        (
            "next_run_at: 2025-01-19T12:00:00",
            f"next_run_at is 2025-01-19T12:00:00; {ADVICE}",
        ),
        (
            "last_run_at: 0001-01-01T00:00:00+12:00",
            f"last_run_at is 0001-01-01T00:00:00+12:00; {ADVICE}",
        ),
    ],
)
def test_what_cannot_be_read_is_reported(text, told):
    with pytest.raises(ValueError, match=r"\w") as caught:
        read_record(record(text))
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"stauts": "idle"},
            "Invalid changes 'stauts': change one of status, last_run_at, next_run_at, last_error",
        ),
        ({"status": "paused"}, "Invalid status 'paused': choose from idle, running, disabled"),
        ({"status": None}, "Invalid status 'None': choose from idle, running, disabled"),
        ({"last_error": 5}, "Invalid last_error '5': must be a text or None"),
        ({"last_run_at": "soon"}, "Invalid last_run_at 'soon': must be a time with its zone"),
        ({"last_run_at": 5}, "Invalid last_run_at '5': must be a time with its zone"),
    ],
)
def test_changes_that_cannot_be_are_refused(changes, told):
    with pytest.raises(InvalidArgumentError) as caught:
        read_changes(changes)
    assert str(caught.value) == told


def test_a_naive_time_is_no_change():
    with pytest.raises(InvalidArgumentError, match="must be a time with its zone"):
        read_changes({"last_run_at": NOON.replace(tzinfo=None)})


def test_times_are_written_as_texts_in_utc():
    east = NOON.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert read_changes({"last_run_at": east, "next_run_at": "2025-01-19T13:00:00+01:00"}) == {
        "last_run_at": Node("2025-01-19T12:00:00Z"),
        "next_run_at": Node("2025-01-19T12:00:00Z"),
    }


instants = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.timezones())  # noqa: DTZ001
states = st.builds(
    ScheduleState,
    st.sampled_from(["idle", "running", "disabled"]),
    st.none() | instants,
    st.none() | instants,
    st.none() | st.text(st.characters(exclude_categories=["Cs"])),
)


@given(states)
def test_every_state_comes_back_as_it_was_written(state):
    text = to_yaml(Node(read_changes(state._asdict())))
    assert read_record(compose(text, 100).root) == state._replace(
        last_run_at=state.last_run_at and state.last_run_at.astimezone(UTC),
        next_run_at=state.next_run_at and state.next_run_at.astimezone(UTC),
    )


def test_what_no_file_can_hold_is_written_as_an_escape():
    assert read_changes({"last_error": "bad \udc80 byte"}) == {"last_error": Node("bad \\udc80 byte")}
