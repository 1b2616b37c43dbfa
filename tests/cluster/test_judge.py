"""The judge of the nemesis can say no: each kind of mistake is told, and only that kind."""

from __future__ import annotations

import time

import pytest
from tests.cluster.judge import LATE, Edit, Evidence, problems
from tests.crash.service_observer import Seen, expected_key


def call(schedule, tick, attempt=1, at=None):
    return Seen(tick + 0.1 if at is None else at, schedule, tick, expected_key(schedule, tick), attempt)


def row(schedule, tick, status="SUCCESS", reason=None, until=None):
    first, last = (
        None if each is None else time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(each))
        for each in (tick, until)
    )
    return {
        "run_at": first,
        "run_until": last,
        "ticks": 1 if until is None else until - tick + 1,
        "status": status,
        "reason": reason,
        "idempotency_key": expected_key(schedule, tick),
    }


def kinds(log, schedule, rows, **more):
    evidence = Evidence(log, {schedule: rows}, 100, 101, **more)
    return {problem.partition(":")[0] for problem in problems(evidence)}


GOOD = [row("all-0", 100), row("all-0", 101)]
CALLS = [call("all-0", 100), call("all-0", 101)]


@pytest.mark.parametrize(
    ("log", "rows"),
    [
        (CALLS, GOOD),
        ([*CALLS, call("all-0", 101, 2)], GOOD),
        ([*CALLS, call("all-0", 102)], GOOD),
        ([call("none-0", 100)], [row("none-0", 100), row("none-0", 101, "SKIPPED", "missed")]),
        ([], [row("none-0", 100, "SKIPPED", "missed", until=101)]),
        ([call("once-0", 100)], [row("once-0", 100), row("once-0", 101, "FAILED", "outcome_unknown")]),
    ],
)
def test_what_is_right_is_not_told(log, rows):
    schedule = log[0].schedule if log else "none-0"
    assert kinds(log, schedule, rows) == set()


@pytest.mark.parametrize(
    ("log", "rows", "kind"),
    [
        ([call("all-0", 100)], [row("all-0", 100)], "missing"),
        ([call("all-0", 100)], GOOD, "missing"),
        (CALLS, [*GOOD, row("all-0", 100)], "extra"),
        ([*CALLS, call("all-0", 101)], GOOD, "repeated"),
        ([call("all-0", 100, at=99.9), CALLS[1]], GOOD, "early"),
        ([call("all-0", 100, at=100.5 + LATE), CALLS[1]], GOOD, "late"),
        ([*CALLS, call("all-0", 99)], GOOD, "without a row"),
        ([CALLS[0]], [GOOD[0], row("all-0", 101, "SKIPPED", "missed")], "unexpected"),
        ([CALLS[0]], [GOOD[0], row("all-0", 101, "FAILED", "launch_failed")], "unexpected"),
        (CALLS, [GOOD[0], row("all-0", 101, "ENQUEUED")], "unexpected"),
    ],
)
def test_what_is_wrong_is_told(log, rows, kind):
    assert kinds(log, "all-0", rows) == {kind}


def test_a_run_that_is_at_most_once_has_no_second_attempt():
    log = [call("once-0", 100), call("once-0", 100, 2), call("once-0", 101)]
    assert kinds(log, "once-0", [row("once-0", 100), row("once-0", 101)]) == {"repeated"}


def test_a_call_of_another_key_is_extra():
    log = [*CALLS, Seen(101.1, "all-0", 101, "another", 1)]
    assert kinds(log, "all-0", [*GOOD, {**GOOD[1], "idempotency_key": "another"}]) == {"extra"}


def test_a_call_is_late_only_so_long_after_the_last_deed():
    log = [call("all-0", 100, at=150), CALLS[1]]
    assert kinds(log, "all-0", GOOD, ends=[140.0]) == set()
    assert kinds(log, "all-0", GOOD, ends=[160.0]) == {"late"}


def test_a_schedule_that_fires_every_other_second_has_rows_for_those_alone():
    edits = [Edit("edited-0", 90, 91, 2)]
    even = [row("edited-0", 100)]
    assert kinds([call("edited-0", 100)], "edited-0", even, edits=edits) == set()
    both, log = [*even, row("edited-0", 101)], [call("edited-0", 100), call("edited-0", 101)]
    assert kinds(log, "edited-0", both, edits=edits) == {"extra"}
    assert kinds(log, "edited-0", both, edits=[Edit("edited-0", 98, 101, 2)]) == set()


def test_a_paused_schedule_has_rows_and_no_calls():
    edits = [Edit("paused-0", 90, 91, None)]
    skipped = [row("paused-0", 100, "SKIPPED", "paused", until=101)]
    assert kinds([], "paused-0", skipped, edits=edits) == set()
    assert kinds([], "paused-0", [], edits=edits) == {"missing"}
    ran = [row("paused-0", 100), row("paused-0", 101, "SKIPPED", "paused")]
    assert kinds([call("paused-0", 100)], "paused-0", ran, edits=edits) == {"extra"}
