"""The log of the service: every decision in one record, with its reason; trouble as warnings."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing

import pytest
from tests.core.plan.planner_notation import at, run
from tests.service.rig import given, play

from dutiful.core import event as happened
from dutiful.core.policy import Reason
from dutiful.core.run import Phase, Status
from dutiful.service import event_log

NOW = at("10:09")
FAILED = run("10:01", Phase.ENDED, status=Status.FAILED, reason=Reason.LOST_RUN, detail="gone")
SKIPPED = run("10:01", Phase.ENDED, status=Status.SKIPPED, reason=Reason.OVERLAP, ticks=3)
EVENTS = [
    (happened.RunLaunched(NOW, run("10:01"), 12), "launched", {"lateMs": 12, "attempt": 1}),
    (happened.RunHeld(NOW, run("10:01", Phase.QUEUED)), "held", {"fireAt": "2026-01-05T10:01:00+00:00"}),
    (happened.TicksSkipped(NOW, SKIPPED), "skipped", {"reason": "overlap", "ticks": 3}),
    (happened.RunSettled(NOW, run("10:01", Phase.ENDED, status=Status.SUCCESS)), "success", {}),
    (happened.RunEndedByPlan(NOW, FAILED), "failed", {"reason": "lost_run", "detail": "gone"}),
    (happened.ScheduleQuarantined(NOW, "s", "no"), "quarantined", {"schedule": "s", "error": "no"}),
    (happened.LeadershipChanged(NOW, 3), "leading", {"epoch": 3}),
    (happened.LeadershipChanged(NOW, None), "standby", {}),
    (happened.PassFailed(NOW, "no"), "pass failed", {"error": "no"}),
    (happened.ClockStepped(NOW, -5000), "clock stepped", {"byMs": -5000}),
    (happened.ClockOff(NOW, 700), "clock off", {"byMs": 700}),
    (happened.ScheduleDamaged(NOW, "s", "no"), "damaged", {"schedule": "s", "problem": "no"}),
    (happened.EngineStopped(NOW, "no"), "engine stopped", {"error": "no"}),
    (happened.LoopBlocked(NOW, "t", 2.5), "event loop blocked", {"task": "t", "seconds": 2.5}),
]
WARNINGS = {"failed", "quarantined", "pass failed", "clock stepped", "clock off", "event loop blocked"}
ERRORS = {"damaged", "engine stopped"}


@pytest.mark.parametrize(("event", "name", "facts"), EVENTS, ids=[name for _, name, _ in EVENTS])
def test_every_event_is_one_record(event, name, facts, caplog):
    with caplog.at_level(logging.INFO, logger="dutiful.service"):
        event_log.write(event)
    [record] = caplog.records
    assert record.event["name"] == name
    assert record.event["at"] == "2026-01-05T10:09:00+00:00"
    assert record.event.items() >= facts.items()
    assert record.levelname == ("ERROR" if name in ERRORS else "WARNING" if name in WARNINGS else "INFO")
    assert record.getMessage().startswith(name)


def test_a_detail_of_several_lines_is_one_line_of_the_log_and_whole_in_the_record(caplog):
    detail = "no\x1b[2J\nsuccess schedule=forged"
    with caplog.at_level(logging.INFO, logger="dutiful.service"):
        event_log.write(happened.RunSettled(NOW, FAILED._replace(detail=detail)))
    [record] = caplog.records
    assert record.getMessage().endswith(r" detail=no\x1b[2J\nsuccess schedule=forged")
    assert record.event["detail"] == detail


def test_the_record_of_a_run_that_raised_has_the_trace(caplog):
    error = ValueError("boom")
    with caplog.at_level(logging.INFO, logger="dutiful.service"):
        event_log.write(happened.RunSettled(NOW, FAILED, error))
        event_log.write(happened.RunSettled(NOW, FAILED))
    assert [record.exc_info for record in caplog.records] == [(ValueError, error, None), None]


def test_what_nobody_hears_is_not_put_into_words(caplog):
    with caplog.at_level(logging.ERROR, logger="dutiful.service"):
        event_log.write(happened.PassFailed(NOW, "no"))
    assert caplog.records == []


def test_a_clock_that_is_off_by_five_seconds_is_an_error(caplog):
    with caplog.at_level(logging.WARNING, logger="dutiful.service"):
        event_log.write(happened.ClockOff(NOW, -5000))
        event_log.write(happened.ClockOff(NOW, 4999))
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_a_schedule_that_is_damaged_while_the_service_runs_is_one_error_and_the_others_run(caplog):
    async def story(rig):
        await rig.registrar.upsert_schedule(given(schedule_id="broken"))
        await rig.registrar.upsert_schedule(given(schedule_id="whole", overlap_policy="allow"))
        with closing(sqlite3.connect(rig.path)) as connection, connection:
            connection.execute("UPDATE declarations SET payload = 'x' WHERE id = 'broken'")
        await rig.clock.advance(180)
        return [meta.schedule_id for meta in rig.calls.metas]

    with caplog.at_level(logging.ERROR, logger="dutiful.service"):
        assert play(story) == ["whole"] * 3
    [record] = caplog.records
    problem = "declaration: the row was changed outside dutiful: its checksum does not match"
    expected = {
        "name": "damaged",
        "at": "2026-01-05T10:01:00+00:00",
        "schedule": "broken",
        "problem": problem,
    }
    assert (record.levelname, record.event) == ("ERROR", expected)
    assert record.getMessage() == f"damaged schedule=broken problem={problem}"
