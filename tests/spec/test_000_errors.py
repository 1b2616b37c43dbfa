"""File 000, "Error Model": the texts, the details, and when they are raised."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from traceback import format_exception

import pytest
from tests.spec.world import play

from dutiful import Scheduler, errors
from dutiful.stores.codec import task_from_record
from dutiful.testing import VirtualClock


async def nothing():
    pass


def registration(name="job", cron="* * * * *", delay=60):
    return (name, cron, nothing, delay)


SHAPE = "Invalid registration shape: expected [string, string, function, Duration]"
BAD_CRON = 'Invalid cron expression "60 * * * *": minute field must be 0-59, not 60'
VALIDATION = [
    (None, "RegistrationsNotArrayError", "Registrations must be an array", {}),
    ({}, "RegistrationsNotArrayError", "Registrations must be an array", {}),
    ("abcd", "RegistrationsNotArrayError", "Registrations must be an array", {}),
    (iter([]), "RegistrationsNotArrayError", "Registrations must be an array", {}),
    ([("x",)], "RegistrationShapeError", SHAPE, {"registrationIndex": 0, "received": ("x",)}),
    (
        [registration(""), registration()],
        "InvalidRegistrationError",
        "Invalid registration: name must be a non-empty string",
        {"field": "name", "value": "", "reason": "must be a non-empty string"},
    ),
    (
        [registration('say "hi"'), registration('say "hi"')],
        "ScheduleDuplicateTaskError",
        'Task with name "say "hi"" is already scheduled',
        {"taskName": 'say "hi"'},
    ),
    (
        [registration(cron="60 * * * *")],
        "CronExpressionInvalidError",
        BAD_CRON,
        {"expression": "60 * * * *", "field": "minute", "reason": "must be 0-59, not 60"},
    ),
    (
        [registration(delay=timedelta(seconds=-1.5))],
        "NegativeRetryDelayError",
        "Retry delay must be non-negative",
        {"retryDelayMs": -1500},
    ),
    (
        [registration(delay=-1)],
        "NegativeRetryDelayError",
        "Retry delay must be non-negative",
        {"retryDelayMs": -1000},
    ),
]


@pytest.mark.parametrize(("given", "name", "message", "details"), VALIDATION)
def test_errors_of_validation_have_these_texts_and_details(given, name, message, details):
    async def story(world):
        with pytest.raises(errors.DutifulError) as caught:
            world.scheduler().initialize(given)
        return caught.value

    error = play(story).answer
    assert (type(error).__name__, str(error), error.details) == (name, message, details)


@pytest.mark.parametrize("given", [given for given, *_ in VALIDATION[:2] + VALIDATION[4:]])
def test_errors_of_validation_are_thrown_by_the_call_itself_even_without_an_event_loop(given):
    clock = VirtualClock("2026-01-01T10:00:00")
    with pytest.raises(errors.DutifulError):
        Scheduler("memory:", clock=clock).initialize(given)


@pytest.mark.parametrize("given", [given for given, *_ in VALIDATION[4:]])
def test_errors_of_validation_come_before_anything_is_written(given, tmp_path):
    async def story(world):
        with pytest.raises(errors.DutifulError):
            world.scheduler().initialize([registration("fine"), *given])
        await asyncio.sleep(0.01)

    play(story, store=f"sqlite:{tmp_path / 'state.db'}")
    assert list(tmp_path.iterdir()) == []


FAULTS = {
    "shape": (("x",), "RegistrationShapeError"),
    "name": (registration(""), "InvalidRegistrationError"),
    "duplicate": (registration("fine"), "ScheduleDuplicateTaskError"),
    "cron": (registration("c", "nonsense"), "CronExpressionInvalidError"),
    "delay": (registration("d", delay=-1), "NegativeRetryDelayError"),
}


@pytest.mark.parametrize("first", FAULTS)
@pytest.mark.parametrize("second", FAULTS)
def test_errors_blame_the_first_bad_registration(first, second):
    given = [registration("fine"), FAULTS[first][0], FAULTS[second][0]]
    with pytest.raises(errors.DutifulError) as caught:
        Scheduler("memory:", clock=VirtualClock("2026-01-01T10:00:00")).initialize(given)
    assert type(caught.value).__name__ == FAULTS[first][1]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (("", "nonsense", nothing, "x"), "RegistrationShapeError"),
        (("", "nonsense", nothing, -1), "InvalidRegistrationError"),
        (("fine", "nonsense", nothing, -1), "ScheduleDuplicateTaskError"),
        (("job", "nonsense", nothing, -1), "CronExpressionInvalidError"),
        (("job", "0 0 * * *", nothing, -1), "NegativeRetryDelayError"),
    ],
)
def test_errors_within_one_registration_are_looked_for_from_left_to_right(bad, error):
    with pytest.raises(errors.DutifulError) as caught:
        Scheduler("memory:", clock=VirtualClock("2026-01-01T10:00:00")).initialize(
            [registration("fine"), bad]
        )
    assert type(caught.value).__name__ == error


def test_errors_of_cron_keep_the_refusal_and_show_one_traceback():
    with pytest.raises(errors.CronExpressionInvalidError) as caught:
        Scheduler("memory:").initialize([registration(cron="60 * * * *")])
    refusal = caught.value.__context__
    assert (type(refusal), refusal.details) == (errors.InvalidCronExpressionError, caught.value.details)
    assert "".join(format_exception(caught.value)).count("Traceback") == 1


def test_errors_that_nobody_foresaw_are_wrapped_with_their_context_and_cause():
    gone = OSError("disk gone")

    async def story(world):
        async def refuse(_):
            raise gone

        world.memory.apply = refuse
        with pytest.raises(errors.ScheduleTaskError) as caught:
            await world.scheduler().initialize([world.task(cron="0 9 * * *")])
        assert world.names()[-1] == "SchedulerInitializationFailed"
        return caught.value

    # The theory does not know storage that fails.
    error = play(story, monitored=False).answer
    assert str(error) == "Failed to schedule task 'job': disk gone"
    assert error.details == {"name": "job", "cronExpression": "0 9 * * *", "cause": gone}
    assert error.__cause__ is gone


def test_errors_that_nobody_foresaw_without_any_task_are_wrapped_too():
    async def story(world):
        async def refuse():
            raise OSError("disk gone")

        world.memory.open = refuse
        with pytest.raises(errors.ScheduleTaskError, match="disk gone"):
            await world.scheduler().initialize([])

    play(story, monitored=False)


def test_errors_show_long_and_strange_texts_shortened_on_one_line():
    name = "n" * 500
    with pytest.raises(errors.ScheduleDuplicateTaskError) as caught:
        Scheduler("memory:").initialize([registration(name), registration(name)])
    assert len(str(caught.value)) < 140
    assert caught.value.details == {"taskName": name}


def test_errors_of_a_running_scheduler_do_not_escape_it():
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task()])
        await world.clock.advance(0)
        commit = world.memory.commit

        async def refuse(*_):
            world.memory.commit = commit
            raise OSError("disk full")

        world.memory.commit = refuse
        await world.clock.advance(70)

    world = play(story, lag=2)
    assert world.ran == ["10:00 job", "10:01:01 job"]
    assert "PassFailed" in world.names()


RECORD = {
    "name": "job",
    "cronExpression": "0 9 * * *",
    "retryDelayMs": 60_000,
    "lastAttemptAt": None,
    "lastSuccessAt": None,
    "lastFailureAt": None,
    "pendingRetryUntil": None,
    "schedulerIdentifier": "a1",
}
RECORD_ERRORS = [
    ("TaskMissingFieldError", {"retryDelayMs": ...}, "Missing required field: retryDelayMs"),
    (
        "TaskInvalidTypeError",
        {"retryDelayMs": "x"},
        "Invalid type for field 'retryDelayMs': expected number, got string",
    ),
    (
        "TaskInvalidValueError",
        {"retryDelayMs": -1},
        "Invalid value for field 'retryDelayMs': must not be negative",
    ),
]


@pytest.mark.parametrize(("name", "change", "message"), RECORD_ERRORS)
def test_errors_of_task_state_have_these_texts(name, change, message):
    record = {key: value for key, value in (RECORD | change).items() if value is not ...}
    with pytest.raises(errors.TaskTryDeserializeError) as caught:
        task_from_record(record, [registration()])
    assert (type(caught.value).__name__, str(caught.value)) == (name, message)
    assert caught.value.details["field"] == "retryDelayMs"


def test_errors_of_task_structure_carry_the_value():
    with pytest.raises(errors.TaskInvalidStructureError) as caught:
        task_from_record([1, 2], [registration()])
    assert caught.value.details == {"value": [1, 2]}


def test_errors_expose_nothing_that_is_secret():
    with pytest.raises(errors.InvalidArgumentError) as caught:
        Scheduler("postgresql+psycopg://me:s3cret@127.0.0.1/db")
    assert "s3cret" not in f"{caught.value} {caught.value.details}"
