"""What the planner makes of runs that are already recorded: orphans, lost runs, queues, retries."""

from __future__ import annotations

import pytest
from tests.core.plan.planner_notation import EPOCH, HOUR, MINUTE, SECOND, at, decided, run, schedule, shown

from dutiful.core.cadence import Every, Once, OnDemand
from dutiful.core.plan.planner import Batch, plan
from dutiful.core.policy import Capacity, CatchUp, OnOrphan, Overlap, Reason, Retry
from dutiful.core.run import Phase, Status
from dutiful.core.schedule import State
from dutiful.core.snapshot import Limits, Snapshot

ORPHANS = [
    ("restart", Phase.LAUNCHED, "attempt 2 of 10:00; cursor 10:00; wake 10:01"),
    ("restart", Phase.ACCEPTED, "attempt 2 of 10:00; cursor 10:00; wake 10:01"),
    ("wait", Phase.LAUNCHED, "FAILED interrupted 10:00; cursor 10:00; wake 10:01"),
    ("wait", Phase.ACCEPTED, "FAILED interrupted 10:00; cursor 10:00; wake 10:01"),
    ("relaunch", Phase.LAUNCHED, "attempt 2 of 10:00; cursor 10:00; wake 10:01"),
    ("relaunch", Phase.ACCEPTED, "cursor 10:00; wake 10:01"),
    ("give_up", Phase.LAUNCHED, "FAILED outcome_unknown 10:00; cursor 10:00; wake 10:01"),
    ("give_up", Phase.ACCEPTED, "cursor 10:00; wake 10:01"),
]


@pytest.mark.parametrize(("on_orphan", "phase", "expected"), ORPHANS)
def test_a_run_of_a_dead_instance_is_adopted_as_the_policy_says(on_orphan, phase, expected):
    declared = schedule(on_orphan=OnOrphan(on_orphan))
    assert shown(decided(declared, "10:00:30", "10:00", run("10:00", phase, epoch=EPOCH - 1))) == expected


@pytest.mark.parametrize("on_orphan", OnOrphan)
@pytest.mark.parametrize("phase", [Phase.LAUNCHED, Phase.ACCEPTED])
def test_a_run_of_the_living_instance_is_left_alone(on_orphan, phase):
    declared = schedule(on_orphan=on_orphan)
    assert shown(decided(declared, "10:00:30", "10:00", run("10:00", phase))) == "cursor 10:00; wake 10:01"


@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.DELAYED, Phase.RETRY])
def test_a_run_that_waits_has_no_owner_to_lose(phase):
    declared = schedule(on_orphan=OnOrphan.GIVE_UP, retry=Retry(MINUTE), overlap=Overlap.QUEUE)
    waiting = run("10:00", phase, epoch=EPOCH - 1, fire_at=at("10:00:40"))
    move = decided(declared, "10:00:30", "10:00", waiting)
    assert [row.status for row in move.changes] == [Status.STARTED] * (phase is Phase.QUEUED)


def test_an_adopted_run_carries_the_new_epoch_and_a_new_start():
    move = decided(schedule(), "10:00:30", "10:00", run("10:00", epoch=EPOCH - 1))
    assert list(move.changes) == [run("10:00", attempt=2, started_at=at("10:00:30"))]


def test_an_interrupted_period_goes_on_from_the_start_of_the_run():
    declared = schedule(Every(10 * MINUTE), on_orphan=OnOrphan.WAIT)
    move = decided(declared, "10:05", "10:00", run("10:00", epoch=EPOCH - 1))
    assert shown(move) == "FAILED interrupted 10:00; cursor 10:00; wake 10:10"
    assert move.state.ended_at == at("10:00")


def test_an_orphan_that_is_started_again_keeps_its_room():
    declared = schedule(capacity=Capacity("g", 1), on_orphan=OnOrphan.RESTART)
    move = decided(declared, "10:00:30", "10:00", run("10:00", epoch=EPOCH - 1), used={"g": 1})
    assert shown(move) == "attempt 2 of 10:00; cursor 10:00; wake 10:01"


def test_an_orphan_that_is_given_up_frees_its_room_and_its_turn():
    declared = schedule(capacity=Capacity("g", 1), on_orphan=OnOrphan.GIVE_UP, overlap=Overlap.QUEUE)
    orphan = run("10:00", epoch=EPOCH - 1)
    move = decided(declared, "10:01:30", "10:01", orphan, run("10:01", Phase.QUEUED), used={"g": 1})
    assert shown(move) == "FAILED outcome_unknown 10:00; attempt 1 of 10:01; cursor 10:01; wake 10:02"


@pytest.mark.parametrize("phase", [Phase.LAUNCHED, Phase.ACCEPTED])
def test_a_run_that_outlives_its_timeout_is_lost_and_blocks_no_longer(phase):
    declared = schedule(run_timeout=5 * MINUTE)
    assert shown(decided(declared, "10:04", "10:03", run("09:59:00.001", phase))) == (
        "skip overlap 10:04; cursor 10:04; wake 10:04:00.001"
    )
    assert shown(decided(declared, "10:04", "10:03", run("09:59", phase))) == (
        "launch 10:04; FAILED lost_run 09:59; cancel 09:59; cursor 10:04; wake 10:05"
    )


def test_without_a_timeout_a_run_may_take_for_ever():
    declared = schedule(run_timeout=None)
    assert shown(decided(declared, "1+10:00", "1+09:59", run("10:00"))) == (
        "skip overlap 1+10:00; cursor 1+10:00; wake 1+10:01"
    )


def test_a_queue_moves_up_one_by_one_and_in_order():
    declared = schedule(OnDemand(), overlap=Overlap.QUEUE)
    waiting = [run(f"10:0{minute}", Phase.QUEUED) for minute in range(3)]
    assert shown(decided(declared, "10:05", "10:02", *waiting)) == (
        "attempt 1 of 10:00; cursor 10:02; wake 11:05; blocked"
    )
    assert shown(decided(declared, "10:05", "10:02", run("09:59"), *waiting)) == (
        "cursor 10:02; wake 10:59; blocked"
    )


DELAYED = [
    ("allow", True, "attempt 1 of 10:00; cursor 10:00; wake 10:59"),
    ("skip", False, "attempt 1 of 10:00; cursor 10:00; wake 11:05"),
    ("skip", True, "SKIPPED overlap 10:00; cursor 10:00; wake 10:59"),
    ("queue", False, "attempt 1 of 10:00; cursor 10:00; wake 11:05"),
    ("queue", True, "queue 10:00; cursor 10:00; wake 10:59; blocked"),
    ("buffer_one", True, "queue 10:00; cursor 10:00; wake 10:59; blocked"),
    (
        "cancel_other",
        True,
        "FAILED interrupted 09:59; attempt 1 of 10:00; cancel 09:59; cursor 10:00; wake 11:05",
    ),
]


@pytest.mark.parametrize(("overlap", "flying", "expected"), DELAYED)
def test_a_spread_run_meets_the_overlap_policy_when_its_time_has_come(overlap, flying, expected):
    declared = schedule(OnDemand(), overlap=Overlap(overlap))
    runs = [*[run("09:59")] * flying, run("10:00", Phase.DELAYED, fire_at=at("10:05"))]
    assert shown(decided(declared, "10:05", "10:00", *runs)) == expected
    assert decided(declared, "10:04:59.999", "10:00", *runs).changes == []


def test_a_waiting_run_needs_room_like_any_other():
    declared = schedule(OnDemand(), overlap=Overlap.QUEUE, capacity=Capacity("g", 1))
    for phase in (Phase.QUEUED, Phase.DELAYED, Phase.RETRY):
        move = decided(declared, "10:05", "10:00", run("10:00", phase), used={"g": 1})
        assert shown(move) == "cursor 10:00; wake never; blocked"


def test_a_manual_run_waits_for_no_other_run():
    declared = schedule(OnDemand(), paused=True, overlap=Overlap.SKIP)
    by_hand = run("10:00", Phase.DELAYED, kind="manual")
    move = decided(declared, "10:00", "10:00", run("09:59"), by_hand)
    assert shown(move) == "attempt 1 of 10:00; cursor 10:00; wake 10:59"


def failed(tick: str, again: str):
    return run(tick, Phase.RETRY, fire_at=at(again), reason=Reason.TASK_FAILED, ended_at=at(tick) + SECOND)


RETRIES = [
    ("10:00:29", "cursor 10:00; wake 10:00:30"),
    ("10:00:30", "attempt 2 of 10:00; cursor 10:00; wake 10:01"),
    ("10:01", "launch 10:01; FAILED task_failed 10:00; cursor 10:01; wake 10:02"),
]


@pytest.mark.parametrize(("now", "expected"), RETRIES)
def test_a_retry_starts_in_time_unless_a_tick_pre_empts_it(now, expected):
    declared = schedule(retry=Retry(29 * SECOND))
    assert shown(decided(declared, now, "10:00", failed("10:00", "10:00:30"))) == expected


def test_a_tick_that_is_due_before_the_retry_still_ends_it():
    declared = schedule(retry=Retry(HOUR))
    move = decided(declared, "10:01", "10:00", failed("10:00", "11:00:01"))
    assert shown(move) == "launch 10:01; FAILED task_failed 10:00; cursor 10:01; wake 10:02"


def test_a_zero_delay_is_legal():
    declared = schedule(retry=Retry(0))
    move = decided(declared, "10:00:01", "10:00", failed("10:00", "10:00:01"))
    assert shown(move) == "attempt 2 of 10:00; cursor 10:00; wake 10:01"


def test_a_launch_that_is_tried_again_counts_as_in_flight():
    declared = schedule(launch_retry=Retry(90 * SECOND))
    unreached = failed("10:00", "10:01:30")._replace(reason=Reason.LAUNCH_FAILED)
    assert shown(decided(declared, "10:01", "10:00", unreached)) == (
        "skip overlap 10:01; cursor 10:01; wake 10:01:30"
    )
    assert shown(decided(declared, "10:01:30", "10:01", unreached)) == (
        "attempt 2 of 10:00; cursor 10:01; wake 10:02"
    )


def test_a_retry_of_the_task_waits_for_a_run_in_flight_and_asks_to_be_woken():
    declared = schedule(Once(at("10:00")), retry=Retry(SECOND), overlap=Overlap.ALLOW)
    by_hand = run("09:30", kind="manual")
    move = decided(declared, "10:00:30", "10:00", by_hand, failed("10:00", "10:00:30"))
    assert shown(move) == "cursor 10:00; wake 10:30; blocked"


def test_the_place_of_a_run_that_is_ended_is_free_for_others_once_that_is_recorded():
    lost = schedule(id_="a", capacity=Capacity("g", 1), run_timeout=MINUTE)
    next_ = schedule(id_="b", capacity=Capacity("g", 1))
    batch = Batch(
        [
            Snapshot(lost, State(at("10:03")), [run("10:02", schedule_id="a")]),
            Snapshot(next_, State(at("10:02"))),
        ],
        {"g": 1},
    )
    moves = plan(batch, at("10:03"), Limits(EPOCH))
    assert [shown(move) for move in moves] == [
        "FAILED lost_run 10:02; cancel 10:02; cursor 10:03; wake 10:04",
        "cursor 10:02; wake 10:04; blocked",
    ]


def test_the_number_of_attempts_never_counts_towards_the_limit_of_runs():
    declared = schedule(retry=Retry(SECOND), max_runs=1)
    move = decided(declared, "10:00:30", "10:00", failed("10:00", "10:00:30"), runs_started=1)
    assert shown(move) == "attempt 2 of 10:00; cursor 10:00; wake 11:00:30"
    assert move.state.runs_started == 1


def test_a_spread_run_counts_once_when_it_starts():
    declared = schedule(OnDemand(), catch_up=CatchUp.SPREAD)
    move = decided(declared, "10:05", "10:00", run("10:00", Phase.DELAYED))
    assert move.state == State(at("10:00"), runs_started=1, attempted_at=at("10:05"))
