"""The log of a service in the foreground: a line for people, an object for programs."""

from __future__ import annotations

import json
import logging

import pytest

from dutiful.cli.logs import JsonLine, TextLine

FACTS = {
    "name": "failed",
    "at": "2026-03-02T09:30:01+00:00",
    "schedule": "nightly",
    "runAt": "2026-03-02T09:30:00+00:00",
    "attempt": 3,
    "trigger": "manual",
    "reason": "launch_failed",
    "detail": "no answer",
}


def record(message, *arguments, level=logging.INFO, **extra):
    made = logging.LogRecord("dutiful.x", level, "file.py", 1, message, arguments, None)
    made.created = 1_772_443_801.25
    made.__dict__.update(extra)
    return made


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (FACTS, "nightly failed, tick 2026-03-02 09:30:00Z, attempt 3, manual, launch_failed, no answer"),
        ({**FACTS, "name": "skipped", "ticks": 5, "attempt": 0, "trigger": "schedule", "reason": "paused"},
         "nightly skipped, tick 2026-03-02 09:30:00Z, 5 ticks, paused, no answer"),
        ({"name": "quarantined", "schedule": "odd", "error": "no zone"}, "odd quarantined, no zone"),
    ],
)  # fmt: skip
def test_a_decision_is_reported_in_words(facts, words):
    assert TextLine().format(record("ignored", event=facts)).split(" ", 1)[1] == words


@pytest.mark.parametrize(
    ("level", "words"),
    [(logging.INFO, "hello"), (logging.WARNING, "warning: hello"), (logging.ERROR, "error: hello")],
)
def test_what_is_worth_a_look_says_so(level, words):
    assert TextLine().format(record("hello", level=level)).split(" ", 1)[1] == words


def test_a_text_cannot_pretend_to_be_another_line_or_move_the_cursor():
    line = TextLine().format(record("a\n09:00:00 b \x1b[2J\u202e", event={**FACTS, "detail": "x\ny"}))
    assert "\n" not in line
    line = TextLine().format(record("a\n09:00:00 b \x1b[2J\u202e"))
    assert line.split(" ", 1)[1] == "a\\n09:00:00 b \\x1b[2J\\u202e"


def test_an_object_has_the_facts_beside_the_message():
    line = JsonLine().format(record("failed %s", "nightly", event=FACTS))
    assert json.loads(line) == {
        "at": "2026-03-02T09:30:01.250Z",
        "level": "info",
        "logger": "dutiful.x",
        "message": "failed nightly",
        "event": FACTS,
    }


def test_a_trace_is_part_of_the_object():
    made = record("broken", level=logging.ERROR)
    error = ZeroDivisionError("here")
    made.exc_info = (type(error), error, None)
    assert "ZeroDivisionError: here" in json.loads(JsonLine().format(made))["trace"]
    assert TextLine().format(made).splitlines()[-1] == "ZeroDivisionError: here"
