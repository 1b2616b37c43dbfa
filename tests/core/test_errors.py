"""The errors of the cron language: their tree, their details, and messages that are safe to print."""

from __future__ import annotations

import copy
import pickle

import pytest

import dutiful
from dutiful import Cron
from dutiful.core.cron.duration import parse_duration
from dutiful.errors import (
    CronCalculationError,
    DutifulError,
    FieldParseError,
    IntervalParseError,
    InvalidArgumentError,
    InvalidCronExpressionError,
    SchedulerError,
)


def raised(ask, *args, **settings):
    with pytest.raises(DutifulError) as caught:
        ask(*args, **settings)
    return caught.value


REFUSED_TEXT = raised(Cron.parse, "0 25 * * *")
EXAMPLES = [
    REFUSED_TEXT,
    REFUSED_TEXT.__context__,
    raised(Cron.parse, None),
    raised(Cron.parse, "0 0 * * *", gap="leap"),
    raised(Cron.parse("0 0 * * *").next_epoch, 10**12),
    raised(parse_duration, "5x"),
]


@pytest.mark.parametrize(
    ("kind", "parents"),
    [
        (DutifulError, (Exception,)),
        (InvalidArgumentError, (DutifulError, ValueError)),
        (InvalidCronExpressionError, (DutifulError,)),
        (FieldParseError, (DutifulError,)),
        (CronCalculationError, (DutifulError,)),
        (SchedulerError, (DutifulError,)),
        (IntervalParseError, (SchedulerError, ValueError)),
    ],
)
def test_the_tree(kind, parents):
    assert kind.__bases__ == parents


def test_the_errors_of_cron_are_importable_from_the_root():
    kinds = (
        CronCalculationError,
        DutifulError,
        FieldParseError,
        InvalidArgumentError,
        InvalidCronExpressionError,
    )
    assert tuple(getattr(dutiful, kind.__name__) for kind in kinds) == kinds


@pytest.mark.parametrize(
    ("error", "message", "details"),
    [
        (
            EXAMPLES[0],
            'Invalid cron expression "0 25 * * *": hour field must be 0-23, not 25',
            {"expression": "0 25 * * *", "field": "hour", "reason": "must be 0-23, not 25"},
        ),
        (EXAMPLES[1], "must be 0-23, not 25", {"fieldValue": "25", "fieldName": "hour"}),
        (
            EXAMPLES[2],
            'Invalid cron expression "None": expression field must be a string, not NoneType',
            {"expression": None, "field": "expression", "reason": "must be a string, not NoneType"},
        ),
        (
            EXAMPLES[3],
            "Invalid gap 'leap': choose from 'skip', 'run_after'",
            {"argument": "gap", "value": "leap", "reason": "choose from 'skip', 'run_after'"},
        ),
        (
            EXAMPLES[4],
            "Failed to calculate next occurrence: no occurrence within the years 1 to 9999",
            {"expression": "0 0 * * *", "currentTime": "1000000000000", "cause": EXAMPLES[4].__cause__},
        ),
        (EXAMPLES[5], 'Invalid time unit "x". Valid units are: s, m, h, d', {"input": "5x"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_message_and_the_details(error, message, details):
    assert (str(error), error.details) == (message, details)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_copying_and_the_way_to_another_process(error, again):
    other = again(error)
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert other.args == error.args
    assert {key: str(value) for key, value in other.details.items()} == {
        key: str(value) for key, value in error.details.items()
    }
    assert vars(other).keys() == vars(error).keys()


LONG = [
    "x" * 10_000,
    "9" * 250 + " * * * *",
    "* " + "a" * 250 + " * * *",
    "*/" + "9" * 250 + " * * * *",
    "1" * 200 + "#" + " * * * *",
    "+" + "1" * 200 + " * * * *",
    "9-" * 100 + " * * * *",
    "@" + "x" * 250,
    "\x00" * 250,
    "\x1b[31m" * 50 + " * * * *",
    "٣" * 250 + " * * * *",
]


@pytest.mark.parametrize("dialect", ["posix", "standard", "seconds"])
@pytest.mark.parametrize("text", LONG, ids=lambda text: ascii(text)[:20])
def test_a_message_quotes_80_characters_at_most(text, dialect):
    error = raised(Cron.parse, text, dialect)
    windows = {text[start : start + 81] for start in range(len(text) - 80)}
    assert [window for window in windows if window in str(error)] == []
    assert len(str(error)) < 400
    assert error.details["expression"] == text


CONTROL = ["\x1b[31m", "\n", "\r", "\x00", "\x7f", "\u2028", "\u202e", "\ud800"]


@pytest.mark.parametrize("control", CONTROL, ids=ascii)
@pytest.mark.parametrize(
    "shape", ["{} * * * *", "1{}# * * * *", "+{} * * * *", "@{}", "{}", "5-{} * * * *", "*/{} * * * *"]
)
def test_a_message_about_a_text_has_no_control_characters(shape, control):
    error = raised(Cron.parse, shape.format(control))
    assert str(error).isprintable()
    assert error.__context__ is None or str(error.__context__).isprintable()
    assert error.expression == shape.format(control)


@pytest.mark.parametrize("control", CONTROL, ids=ascii)
@pytest.mark.parametrize("argument", ["dialect", "timezone", "gap", "fold", "dst"])
def test_a_message_about_a_setting_has_no_control_characters_and_is_short(argument, control):
    error = raised(Cron.parse, "0 0 * * *", **{argument: control * 1000})
    assert str(error).isprintable()
    assert len(str(error)) < 400
    assert error.details["value"] == control * 1000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a" * 80, "a" * 80),
        ("a" * 81, "a" * 79 + "…"),
        ("\n" * 40, "\\n" * 40),
        ("\n" * 41, "\\n" * 39 + "\\…"),
        ("naïve ٣", "naïve ٣"),
    ],
)
def test_a_text_is_quoted_up_to_80_characters_with_control_characters_spelt_out(text, shown):
    reason = "expression field expected 5 fields, got "
    assert str(raised(Cron.parse, text)).startswith(f'Invalid cron expression "{shown}": {reason}')
