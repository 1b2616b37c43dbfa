"""A namespace is copied between durable stores: all rows, no tick lost, nothing overwritten."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from tests.stores.notation import MINUTE, T0, end, ending, pass_at, put, schedule

from dutiful.cli.main import cli
from dutiful.core.changes import Changes, Note
from dutiful.core.errors import NamespaceOwnedError, StoreError
from dutiful.core.plan.outcome import Failed
from dutiful.core.policy import Capacity, CatchUp, Overlap
from dutiful.core.workflow import PutWorkflow, Workflow
from dutiful.launchers.callback import CallbackLauncher
from dutiful.runtime.engine import Engine
from dutiful.stores.postgres import PostgresStore
from dutiful.stores.sqlite import SqliteStore
from dutiful.stores.transfer import COPYING, copy
from dutiful.testing import VirtualClock

pytestmark = pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)


async def fill(store):
    """Leave every kind of row: ended, in flight, waiting, paused, grouped, noted; one tick is owed."""
    kept = [
        schedule("ended"),
        schedule("flying", capacity=Capacity("agents", 1)),
        schedule("failed", catch_up=CatchUp.FIRE_IMMEDIATELY, overlap=Overlap.ALLOW),
        schedule("inline", ledger=False, run_timeout=None),
        schedule("paused", paused=True),
    ]
    workflow = Workflow("w", 1, "ada", "{}", T0)
    await store.apply(
        Changes(
            [put(each) for each in kept],
            notes=[("paused", Note(T0, "holiday", T0 - 1, "ada"))],
            facets=[("ended", [("user", "ada")])],
            workflows=[PutWorkflow(workflow)],
        )
    )
    await store.claim("library")
    await store.note_start("outside", T0, MINUTE)
    await store.lead("me")
    launches = {launch.schedule.id: launch for launch in await pass_at(store, T0)}
    await end(store, launches["ended"], T0 + 1)
    await store.settle([ending(launches["failed"], T0 + 1, Failed("oh"))], 1)
    return launches


async def contents(store):
    """Return everything that a store tells; numbers and versions are its own."""
    ids = ["ended", "failed", "flying", "inline", "paused"]
    return {
        "schedules": [(due.schedule, due.state, [*due.runs]) for due in await store.every()],
        "due": [due.schedule.id for due in (await store.load(T0 + 2 * MINUTE, 99)).batch.due],
        "used": (await store.load(T0 + 2 * MINUTE, 99)).batch.used,
        "ledgers": {id_: await store.ledger(id_, None, 99) for id_ in ids},
        "notes": await store.notes(ids),
        "found": [due.schedule.id for due in await store.page("", 9, [("user", "ada")])],
        "workflow": await store.load_workflow("w", 1),
        "started": await store.has_start("outside"),
    }


async def opened(*stores):
    for store in stores:
        await store.open()
    return stores


def test_everything_is_copied_there_and_back_and_no_tick_is_lost(postgres_url, tmp_path):
    async def story():
        first, second = SqliteStore(tmp_path / "a.db"), PostgresStore(postgres_url)
        third = SqliteStore(tmp_path / "b.db")
        await opened(first, second, third)
        launches = await fill(first)
        await first.close()
        await first.open()
        counts = await copy(first, second)
        assert counts == {
            "texts": counts["texts"], "declarations": 5, "states": 5, "runs": 5, "notes": 1, "facets": 1,
            "workflows": 1, "starts": 1,
        }  # fmt: skip
        await second.close()
        await second.open()
        assert await copy(second, third) == counts
        for store in (first, second, third):
            await store.close()
            await store.open()
            assert await store.lead("next") > max(launch.run.epoch for launch in launches.values())
        wholes = [await contents(store) for store in (first, second, third)]
        assert wholes[0] == wholes[1] == wholes[2]
        # A run in flight is adopted by the leader of the copy, and the next tick is launched there.
        epoch = await second.lead("next")
        again = {each.run.schedule_id: each.run for each in await pass_at(second, T0 + MINUTE, epoch)}
        flying = launches["flying"].run
        assert (again["flying"].run_at, again["flying"].attempt) == (flying.run_at, 2)
        assert again["ended"].run_at == T0 + MINUTE
        # Schedules that are added to the copy have numbers of their own.
        await second.apply(Changes([put(schedule("new"))]))
        assert len({due.number for due in await second.every()}) == 6
        for store in (first, second, third):
            await store.close()

    asyncio.run(story())


async def work_for(store, clock, seconds, started):
    """Run the schedules of a store for a while, and stop as `dutiful worker` does."""

    async def task():
        started.append(clock.epoch_ms())

    await store.open()
    engine = Engine(store, CallbackLauncher({"greet": task}), clock, lambda _: None, str(store))
    engine.start()
    await clock.advance(seconds)
    await engine.stop()
    await store.close()


async def move(source, target):
    """Copy a namespace while no process leads either store."""
    await opened(source, target)
    counts = await copy(source, target)
    await source.close()
    await target.close()
    return counts


def test_a_workload_moves_there_and_back_with_short_stops_and_every_tick_runs_once(postgres_url, tmp_path):
    async def story():
        clock, started = VirtualClock(datetime.fromtimestamp(T0 / 1000 - 30, UTC)), []
        home, cluster = SqliteStore(tmp_path / "a.db"), PostgresStore(postgres_url)
        home_again = SqliteStore(tmp_path / "b.db")
        await home.open()
        every_tick = {"catch_up": CatchUp.FIRE_IMMEDIATELY, "overlap": Overlap.ALLOW}
        await home.apply(Changes([put(schedule(f"s{n}", **every_tick)) for n in range(20)]))
        await work_for(home, clock, 200, started)
        there = await move(home, cluster)
        await clock.advance(150)
        await work_for(cluster, clock, 200, started)
        back = await move(cluster, home_again)
        await clock.advance(150)
        await work_for(home_again, clock, 200, started)
        await home_again.open()
        ledgers = [await home_again.ledger(f"s{n}", None, 99) for n in range(20)]
        await home_again.close()
        return there, back, ledgers, len(started), clock.epoch_ms()

    there, back, ledgers, started, now = asyncio.run(story())
    ticks = [*range(T0, now + 1, MINUTE)]
    assert [[run.run_at for run in reversed(ledger)] for ledger in ledgers] == [ticks] * 20
    assert {(run.status, run.attempt) for ledger in ledgers for run in ledger} == {("SUCCESS", 1)}
    assert started == 20 * len(ticks)
    assert (there["declarations"], back["declarations"]) == (20, 20)
    assert there["runs"] < back["runs"] < 20 * len(ticks)


def test_a_copy_is_refused_while_a_process_leads_and_into_what_is_not_empty(postgres_url, tmp_path):
    async def story():
        source, target = SqliteStore(tmp_path / "a.db"), PostgresStore(postgres_url)
        leader = PostgresStore(postgres_url)
        await opened(source, target, leader)
        await fill(source)
        await source.close()
        await source.open()
        await leader.lead("somebody")
        with pytest.raises(StoreError, match="A process leads the store that is written to"):
            await copy(source, target)
        await leader.apply(Changes([put(schedule())]))
        await leader.close()
        with pytest.raises(StoreError, match="is not empty"):
            await copy(source, target)
        assert [due.schedule.id for due in await target.every()] == ["a"]
        await source.close()
        await target.close()

    asyncio.run(story())


def test_a_copy_that_broke_off_belongs_to_no_door_and_is_begun_anew(postgres_url, tmp_path):
    async def story():
        source, target = SqliteStore(tmp_path / "a.db"), PostgresStore(postgres_url)
        await opened(source, target)
        await fill(source)
        await source.close()
        await source.open()
        await target.begin_transfer()
        await target.clear()
        await target.write_rows("texts", await source.read_rows("texts", None, 99), 0)
        await target.write_rows("declarations", await source.read_rows("declarations", None, 2), 0)
        with pytest.raises(NamespaceOwnedError, match=COPYING):
            await target.claim("library")
        assert (await copy(source, target))["declarations"] == 5
        await target.claim("library")
        await source.close()
        await target.close()

    asyncio.run(story())


def test_the_commands_migrate_copy_and_check(postgres_url, tmp_path):
    async def prepare():
        [store] = await opened(SqliteStore(tmp_path / "a.db"))
        await fill(store)
        await store.close()

    asyncio.run(prepare())
    source, run = f"sqlite:{tmp_path / 'a.db'}", CliRunner().invoke
    assert run(cli, ["store", "migrate", postgres_url]).output == "The schema is up to date.\n"
    copied = run(cli, ["store", "copy", source, postgres_url, "--shards", "4", "--json"])
    assert (copied.exit_code, json.loads(copied.output)["runs"]) == (0, 5)
    checked = run(cli, ["store", "check", postgres_url, "--json"])
    assert checked.exit_code == 0
    assert json.loads(checked.output)["rows"]["declarations"] == 5
    assert "Both stores have these rows" not in run(cli, ["store", "copy", source, postgres_url]).output
    unknown = run(cli, ["store", "check", postgres_url, "--namespace", "nobody"])
    assert unknown.output.endswith("leader: none\n")
    missing = run(cli, ["store", "check", "sqlite:nowhere.db"])
    assert (missing.exit_code, "there is no such file" in missing.output) == (2, True)
