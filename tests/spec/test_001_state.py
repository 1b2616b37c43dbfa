"""File 001, "Schedule State": every example, the schema and the status that persists."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import yaml

from dutiful.errors import InvalidArgumentError
from dutiful.fleet import (
    ScheduleState,
    get_agent_schedule_states,
    get_schedule_state,
    update_schedule_state,
)

NOW = datetime(2025, 1, 19, 10, 0, tzinfo=UTC)


def test_state_is_persisted_to_state_yaml_with_an_entry_for_each_schedule(tmp_path):
    update_schedule_state(tmp_path, "my-agent", "check-issues", {"status": "running", "last_run_at": NOW})
    update_schedule_state(tmp_path, "my-agent", "daily-report", {"last_error": "no"})
    assert yaml.safe_load((tmp_path / "state.yaml").read_text()) == {
        "agents": {
            "my-agent": {
                "schedules": {
                    "check-issues": {"status": "running", "last_run_at": "2025-01-19T10:00:00Z"},
                    "daily-report": {"last_error": "no"},
                }
            }
        }
    }


def test_state_has_four_attributes(tmp_path):
    state = get_schedule_state(tmp_path, "my-agent", "check-issues")
    assert (state.status, state.last_run_at, state.next_run_at, state.last_error) == (
        "idle",
        None,
        None,
        None,
    )


def test_state_update_takes_the_time_as_a_text(tmp_path):
    changes = {"status": "running", "last_run_at": "2025-01-19T10:00:00.000Z"}
    assert update_schedule_state(tmp_path, "my-agent", "check-issues", changes) == ScheduleState(
        "running", NOW
    )


def test_state_of_all_schedules_of_an_agent(tmp_path):
    for name in ("check-issues", "daily-report"):
        update_schedule_state(tmp_path, "my-agent", name, {"next_run_at": NOW})
    update_schedule_state(tmp_path, "another", "check-issues", {"next_run_at": NOW})
    state = ScheduleState(next_run_at=NOW)
    assert get_agent_schedule_states(tmp_path, "my-agent") == {"check-issues": state, "daily-report": state}


@pytest.mark.parametrize("status", ["idle", "running", "disabled"])
def test_state_schema_has_three_statuses(tmp_path, status):
    update_schedule_state(tmp_path, "my-agent", "check-issues", {"status": status})
    assert get_schedule_state(tmp_path, "my-agent", "check-issues").status == status


def test_state_schema_has_no_other_status(tmp_path):
    with pytest.raises(InvalidArgumentError):
        update_schedule_state(tmp_path, "my-agent", "check-issues", {"status": "paused"})


def test_status_transitions_disabled_persists_when_other_things_change(tmp_path):
    update_schedule_state(tmp_path, "my-agent", "check-issues", {"status": "disabled"})
    after = update_schedule_state(tmp_path, "my-agent", "check-issues", {"last_run_at": NOW})
    assert after == ScheduleState("disabled", NOW)
