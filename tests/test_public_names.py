"""The names users import. A change here is a change for them: say so in the changelog."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata

import dutiful
import dutiful.errors

PUBLIC = [
    "BackgroundScheduler",
    "Cron",
    "CronCalculationError",
    "DutifulError",
    "FieldParseError",
    "InvalidArgumentError",
    "InvalidCronExpressionError",
    "Registration",
    "Scheduler",
    "SchedulerEvent",
    "in_background",
    "in_thread",
    "running",
    "task",
]
ERRORS = [
    "CodecError",
    "CronCalculationError",
    "CronExpressionInvalidError",
    "DutifulError",
    "FieldParseError",
    "IntervalParseError",
    "InvalidArgumentError",
    "InvalidCronExpressionError",
    "InvalidRegistrationError",
    "LostLeadershipError",
    "NamespaceOwnedError",
    "NegativeRetryDelayError",
    "OversizedBackfillError",
    "OvertakenError",
    "RegistrationShapeError",
    "RegistrationsNotArrayError",
    "ScheduleDuplicateTaskError",
    "ScheduleFileError",
    "ScheduleTaskError",
    "SchedulerAlreadyActiveError",
    "SchedulerError",
    "StopSchedulerError",
    "StoreError",
    "TaskInvalidStructureError",
    "TaskInvalidTypeError",
    "TaskInvalidValueError",
    "TaskMissingFieldError",
    "TaskTryDeserializeError",
    "UnknownRunError",
    "UnknownScheduleError",
    "UnrecordedRunsError",
]


def test_the_package_offers_exactly_these_names_in_order():
    assert dutiful.__all__ == sorted(PUBLIC)


def test_the_version_is_that_of_the_installed_package():
    assert dutiful.__version__ == metadata.version("dutiful")


def test_the_errors_are_exactly_these_in_order():
    assert dutiful.errors.__all__ == sorted(ERRORS)


def test_every_public_name_can_be_imported():
    assert [name for name in dutiful.__all__ if not hasattr(dutiful, name)] == []
    assert [name for name in dutiful.errors.__all__ if not hasattr(dutiful.errors, name)] == []


def test_every_error_of_the_core_is_public():
    from dutiful.core import errors

    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert sorted(cls.__name__ for cls in classes if issubclass(cls, Exception)) == dutiful.errors.__all__


def test_all_errors_share_one_root():
    classes = [getattr(dutiful.errors, name) for name in dutiful.errors.__all__]
    assert all(issubclass(cls, dutiful.errors.DutifulError) for cls in classes)


def test_importing_dutiful_loads_no_third_party_module():
    # What the environment loads at start-up is not dutiful's doing.
    added = modules_after_importing("dutiful, dutiful.errors") - modules_after_importing("sys")
    roots = {name.partition(".")[0] for name in added}
    # The build settings of the interpreter are standard library under a name of the platform.
    foreign = {name for name in roots if not name.startswith("_sysconfigdata_")}
    assert sorted(foreign - sys.stdlib_module_names - {"dutiful", "tzdata"}) == []


def test_a_worker_does_without_the_models_of_requests():
    assert "pydantic" not in modules_after_importing("dutiful.service")


def modules_after_importing(names: str) -> set[str]:
    code = f"import json, sys, {names}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))
