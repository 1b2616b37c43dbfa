"""Ticks that come again because the clock was set back: each keeps the entry that it has, and has one."""

from __future__ import annotations

import pytest
from tests.core.plan.planner_notation import HOUR, at, decided, run, schedule, shown

from dutiful.core.cadence import Every, Once
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.clock_rollback import may_repeat, recorded
from dutiful.core.policy import CatchUp, Overlap, Reason
from dutiful.core.run import Phase, Status
from dutiful.core.schedule import SkippedRange, State

HOURLY = Cron.parse("0 * * * *")
PAUSED = schedule(HOURLY, paused=True)


def skipped(first, last, ticks, **changes):
    """Return a row of several ticks that were skipped."""
    ended = {"status": Status.SKIPPED, "reason": Reason.MISSED}
    return run(first, Phase.ENDED, run_until=at(last), ticks=ticks, **ended, **changes)


@pytest.mark.parametrize(
    ("declared", "decided_until", "expected"),
    [
        (schedule(), "10:01", True),
        (schedule(Once(at("11:00"))), "11:00", True),
        (schedule(), "10:00", False),
        (schedule(ledger=False), "10:01", False),
        (schedule(Every(HOUR, "start")), "11:00", False),
    ],
)
def test_ticks_come_again_where_a_cursor_is_behind_what_was_decided(declared, decided_until, expected):
    assert may_repeat(declared, State(at("10:00"), decided_until=at(decided_until))) is expected


def test_rows_cover_their_ticks_oldest_first():
    rows = [run("15:00"), skipped("11:00", "13:00", 3), run("10:00"), run("18:00")]
    expected = [(at("11:00"), at("13:00")), (at("15:00"), at("15:00"))]
    assert recorded(HOURLY, rows, at("10:00"), at("17:00")) == expected


def test_a_row_that_reaches_beyond_an_end_is_reported_whole():
    rows = [skipped("08:00", "11:00", 4), skipped("14:00", "20:00", 7)]
    expected = [(at("08:00"), at("11:00")), (at("14:00"), at("20:00"))]
    assert recorded(HOURLY, rows, at("10:00"), at("15:00")) == expected


def test_rows_of_another_kind_and_of_another_cadence_cover_no_ticks_but_those_they_take_the_key_of():
    rows = [
        run("12:00", kind="manual"),
        run("13:30"),
        skipped("14:00", "16:00", 121),
        skipped("17:10", "17:50", 41),
        skipped("17:55", "18:05", 1),
        skipped("19:00", "19:50", 1),
    ]
    assert recorded(HOURLY, rows, at("10:00"), at("20:00")) == [
        (at("14:00"), at("14:00")),
        (at("19:00"), at("19:00")),
    ]


def test_a_skip_leaves_out_ticks_that_have_rows():
    rows = [run("11:00"), skipped("13:00", "14:00", 2), run("17:00")]
    assert shown(decided(PAUSED, "18:30", "09:00", repeated=rows)) == (
        "skip paused 10:00; skip paused 12:00; skip paused 15:00-16:00 x2; skip paused 18:00; "
        "cursor 18:00; wake 19:00"
    )


def test_ticks_that_all_have_rows_are_passed_over():
    rows = [skipped("09:00", "20:00", 12)]
    move = decided(PAUSED, "18:30", "10:00", repeated=rows)
    assert (shown(move), move.state.skipped) == ("cursor 18:00; wake 19:00", None)


def test_a_stretch_grows_until_it_meets_a_row_and_begins_anew_behind_it():
    growing = SkippedRange(at("09:00"), Reason.PAUSED, 2)
    move = decided(PAUSED, "14:30", "10:00", repeated=[run("12:00")], skipped=growing)
    assert shown(move) == ("skip paused 13:00-14:00 x2; more paused 09:00-11:00 x3; cursor 14:00; wake 15:00")
    assert move.state.skipped == SkippedRange(at("13:00"), Reason.PAUSED, 2)


def test_a_stretch_that_ends_at_a_row_grows_no_more():
    growing = SkippedRange(at("09:00"), Reason.PAUSED, 2)
    move = decided(PAUSED, "12:30", "10:00", repeated=[run("12:00")], skipped=growing)
    assert (shown(move), move.state.skipped) == (
        "more paused 09:00-11:00 x3; cursor 12:00; wake 13:00",
        None,
    )


def test_without_rows_one_stretch_covers_all():
    move = decided(PAUSED, "12:30", "10:00")
    assert shown(move) == "skip paused 11:00-12:00 x2; cursor 12:00; wake 13:00"


def test_a_tick_that_has_a_row_is_passed_over_and_not_waited_for():
    hourly = schedule(HOURLY, overlap=Overlap.QUEUE, catch_up=CatchUp.FIRE_IMMEDIATELY)
    move = decided(hourly, "12:30", "10:00", repeated=[run("11:00", Phase.ENDED, status=Status.SUCCESS)])
    assert shown(move) == "launch 12:00; cursor 12:00; wake 13:00"
