"""How `dutiful run` prints an event: a failed run with the trace of its callback."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from dutiful.cli.view import print_json_line, print_line
from dutiful.declarative.observe import SchedulerEvent

TEN = datetime(2026, 1, 1, 10, tzinfo=UTC)
LONG = "no answer " * 30


def callback():
    raise TimeoutError(LONG)


def failed():
    try:
        callback()
    except TimeoutError as error:
        return SchedulerEvent("TaskRunFailed", TEN, "job", {"error": f"TimeoutError: {LONG}"}, error)


def test_a_failed_run_is_printed_with_its_trace_and_its_whole_error(capsys):
    print_line(failed())
    first, *trace = capsys.readouterr().out.splitlines()
    assert first.startswith("2026-01-01 10:00:00+0000 TaskRunFailed job error=TimeoutError: no answer")
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[-2:] == ["    raise TimeoutError(LONG)", f"TimeoutError: {LONG}".rstrip()]


def test_as_json_it_is_one_line_with_its_trace(capsys):
    print_json_line(failed())
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["traceback"].endswith(f"TimeoutError: {LONG}".rstrip())


@pytest.mark.parametrize("show", [print_line, print_json_line])
def test_other_events_are_one_line(capsys, show):
    show(SchedulerEvent("TaskRunCompleted", TEN, "job"))
    assert capsys.readouterr().out.count("\n") == 1
