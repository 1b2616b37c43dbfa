"""The views of a PostgreSQL database: a person asks them what a service holds, and gets readable values."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime

from tests.service.rig import after, given, play
from tests.stores.postgres_rig import execute

from dutiful.core.plan.outcome import Failed

BEGAN = after(59 / 60)
# Every pass of every shard asks the server.
FEW_PASSES = {"DUTIFUL_SHARDS": "1", "TICK_MS": "60000"}
OVERVIEW = "namespace, id, task, paused, wakes, decided_until, attempted, succeeded, failed, problem"
SCHEDULES = (
    "schedule_id, workflow_id, version, user_id, cron_expr, timezone, start_at, end_at, next_run_at, paused,"
    " jitter_ms, overlap_policy, catchup_policy, updated_at, pause_note, paused_at, paused_by, pause_until,"
    " problem, namespace"
)
RUNS = (
    "idempotency_key, schedule_id, run_at, status, run_id, created_at, updated_at, fire_at, reason, attempt,"
    ' phase, "trigger", run_until, ticks, detail, namespace'
)


async def asked(url, columns, view, order):
    return [tuple(row) for row in await execute(url, f"SELECT {columns} FROM {view} ORDER BY {order}")]


async def fail(_meta):
    return Failed("exit status 1")


def test_each_view_shows_the_facts_with_readable_times(newest_postgres_url):
    url = newest_postgres_url

    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.registrar.upsert_schedule(
            given(
                schedule_id="rich", version=7, user_id="eve", cron_expr="30 2 * * 1-5",
                timezone="America/New_York", start_at=after(0), end_at=after(60 * 24), jitter_ms=250,
                overlap_policy="queue", catchup_policy="spread", labels={"team": "é"},
            )
        )  # fmt: skip
        await rig.registrar.pause_schedule("rich", True, "holiday", until=after(60), by="ada")
        await rig.clock.advance(2)
        [[labels]] = await execute(url, "SELECT labels FROM schedules WHERE schedule_id = 'rich'")
        return (
            await asked(url, OVERVIEW, "overview", "id"),
            await asked(url, SCHEDULES, "schedules", "schedule_id"),
            await asked(url, RUNS, "schedule_runs", "run_at"),
            json.loads(labels),
        )

    overview, schedules, runs, labels = play(
        story, behave=fail, start=BEGAN.isoformat(), **FEW_PASSES | {"DUTIFUL_STORE": url}
    )
    assert overview[0] == (
        *("service", "job", "workflow", False, after(2), after(1), after(1), None, after(1), None),
    )
    assert [row[:4] for row in overview[1:]] == [("service", "rich", "workflow", True)]
    job, rich = schedules
    assert job == (
        *("job", "report", "1", "ada", "* * * * *", "UTC", None, None, after(2), False, "0", "skip", "none"),
        *(BEGAN, None, None, None, None, None, "service"),
    )
    assert rich[:8] == (
        *("rich", "report", "7", "eve", "30 2 * * 1-5", "America/New_York", after(0), after(60 * 24)),
    )
    assert isinstance(rich[8], datetime)
    assert rich[9:] == (
        *(True, "250", "queue", "spread", BEGAN, "holiday", BEGAN, "ada", after(60), None, "service"),
    )
    assert labels == {"team": "é"}
    key = hashlib.sha256(b"job:1767607260").hexdigest()
    assert runs == [
        (
            *(key, "job", after(1), "FAILED", None, after(1), after(1), after(1), "task_failed", 1),
            *("ended", "schedule", None, 1, "exit status 1", "service"),
        )
    ]


def test_a_schedule_whose_texts_are_gone_or_no_json_is_still_shown(newest_postgres_url):
    url = newest_postgres_url

    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await execute(url, "DELETE FROM texts")
        await execute(url, "UPDATE declarations SET payload = '{'")
        await rig.registrar.list_schedules()
        shown = await asked(url, "schedule_id, workflow_id, cron_expr, problem", "schedules", "schedule_id")
        return shown, await asked(url, "id, cadence, problem", "overview", "id")

    schedules, overview = play(story, DUTIFUL_STORE=url, **FEW_PASSES)
    [(id_, workflow, cron, problem)] = schedules
    assert (id_, workflow, cron) == ("job", None, None)
    assert overview == [("job", None, problem)]
    assert problem
