"""A list of registrations becomes schedules that mean the same."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from enum import Enum
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutiful import task
from dutiful.core.policy import CatchUp, OnOrphan, Overlap, Retry
from dutiful.declarative.registration import check, policy
from dutiful.errors import (
    CronExpressionInvalidError,
    DutifulError,
    InvalidRegistrationError,
    NegativeRetryDelayError,
    RegistrationShapeError,
)


async def nothing():
    pass


def blocks():
    pass


def delay_ms(delay):
    return check([("job", "* * * * *", nothing, delay)], "UTC").schedules[0].policy.retry.delay


def test_a_registration_becomes_a_schedule_and_a_callback():
    registered = check([("job", "0 9 * * 1-5", nothing, 60)], "Europe/Berlin")
    (schedule,) = registered.schedules
    assert (schedule.id, schedule.task.name, str(schedule.cadence)) == ("job", "job", "0 9 * * 1-5")
    assert str(schedule.cadence.zone.tzinfo) == "Europe/Berlin"
    assert (schedule.cadence.dialect, schedule.cadence.gap, schedule.cadence.fold) == (
        "posix",
        "skip",
        "both",
    )
    assert registered.callbacks == {"job": nothing}


def test_the_policy_is_one_run_at_a_time_one_obligation_and_a_retry_without_end():
    chosen = policy(5000)
    assert (chosen.overlap, chosen.catch_up, chosen.on_orphan) == (
        Overlap.BUFFER_ONE,
        CatchUp.LATEST,
        OnOrphan.RESTART,
    )
    assert (chosen.retry.delay, chosen.retry.limit, chosen.run_timeout, chosen.ledger) == (
        5000,
        None,
        None,
        False,
    )


def test_no_registrations_are_legal():
    assert check([], "UTC") == ([], {})


def test_the_order_is_kept():
    names = [f"t{n}" for n in (3, 1, 2)]
    registered = check([(name, "* * * * *", nothing, 1) for name in names], "UTC")
    assert [schedule.id for schedule in registered.schedules] == names


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (0, 0),
        (0.0, 0),
        (-0.0, 0),
        (1, 1000),
        (0.0005, 1),
        (timedelta(microseconds=1), 1),
        (timedelta(microseconds=1001), 2),
        (timedelta(days=1), 86_400_000),
        (timedelta.max, 86_400_000 * 10**9),
    ],
)
def test_a_delay_is_whole_milliseconds_and_never_shorter_than_asked(delay, expected):
    assert delay_ms(delay) == expected


@pytest.mark.parametrize("delay", [-1, -0.001, -1e-9, timedelta(microseconds=-1), timedelta.min])
def test_a_negative_delay_is_refused(delay):
    with pytest.raises(NegativeRetryDelayError):
        delay_ms(delay)


@pytest.mark.parametrize("delay", [math.nan, math.inf, -math.inf, 1e300], ids=str)
def test_a_delay_that_is_no_time_is_refused(delay):
    with pytest.raises(InvalidRegistrationError):
        delay_ms(delay)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=10_000)))
def test_any_delay_is_kept_to_the_millisecond(delay):
    assert timedelta(0) <= timedelta(milliseconds=delay_ms(delay)) - delay < timedelta(milliseconds=1)


class Job(str, Enum):  # noqa: UP042 - the kind that formats as its own name
    NIGHTLY = "nightly"
    MINUTELY = "* * * * *"


class Deceptive(str):
    def __str__(self):
        raise RuntimeError("must not be shown")

    __format__ = __str__


CALLABLES = [nothing, len, Deceptive, lambda: None, partial(nothing), partial(partial(len, "x")), "".join]
TEXTS = [*Job, Deceptive("odd"), "* * * * *", "0 9 * * 1-5", "", "a\nb", "\ud800"]
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.timedeltas()
    | st.sampled_from(CALLABLES)
    | st.sampled_from(TEXTS),
    lambda inner: st.lists(inner, max_size=5) | st.tuples(inner, inner, inner, inner),
    max_leaves=20,
)


@given(st.sampled_from(TEXTS) | st.text(), st.sampled_from(TEXTS), st.sampled_from(CALLABLES), st.floats())
def test_accepted_registrations_have_exact_names_and_texts(name, text, callback, delay):
    with suppress(DutifulError):
        (schedule,) = check([(name, text, callback, delay)], "UTC").schedules
        texts = (schedule.id, schedule.task.name, schedule.cadence.text)
        assert {type(each) for each in texts} == {str}
        assert texts == (str.__str__(name), str.__str__(name), str.__str__(text))


@given(anything)
def test_whatever_is_given_is_accepted_or_refused_with_an_error_of_dutiful(value):
    with suppress(DutifulError):
        check(value, "UTC")


MINUTELY = "* * * * *"


@pytest.mark.parametrize(
    ("registration", "told"),
    [
        (
            ("job", MINUTELY, nothing),
            "a registration must have 4 parts (name, cron, callback, retry delay), not 3",
        ),
        ("four", "a registration must be a tuple, not str"),
        ((5, MINUTELY, nothing, 60), "the name must be a str, not int"),
        (("job", None, nothing, 60), "the cron text must be a str, not NoneType"),
        (("job", MINUTELY, "nothing", 60), "the callback must be callable, not str"),
        (
            ("job", MINUTELY, nothing, "60"),
            "the retry delay must be a timedelta or a number of seconds, not str",
        ),
        (
            ("job", MINUTELY, nothing, True),
            "the retry delay must be a timedelta or a number of seconds, not bool",
        ),
    ],
)
def test_a_misshapen_registration_names_the_part_and_its_type_in_a_note(registration, told):
    with pytest.raises(RegistrationShapeError) as caught:
        check([("other", MINUTELY, nothing, 60), registration], "UTC")
    assert str(caught.value) == ("Invalid registration shape: expected [string, string, function, Duration]")
    assert caught.value.__notes__ == [f"registrations[1]: {told}"]


def test_a_function_that_was_called_instead_of_named_is_refused_with_the_spelling():
    with pytest.raises(RegistrationShapeError) as caught:
        check([("job", MINUTELY, nothing(), 60)], "UTC")
    told = "the callback must be callable, not coroutine; write nothing without ()"
    assert caught.value.__notes__ == [f"registrations[0]: {told}"]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (("job", "0 9 * *", nothing, 60), "in the registration of the task 'job'"),
        (("job", MINUTELY, blocks, 60), "in the registration of the task 'job'"),
        (("job", MINUTELY, nothing, -1), "in the registration of the task 'job'"),
        (("job", MINUTELY, nothing, float("inf")), "in the registration of the task 'job'"),
        (("j" * 100, MINUTELY, nothing, -1), f"in the registration of the task '{'j' * 79}…'"),
        (("", MINUTELY, nothing, 60), "in registrations[1]"),
    ],
)
def test_the_refusal_of_a_value_says_in_a_note_which_registration_has_it(bad, told):
    with pytest.raises(DutifulError) as caught:
        check([("fine", MINUTELY, nothing, 60), bad], "UTC")
    assert caught.value.__notes__ == [told]


def test_a_task_with_options_is_still_a_tuple_of_four():
    made = task("job", MINUTELY, nothing, 60, timeout=1.5, retry_limit=3, retry_backoff=2)
    assert made == ("job", MINUTELY, nothing, 60)
    (schedule,) = check([made], "UTC").schedules
    assert schedule.policy == replace(policy(60_000), run_timeout=1500, retry=Retry(60_000, 3, 2))


def test_a_task_without_options_is_a_plain_registration():
    plain = ("job", MINUTELY, nothing, 60)
    assert check([task(*plain)], "UTC") == check([plain], "UTC")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        *(({"timeout": value}, "timeout") for value in (0, -1, timedelta(0), "5", True, math.nan, math.inf)),
        *(({"retry_limit": value}, "retryLimit") for value in (-1, 1.5, "3", True, 10**9)),
        *(({"retry_backoff": value}, "retryBackoff") for value in (0, -2, 1.5, None, True, 10**9)),
    ],
    ids=str,
)
def test_an_option_that_cannot_be_is_refused_where_the_task_is_made(options, field):
    with pytest.raises(InvalidRegistrationError) as caught:
        task("job", MINUTELY, nothing, 60, **options)
    assert caught.value.details["field"] == field


def test_another_dialect_and_a_ledger_are_settings_of_the_whole_list():
    (schedule,) = check([("job", "*/5 * * * *", nothing, 60)], "UTC", "standard", True).schedules
    assert (schedule.cadence.dialect, schedule.policy) == ("standard", policy(60_000, ledger=True))


def test_the_refusal_of_a_text_names_the_dialect_in_which_it_is_legal():
    hints = {}
    for text in ("*/1 * * * *", "@daily", "0 0 9 * * *", "60 * * * *"):
        with pytest.raises(CronExpressionInvalidError) as caught:
            check([("job", text, nothing, 60)], "UTC")
        hints[text] = str(caught.value).removeprefix(str(caught.value.__context__))
    assert hints == {
        "*/1 * * * *": ' (legal with dialect="standard")',
        "@daily": ' (legal with dialect="standard")',
        "0 0 9 * * *": ' (legal with dialect="seconds")',
        "60 * * * *": "",
    }


@pytest.mark.parametrize("text", ["*/1 * * * *", "@daily", "0 0 9 * * *", "60 * * * *", "* * * * 7"])
def test_the_refusal_of_a_text_is_the_text_of_000_around_its_details(text):
    with pytest.raises(CronExpressionInvalidError) as caught:
        check([("job", text, nothing, 60)], "UTC")
    facts = caught.value.details
    assert set(facts) == {"expression", "field", "reason"}
    assert str(caught.value) == f'Invalid cron expression "{text}": {facts["field"]} field {facts["reason"]}'
