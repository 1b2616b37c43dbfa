"""What the planner makes of ticks that are on time: overlap, capacity, limits, and the shape of a move."""

from __future__ import annotations

import pytest
from tests.core.plan.planner_notation import EPOCH, MINUTE, at, decided, run, schedule, shown

from dutiful.core.cadence import Every, Once, OnDemand
from dutiful.core.plan.planner import Batch, plan
from dutiful.core.policy import Capacity, CatchUp, Overlap, Reason
from dutiful.core.run import Phase, Run, Status
from dutiful.core.schedule import SkippedRange, State, tick_key
from dutiful.core.snapshot import Limits, Move, Snapshot

# Policy, a run in flight since 09:59 or none, the cursor, and the move at 10:03 (all ticks within the grace).
ON_TIME = [
    ("allow", False, "10:02", "launch 10:03; cursor 10:03; wake 10:04"),
    ("allow", False, "10:00", "launch 10:01; launch 10:02; launch 10:03; cursor 10:03; wake 10:04"),
    ("allow", True, "10:02", "launch 10:03; cursor 10:03; wake 10:04"),
    ("allow", True, "10:00", "launch 10:01; launch 10:02; launch 10:03; cursor 10:03; wake 10:04"),
    ("skip", False, "10:02", "launch 10:03; cursor 10:03; wake 10:04"),
    ("skip", False, "10:00", "launch 10:01; skip overlap 10:02-10:03 x2; cursor 10:03; wake 10:04"),
    ("skip", True, "10:02", "skip overlap 10:03; cursor 10:03; wake 10:04"),
    ("skip", True, "10:00", "skip overlap 10:01-10:03 x3; cursor 10:03; wake 10:04"),
    ("queue", False, "10:02", "launch 10:03; cursor 10:03; wake 10:04"),
    ("queue", False, "10:00", "launch 10:01; queue 10:02; queue 10:03; cursor 10:03; wake 10:04; blocked"),
    ("queue", True, "10:02", "queue 10:03; cursor 10:03; wake 10:04; blocked"),
    ("queue", True, "10:00", "queue 10:01; queue 10:02; queue 10:03; cursor 10:03; wake 10:04; blocked"),
    ("buffer_one", False, "10:02", "launch 10:03; cursor 10:03; wake 10:04"),
    ("buffer_one", False, "10:00", "launch 10:01; cursor 10:01; wake 11:03; blocked"),
    ("buffer_one", True, "10:02", "cursor 10:02; wake 10:59; blocked"),
    ("buffer_one", True, "10:00", "cursor 10:00; wake 10:59; blocked"),
    ("cancel_other", False, "10:02", "launch 10:03; cursor 10:03; wake 10:04"),
    (
        "cancel_other",
        True,
        "10:02",
        "launch 10:03; FAILED interrupted 09:59; cancel 09:59; cursor 10:03; wake 10:04",
    ),
]


@pytest.mark.parametrize(("overlap", "flying", "cursor", "expected"), ON_TIME)
def test_ticks_on_time_meet_the_overlap_policy(overlap, flying, cursor, expected):
    declared = schedule(overlap=Overlap(overlap), grace=10 * MINUTE)
    assert shown(decided(declared, "10:03", cursor, *[run("09:59")] * flying)) == expected


@pytest.mark.parametrize("overlap", Overlap)
def test_before_the_tick_nothing_is_decided(overlap):
    move = decided(schedule(overlap=overlap), "10:02:59.999", "10:02")
    assert shown(move) == "cursor 10:02; wake 10:03"


def test_a_move_is_compared_as_a_whole():
    declared = schedule(overlap=Overlap.SKIP, grace=10 * MINUTE)
    due = Snapshot(declared, State(at("10:01"), runs_started=4), version=11)
    launched = Run(
        "s", at("10:02"), "schedule", Status.STARTED, Phase.LAUNCHED, at("10:02"), None, 1, EPOCH,
        at("10:03"), created_at=at("10:03"), updated_at=at("10:03"),
    )  # fmt: skip
    skipped = Run(
        "s", at("10:03"), "schedule", Status.SKIPPED, Phase.ENDED, at("10:03"), Reason.OVERLAP,
        0, EPOCH, None, at("10:03"), None, 1, created_at=at("10:03"), updated_at=at("10:03"),
    )  # fmt: skip
    state = State(
        at("10:03"),
        runs_started=5,
        attempted_at=at("10:03"),
        skipped=SkippedRange(at("10:03"), Reason.OVERLAP, 1),
    )
    (move,) = plan(Batch([due], {}), at("10:03"), Limits(EPOCH))
    assert move == Move(due, state, at("10:04"), None, False, [launched, skipped], [], [])


def test_a_remote_launcher_only_enqueues():
    (move,) = plan(
        Batch([Snapshot(schedule(), State(at("10:02")))], {}),
        at("10:03"),
        Limits(launch_status=Status.ENQUEUED),
    )
    assert [row.status for row in move.inserts] == [Status.ENQUEUED]


def test_the_same_question_has_the_same_answer_and_leaves_its_inputs_alone():
    used = {"g": 1}
    declared = schedule(overlap=Overlap.QUEUE, capacity=Capacity("g", 2), catch_up=CatchUp.SPREAD)
    due = Snapshot(declared, State(at("09:00")), [run("08:59")])
    answers = [plan(Batch([due, due], used), at("10:03"), Limits(EPOCH)) for _ in range(2)]
    assert answers[0] == answers[1]
    assert used == {"g": 1}
    assert due == Snapshot(declared, State(at("09:00")), [run("08:59")])


def test_skips_for_the_same_reason_grow_one_row():
    before = SkippedRange(at("10:01"), Reason.OVERLAP, 2)
    move = decided(schedule(), "10:03", "10:02", run("09:59"), skipped=before)
    assert shown(move) == "more overlap 10:01-10:03 x3; cursor 10:03; wake 10:04"
    assert move.state.skipped == SkippedRange(at("10:01"), Reason.OVERLAP, 3)


def test_a_skip_for_another_reason_begins_a_row():
    before = SkippedRange(at("10:01"), Reason.MISSED, 2)
    move = decided(schedule(), "10:03", "10:02", run("09:59"), skipped=before)
    assert shown(move) == "skip overlap 10:03; cursor 10:03; wake 10:04"


def test_a_run_between_skips_begins_a_new_row():
    before = SkippedRange(at("10:01"), Reason.OVERLAP, 2)
    assert decided(schedule(), "10:03", "10:02", skipped=before).state.skipped is None


def test_without_a_ledger_skips_move_the_cursor_and_leave_no_row():
    move = decided(schedule(ledger=False, grace=10 * MINUTE), "10:03", "10:00", run("09:59"))
    assert shown(move) == "cursor 10:03; wake 10:04"
    assert move.state.skipped is None


QUEUES = [
    ([], 2, "launch 10:01; queue 10:02; queue 10:03; cursor 10:03; wake 10:04; blocked"),
    ([], 1, "launch 10:01; queue 10:02; skip queue_full 10:03; cursor 10:03; wake 10:04; blocked"),
    ([], 0, "launch 10:01; skip queue_full 10:02-10:03 x2; cursor 10:03; wake 10:04"),
    (["09:59"], 1, "queue 10:01; skip queue_full 10:02-10:03 x2; cursor 10:03; wake 10:04; blocked"),
]


@pytest.mark.parametrize(("flying", "limit", "expected"), QUEUES)
def test_a_queue_is_bounded_and_says_what_overflowed(flying, limit, expected):
    declared = schedule(overlap=Overlap.QUEUE, queue_limit=limit, grace=10 * MINUTE)
    assert shown(decided(declared, "10:03", "10:00", *map(run, flying))) == expected


def test_a_tick_never_overtakes_the_queue():
    declared = schedule(overlap=Overlap.QUEUE)
    waiting = [run("10:00", Phase.QUEUED), run("10:01", Phase.QUEUED)]
    assert shown(decided(declared, "10:02", "10:01", *waiting)) == (
        "queue 10:02; attempt 1 of 10:00; cursor 10:02; wake 10:03; blocked"
    )


# The runs of group g in flight, its limit, and the move at 10:03 of a schedule last decided at 10:00.
ROOM = [
    (0, 1, "launch 10:01; skip overlap 10:02-10:03 x2; cursor 10:03; wake 10:04"),
    (1, 1, "skip at_capacity 10:01-10:02 x2; cursor 10:02; wake 10:04; blocked"),
    (2, 1, "skip at_capacity 10:01-10:02 x2; cursor 10:02; wake 10:04; blocked"),
    (1, 2, "launch 10:01; skip overlap 10:02-10:03 x2; cursor 10:03; wake 10:04"),
]


@pytest.mark.parametrize(("used", "limit", "expected"), ROOM)
def test_without_room_the_newest_tick_waits_and_those_it_overtook_are_skipped(used, limit, expected):
    declared = schedule(capacity=Capacity("g", limit), grace=10 * MINUTE)
    assert shown(decided(declared, "10:03", "10:00", used={"g": used})) == expected


def test_schedules_of_one_batch_share_the_room():
    declared = [schedule(id_=name, capacity=Capacity("g", 2)) for name in "abc"]
    moves = plan(
        Batch([Snapshot(each, State(at("10:02"))) for each in declared], {"g": 0}), at("10:03"), Limits()
    )
    assert [shown(move) for move in moves] == [
        "launch 10:03; cursor 10:03; wake 10:04",
        "launch 10:03; cursor 10:03; wake 10:04",
        # It looks once more when the others have their places, or have not.
        "cursor 10:02; wake 10:03; blocked",
    ]


def test_allowed_overlap_still_needs_room():
    declared = schedule(overlap=Overlap.ALLOW, capacity=Capacity("g", 2), grace=10 * MINUTE)
    assert shown(decided(declared, "10:03", "10:00")) == (
        "launch 10:01; launch 10:02; cursor 10:02; wake 10:04; blocked"
    )


LIMITS = [
    (0, "launch 10:01; launch 10:02; skip limit_reached 10:03; cursor 10:03; wake 11:03"),
    (1, "launch 10:01; skip limit_reached 10:02-10:03 x2; cursor 10:03; wake 11:03"),
    (2, "skip limit_reached 10:01-10:03 x3; cursor 10:03; wake never"),
]


@pytest.mark.parametrize(("started", "expected"), LIMITS)
def test_a_schedule_starts_no_more_runs_than_it_may(started, expected):
    declared = schedule(overlap=Overlap.ALLOW, max_runs=2, grace=10 * MINUTE)
    assert shown(decided(declared, "10:03", "10:00", runs_started=started)) == expected


def test_waiting_runs_count_towards_the_limit():
    declared = schedule(overlap=Overlap.QUEUE, max_runs=2)
    move = decided(declared, "10:03", "10:02", run("10:01"), run("10:02", Phase.QUEUED), runs_started=1)
    assert shown(move) == "skip limit_reached 10:03; cursor 10:03; wake 11:01; blocked"


@pytest.mark.parametrize(
    ("cadence", "cursor", "expected"),
    [
        (Every(MINUTE, "start"), "10:02", "launch 10:03; cursor 10:03; wake 10:04"),
        (Every(MINUTE, "start"), "10:02:30", "cursor 10:02:30; wake 10:03:30"),
        (Every(MINUTE), "10:02", "launch 10:03; cursor 10:03; wake 11:03; blocked"),
        (Once(at("10:03")), "10:02", "launch 10:03; cursor 10:03; wake 11:03"),
        (Once(at("10:03")), "10:03", "cursor 10:03; wake never"),
        (Once(at("10:04")), "10:02", "cursor 10:02; wake 10:04"),
        (OnDemand(), "10:02", "cursor 10:02; wake never"),
    ],
)
def test_every_cadence_fires_at_its_own_time(cadence, cursor, expected):
    assert shown(decided(schedule(cadence), "10:03", cursor)) == expected


def test_one_schedule_that_cannot_be_computed_is_quarantined_alone():
    good, bad = schedule(id_="good"), schedule(Every(0, "start"), id_="bad")
    moves = plan(
        Batch([Snapshot(each, State(at("10:02"))) for each in (bad, good)], {}), at("10:03"), Limits(EPOCH)
    )
    assert moves[0] == Move(
        moves[0].due,
        State(at("10:02"), quarantine="ZeroDivisionError: integer division or modulo by zero"),
    )
    assert shown(moves[1]) == "launch 10:03; cursor 10:03; wake 10:04"


def test_a_quarantined_schedule_is_left_alone():
    move = decided(schedule(), "10:03", "10:00", quarantine="unreadable")
    assert move == Move(move.due, move.due.state)


def test_the_key_of_a_tick_is_the_hash_of_its_schedule_and_second():
    assert tick_key("s", 1_767_571_200_999) == tick_key("s", 1_767_571_200_000)
    assert tick_key("nightly", 1_767_571_200_000) == (
        "9239e301bc7375835265a14f34187c51ecb14b73d70345af00bcac37db19ae51"
    )
