"""The statements of a pass keep their shape: index scans, heap-only updates, and a deadline for each."""

from __future__ import annotations

import asyncio
import json

import asyncpg
from tests.stores.notation import MINUTE, T0, ending, make_moves, put, schedule

from dutiful.core.plan.reconcile import Changes
from dutiful.stores.postgres import PostgresStore, commit, reads, settle
from dutiful.stores.postgres.statements import LEAD, Values

SOME = 3000


def over(url, scenario):
    async def run():
        store = PostgresStore(url)
        await store.open()
        try:
            await store.lead("me")
            return await scenario(store)
        finally:
            await store.close()

    return asyncio.run(run())


async def fill(store, count=SOME, first=0):
    await store.apply(Changes([put(schedule(f"s{n:06}")) for n in range(first, first + count)]))


async def burst(store, now, count=SOME):
    """Launch and end everything that is due at an instant."""
    launches = (await store.commit(await make_moves(store, now, limit=count), 1)).launches
    await store.settle([ending(launch, now + 1) for launch in launches], 1)
    return launches


async def scans(store, statement, values):
    """Return (kind of scan, table) of each table that a statement of a pass would read now."""

    async def explain(session):
        return await session.value(f"EXPLAIN (FORMAT JSON) {statement}", *values)

    [plan] = json.loads(await store._opening.passes.work(explain))
    return {
        (node["Node Type"], node["Relation Name"]) for node in nodes(plan["Plan"]) if "Relation Name" in node
    }


def nodes(node):
    yield node
    for child in node.get("Plans", ()):
        yield from nodes(child)


async def statements(store, now):
    """Return the statements of a pass over some due schedules, each with its values."""
    fence = store.shard(0)._leading.fence
    moves = await make_moves(store, now, limit=5)
    launches = [(move.due.number, move.inserts[0], move.due.schedule) for move in moves]
    ended = [ending_of(number, run, of) for number, run, of in launches]
    values = Values(*fence)
    rows = [settle._row(n, each.number, each, each.run.attempt) for n, each in enumerate(ended)]
    settled = settle._statement(LEAD, values.rows((*settle._SETTLED, *settle._EFFECTS), rows), inline=False)
    return {
        "load": (reads._DUE, [fence.shard, now, 6, "default"]),
        "commit": commit._statement(fence, commit._parts(moves, range(len(moves)))),
        "settle": (settled, values.all),
    }


def ending_of(number, run, of):
    from dutiful.runtime.ports import Launch

    return ending(Launch(of, run, number), T0 + MINUTE)


LARGE_TABLES = {"states", "runs", "declarations"}


def test_no_statement_of_a_pass_reads_a_whole_table_also_when_it_was_last_analysed_empty(postgres_url):
    async def story(store):
        await execute(postgres_url, "ANALYZE states", "ANALYZE runs", "ANALYZE declarations")
        await fill(store)
        await burst(store, T0)
        found = {}
        for analysed in (False, True):
            if analysed:
                await execute(postgres_url, "ANALYZE states", "ANALYZE runs", "ANALYZE declarations")
            for name, (statement, values) in (await statements(store, T0 + MINUTE)).items():
                found[name, analysed] = {
                    table for kind, table in await scans(store, statement, values) if kind == "Seq Scan"
                } & LARGE_TABLES
        return found

    assert over(postgres_url, story) == {
        (name, analysed): set() for analysed in (False, True) for name in ("load", "commit", "settle")
    }


async def execute(url, *statements):
    connection = await asyncpg.connect(url)
    try:
        return [await connection.fetch(statement) for statement in statements]
    finally:
        await connection.close()


def test_the_end_of_a_run_rewrites_its_row_on_its_page_and_touches_no_index(postgres_url):
    async def story(store):
        await fill(store, 1000)
        for minute in range(2):
            assert len(await burst(store, T0 + minute * MINUTE)) == 1000

    over(postgres_url, story)
    # The sessions tell their counts when they end.
    counts = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'runs'::regclass"
    [[(updates, heap_only)]] = asyncio.run(execute(postgres_url, counts))
    assert updates == 2000
    assert heap_only >= 0.95 * updates


def test_every_statement_of_a_pass_has_a_deadline_and_a_plan_of_its_own(postgres_url):
    async def story(store):
        async def ask(session):
            names = [
                "plan_cache_mode",
                "statement_timeout",
                "lock_timeout",
                "idle_in_transaction_session_timeout",
            ]
            return [await session.value(f"SHOW {name}") for name in names]

        return await store._opening.passes.work(ask)

    assert over(postgres_url, story) == ["force_custom_plan", "4s", "2s", "2s"]


def test_a_thousand_runs_are_one_statement_for_their_launch_and_one_for_their_end(postgres_url, monkeypatch):
    asked = []

    async def story(store):
        await fill(store, 1000)
        await burst(store, T0)
        moves = await make_moves(store, T0 + MINUTE)
        from dutiful.stores.postgres.connections import Session

        for name in ("rows", "row", "value", "run", "run_each"):
            whole = getattr(Session, name)

            def noted(self, statement, *values, whole=whole):
                asked.append(statement)
                return whole(self, statement, *values)

            monkeypatch.setattr(Session, name, noted)
        launches = (await store.commit(moves, 1)).launches
        await store.settle([ending(launch, T0 + MINUTE) for launch in launches], 1)
        return len(launches)

    assert over(postgres_url, story) == 1000
    written = [statement for statement in asked if "INSERT" in statement or "kept" in statement]
    assert len(written) == 2
