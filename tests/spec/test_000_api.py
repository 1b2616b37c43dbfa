"""File 000, "Public API Surface": two methods, and what a registration must be."""

from __future__ import annotations

import asyncio
import functools
import inspect
from datetime import timedelta

import pytest
from tests.spec.world import play

from dutiful import Scheduler
from dutiful.errors import (
    CronExpressionInvalidError,
    InvalidArgumentError,
    InvalidRegistrationError,
    NegativeRetryDelayError,
    RegistrationShapeError,
    ScheduleDuplicateTaskError,
)

HOUR = timedelta(hours=1)


async def nothing():
    pass


def refusal(*registrations):
    """Return the error with which a list is refused, after seeing that nothing was written."""

    async def story(world):
        scheduler = world.scheduler()
        with pytest.raises(Exception) as caught:  # noqa: PT011
            scheduler.initialize([*registrations])
        assert await world.memory.every() == []
        assert world.names() == ["SchedulerInitializationStarted", "SchedulerInitializationFailed"]
        return caught.value

    return play(story).answer


def test_api_is_exactly_initialize_and_stop():
    assert [name for name in dir(Scheduler) if not name.startswith("_")] == ["initialize", "stop"]


def test_api_initialize_takes_the_registrations_and_stop_takes_nothing():
    assert [*inspect.signature(Scheduler.initialize).parameters] == ["self", "registrations"]
    assert [*inspect.signature(Scheduler.stop).parameters] == ["self"]


def test_api_both_methods_are_awaited_for_nothing():
    async def story(world):
        scheduler = world.scheduler()
        return await scheduler.initialize([world.task()]), await scheduler.stop()

    assert play(story).answer == (None, None)


@pytest.mark.parametrize("kind", [list, tuple])
def test_api_registrations_and_each_of_them_may_be_lists_or_tuples(kind):
    async def story(world):
        await world.scheduler().initialize(kind([kind(world.task())]))
        await world.clock.advance(0)

    assert play(story).ran == ["10:00 job"]


@pytest.mark.parametrize(
    "registration",
    [
        (),
        ("job", "* * * * *", nothing),
        ("job", "* * * * *", nothing, HOUR, None),
        (None, "* * * * *", nothing, HOUR),
        (b"job", "* * * * *", nothing, HOUR),
        ("job", 5, nothing, HOUR),
        ("job", None, nothing, HOUR),
        ("job", "* * * * *", None, HOUR),
        ("job", "* * * * *", asyncio, HOUR),
        ("job", "* * * * *", nothing, None),
        ("job", "* * * * *", nothing, "1h"),
        ("job", "* * * * *", nothing, True),
        "four",
        {"a": 1, "b": 2, "c": 3, "d": 4},
        None,
        17,
    ],
)
def test_api_a_registration_is_a_4_tuple_of_these_types(registration):
    error = refusal(("other", "* * * * *", nothing, HOUR), registration)
    assert type(error) is RegistrationShapeError
    assert error.details == {"registrationIndex": 1, "received": registration}


def test_api_task_name_must_not_be_empty():
    error = refusal(("", "* * * * *", nothing, HOUR))
    assert type(error) is InvalidRegistrationError
    assert error.details == {"field": "name", "value": "", "reason": "must be a non-empty string"}


@pytest.mark.parametrize("name", ["a\nb", "a\0b", "\x1b[31m", "half \ud800 a pair"])
def test_api_task_name_must_be_printable(name):
    assert refusal((name, "* * * * *", nothing, HOUR)).details["field"] == "name"


@pytest.mark.parametrize("name", ["a", "Nightly report", "отчёт", "a/b:c", "x" * 1000, "0", " "])
def test_api_task_name_is_any_other_text(name):
    async def story(world):
        await world.scheduler().initialize([world.task(name)])
        await world.clock.advance(0)

    assert play(story).ran == [f"10:00 {name}"]


def test_api_task_name_must_be_unique():
    error = refusal(("job", "* * * * *", nothing, HOUR), ("job", "0 9 * * *", nothing, HOUR))
    assert type(error) is ScheduleDuplicateTaskError
    assert error.details == {"taskName": "job"}


def test_api_names_that_differ_in_case_are_different_tasks():
    async def story(world):
        await world.scheduler().initialize([world.task("job"), world.task("Job")])
        await world.clock.advance(0)

    assert sorted(play(story).ran) == ["10:00 Job", "10:00 job"]


def test_api_cron_expression_must_be_valid_posix():
    error = refusal(("job", "*/15 * * * *", nothing, HOUR))
    assert type(error) is CronExpressionInvalidError


def test_api_duration_must_not_be_negative():
    error = refusal(("job", "* * * * *", nothing, timedelta(milliseconds=-1)))
    assert type(error) is NegativeRetryDelayError


@pytest.mark.parametrize(
    "delay", [float("nan"), float("inf"), 1e300, 10**400], ids=["nan", "inf", "1e300", "huge"]
)
def test_api_duration_must_be_one_that_time_can_hold(delay):
    error = refusal(("job", "* * * * *", nothing, delay))
    assert type(error) is InvalidRegistrationError
    assert error.details["field"] == "retryDelay"


@pytest.mark.parametrize("delay", [timedelta(seconds=90), 90, 90.0])
def test_api_duration_is_a_timedelta_or_seconds(delay):
    async def story(world):
        name, cron, callback, _ = world.task(cron="0 10 * * *", does=world.failing(1))
        await world.scheduler().initialize([(name, cron, callback, delay)])
        await world.clock.advance(600)

    assert play(story).ran == ["10:00 job", "10:01:30 job"]


def test_api_a_very_long_duration_is_legal():
    async def story(world):
        name, cron, callback, _ = world.task(does=world.failing())
        await world.scheduler().initialize([(name, cron, callback, timedelta.max)])
        await world.clock.advance(60)

    assert play(story).ran == ["10:00 job", "10:01 job"]


class Noting:
    def __init__(self, noted):
        self.noted = noted

    async def __call__(self):
        self.noted.append("object")


def test_api_callback_is_anything_that_returns_an_awaitable():
    noted = []

    async def note(text):
        noted.append(text)

    callbacks = {
        "partial": functools.partial(note, "partial"),
        "lambda": lambda: note("lambda"),
        "future": lambda: asyncio.ensure_future(note("future")),
        "object": Noting(noted),
    }

    async def story(world):
        await world.scheduler().initialize([(n, "* * * * *", c, HOUR) for n, c in callbacks.items()])
        await world.clock.advance(0)

    world = play(story)
    assert sorted(noted) == sorted(callbacks)
    assert len(world.names(prefix="TaskRunCompleted")) == len(callbacks)


def test_api_callback_that_returns_no_awaitable_has_done_its_work():
    async def story(world):
        await world.scheduler().initialize([("job", "* * * * *", lambda: 7, HOUR)])
        await world.clock.advance(0)

    assert play(story).names()[-1] == "TaskRunCompleted job"


def test_api_callback_must_be_an_async_function():
    def send_invoices():
        raise AssertionError("must not be called")

    error = refusal(("job", "* * * * *", send_invoices, HOUR))
    assert type(error) is InvalidRegistrationError
    assert error.details == {
        "field": "callback",
        "value": send_invoices,
        "reason": "must be an async function; write `async def`, or wrap it: dutiful.in_thread(function)",
    }


@pytest.mark.parametrize("store", ["", "memory:x", "sqlite:", "mysql://host"])
def test_api_a_store_that_nobody_knows_is_refused(store):
    with pytest.raises(InvalidArgumentError, match="sqlite:FILE"):
        Scheduler(store)


def test_api_a_store_that_is_named_without_its_kind_is_refused_with_the_spelling():
    with pytest.raises(InvalidArgumentError, match=r'write "sqlite:state\.db"'):
        Scheduler("state.db")


@pytest.mark.parametrize("store", [None, 5, b"memory:"])
def test_api_a_store_that_is_no_text_is_refused(store):
    with pytest.raises(InvalidArgumentError, match="sqlite:FILE"):
        Scheduler(store)
