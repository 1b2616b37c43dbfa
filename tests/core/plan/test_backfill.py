"""Backfill: which of the requested past ticks run, and what remains of the rows that skipped them."""

from __future__ import annotations

import pytest
from tests.core.plan.planner_notation import MINUTE, at, clock, run, schedule, shown

from dutiful.core.changes import Put
from dutiful.core.cron.cron import Cron
from dutiful.core.errors import OversizedBackfillError
from dutiful.core.plan.backfill import TICKS_MAX, backfill, past_ticks
from dutiful.core.plan.planner import decide
from dutiful.core.policy import Overlap, Reason
from dutiful.core.run import Phase, Status
from dutiful.core.schedule import SkippedRange, State, Window
from dutiful.core.snapshot import Limits, Snapshot

NOW = at("10:30")


def due(cursor="10:20", declared=None, **state):
    return Snapshot(declared or schedule(), State(at(cursor), **state), version=3)


def skipped(first, last=None, ticks=1, reason=Reason.MISSED):
    return run(
        first, Phase.ENDED, status=Status.SKIPPED, reason=reason, ticks=ticks,
        run_until=None if last is None else at(last), ended_at=NOW,
    )  # fmt: skip


def ran(tick):
    return run(tick, Phase.ENDED, status=Status.SUCCESS, attempt=1)


def ask(known, start, end, *rows, overlap=None):
    return backfill(known, past_ticks(known, at(start), at(end)), rows, overlap, NOW)


def pieces(planned):
    """Return the rows that are written, as "10:01" for a run and "10:02-10:04 x3" for a stretch."""
    return [
        clock(row.run_at) + (f"-{clock(row.run_until)}" if row.run_until else "") + f" x{row.ticks}"
        if row.status is Status.SKIPPED
        else clock(row.run_at)
        for row in sorted(planned.changes.rows, key=lambda row: row.run_at)
    ]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("10:01", "10:04", ["10:01", "10:02", "10:03"]),
        ("10:01:00.001", "10:03:00.001", ["10:02", "10:03"]),
        ("10:18", "10:59", ["10:18", "10:19", "10:20"]),
        ("10:21", "10:59", []),
        ("10:05", "10:05", []),
    ],
)
def test_the_decided_ticks_from_the_start_to_before_the_end_are_meant(start, end, expected):
    assert [*map(clock, past_ticks(due(), at(start), at(end)))] == expected


def test_there_are_no_ticks_outside_the_window():
    windowed = due(declared=schedule(window=Window(at("10:05"), at("10:06"))))
    assert [*map(clock, past_ticks(windowed, at("10:00"), at("10:10")))] == ["10:05", "10:06"]


def test_too_many_at_a_time_are_refused_before_they_are_listed():
    secondly = due(declared=schedule(Cron.parse("* * * * * *", "seconds")))
    with pytest.raises(OversizedBackfillError) as caught:
        past_ticks(secondly, at("10:20") - 86_400_000, at("10:20"))
    assert caught.value.details == {"ticks": 86_400, "limit": TICKS_MAX}
    assert len(past_ticks(secondly, at("10:00"), at("10:00") + TICKS_MAX * 1000)) == TICKS_MAX


def test_a_tick_without_a_row_waits_to_run_now_under_its_own_key():
    planned = ask(due(), "10:01", "10:02")
    [row] = planned.changes.rows
    assert row == run(
        "10:01", Phase.DELAYED, fire_at=NOW, epoch=0, backfill=Overlap.QUEUE, created_at=NOW, updated_at=NOW
    )
    assert planned.changes.puts == [Put(schedule(), State(at("10:20")), NOW, 3)]
    assert (planned.accepted, planned.already_recorded) == (1, 0)


def test_a_tick_with_a_run_ended_waiting_or_in_flight_does_not_run_again():
    rows = [
        ran("10:01"),
        run("10:02"),
        run("10:03", Phase.QUEUED),
        run("10:04", Phase.ENDED, status=Status.FAILED, reason=Reason.LAUNCH_FAILED, attempt=4),
    ]
    planned = ask(due(), "10:01", "10:06", *rows)
    assert pieces(planned) == ["10:05"]
    assert (planned.accepted, planned.already_recorded) == (1, 4)
    nothing = ask(due(), "10:01", "10:05", *rows)
    assert (nothing.changes.puts, nothing.changes.rows, nothing.accepted) == ((), (), 0)


def test_a_pruned_tick_is_neither_run_nor_counted_as_recorded():
    planned = ask(due()._replace(pruned_until=at("10:03")), "10:01", "10:05")
    assert pieces(planned) == ["10:04"]
    assert (planned.accepted, planned.already_recorded, planned.unknown) == (1, 0, 3)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("10:01", "10:02", ["10:01", "10:02-10:05 x4"]),
        ("10:05", "10:06", ["10:01-10:04 x4", "10:05"]),
        ("10:03", "10:04", ["10:01-10:02 x2", "10:03", "10:04-10:05 x2"]),
        ("10:02", "10:05", ["10:01 x1", "10:02", "10:03", "10:04", "10:05 x1"]),
        ("10:00", "10:09", ["10:00", "10:01", "10:02", "10:03", "10:04", "10:05", "10:06", "10:07", "10:08"]),
    ],
)
def test_a_stretch_is_split_around_the_ticks_that_run_after_all(start, end, expected):
    stretch = skipped("10:01", "10:05", 5)
    planned = ask(due(), start, end, stretch)
    assert pieces(planned) == expected
    assert planned.changes.drops == [stretch]


def test_a_single_skipped_tick_becomes_a_run():
    planned = ask(due(), "10:01", "10:02", skipped("10:01"))
    assert (pieces(planned), planned.accepted) == (["10:01"], 1)


def test_a_stretch_that_still_grows_is_closed():
    growing = SkippedRange(at("10:01"), Reason.MISSED, 20)
    planned = ask(due(skipped=growing), "10:03", "10:04", skipped("10:01", "10:20", 20))
    [put] = planned.changes.puts
    assert put.state.skipped is None
    untouched = ask(due(skipped=growing._replace(run_at=at("10:10"))), "10:03", "10:04")
    assert untouched.changes.puts[0].state.skipped is not None


def test_a_stretch_of_another_cadence_stays_whole_and_gives_way():
    hourly = skipped("10:01", "10:05", 2)
    assert pieces(ask(due(), "10:03", "10:04", hourly)) == ["10:01-10:05 x2", "10:03"]
    assert pieces(ask(due(), "10:01", "10:02", hourly)) == ["10:01", "10:01:00.001-10:05 x2"]


@pytest.mark.parametrize(
    ("own", "asked", "judged_by"),
    [
        (Overlap.ALLOW, None, Overlap.ALLOW),
        (Overlap.SKIP, None, Overlap.QUEUE),
        (Overlap.BUFFER_ONE, None, Overlap.QUEUE),
        (Overlap.SKIP, Overlap.ALLOW, Overlap.ALLOW),
        (Overlap.QUEUE, Overlap.SKIP, Overlap.SKIP),
    ],
)
def test_all_get_their_turn_unless_the_caller_says_otherwise(own, asked, judged_by):
    planned = ask(due(declared=schedule(overlap=own)), "10:01", "10:03", overlap=asked)
    # Under `skip` the second would only be skipped for the first.
    assert [row.backfill for row in planned.changes.rows] == [judged_by] * (
        1 if judged_by is Overlap.SKIP else 2
    )


def planned_move(*runs, now="10:30", cursor="10:30", **policy):
    return decide(Snapshot(schedule(**policy), State(at(cursor)), runs), at(now), Limits(7), {})


def waiting(tick, overlap=Overlap.QUEUE):
    return run(tick, Phase.DELAYED, fire_at=NOW, epoch=0, backfill=overlap)


def test_the_planner_takes_one_after_the_other():
    move = planned_move(waiting("10:01"), waiting("10:02"))
    assert shown(move) == "attempt 1 of 10:01; cursor 10:30; wake 10:31; blocked"
    later = planned_move(run("10:01", backfill=Overlap.QUEUE), waiting("10:02"), now="10:30:10")
    assert [*later.changes] == []
    assert later.blocked


def test_the_planner_lets_the_tick_of_today_go_first():
    move = planned_move(waiting("10:01"), cursor="10:29")
    assert shown(move) == "launch 10:30; cursor 10:30; wake 10:31; blocked"


def test_the_planner_runs_a_backfill_of_a_paused_schedule():
    move = planned_move(waiting("10:01"), paused=True)
    assert shown(move).startswith("attempt 1 of 10:01; ")


def test_the_planner_judges_by_the_overlap_that_was_asked_for():
    together = planned_move(*(waiting(tick, Overlap.ALLOW) for tick in ("10:01", "10:02")))
    assert shown(together).startswith("attempt 1 of 10:01; attempt 1 of 10:02; ")
    dropped = planned_move(
        *(waiting(tick, Overlap.SKIP) for tick in ("10:01", "10:02")), overlap=Overlap.ALLOW
    )
    assert shown(dropped).startswith("attempt 1 of 10:01; SKIPPED overlap 10:02; ")


def test_a_backfill_takes_no_place_in_the_queue_of_today():
    waits = [waiting("10:01"), waiting("10:02")]
    move = planned_move(
        run("10:29", run_until=None), *waits, cursor="10:29", overlap=Overlap.QUEUE, queue_limit=1,
        grace=10 * MINUTE,
    )  # fmt: skip
    assert shown(move).startswith("queue 10:30; cursor 10:30; ")
