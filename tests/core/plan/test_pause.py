"""Pauses with an end: when the planner wakes, which ticks are skipped, and which are owed."""

from __future__ import annotations

import pytest
from tests.core.plan.planner_notation import HOUR, MINUTE, MINUTELY, at, clock, decided, run, schedule, shown

from dutiful.core.cadence import Every, OnDemand
from dutiful.core.changes import Changes, Note, Put
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.edit import edited, end_of_pause, pause_has_ended, paused_until, resumed
from dutiful.core.plan.jitter import first_wake
from dutiful.core.policy import Overlap
from dutiful.core.run import Phase
from dutiful.core.schedule import State, Window
from dutiful.core.snapshot import Snapshot

HOURLY = Cron.parse("0 * * * *")


def until(end, cadence=HOURLY, **policy):
    return schedule(cadence, paused=True, pause_until=None if end is None else at(end), **policy)


@pytest.mark.parametrize(
    ("declared", "runs", "expected"),
    [
        (until(None), (), "cursor 10:00; wake 11:00"),
        (until("10:30"), (), "cursor 10:00; wake 10:30"),
        (until("12:30"), (), "cursor 10:00; wake 11:00"),
        # Skipped ticks are recorded once a minute, but the end of the pause is not late for that.
        (
            until("10:10:30", MINUTELY), (),
            "skip paused 10:01-10:10 x10; cursor 10:10; wake 10:10:30",
        ),
        (until(None, Every(HOUR)), (), "cursor 10:00; wake never"),
        (until("10:30", Every(HOUR)), (), "cursor 10:00; wake 10:30"),
        (until("10:30", OnDemand()), (), "cursor 10:00; wake 10:30"),
        (until("10:30", window=Window(None, at("09:30"))), (), "cursor 10:00; wake 10:30"),
        (until("10:30", max_runs=0), (), "cursor 10:00; wake 10:30"),
        (until("10:30", overlap=Overlap.BUFFER_ONE), (run("10:00"),), "cursor 10:00; wake 10:30"),
        (until("10:30", run_timeout=15 * MINUTE), (run("10:00"),), "cursor 10:00; wake 10:15"),
    ],
)  # fmt: skip
def test_the_planner_looks_again_at_the_end_of_a_pause(declared, runs, expected):
    assert shown(decided(declared, "10:10", "10:00", *runs)) == expected


def test_the_end_of_a_run_does_not_make_the_end_of_a_pause_late():
    move = decided(until("10:30", run_timeout=15 * MINUTE), "10:10", "10:00", run("10:00"))
    assert (clock(move.wake_at), clock(move.idle_wake_at)) == ("10:15", "10:30")


def test_a_quarantined_schedule_is_looked_at_when_its_pause_ends():
    assert shown(decided(until("10:30"), "10:10", "10:00", quarantine="broken")) == (
        "cursor 10:00; wake 10:30"
    )


def test_a_schedule_that_becomes_quarantined_is_looked_at_when_its_pause_ends():
    move = decided(until("10:30", Every(0, "start")), "10:10", "10:00")
    assert (move.state.quarantine is None, clock(move.wake_at)) == (False, "10:30")


@pytest.mark.parametrize(
    ("end", "cadence", "wake"),
    [
        (None, HOURLY, "11:00"),
        ("10:30", HOURLY, "10:30"),
        ("12:00", HOURLY, "11:00"),
        ("10:30", OnDemand(), "10:30"),
    ],
)
def test_a_schedule_that_is_paused_anew_is_first_looked_at_when_its_pause_ends(end, cadence, wake):
    assert clock(first_wake(until(end, cadence), State(at("10:00")))) == wake


@pytest.mark.parametrize(
    ("end", "now", "ended"),
    [
        (None, "23:00", False),
        ("10:30", "10:29:59.999", False),
        ("10:30", "10:30", True),
        ("10:30", "11:00", True),
    ],
)
def test_a_pause_ends_at_its_instant_and_not_before(end, now, ended):
    due = Snapshot(until(end), State(at("10:00")))
    assert pause_has_ended(due.schedule, at(now)) is ended
    assert (end_of_pause(due, at(now)) is not None) is ended


@pytest.mark.parametrize("now", ["10:05", "10:05:00.001", "12:00"])
@pytest.mark.parametrize(
    ("end", "skipped", "wake"),
    [
        # The tick at the end of the pause runs: "paused until 10:05" does not include 10:05.
        ("10:05", ["paused 10:01-10:04 x4"], "10:05"),
        ("10:05:00.001", ["paused 10:01-10:05 x5"], "10:06"),
        ("10:04:59.999", ["paused 10:01-10:04 x4"], "10:05"),
        ("10:00:30", [], "10:01"),
    ],
)
def test_ticks_before_the_end_were_paused_and_later_ones_are_owed_however_late_it_is(now, end, skipped, wake):
    due = Snapshot(until(end, MINUTELY), State(at("10:00")), version=3)
    if at(now) < at(end):
        return
    changes = end_of_pause(due, at(now))
    [put] = changes.puts
    assert [_stretch(row) for row in changes.rows] == skipped
    assert (put.schedule, clock(put.wake_at), put.version) == (schedule(), wake, 3)
    assert changes.notes == [("s", Note(at(end)))]


def _stretch(row):
    return f"{row.reason} {clock(row.run_at)}-{clock(row.run_until)} x{row.ticks}"


@pytest.mark.parametrize(
    "cadence", [HOURLY, Every(7 * MINUTE, "start"), Every(7 * MINUTE), OnDemand()], ids=str
)
@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE])
def test_the_changes_are_those_of_a_user_who_resumes_it_in_the_last_millisecond(cadence, overlap):
    declared = until("12:00", cadence, overlap=overlap)
    waiting = run("10:00", Phase.QUEUED)
    due = Snapshot(declared, State(at("10:00")), (waiting,), version=2)
    by_hand = edited(due, resumed(declared), at("12:00") - 1)
    assert end_of_pause(due, at("13:00"))._replace(notes=()) == by_hand


def test_a_schedule_that_cannot_be_computed_is_resumed_and_left_to_the_planner():
    broken = until("10:30", Every(0, "start"), window=Window(at("10:15")))
    due = Snapshot(broken, State(at("10:00"), quarantine="broken"), version=4)
    put = Put(resumed(broken), State(at("10:00"), quarantine="broken"), at("11:00"), 4)
    assert end_of_pause(due, at("11:00")) == Changes([put], notes=[("s", Note(at("10:30")))])


def test_a_pause_has_the_end_that_it_was_given_last():
    plain = schedule()
    assert paused_until(paused_until(plain, 5), 7) == plain._replace(paused=True, pause_until=7)
    assert paused_until(paused_until(plain, 5), None) == plain._replace(paused=True)
    assert resumed(paused_until(plain, 5)) == plain
