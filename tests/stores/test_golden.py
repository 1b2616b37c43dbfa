"""A database of the released schema stays readable; until the first release it is made anew by a script."""

from __future__ import annotations

import json
import sqlite3

import pytest
from tests.golden.make import FILE, SCHEDULES, golden
from tests.stores.notation import MINUTE, T0, due_at, pass_at, rows
from tests.stores.sqlite_rig import with_store

from dutiful.core.changes import Note
from dutiful.core.policy import Overlap, Reason
from dutiful.core.run import Phase, Run, Status
from dutiful.core.schedule import SkippedRange, State, tick_key
from dutiful.core.workflow import Workflow
from dutiful.stores.schema import migrations


@pytest.fixture
def path(tmp_path):
    """The database that the golden file describes."""
    path = tmp_path / "state.db"
    connection = sqlite3.connect(path)
    connection.executescript(FILE.read_text(encoding="utf-8"))
    connection.close()
    return path


def test_the_golden_file_is_what_the_script_makes():
    assert FILE.read_text(encoding="utf-8") == golden(), "run `python -m tests.golden.make`"


def test_there_is_one_schema_until_the_first_release():
    assert [migration.name for migration in migrations("sqlite")] == ["0001_init"]


def test_a_golden_schedule_is_what_it_was(path):
    async def look(store):
        assert await store.damaged() == []
        due = {each.schedule.id: each for each in await store.every()}
        assert [due[each].schedule for each in sorted(due)] == SCHEDULES
        now, ended = T0 + 2 * MINUTE, T0 + 2 * MINUTE + 10
        assert due["plain"].state == State(now, 3, now, succeeded_at=ended, ended_at=ended)
        assert due["paused"].state.skipped == SkippedRange(T0, Reason.PAUSED, 3)

    with_store(path, look)


def test_a_golden_ledger_is_what_it_was(path):
    async def look(store):
        [skipped] = await store.ledger("paused", None, 10)
        now = T0 + 2 * MINUTE
        assert skipped == Run(
            "paused",
            T0,
            "schedule",
            Status.SKIPPED,
            Phase.ENDED,
            T0,
            Reason.PAUSED,
            0,
            1,
            None,
            now,
            now,
            3,
            updated_at=now,
            created_at=T0,
        )
        [retry] = (await store.get("failing")).runs
        assert (retry.phase, retry.detail) == (Phase.RETRY, "exit status 1")
        busy = (await store.get("busy")).runs
        assert [(run.phase, run.run_id) for run in busy] == [(Phase.ACCEPTED, "job 7")] * 2
        assert await rows(store, "plain") == [(minute, "SUCCESS", "ended") for minute in (2, 1, 0)]

    with_store(path, look)


def test_a_golden_store_goes_on(path):
    async def go_on(store):
        assert await store.lead("me") == 2
        assert await due_at(store, 0) == ["busy", "failing", "once"]
        launched = {launch.run.schedule_id for launch in await pass_at(store, T0 + 3 * MINUTE, epoch=2)}
        assert launched >= {"plain", "failing", "once"}

    with_store(path, go_on)


def test_a_person_can_read_a_golden_file(path):
    connection = sqlite3.connect(path)
    wakes, decided, cadence = connection.execute(
        "SELECT wakes, decided_until, cadence FROM overview WHERE id = 'plain'"
    ).fetchone()
    connection.close()
    assert (wakes, decided) == ("2023-11-14 22:17:00", "2023-11-14 22:16:00")
    assert json.loads(cadence)["text"] == "* * * * *"


def test_what_the_service_has_left_is_what_it_was(path):
    async def look(store):
        [due] = await store.every()
        assert due.schedule.task.payload == (
            '{"workflow_id":"report","version":3,"user_id":"ada","labels":{"team":"é日"}}'
        )
        assert await store.notes(["nightly"]) == {
            "nightly": Note(T0 + MINUTE, "moving house", T0 + MINUTE, "ada")
        }
        workflow = Workflow("report", 3, "ada", '{"nodes":["\\u00e9\\u65e5"]}', T0)
        assert await store.load_workflow("report", 3) == workflow
        rest, backfilled, skipped, started = await store.ledger("nightly", None, 10)
        assert [row.reason for row in (rest, skipped)] == [Reason.PAUSED] * 2
        assert (backfilled.backfill, backfilled.detail) == (Overlap.ALLOW, "exit status 1")
        assert (started.status, started.phase, started.run_id) == (Status.STARTED, Phase.ACCEPTED, "job 9")
        for row in (backfilled, started):
            assert (await store.find(tick_key("nightly", row.run_at))).run == row
            assert None not in (row.created_at, row.updated_at)

    with_store(path, look, namespace="service")


def test_a_golden_inline_run_is_what_it_was(path):
    async def look(store):
        [due] = await store.every()
        started = Run("inline", T0, "schedule", Status.STARTED, Phase.LAUNCHED, T0, None, 1, 1, T0)
        assert [*due.runs] == [started]

    with_store(path, look, namespace="inline")


def test_a_person_can_read_what_the_service_has_left(path):
    connection = sqlite3.connect(path)
    columns = "cron_expr, timezone, pause_note, pause_until, labels"
    [schedule] = connection.execute(f"SELECT {columns} FROM schedules")
    runs = connection.execute(
        'SELECT run_at, status, "trigger" FROM schedule_runs ORDER BY run_at'
    ).fetchall()
    connection.close()
    until = "2023-11-26T12:00:40.000Z"
    assert schedule == ("*/1 * * * *", "Europe/Berlin", "moving house", until, '{"team":"é日"}')
    assert runs[0] == ("2023-11-14T22:15:00.000Z", "STARTED", "schedule")
    assert runs[2] == ("2023-11-14T22:17:00.000Z", "FAILED", "backfill")
