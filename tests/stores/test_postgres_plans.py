"""The statements of an engine use the indexes made for them, and read few pages of large tables."""

from __future__ import annotations

import json

import asyncpg
from tests.stores.notation import MINUTE, T0, ending, make_moves, put, schedule
from tests.stores.postgres_rig import over_leader

from dutiful.core.changes import Changes
from dutiful.core.policy import Capacity
from dutiful.runtime.ports import Launch
from dutiful.stores.postgres import commit, locked_rows, membership, reads, settle, upkeep
from dutiful.stores.postgres.due_index import BEGINNING
from dutiful.stores.postgres.statements import LEAD, Values

DUE, OTHERS = 5, 20_000
NOW = T0 + MINUTE
# Rows like the first of each table, for schedules that are due much later and have run once.
_OTHERS = {
    "declarations": ("number", {"number": "1000000 + n", "id": "'other-' || n"}),
    "states": ("number", {
        "number": "1000000 + n", "wake_at": f"{T0} + 86400000 + n", "capacity_group": "'g' || n / 10",
    }),
    "runs": ("schedule", {"schedule": "1000000 + n", "run_at": "run_at - n"}),
}  # fmt: skip
_COLUMNS = (
    "SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped"
    " AND attgenerated = ''"
)
_TABLES = ("states", "runs", "declarations")


async def execute(url, *statements):
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def fill(store, url):
    """Declare a few schedules that have run once, and many others."""
    group = Capacity("g7", 99)
    await store.apply(Changes([put(schedule(f"s{n}", capacity=group)) for n in range(DUE)]))
    launches = (await store.commit(await make_moves(store, T0), 1)).launches
    await store.settle([ending(launch, T0 + 1) for launch in launches], 1)
    connection = await asyncpg.connect(url)
    for table, (number, changed) in _OTHERS.items():
        names = [name for [name] in await connection.fetch(_COLUMNS, table)]
        await connection.execute(
            f"INSERT INTO {table} ({', '.join(names)}) OVERRIDING SYSTEM VALUE"
            f" SELECT {', '.join(changed.get(name, name) for name in names)}"
            f" FROM {table}, generate_series(1, {OTHERS}) AS n WHERE {number} = 1"
        )
    await connection.close()


async def statements(store):
    """Return the statements of an engine over the due schedules, each with its values."""
    fence, database = store.shard(0)._leading.fence, store._database
    moves = await make_moves(store, NOW, limit=DUE)
    numbers, values = [move.due.number for move in moves], Values(*fence)
    launches = [Launch(move.due.schedule, move.inserts[0], move.due.number) for move in moves]
    ended = [ending(launch, NOW) for launch in launches]
    rows = [settle._row(n, each.number, each, each.run.attempt) for n, each in enumerate(ended)]
    settled = settle._statement(LEAD, values.rows((*settle._SETTLED, *settle._EFFECTS), rows), inline=False)
    look = "default", database.shard_class, database.node_class, False, [BEGINNING], [1, 2]
    pruned = numbers, [0] * DUE, [NOW] * DUE, DUE
    kept = numbers, [9] * DUE, [0] * DUE, DUE
    ahead = f"{reads._STORED} AND {upkeep._AHEAD}"
    return {
        "load": (reads._DUE, [fence.shard, NOW, DUE + 1, "default", BEGINNING, [1, 2]]),
        "open runs": (reads._OPEN, [numbers, [T0] * DUE]),
        "used slots": (reads._IN_FLIGHT, [fence.shard, ["g7"]]),
        "commit": commit._statement(fence, commit._parts(moves, range(len(moves)))),
        "settle": (settled, values.all),
        "look": (membership._LOOK, look),
        "locked": (locked_rows._LOCKED_STATES, [numbers]),
        "locked runs": (
            locked_rows._LOCKED_RUNS,
            [numbers, [launch.run.run_at for launch in launches], ["schedule"] * DUE],
        ),
        "prune, next": (upkeep._NEXT_SLICE, [fence.shard, 0, DUE, 0]),
        "prune": (upkeep._PRUNE, pruned),
        "prune, nothing": (upkeep._PRUNE, kept),
        "rearm, which": (ahead, ["default", fence.shard, NOW + 10 * MINUTE]),
    }


async def tried(store, statement, values):
    """Return the indexes a statement used, the large tables it read whole, and how many pages it read."""

    async def explain(session):
        # Nothing of the statement stays: it is undone before its transaction ends.
        async with session.transaction():
            await session.run("SAVEPOINT before")
            answer = await session.value(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", *values)
            await session.run("ROLLBACK TO before")
        return answer

    [explained] = json.loads(await store._database.passes.work(explain))
    plan = explained["Plan"]
    used = [*nodes(plan)]
    return (
        {node["Index Name"] for node in used if node.get("Index Name", "").startswith(_TABLES)},
        {node["Relation Name"] for node in used if node["Node Type"] == "Seq Scan"} & {*_TABLES},
        plan["Shared Hit Blocks"] + plan["Shared Read Blocks"],
    )


def nodes(node):
    yield node
    for child in node.get("Plans", ()):
        yield from nodes(child)


# The indexes that each statement uses, and about twice the pages that it reads for a few schedules. To read a
# table of all schedules row by row, through whatever index, takes more than 20,000.
EXPECTED = {
    "load": ({"states_due", "declarations_pkey", "declarations_damaged"}, 50),
    "open runs": ({"runs_schedule"}, 40),
    "used slots": ({"states_group", "declarations_pkey"}, 100),
    "commit": ({"states_pkey"}, 130),
    "settle": ({"runs_schedule", "states_pkey", "states_group"}, 50),
    "look": ({"states_due"}, 30),
    "locked": ({"states_pkey", "states_group"}, 100),
    "locked runs": ({"runs_schedule"}, 100),
    "prune, next": ({"states_pkey", "declarations_pkey", "runs_schedule"}, 50),
    "prune": ({"runs_schedule", "states_pkey"}, 120),
    "prune, nothing": ({"runs_schedule", "states_pkey"}, 60),
}
# The schedules that a wrong clock has written are looked for when a leadership begins or a clock steps. That
# reads each page of the states once, and nothing else for each row.
REARM = 2000


def test_statements_use_their_indexes_and_read_few_pages(postgres_url):
    async def story(store):
        await execute(postgres_url, *(f"ANALYZE {table}" for table in _TABLES))
        await fill(store, postgres_url)
        stale = {name: await tried(store, *each) for name, each in (await statements(store)).items()}
        await execute(postgres_url, *(f"ANALYZE {table}" for table in _TABLES))
        return stale, {name: await tried(store, *each) for name, each in (await statements(store)).items()}

    stale, analysed = over_leader(postgres_url, story)
    for found in (stale, analysed):
        _, read_whole, pages = found.pop("rearm, which")
        assert (read_whole, pages < REARM) == (set(), True), pages
        assert {name: (indexes, whole) for name, (indexes, whole, _) in found.items()} == {
            name: (EXPECTED[name][0], set()) for name in found
        }
        assert {name: pages for name, (*_, pages) in found.items() if pages > EXPECTED[name][1]} == {}
