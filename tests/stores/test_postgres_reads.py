"""What the pages ask of PostgreSQL is found by an index, however many schedules and runs there are."""

from __future__ import annotations

import json

from tests.stores.notation import T0, declare, ending, pass_at, schedule
from tests.stores.postgres_rig import execute, over

from dutiful.core.plan.outcome import Failed
from dutiful.runtime.ports import RunFilter
from dutiful.stores.postgres import figures, reads

MANY = 3000


async def fill(store):
    """Leave many schedules that ran once, of which a few failed."""
    await declare(store, *(schedule(f"s{n:04}") for n in range(MANY)))
    epochs = [await store.shard(place).lead("me") for place in range(2)]
    for place, epoch in enumerate(epochs):
        shard = store.shard(place)
        launches = await pass_at(shard, T0, epoch)
        outcomes = {f"s{n:04}": Failed("exit status 1") for n in range(0, MANY, MANY // 3)}
        await shard.settle([ending(each, T0 + 1, outcomes.get(each.schedule.id)) for each in launches], epoch)


def indexes_of(plan):
    return {
        plan.get("Index Name"),
        plan.get("Relation Name") if plan["Node Type"] == "Seq Scan" else None,
    } | {name for child in plan.get("Plans", ()) for name in indexes_of(child)}


def test_what_the_pages_ask_is_found_by_an_index(newest_postgres_url):
    url = newest_postgres_url

    async def story(store):
        await fill(store)
        for table in ("states", "runs", "declarations", "shards"):
            await execute(url, f"ANALYZE {table}")
        troubled = f"{reads._STORED} AND damage IS NULL AND {figures._TROUBLED}"
        soonest = reads._SOONEST.format(condition=" AND paused = 0")
        words = figures.NEWEST_FIRST | {"failed": " AND failed", "of_schedule": "$6::text IS NULL"}
        place = (2**62, 0, "", 0, None, 5000)
        asked = {
            "states_due": (soonest, "default", 5),
            "states_troubled": (troubled, "default", None, 5),
            "runs_failed": (
                figures._MATCHING.format(**words), "default", *place, "FAILED", None, None, None, 5
            ),
        }  # fmt: skip
        found = {}
        for index, (statement, *values) in asked.items():
            [[plan]] = await execute(url, f"EXPLAIN (FORMAT JSON) {statement}", *values)
            found[index] = indexes_of(json.loads(plan)[0]["Plan"])
        troubled = [due.schedule.id for due in await store.troubled(5)]
        failed = await store.runs(RunFilter(status="FAILED"), None, 5)
        soon = [due.schedule.id for due in await store.soonest(2)]
        return found, troubled, sorted(run.schedule_id for run in failed.runs), soon

    found, troubled, failed, soon = over(url, story, count=1, shards=2)
    for index, used in found.items():
        assert index in used, (index, used)
        assert used.isdisjoint({"states", "runs", "declarations"}), (index, used)
    assert troubled == failed == ["s0000", "s1000", "s2000"]
    assert soon == ["s0000", "s0001"]


def test_a_filter_by_failure_reaches_behind_many_other_runs(newest_postgres_url):
    """One failure lies behind more successes than a scan of the ledger reads."""

    async def story(store):
        await declare(store, schedule("old"), schedule("new"))
        await store.lead("me")
        launches = {each.schedule.id: each for each in await pass_at(store, T0)}
        await store.settle([ending(launches["old"], T0 + 1, Failed("exit status 1"))], 1)
        await execute(
            newest_postgres_url,
            "INSERT INTO runs (schedule, run_at, fire_at, epoch, created_at, attempt, ticks, kind, status,"
            " phase) SELECT number, $1::bigint + 1000 * n, 0, 1, 0, 1, 1, 'schedule', 'SUCCESS', 'ended'"
            " FROM declarations, generate_series(1, $2) AS n WHERE id = 'new'",
            T0, figures.SCAN_MAX + 1,
        )  # fmt: skip
        return await store.runs(RunFilter(status="FAILED"), None, 5)

    page = over(newest_postgres_url, story, count=1)
    assert ([run.schedule_id for run in page.runs], page.more_after) == (["old"], None)
