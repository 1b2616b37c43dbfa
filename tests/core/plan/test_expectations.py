"""Expectations: which of them a schedule misses at an instant."""

from __future__ import annotations

import pytest
from tests.core.plan.planner_notation import at, schedule

from dutiful.core.plan.expectations import Missed, missed_expectations
from dutiful.core.run import Phase, Run, Status
from dutiful.core.schedule import State, Window
from dutiful.core.snapshot import Snapshot

TEN = at("10:00")
SECOND, MINUTE = 1000, 60_000


def expecting(**policy):
    return schedule(**policy)


def missed(known, now, declared_at=0):
    return missed_expectations(known, declared_at, now)


def test_a_tick_is_late_when_it_has_not_started_in_time():
    known = Snapshot(expecting(start_within=5 * SECOND), State(cursor=TEN))
    due = TEN + MINUTE
    assert missed(known, due + 5 * SECOND) == []
    assert missed(known, due + 5 * SECOND + 1) == [Missed("start_within", due)]


def test_a_run_that_waits_in_a_queue_has_not_started():
    waiting = Run("a", TEN, "schedule", Status.ENQUEUED, Phase.QUEUED, TEN)
    known = Snapshot(expecting(start_within=5 * SECOND), State(cursor=TEN), [waiting])
    assert missed(known, TEN + 6 * SECOND) == [Missed("start_within", TEN)]
    started = waiting._replace(phase=Phase.LAUNCHED, started_at=TEN)
    assert missed(known._replace(runs=[started]), TEN + 6 * SECOND) == []


def test_a_run_is_to_end_in_time_counted_from_its_fire_time():
    run = Run("a", TEN, "schedule", Status.STARTED, Phase.LAUNCHED, TEN, started_at=TEN + SECOND)
    known = Snapshot(expecting(finish_within=10 * SECOND), State(cursor=TEN), [run])
    assert missed(known, TEN + 10 * SECOND) == []
    assert missed(known, TEN + 11 * SECOND) == [Missed("finish_within", TEN)]


@pytest.mark.parametrize(("succeeded_at", "since"), [(None, TEN), (TEN + MINUTE, TEN + MINUTE)])
def test_a_success_is_due_so_often_first_counted_from_the_declaration(succeeded_at, since):
    known = Snapshot(expecting(succeed_every=MINUTE), State(cursor=TEN, succeeded_at=succeeded_at))
    assert missed(known, since + MINUTE, TEN) == []
    assert missed(known, since + MINUTE + 1, TEN) == [Missed("succeed_every", since)]


def test_a_schedule_that_is_paused_or_over_misses_no_start():
    known = Snapshot(expecting(start_within=SECOND), State(cursor=TEN))
    later = TEN + 10 * MINUTE
    assert missed(known._replace(schedule=known.schedule._replace(paused=True)), later) == []
    assert missed(known._replace(schedule=known.schedule._replace(window=Window(None, TEN))), later) == []
