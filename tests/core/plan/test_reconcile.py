"""Declared schedules against stored ones."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

from tests.core.plan.planner_notation import at, run, schedule

from dutiful.core.cadence import OnDemand
from dutiful.core.changes import Changes, Put
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.reconcile import Difference, Survey, reconcile
from dutiful.core.policy import Overlap, Policy
from dutiful.core.run import Phase
from dutiful.core.schedule import State, Task, Window
from dutiful.core.snapshot import Snapshot

NOW = State(at("10:00:30"))
HOURLY = Cron.parse("0 * * * *")


def arm(_):
    return NOW


def survey(*declared, known=None, undeclared=()):
    """Return what a store says of a declaration of which it knows one schedule, or none."""
    return Survey([(each, known) for each in declared], [*undeclared])


def test_a_new_schedule_is_added_and_woken_at_its_first_tick():
    new = schedule()
    assert reconcile(survey(new), arm) == (
        [Difference("s", "added")],
        Changes([Put(new, NOW, at("10:01"), version=0)], []),
    )


def test_a_new_schedule_without_ticks_has_no_wake():
    new = schedule(OnDemand())
    assert reconcile(survey(new), arm)[1] == Changes([Put(new, NOW, None, version=0)], [])


def test_a_kept_schedule_is_not_written():
    known = Snapshot(schedule(), State(at("09:00")))
    assert reconcile(survey(schedule(), known=known), arm) == ([], Changes([], []))


def test_utc_by_another_tzinfo_is_no_difference():
    named, own = (schedule(Cron.parse("0 * * * *", timezone=zone)) for zone in (ZoneInfo("UTC"), UTC))
    assert reconcile(survey(named, known=Snapshot(own, State(at("09:00")))), arm) == ([], Changes([], []))


def test_an_overridden_schedule_keeps_its_history():
    history = State(at("09:30"), runs_started=7, succeeded_at=at("09:31"))
    known, edited = Snapshot(schedule(), history), schedule(HOURLY, overlap=Overlap.QUEUE)
    assert reconcile(survey(edited, known=known), arm) == (
        [
            Difference(
                "s",
                "overridden",
                (
                    ("cadence", known.schedule.cadence, HOURLY),
                    ("policy", Policy(), Policy(overlap=Overlap.QUEUE)),
                ),
            )
        ],
        Changes([Put(edited, history, at("10:00"), version=0)], []),
    )


def test_task_and_window_are_declared_fields_too():
    edited = schedule(window=Window(at("11:00")))._replace(task=Task("task", "payload"))
    differences, _ = reconcile(survey(edited, known=Snapshot(schedule(), NOW)), arm)
    assert [name for name, _, _ in differences[0].changed] == ["task", "window"]


def test_the_operators_pause_is_no_difference():
    known = Snapshot(schedule(paused=True), NOW)
    assert reconcile(survey(schedule(), known=known), arm) == ([], Changes([], []))


def test_a_schedule_with_a_run_in_flight_is_orphaned():
    known = Snapshot(schedule(), NOW, [run("10:00")])
    assert reconcile(survey(schedule(), known=known), arm) == ([Difference("s", "orphaned")], Changes([], []))


def test_a_waiting_run_makes_no_orphan():
    known = Snapshot(schedule(), NOW, [run("10:00", Phase.QUEUED)])
    assert reconcile(survey(schedule(), known=known), arm)[0] == []


def test_an_edited_schedule_with_open_runs_is_looked_at_at_once():
    known, edited = Snapshot(schedule(), NOW, [run("10:00")]), schedule(HOURLY)
    differences, changes = reconcile(survey(edited, known=known), arm)
    assert [difference.kind for difference in differences] == ["orphaned"]
    assert changes == Changes([Put(edited, NOW, 0, version=0)], [])


def test_a_schedule_that_is_no_longer_declared_is_removed():
    assert reconcile(survey(undeclared=["a", "c"]), arm) == (
        [Difference("a", "removed"), Difference("c", "removed")],
        Changes([], ["a", "c"]),
    )


def test_nothing_declared_and_nothing_stored_is_nothing_to_do():
    assert reconcile(survey(), arm) == ([], Changes([], []))


def test_a_deploy_leaves_the_operators_pause():
    known, edited = Snapshot(schedule(paused=True), NOW), schedule(HOURLY)
    _, changes = reconcile(survey(edited, known=known), arm)
    assert [put.schedule for put in changes.puts] == [edited._replace(paused=True)]


def test_another_cadence_leaves_what_is_decided_on_record():
    state = State(at("10:00"), decided_until=at("18:00"))
    _, changes = reconcile(survey(schedule(HOURLY), known=Snapshot(schedule(), state, version=7)), arm)
    assert changes == Changes([Put(schedule(HOURLY), state, at("11:00"), version=7)], [])
