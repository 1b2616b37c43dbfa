"""What the planner makes of ticks that are older than the grace, of pauses, windows and jitter."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from tests.core.plan.planner_notation import EPOCH, HOUR, MINUTE, MONDAY, at, decided, run, schedule, shown

from dutiful.core.cadence import Every, Once
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.planner import Batch, plan
from dutiful.core.policy import Capacity, CatchUp, Overlap, Overrides, Reason
from dutiful.core.run import Phase
from dutiful.core.schedule import State, Window
from dutiful.core.snapshot import Limits, Snapshot

# Policies, the cursor, and the move at 10:05:30: 10:05 is on time, what is older was missed; cap 2.
LATE = [
    ("allow", "none", "10:04", "launch 10:05; cursor 10:05; wake 10:06"),
    ("allow", "none", "10:03", "skip missed 10:04; launch 10:05; cursor 10:05; wake 10:06"),
    ("allow", "none", "10:00", "skip missed 10:01-10:04 x4; launch 10:05; cursor 10:05; wake 10:06"),
    ("allow", "latest", "10:03", "skip coalesced 10:04; launch 10:05; cursor 10:05; wake 10:06"),
    ("allow", "latest", "10:00", "skip coalesced 10:01-10:04 x4; launch 10:05; cursor 10:05; wake 10:06"),
    ("allow", "fire_immediately", "10:03", "launch 10:04; launch 10:05; cursor 10:05; wake 10:06"),
    (
        "allow",
        "fire_immediately",
        "10:00",
        "skip catchup_cap 10:01-10:02 x2; launch 10:03; launch 10:04; launch 10:05; cursor 10:05; wake 10:06",
    ),
    ("skip", "fire_immediately", "10:03", "launch 10:04; skip overlap 10:05; cursor 10:05; wake 10:06"),
    (
        "queue",
        "fire_immediately",
        "10:01",
        "skip catchup_cap 10:02; launch 10:03; queue 10:04; queue 10:05; cursor 10:05; wake 10:06; blocked",
    ),
    (
        "buffer_one",
        "fire_immediately",
        "10:01",
        "skip catchup_cap 10:02; launch 10:03; cursor 10:03; wake 11:05:30; blocked",
    ),
    ("skip", "spread", "10:03", "delay 10:04 to 10:06; launch 10:05; cursor 10:05; wake 10:06"),
    (
        "queue",
        "spread",
        "10:02",
        "delay 10:03 to 10:05:50; delay 10:04 to 10:06:10; launch 10:05; cursor 10:05; wake 10:05:50",
    ),
]


@pytest.mark.parametrize(("overlap", "catch_up", "cursor", "expected"), LATE)
def test_missed_ticks_meet_the_catch_up_policy(overlap, catch_up, cursor, expected):
    declared = schedule(overlap=Overlap(overlap), catch_up=CatchUp(catch_up), catch_up_cap=2)
    assert shown(decided(declared, "10:05:30", cursor)) == expected


TOO_LATE = {
    CatchUp.NONE: "skip missed 10:05; cursor 10:05; wake never",
    CatchUp.LATEST: "launch 10:05; cursor 10:05; wake 11:06:00.001",
    CatchUp.FIRE_IMMEDIATELY: "launch 10:05; cursor 10:05; wake 11:06:00.001",
    CatchUp.SPREAD: "delay 10:05 to 10:06:30.001; cursor 10:05; wake 10:06:30.001",
}


@pytest.mark.parametrize("catch_up", CatchUp)
def test_late_by_exactly_the_grace_is_still_on_time(catch_up):
    declared = schedule(Once(at("10:05")), catch_up=catch_up)
    assert shown(decided(declared, "10:06", "10:00")) == "launch 10:05; cursor 10:05; wake 11:06"
    assert shown(decided(declared, "10:06:00.001", "10:00")) == TOO_LATE[catch_up]


def test_when_everything_was_missed_latest_runs_the_newest():
    hourly = schedule(Cron.parse("0 * * * *"), catch_up=CatchUp.LATEST)
    assert shown(decided(hourly, "10:30", "06:00")) == (
        "skip coalesced 07:00-09:00 x3; launch 10:00; cursor 10:00; wake 11:00"
    )


def test_ticks_due_during_a_run_make_one_run_as_soon_as_it_ends():
    declared = schedule(overlap=Overlap.BUFFER_ONE, catch_up=CatchUp.NONE)
    move = decided(declared, "10:20:10", "10:00", ended_at=at("10:20:10"))
    assert shown(move) == "skip replaced 10:01-10:19 x19; launch 10:20; cursor 10:20; wake 10:21"


def test_ticks_missed_after_the_end_of_a_run_are_judged_by_catch_up():
    declared = schedule(overlap=Overlap.BUFFER_ONE, catch_up=CatchUp.NONE)
    move = decided(declared, "10:20:10", "10:00", ended_at=at("10:00:20"))
    assert shown(move) == "skip missed 10:01-10:19 x19; launch 10:20; cursor 10:20; wake 10:21"


SPREAD = [
    (1, ["10:30:30"]),
    (2, ["10:30:20", "10:30:40"]),
    (5, ["10:30:10", "10:30:20", "10:30:30", "10:30:40", "10:30:50"]),
]


@pytest.mark.parametrize(("cap", "fire_times"), SPREAD)
def test_spread_ticks_get_durable_fire_times_inside_the_look_ahead(cap, fire_times):
    declared = schedule(Cron.parse("0 * * * *"), catch_up=CatchUp.SPREAD, catch_up_cap=cap)
    move = decided(declared, "10:30", "00:00")
    held = [row for row in move.inserts if row.phase is Phase.DELAYED]
    assert [row.fire_at for row in held] == [at(clock) for clock in fire_times]
    assert [row.run_at for row in held] == [at(f"{hour}:00") for hour in range(11 - cap, 11)]


@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_million_missed_ticks_are_planned_at_once_in_little_memory(catch_up):
    secondly = schedule(
        Cron.parse("* * * * * *", dialect="seconds"), overlap=Overlap.ALLOW, catch_up=catch_up
    )
    due = Snapshot(secondly, State(MONDAY - 1_000_000_000))
    plan(Batch([due], {}), MONDAY + 1, Limits(EPOCH))
    tracemalloc.start()
    began = time.perf_counter()
    (move,) = plan(Batch([due], {}), MONDAY, Limits(EPOCH))
    took, peak = time.perf_counter() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(row.ticks for row in move.inserts) == 1_000_000
    assert took < 0.05
    assert peak < 200_000


def test_beyond_the_cap_the_rest_of_the_ticks_on_time_waits_for_the_next_pass():
    declared = schedule(overlap=Overlap.ALLOW, catch_up_cap=2, grace=HOUR)
    assert shown(decided(declared, "10:05", "10:00")) == (
        "launch 10:01; launch 10:02; cursor 10:02; wake 10:05"
    )


@pytest.mark.parametrize(
    ("grace_min", "expected"),
    [
        (9 * MINUTE, "skip missed 10:01; cursor 10:01; wake 10:11"),
        (10 * MINUTE, "launch 10:01; cursor 10:01; wake 10:11"),
    ],
)
def test_a_grace_is_never_shorter_than_the_worker_allows(grace_min, expected):
    declared = schedule(Cron.parse("1,11 * * * *"), grace=MINUTE)
    found = decided(declared, "10:10:30", "10:00", overrides=Overrides(grace_min=grace_min))
    assert shown(found) == expected


PAUSED = [
    ("10:02", "10:02", "cursor 10:02; wake 10:03"),
    ("10:02", "10:03", "skip paused 10:03; cursor 10:03; wake 10:04"),
    ("10:00", "10:03", "skip paused 10:01-10:03 x3; cursor 10:03; wake 10:04"),
    ("10:00", "10:03:50", "skip paused 10:01-10:03 x3; cursor 10:03; wake 10:04:50"),
]


@pytest.mark.parametrize(("cursor", "now", "expected"), PAUSED)
def test_ticks_passed_while_paused_are_written_down_in_lots_of_a_minute(cursor, now, expected):
    assert shown(decided(schedule(paused=True, catch_up=CatchUp.FIRE_IMMEDIATELY), now, cursor)) == expected


def test_a_paused_second_hand_is_looked_at_once_a_minute():
    secondly = schedule(Cron.parse("* * * * * *", dialect="seconds"), paused=True)
    assert shown(decided(secondly, "10:01", "10:00")) == (
        "skip paused 10:00:01-10:01 x60; cursor 10:01; wake 10:02"
    )


def test_a_pause_leaves_the_run_in_flight_and_holds_back_the_waiting_ones():
    declared = schedule(paused=True, overlap=Overlap.QUEUE)
    waiting = run("10:00", Phase.QUEUED), run("10:01", Phase.DELAYED)
    assert shown(decided(declared, "10:02", "10:01", *waiting)) == (
        "skip paused 10:02; cursor 10:02; wake 10:03; blocked"
    )


WINDOWS = [
    ("10:02", "10:03", "10:02:59.999", "launch 10:02; cursor 10:02; wake 10:03"),
    ("10:02", "10:03", "10:01:59.999", "cursor 10:01:59.999; wake 10:02"),
    ("10:02:00.001", "10:03", "10:02:59.999", "cursor 10:02; wake 10:03"),
    ("10:00", "10:02", "10:02", "launch 10:01; launch 10:02; cursor 10:02; wake 11:02"),
    ("10:00", "10:01:59.999", "10:02", "launch 10:01; cursor 10:01; wake 11:02"),
    ("10:00", "10:00", "10:02", "cursor 10:00; wake never"),
]


@pytest.mark.parametrize(("start", "end", "now", "expected"), WINDOWS)
def test_a_window_includes_both_its_ends(start, end, now, expected):
    window = Window(at(start), at(end))
    declared = schedule(window=window, overlap=Overlap.ALLOW, grace=HOUR)
    assert shown(decided(declared, now, "10:00")) == expected


def test_ticks_before_the_end_of_the_window_are_still_judged_after_it():
    declared = schedule(window=Window(None, at("10:03")), overlap=Overlap.ALLOW, catch_up=CatchUp.LATEST)
    assert shown(decided(declared, "12:00", "10:00")) == (
        "skip coalesced 10:01-10:02 x2; launch 10:03; cursor 10:03; wake 13:00"
    )


def test_a_period_from_completion_is_late_once_however_much_was_missed():
    declared = schedule(Every(MINUTE), catch_up=CatchUp.NONE)
    move = decided(declared, "12:00", "10:00", ended_at=at("10:00:30"))
    assert shown(move) == "launch 10:01:30; cursor 10:01:30; wake 13:00; blocked"


def test_a_period_from_completion_counts_from_the_end_of_the_run():
    declared = schedule(Every(MINUTE))
    assert shown(decided(declared, "10:05", "10:00", run("10:00"))) == "cursor 10:00; wake 11:00; blocked"
    assert shown(decided(declared, "10:05", "10:00", ended_at=at("10:05"))) == "cursor 10:00; wake 10:06"


def test_a_strict_period_keeps_its_beat_through_downtime():
    declared = schedule(Every(7 * MINUTE, "start"))
    assert shown(decided(declared, "10:30", "10:00")) == (
        "skip missed 10:07-10:28 x4; cursor 10:28; wake 10:35"
    )


def test_missed_ticks_that_find_no_room_give_way_to_the_newest():
    declared = schedule(catch_up=CatchUp.FIRE_IMMEDIATELY, capacity=Capacity("g", 1))
    assert shown(decided(declared, "10:05", "10:00", used={"g": 1})) == (
        "skip at_capacity 10:01-10:04 x4; cursor 10:04; wake 10:06; blocked"
    )


@pytest.mark.parametrize("reason", [Reason.MISSED, Reason.PAUSED])
def test_a_stretch_is_one_row_however_often_it_grows(reason):
    declared = schedule(paused=reason is Reason.PAUSED)
    state, rows = State(at("10:00")), {}
    for minute in range(5, 60, 5):
        now = at(f"10:{minute:02}") + MINUTE // 2
        (move,) = plan(Batch([Snapshot(declared, state)], {}), now, Limits(EPOCH))
        rows |= {row.run_at: row for row in (*move.inserts, *move.changes)}
        state = move.state
    assert [row.ticks for row in rows.values() if row.reason is Reason.PAUSED] == (
        [55] if reason is Reason.PAUSED else []
    )
    assert sum(row.ticks for row in rows.values()) == 55
