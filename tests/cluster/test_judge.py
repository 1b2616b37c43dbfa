"""The judge of the nemesis can say no: each kind of mistake is told, and only that kind."""

from __future__ import annotations

import time

import pytest
from tests.cluster.excuses import BOUNDS, SLACK, Deed, Excuses, Led
from tests.cluster.judge import Call, Edit, Evidence, Life, problems
from tests.crash.service_observer import expected_key


def call(schedule, tick, attempt=1, at=None, **more):
    at = tick + 0.1 if at is None else at
    return Call(at, schedule, tick, expected_key(schedule, tick), attempt, **more)


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
LED = [Led(90.0, {"all-0": "worker-1", "none-0": "worker-1", "once-0": "worker-1"})]
KILLED = [Deed(99.0, "kill", "worker-1", 100.5)]


@pytest.mark.parametrize(
    ("log", "rows"),
    [
        (CALLS, GOOD),
        ([*CALLS, call("all-0", 101, 2)], GOOD),
        ([*CALLS, call("all-0", 102)], GOOD),
    ],
)
def test_what_is_right_after_a_kill_is_not_reported(log, rows):
    assert kinds(log, "all-0", rows, deeds=KILLED, led=LED) == set()


@pytest.mark.parametrize(
    ("schedule", "status", "reason"),
    [
        ("none-0", "SKIPPED", "missed"),
        ("once-0", "SKIPPED", "coalesced"),
        ("once-0", "FAILED", "outcome_unknown"),
    ],
)
def test_one_tick_of_four_may_be_skipped_or_become_unknown_by_a_kill(schedule, status, reason):
    rows = [row(schedule, 100, status, reason), *(row(schedule, tick) for tick in (101, 102, 103))]
    log = [call(schedule, tick) for tick in (101, 102, 103)]
    assert [*problems(Evidence(log, {schedule: rows}, 100, 103, deeds=KILLED, led=LED))] == []


@pytest.mark.parametrize(
    ("log", "rows", "kind"),
    [
        ([call("all-0", 100)], [row("all-0", 100)], "missing"),
        ([call("all-0", 100)], GOOD, "missing"),
        (CALLS, [*GOOD, row("all-0", 100)], "extra"),
        ([*CALLS, call("all-0", 101)], GOOD, "repeated"),
        ([*CALLS, call("all-0", 101, 2)], GOOD, "repeated"),
        ([call("all-0", 100, at=99.9), CALLS[1]], GOOD, "early"),
        ([CALLS[0], call("all-0", 101, at=101.1 + SLACK)], GOOD, "late"),
        ([*CALLS, call("all-0", 99)], GOOD, "without a row"),
        ([CALLS[0]], [GOOD[0], row("all-0", 101, "SKIPPED", "missed")], "unexpected"),
        ([CALLS[0]], [GOOD[0], row("all-0", 101, "FAILED", "launch_failed")], "unexpected"),
        (CALLS, [GOOD[0], row("all-0", 101, "ENQUEUED")], "unexpected"),
    ],
)
def test_what_is_wrong_without_a_deed_is_reported(log, rows, kind):
    assert kinds(log, "all-0", rows) == {kind}


def test_a_run_that_is_at_most_once_has_no_second_attempt():
    log = [call("once-0", 100), call("once-0", 100, 2), call("once-0", 101)]
    rows = [row("once-0", 100), row("once-0", 101)]
    assert kinds(log, "once-0", rows, deeds=KILLED, led=LED) == {"repeated"}


def test_a_call_of_another_key_is_extra():
    log = [*CALLS, Call(101.1, "all-0", 101, "another", 1)]
    assert kinds(log, "all-0", [*GOOD, {**GOOD[1], "idempotency_key": "another"}]) == {"extra"}


def test_a_stop_of_its_worker_is_no_reason_to_call_a_run_again():
    log = [*CALLS, call("all-0", 101, 2)]
    rolled = [deed._replace(kind="roll") for deed in KILLED]
    assert kinds(log, "all-0", GOOD, deeds=rolled, led=LED) == {"repeated"}


def test_a_deed_that_was_over_before_the_first_call_is_no_reason_for_a_second_one():
    log = [*CALLS, call("all-0", 101, 2)]
    for until, told in ((100.2, set()), (99.9, {"repeated"})):
        killed = [Deed(99.0, "kill", "worker-1", until)]
        assert kinds(log, "all-0", GOOD, deeds=killed, led=LED) == told


@pytest.mark.parametrize(
    ("schedule", "status", "reason", "told"),
    [
        ("none-0", "SKIPPED", "missed", "skipped"),
        ("once-0", "SKIPPED", "coalesced", "skipped"),
        ("once-0", "FAILED", "outcome_unknown", "unknown"),
    ],
)
def test_ticks_that_were_skipped_or_became_unknown_have_a_reason_and_are_few(schedule, status, reason, told):
    rows = [row(schedule, tick, status, reason) for tick in (100, 101)]
    assert kinds([], schedule, rows) == {told, "too few"}
    assert kinds([], schedule, rows, deeds=KILLED, led=LED) == {"too few"}


# How late a tick may be


def until(*deeds, tick=100, led=LED):
    return Excuses(deeds, led).until("all-0", tick)


def test_a_tick_may_be_late_by_the_length_of_a_deed_to_its_leader_and_the_time_of_a_failover():
    assert until() == 100 + SLACK
    assert until(*KILLED) == 100.5 + BOUNDS["kill"] + SLACK
    assert until(Deed(99, "freeze", "worker-1", 102)) == 102 + BOUNDS["freeze"] + SLACK
    assert until(Deed(99, "restart", "database", 102)) == 102 + BOUNDS["restart"] + SLACK


@pytest.mark.parametrize(
    "deed",
    [
        Deed(99, "kill", "worker-2", 101),
        Deed(99, "edit", "edited-0", 101),
        Deed(99, "kill_api", "api", 101),
        Deed(90, "kill", "worker-1", 98.9),
        Deed(100.1 + SLACK, "kill", "worker-1", 110),
    ],
    ids=["of another worker", "an edit", "of the API", "long before", "after it was late"],
)
def test_a_deed_that_touches_no_leader_or_comes_at_another_time_excuses_nothing(deed):
    assert until(deed) == 100 + SLACK


def test_a_deed_to_the_leader_that_took_over_is_added():
    led = [Led(90, {"all-0": "worker-1"}), Led(101.5, {"all-0": "worker-2"})]
    second = Deed(101.4, "freeze", "worker-2", 105)
    assert until(*KILLED, second, led=led) == 105 + BOUNDS["freeze"] + SLACK
    assert until(second, tick=103, led=led[:1]) == 103 + SLACK


# Edits, removals, and runs that were asked for


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


def test_a_removed_schedule_was_called_at_each_of_its_ticks_and_not_afterwards():
    life = Life("removed-1", 87.5, 103.2, 103.5)
    log = [call("removed-1", tick) for tick in range(89, 103)]

    def judged(calls, **more):
        return kinds([*CALLS, *calls], "all-0", GOOD, lives=[life], **more)

    assert judged(log) == set()
    assert judged([each for each in log if each.tick != 90]) == {"missing"}
    assert judged([*log, call("removed-1", 105)]) == {"extra"}
    # The last ticks of a schedule that is removed during an outage are lost with it.
    outage = [Deed(90.5, "restart", "database", 101)]
    assert judged([each for each in log if each.tick == 89], deeds=outage) == set()


def test_each_asked_run_is_called_and_no_other():
    triggered = Call(100.5, "all-0", 100, "by hand", 1, source="manual")
    rows = [*GOOD, {**GOOD[0], "idempotency_key": "by hand", "trigger": "manual"}]
    assert kinds([*CALLS, triggered], "all-0", rows, triggered=["by hand"]) == set()
    assert kinds(CALLS, "all-0", GOOD, triggered=["by hand"]) == {"missing"}
    assert kinds([*CALLS, triggered], "all-0", rows) == {"extra"}


def test_each_backfilled_tick_is_called_and_no_other():
    again = call("all-0", 40, at=100.5, source="backfill")
    rows = [*GOOD, row("all-0", 40)]
    assert kinds([*CALLS, again], "all-0", rows, backfilled={"all-0": [40]}) == set()
    assert kinds(CALLS, "all-0", GOOD, backfilled={"all-0": [40]}) == {"missing"}
    assert kinds([*CALLS, again], "all-0", rows) == {"extra"}


# By time alone


def test_calls_are_counted_against_ticks_whatever_keys_and_ticks_they_claim():
    # The second call came before the second tick, and claims to be of the first; the ledger claims it ran.
    early = [CALLS[0], CALLS[0]._replace(at=100.5, attempt=1, key="x")]
    told = [*problems(Evidence(early, {"all-0": GOOD}, 100, 101))]
    assert "early: call 1 of all-0 came at 100.5, before tick 1 at 101" in told
    told = [*problems(Evidence(CALLS[:1], {"all-0": GOOD}, 100, 101))]
    assert "missing: all-0 has 1 calls for 2 ticks" in told
