"""A list of registrations becomes schedules that mean the same."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutiful.core.policy import CatchUp, OnOrphan, Overlap
from dutiful.declarative.registration import check, policy
from dutiful.errors import DutifulError, InvalidRegistrationError, NegativeRetryDelayError


async def nothing():
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


@pytest.mark.parametrize("delay", [-1, -0.001, timedelta(microseconds=-1), timedelta.min])
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


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(nothing) | st.timedeltas(),
    lambda inner: st.lists(inner, max_size=5) | st.tuples(inner, inner, inner, inner),
    max_leaves=20,
)


@given(anything)
def test_whatever_is_given_is_accepted_or_refused_with_an_error_of_dutiful(value):
    with suppress(DutifulError):
        check(value, "UTC")
