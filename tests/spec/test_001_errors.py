"""File 001, "Error Classes" and "Timeout Handling": the hierarchy and the data that each error carries."""

from __future__ import annotations

import pytest

from dutiful import fleet
from dutiful.errors import DutifulError
from dutiful.fleet import SchedulerShutdownError, ScheduleTriggerError


@pytest.mark.parametrize(
    ("name", "parent"),
    [
        ("SchedulerError", "Exception"),
        ("IntervalParseError", "SchedulerError"),
        ("CronParseError", "FleetManagerError"),
        ("ScheduleTriggerError", "SchedulerError"),
        ("SchedulerShutdownError", "SchedulerError"),
        ("FleetConfigError", "SchedulerError"),
    ],
)
def test_error_classes_extend_what_the_table_says(name, parent):
    error = getattr(fleet, name)
    assert parent in {ancestor.__name__ for ancestor in error.__mro__}
    assert issubclass(error, DutifulError)


def test_a_trigger_error_includes_the_agent_and_the_schedule():
    error = ScheduleTriggerError("my-agent", "check-issues", RuntimeError("refused"))
    assert (error.agent_name, error.schedule_name) == ("my-agent", "check-issues")


def test_a_shutdown_error_includes_whether_time_ran_out_and_how_many_jobs_ran():
    error = SchedulerShutdownError(30_000, 2)
    assert str(error) == "Scheduler shutdown timed out after 30000ms with 2 job(s) still running"
    assert (error.timed_out, error.running_job_count) == (True, 2)
