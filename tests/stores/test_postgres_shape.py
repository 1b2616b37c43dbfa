"""The statements of a pass keep their shape: index scans, heap-only updates, and a deadline for each."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json

import asyncpg
import pytest
from tests.stores.contract_pauses import UNTIL, pause
from tests.stores.notation import MINUTE, T0, declare, ending, make_moves, put, schedule
from tests.stores.postgres_rig import over_leader

from dutiful.core.cadence import Once
from dutiful.core.changes import Changes, Note
from dutiful.core.plan.outcome import Unreached
from dutiful.core.policy import Retry
from dutiful.runtime.clock import boottime
from dutiful.runtime.ports import Retention
from dutiful.runtime.registrar import end_pauses
from dutiful.stores.postgres import commit, reads, settle
from dutiful.stores.postgres.connections import Session
from dutiful.stores.postgres.due_index import BEGINNING, DueFrom
from dutiful.stores.postgres.statements import LEAD, Values

SOME = 3000


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

    [plan] = json.loads(await store._database.passes.work(explain))
    return {
        (node["Node Type"], node["Relation Name"]) for node in nodes(plan["Plan"]) if "Relation Name" in node
    }


def nodes(node):
    yield node
    for child in node.get("Plans", ()):
        yield from nodes(child)


async def statements(store, now, limit):
    """Return the statements of a pass over some due schedules, each with its values."""
    fence = store.shard(0)._leading.fence
    moves = await make_moves(store, now, limit=limit)
    launches = [(move.due.number, move.inserts[0], move.due.schedule) for move in moves]
    ended = [ending_of(number, run, of) for number, run, of in launches]
    values = Values(*fence)
    rows = [settle._row(n, each.number, each, each.run.attempt) for n, each in enumerate(ended)]
    settled = settle._statement(LEAD, values.rows((*settle._SETTLED, *settle._EFFECTS), rows), inline=False)
    return {
        "load": (reads._DUE, [fence.shard, now, limit + 1, "default", BEGINNING, []]),
        "commit": commit._statement(fence, commit._parts(moves, range(len(moves)))),
        "settle": (settled, values.all),
    }


def ending_of(number, run, of):
    from dutiful.runtime.ports import Launch

    return ending(Launch(of, run, number), T0 + MINUTE)


LARGE_TABLES = {"states", "runs", "declarations"}
# A few schedules, and every second one, for which the planner would rather read a table whole.
LIMITS = (5, SOME // 2)


def test_no_statement_of_a_pass_reads_a_whole_table_also_when_it_was_last_analysed_empty(postgres_url):
    async def story(store):
        await execute(postgres_url, "ANALYZE states", "ANALYZE runs", "ANALYZE declarations")
        await fill(store)
        await burst(store, T0)
        found = {}
        for analysed, limit in itertools.product((False, True), LIMITS):
            if analysed:
                await execute(postgres_url, "ANALYZE states", "ANALYZE runs", "ANALYZE declarations")
            for name, (statement, values) in (await statements(store, T0 + MINUTE, limit)).items():
                found[name, analysed, limit] = {
                    table for kind, table in await scans(store, statement, values) if kind == "Seq Scan"
                } & LARGE_TABLES
        return found

    assert over_leader(postgres_url, story) == {
        (name, analysed, limit): set()
        for analysed in (False, True)
        for limit in LIMITS
        for name in ("load", "commit", "settle")
    }


async def execute(url, *statements):
    connection = await asyncpg.connect(url)
    try:
        return [await connection.fetch(statement) for statement in statements]
    finally:
        await connection.close()


# The due index under a transaction that stays open


@contextlib.asynccontextmanager
async def held_snapshot(url):
    """Keep a transaction open, as a backup does: the server keeps every row version from now on."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetch("SELECT 1 FROM states LIMIT 1")
            yield
    finally:
        await connection.close()


async def pages_read(store, statement, *values):
    """Return how many pages a statement reads."""

    async def explain(session):
        return await session.value(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", *values)

    [answer] = json.loads(await store._database.passes.work(explain))
    return answer["Plan"]["Shared Hit Blocks"] + answer["Plan"]["Shared Read Blocks"]


def test_under_a_held_snapshot_a_bound_spares_the_due_query_the_moves_since(postgres_url):
    async def story(store):
        await fill(store, 2000)
        async with held_snapshot(postgres_url):
            for minute in range(3):
                assert len(await burst(store, T0 + minute * MINUTE)) == 2000
            shard, now = store.shard(0)._leading.fence.shard, T0 + 2 * MINUTE + 1
            return [
                await pages_read(store, reads._DUE, shard, now, 9, "default", since, [])
                for since in (BEGINNING, T0 + 2 * MINUTE + 1)
            ]

    every_move, bounded = over_leader(postgres_url, story)
    assert every_move > 1000
    assert bounded < 100


def test_a_slow_query_from_the_beginning_is_followed_by_bounded_ones_for_twenty_times_as_long():
    due_from = DueFrom()
    assert due_from.at(100.0) == BEGINNING
    due_from.found(T0, T0 + MINUTE, 100.0, 100.004)
    assert due_from.at(100.005) == BEGINNING, "it was quick enough to be repeated"
    due_from.found(T0 - 5, T0 + 2 * MINUTE, 101.0, 101.1)
    assert [due_from.at(time) for time in (101.1, 103.0, 103.2)] == [T0 - 5, T0 - 5, BEGINNING]


def test_the_bound_leaves_a_minute_for_wakes_that_are_written_late():
    due_from = DueFrom()
    due_from.found(None, T0 + 2 * MINUTE, 101.0, 101.1)
    assert due_from.at(101.1) == T0 + MINUTE


def test_a_hint_during_a_query_leads_to_another_one_from_the_beginning():
    due_from = DueFrom()
    due_from.forget(101.05)
    due_from.found(T0, T0, 101.0, 101.1)
    assert due_from.at(101.1) == BEGINNING


def test_the_retry_of_a_run_is_found_at_once_also_while_queries_are_bounded(postgres_url):
    async def story(store):
        await declare(store, schedule("a", Once(T0), launch_retry=Retry(1000), run_timeout=None))
        [launch] = (await store.commit(await make_moves(store, T0), 1)).launches
        store._database.due_from[0] = DueFrom(slow_s=0, rest=1e9)
        assert (await store.load(T0 + 60 * MINUTE, 9)).batch.due == []
        await store.settle([ending(launch, T0 + 5, Unreached("no route"))], 1)
        return [due.schedule.id for due in (await store.load(T0 + 60 * MINUTE, 9)).batch.due]

    assert over_leader(postgres_url, story) == ["a"]


def test_a_wake_long_past_is_found_at_once_after_an_edit_also_while_queries_are_bounded(postgres_url):
    async def story(store):
        await store.apply(Changes([put(schedule("later"), T0 + 9 * MINUTE)]))
        store._database.due_from[0] = DueFrom(slow_s=0, rest=1e9)
        assert (await store.load(T0 + 8 * MINUTE, 9)).batch.due == []
        assert store._database.due_from[0].at(boottime()) == T0 + 7 * MINUTE
        await declare(store, schedule("owed"))
        return [due.schedule.id for due in (await store.load(T0 + 8 * MINUTE, 9)).batch.due]

    assert over_leader(postgres_url, story) == ["owed"]


# Updates of rows


def test_the_end_of_a_run_rewrites_its_row_on_its_page_and_touches_no_index(postgres_url):
    async def story(store):
        await fill(store, 1000)
        for minute in range(2):
            assert len(await burst(store, T0 + minute * MINUTE)) == 1000

    over_leader(postgres_url, story)
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

        return await store._database.passes.work(ask)

    assert over_leader(postgres_url, story) == ["force_custom_plan", "4s", "2s", "2s"]


@pytest.fixture
def asked(monkeypatch):
    """All statements of sessions, as they are executed."""
    statements = []
    for name in ("rows", "row", "value", "run", "run_each"):
        whole = getattr(Session, name)

        def noted(self, statement, *values, whole=whole):
            statements.append(statement)
            return whole(self, statement, *values)

        monkeypatch.setattr(Session, name, noted)
    return statements


def test_a_thousand_runs_are_one_statement_for_their_launch_and_one_for_their_end(postgres_url, asked):
    async def story(store):
        await fill(store, 1000)
        await burst(store, T0)
        moves = await make_moves(store, T0 + MINUTE)
        asked.clear()
        launches = (await store.commit(moves, 1)).launches
        await store.settle([ending(launch, T0 + MINUTE) for launch in launches], 1)
        return len(launches)

    assert over_leader(postgres_url, story) == 1000
    written = [statement for statement in asked if "INSERT" in statement or "kept" in statement]
    assert len(written) == 2


def test_the_ends_of_many_pauses_take_no_more_statements_than_that_of_one(postgres_url, asked):
    async def story(store):
        counts = []
        for first, count in ((0, 1), (10, 300)):
            names = [f"s{n:03}" for n in range(first, first + count)]
            await pause(store, *names)
            asked.clear()
            assert await end_pauses(store.apply, await store.some(names), UNTIL, 1)
            counts.append(len(asked))
            [entries] = {len(await store.ledger(name, None, 9)) for name in names}
            assert (entries, {*(await store.notes(names)).values()}) == (1, {Note(UNTIL)})
        return counts

    one, many = over_leader(postgres_url, story)
    # The first one also looked for the texts of the schedule.
    assert many <= one


def test_a_prune_looks_only_into_ledgers_that_have_grown_or_grown_old(postgres_url, asked):
    day = 24 * 60 * MINUTE

    async def story(store):
        await fill(store, 300)
        await burst(store, T0)
        looked = []
        for minute in (120, 121, 122, 26 * 60, 3 * 24 * 60):
            if minute == 122:
                await burst(store, T0 + 122 * MINUTE, 1)
            asked.clear()
            deleted = await store.prune(T0 + minute * MINUTE, Retention(age=2 * day))
            looked.append((sum("DELETE FROM runs" in each for each in asked), deleted))
        return looked

    # Into all, in two statements; into none; into one, which then has a second run and a range of missed
    # ticks; a day after the first into all again; at last all have expired.
    assert over_leader(postgres_url, story) == [(2, 0), (0, 0), (1, 0), (2, 0), (2, 302)]


# A long ledger of the first schedule, before its only row.
_LONGER = (
    "INSERT INTO runs (schedule, run_at, fire_at, epoch, created_at, attempt, ticks, kind, status, phase)"
    " SELECT schedule, run_at - n, fire_at - n, epoch, created_at, attempt, ticks, kind, status, phase"
    " FROM runs, generate_series(1, 24000) AS n WHERE schedule = 1"
)


@pytest.mark.parametrize(
    ("kept", "statements", "deleted", "left"),
    [(0, 3, 24_001 + 39, 0), (9_999, 3, 24_001 - 9_999, 9_999), (50_000, 10, 0, 24_001)],
)
def test_a_statement_of_a_prune_has_bounded_work(postgres_url, asked, kept, statements, deleted, left):
    """A statement for all rows of 200 schedules missed its deadline, and so nothing was ever deleted.

    Now each deletes 10,000 rows at most, of schedules that keep 200,000 rows at most.
    """

    async def story(store):
        await fill(store, 40)
        await burst(store, T0, 40)
        await execute(postgres_url, _LONGER)
        asked.clear()
        deleted = await store.prune(T0 + MINUTE, Retention(rows=kept))
        [[[left]]] = await execute(postgres_url, "SELECT count(*) FROM runs WHERE schedule = 1")
        return sum("DELETE FROM runs" in each for each in asked), deleted, left

    assert over_leader(postgres_url, story) == (statements, deleted, left)


def test_the_size_of_the_store_is_that_of_its_tables_and_indexes(postgres_url):
    async def story(store):
        before = await store.size()
        await fill(store, 1000)
        return before, await store.size()

    before, after = over_leader(postgres_url, story)
    assert 0 < before < after
