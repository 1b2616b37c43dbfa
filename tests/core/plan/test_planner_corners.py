"""Where two policies meet in one schedule: capacity and grace, limits and spread, cancelling and room."""

from __future__ import annotations

import pytest
from tests.core.plan.planner_notation import HOUR, MINUTE, SECOND, at, clock, decided, run, schedule, shown

from dutiful.core.cadence import Every
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.jitter import fire_time
from dutiful.core.plan.planner import Batch, plan
from dutiful.core.policy import Capacity, CatchUp, Overlap, Reason, Retry
from dutiful.core.run import Phase
from dutiful.core.schedule import State, Window
from dutiful.core.snapshot import Limits, Snapshot


def test_a_tick_that_waited_for_room_stays_due_until_the_next_one():
    hourly = schedule(Cron.parse("0 * * * *"), capacity=Capacity("g", 1))
    assert shown(decided(hourly, "10:00", "09:00", used={"g": 1})) == "cursor 09:00; wake 11:00; blocked"
    assert shown(decided(hourly, "10:20", "09:00", blocked=True)) == "launch 10:00; cursor 10:00; wake 11:00"


def test_a_tick_that_passed_while_the_group_was_full_says_so():
    hourly = schedule(Cron.parse("0 * * * *"), capacity=Capacity("g", 1))
    move = decided(hourly, "11:00", "09:00", used={"g": 1}, blocked=True)
    assert shown(move) == "skip at_capacity 10:00; cursor 10:00; wake 12:00; blocked"


def test_cancelling_the_other_run_makes_the_room_for_this_one():
    declared = schedule(overlap=Overlap.CANCEL_OTHER, capacity=Capacity("g", 1))
    assert shown(decided(declared, "10:01", "10:00", run("10:00"), used={"g": 1})) == (
        "launch 10:01; FAILED interrupted 10:00; cancel 10:00; cursor 10:01; wake 10:02"
    )


def test_of_several_due_ticks_only_the_newest_cancels_the_other_run():
    declared = schedule(overlap=Overlap.CANCEL_OTHER, grace=HOUR)
    assert shown(decided(declared, "10:03", "10:00", run("09:59"))) == (
        "skip replaced 10:01-10:02 x2; launch 10:03; FAILED interrupted 09:59; cancel 09:59; "
        "cursor 10:03; wake 10:04"
    )


def test_cancelling_includes_a_launch_that_is_tried_again():
    declared = schedule(overlap=Overlap.CANCEL_OTHER, launch_retry=Retry(HOUR))
    again = run("10:00", Phase.RETRY, fire_at=at("11:00"), reason=Reason.LAUNCH_FAILED)
    assert shown(decided(declared, "10:01", "10:00", again)) == (
        "launch 10:01; FAILED interrupted 10:00; cursor 10:01; wake 10:02"
    )


def test_spread_holds_no_more_runs_than_may_start():
    hourly = schedule(Cron.parse("0 * * * *"), catch_up=CatchUp.SPREAD, max_runs=2)
    assert shown(decided(hourly, "10:30", "05:00")) == (
        "delay 06:00 to 10:30:20; delay 07:00 to 10:30:40; skip limit_reached 08:00-10:00 x3; "
        "cursor 10:00; wake 10:30:20"
    )


def test_a_spread_run_finds_the_queue_full():
    declared = schedule(Every(HOUR, "start"), overlap=Overlap.QUEUE, queue_limit=1)
    runs = run("09:58"), run("09:59", Phase.QUEUED), run("10:00", Phase.DELAYED)
    assert shown(decided(declared, "10:00", "10:00", *runs)) == (
        "SKIPPED queue_full 10:00; cursor 10:00; wake 10:58; blocked"
    )


def test_a_spread_run_never_overtakes_the_queue():
    declared = schedule(Every(HOUR, "start"), overlap=Overlap.QUEUE)
    runs = run("09:59", Phase.QUEUED), run("10:00", Phase.DELAYED)
    move = decided(declared, "10:00", "10:00", *runs)
    assert {row.run_at: row.phase for row in move.changes} == {
        at("09:59"): Phase.LAUNCHED,
        at("10:00"): Phase.QUEUED,
    }


def test_a_period_does_not_fire_before_its_window():
    declared = schedule(Every(MINUTE, "start"), window=Window(at("10:30")))
    assert not decided(declared, "10:10", "10:00").inserts


def test_a_period_that_waits_for_room_longer_than_itself_is_woken_by_the_end_of_a_run_alone():
    declared = schedule(Every(MINUTE), capacity=Capacity("g", 1))
    move = decided(declared, "10:30", "10:00", used={"g": 1}, ended_at=at("10:00"), blocked=True)
    assert shown(move) == "cursor 10:00; wake never; blocked"


@pytest.mark.parametrize("jitter", [0, 5 * SECOND])
def test_a_period_from_completion_has_one_tick_at_a_time_whatever_its_jitter(jitter):
    declared = schedule(Every(MINUTE), overlap=Overlap.ALLOW, jitter=jitter)
    move = decided(declared, "12:00", "10:00", ended_at=at("10:00"))
    assert shown(move) == "launch 10:01; cursor 10:01; wake 13:00; blocked"


def test_a_queued_tick_keeps_its_jittered_fire_time():
    declared = schedule(overlap=Overlap.QUEUE, jitter=20 * SECOND)
    fires = fire_time(declared, at("10:02"))
    move = decided(declared, clock(fires), "10:01", run("10:01"))
    assert [(row.phase, row.fire_at) for row in move.inserts] == [(Phase.QUEUED, fires)]


def test_a_tick_that_was_buffered_is_not_offered_again_because_it_also_waited_for_room():
    declared = schedule(overlap=Overlap.BUFFER_ONE, capacity=Capacity("g", 2), max_runs=1)
    move = decided(declared, "10:01:30", "10:00", ended_at=at("10:01:30"), blocked=True)
    assert shown(move) == "launch 10:01; cursor 10:01; wake 11:01:30"


def test_the_loss_of_an_accepted_run_leaves_a_full_engine_full():
    declared = schedule(run_timeout=MINUTE)
    due = Snapshot(declared, State(at("10:02")), [run("10:00", Phase.ACCEPTED)])
    (move,) = plan(Batch([due], {}), at("10:03"), Limits(room=0))
    assert shown(move) == "FAILED lost_run 10:00; cancel 10:00; cursor 10:02; wake 10:03"


def test_the_schedule_that_waited_longest_for_a_slot_gets_it():
    group = Capacity("g", 1)
    hourly, minutely = Cron.parse("0 * * * *"), schedule(id_="minutely", capacity=group)
    late = Snapshot(minutely, State(at("10:02")), blocked=True)
    longest = Snapshot(schedule(hourly, "hourly", capacity=group), State(at("09:59")), blocked=True)
    fresh = Snapshot(schedule(id_="fresh", capacity=group), State(at("10:02")))
    moves = plan(Batch([fresh, late, longest], {}), at("10:03"), Limits())
    assert [(move.due.schedule.id, len(move.inserts)) for move in moves] == [
        ("hourly", 1),
        ("minutely", 0),
        ("fresh", 0),
    ]
