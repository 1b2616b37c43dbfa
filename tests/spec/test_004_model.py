"""004 §3, the data model: two tables that a person can read, with every column that it names."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest
from tests.service.rig import after, given, play

from dutiful.core.policy import CatchUp, Overlap
from dutiful.core.run import Status

SCHEDULES = (
    "schedule_id, workflow_id, version, user_id, cron_expr, timezone, start_at, end_at, next_run_at, paused,"
    " jitter_ms, overlap_policy, catchup_policy, updated_at"
)
SCHEDULE_RUNS = "idempotency_key, schedule_id, run_at, status, run_id, created_at, updated_at"


def table(rig, query):
    with closing(sqlite3.connect(rig.path)) as connection:
        return connection.execute(query).fetchall()


def test_3_schedules_has_every_column():
    async def story(rig):
        await rig.registrar.upsert_schedule(
            given(
                schedule_id="rich", workflow_id="w", version=7, user_id="eve", cron_expr="30 2 * * 1-5",
                timezone="America/New_York", start_at=after(0), end_at=after(60 * 24 * 30), jitter_ms=250,
                overlap_policy="queue", catchup_policy="spread", labels={"team": "é"},
            )
        )  # fmt: skip
        await rig.registrar.pause_schedule("rich", True, "holiday")
        [row] = table(rig, f"SELECT {SCHEDULES}, pause_note, labels FROM schedules")
        return row

    row = play(story)
    assert [*row[:8], *row[9:]] == [
        "rich", "w", 7, "eve", "30 2 * * 1-5", "America/New_York", "2026-01-05T10:00:00.000Z",
        "2026-02-04T10:00:00.000Z", 1, 250, "queue", "spread", "2026-01-05T10:00:00.000Z", "holiday",
        '{"team":"é"}',
    ]  # fmt: skip
    assert row[8].startswith("2026-01-06T07:")


def test_3_a_schedule_has_the_defaults_of_the_table():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        [row] = table(
            rig, "SELECT paused, jitter_ms, overlap_policy, catchup_policy, next_run_at FROM schedules"
        )
        return row

    assert play(story) == (0, 0, "skip", "none", "2026-01-05T10:01:00.000Z")


def test_3_schedule_runs_has_every_column():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.clock.advance(90)
        return table(rig, f"SELECT {SCHEDULE_RUNS} FROM schedule_runs")

    key = hashlib.sha256(b"job:1767607260").hexdigest()
    at = "2026-01-05T10:01:00.000Z"
    assert play(story) == [(key, "job", at, "ENQUEUED", "run 1", at, at)]


def test_3_the_key_is_unique_and_is_the_sha256_of_id_and_epoch():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(overlap_policy="allow"))
        await rig.clock.advance(300)
        await rig.registrar.trigger("job")
        return table(rig, "SELECT idempotency_key, strftime('%s', run_at), \"trigger\" FROM schedule_runs")

    rows = play(story)
    assert len({key for key, *_ in rows}) == len(rows) == 6
    for key, epoch, trigger in rows:
        assert (key == hashlib.sha256(f"job:{epoch}".encode()).hexdigest()) == (trigger == "schedule")


def test_3_the_policies_and_statuses_are_those_of_the_table_and_more():
    assert {*Overlap} >= {"allow", "skip", "queue"}
    assert {*CatchUp} >= {"none", "fire_immediately", "spread"}
    assert {*Status} == {"ENQUEUED", "STARTED", "SUCCESS", "FAILED", "SKIPPED"}


def test_3_a_deleted_schedule_leaves_no_rows():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.clock.advance(120)
        await rig.registrar.delete_schedule("job")
        return table(rig, "SELECT 1 FROM schedules UNION ALL SELECT 1 FROM schedule_runs")

    assert play(story) == []


def test_3_both_tables_only_show_what_is_the_services():
    async def story(rig):
        with closing(sqlite3.connect(rig.path)) as connection:
            connection.execute(
                "INSERT INTO declarations"
                " (namespace, id, task, payload, cadence_number, policy_number, paused, checksum)"
                " VALUES ('other', 'x', 'callback', 'no json', 1, 1, 0, 0)"
            )
            connection.commit()
        return table(rig, "SELECT count(*) FROM schedules"), table(rig, "SELECT count(*) FROM declarations")

    assert play(story) == ([(0,)], [(1,)])


@pytest.mark.parametrize("minutes", [1, 2])
def test_3_run_at_is_the_planned_time_and_fire_at_when_it_fires(minutes):
    async def story(rig):
        await rig.registrar.upsert_schedule(given(jitter_ms=20_000, overlap_policy="allow"))
        await rig.clock.advance(60 * minutes + 30)
        page = await rig.registrar.runs("job")
        return page.items[::-1]

    run = play(story)[minutes - 1]
    assert run.run_at == after(minutes)
    assert run.fire_at != run.run_at
    assert abs(run.fire_at - run.run_at) <= timedelta(seconds=20)
    assert run.created_at >= run.fire_at
