"""`dutiful store check` finds rows that do not fit together, and a copy notices writes of others."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner
from tests.stores.contract_requests import wanted
from tests.stores.notation import T0, declare, end, open_run, pass_at, report, schedule
from tests.stores.postgres_rig import execute, over
from tests.stores.sqlite_rig import edit

from dutiful.cli import store as store_commands
from dutiful.cli.main import cli
from dutiful.core.errors import StoreError
from dutiful.core.policy import Capacity
from dutiful.service.environment import VARIABLES
from dutiful.stores.postgres import PostgresStore
from dutiful.stores.sqlite import SqliteStore
from dutiful.stores.transfer import copy


async def fill(store):
    await declare(store, schedule("a"), schedule("b", capacity=Capacity("agents", 2)))
    await store.lead("me")
    launches = {launch.schedule.id: launch for launch in await pass_at(store, T0)}
    await end(store, launches["a"], T0 + 1)


async def fill_file(path, door="library"):
    store = SqliteStore(path)
    await store.open()
    await fill(store)
    await store.claim(door)
    await store.close()


def check(url):
    checked = CliRunner().invoke(cli, ["store", "check", url, "--json"])
    found = json.loads(checked.output)
    return checked.exit_code, [(each["id"], each["problem"]) for each in found["inconsistent"]]


OF_B = "(SELECT number FROM declarations WHERE id = 'b')"
WRONG = {
    "too many open": (
        f"UPDATE states SET open_runs = 3 WHERE number = {OF_B}",
        f"its state has open_runs 3, in_flight 1 and open_from {T0}, and its ledger 1, 1 and {T0}",
    ),
    "open and not found": (
        f"UPDATE states SET open_from = {T0 + 1} WHERE number = {OF_B}",
        f"its state has open_runs 1, in_flight 1 and open_from {T0 + 1}, and its ledger 1, 1 and {T0}",
    ),
    "an unknown word": (
        f"UPDATE runs SET reason = 'bored' WHERE schedule = {OF_B}",
        f"run at {T0}: the word 'bored' is unknown",
    ),
    "no state": (f"DELETE FROM states WHERE number = {OF_B}", "has no state"),
}


@pytest.mark.parametrize(("statement", "problem"), WRONG.values(), ids=WRONG)
def test_a_check_finds_rows_that_contradict_each_other(newest_postgres_url, statement, problem):
    url = newest_postgres_url
    over(url, fill, count=1)
    assert check(url) == (0, [])
    asyncio.run(execute(url, statement))
    assert check(url) == (1, [("b", problem)])


def test_a_check_finds_schedules_in_a_wrong_shard_and_states_of_nothing(newest_postgres_url):
    url = newest_postgres_url
    over(url, lambda store: declare(store, schedule("a")), count=1, shards=2)
    [[right]] = asyncio.run(execute(url, "SELECT shard FROM states"))
    wrong = 3 - right
    asyncio.run(execute(url, f"UPDATE states SET shard = {wrong}"))
    asyncio.run(
        execute(
            url,
            "INSERT INTO states (number, shard, version, cursor, runs_started) VALUES (99, $1, 1, 0, 0)",
            right,
        )
    )
    assert check(url) == (
        1,
        [
            ("", "the state 99 has no declaration"),
            ("a", f"is in shard {wrong}, and belongs to shard {right}"),
        ],
    )
    shown = CliRunner().invoke(cli, ["store", "check", url]).output
    assert "shard" in shown
    assert shown.count("none") == 2


def test_a_namespace_without_rows_is_told_by_check_and_copy(tmp_path):
    asyncio.run(fill_file(tmp_path / "state.db"))
    source = f"sqlite:{tmp_path}/state.db"
    told = "The namespace 'service' is empty; --namespace names another, such as service or fleet."
    for command in (["check", source], ["copy", source, f"sqlite:{tmp_path}/copy.db"]):
        shown = CliRunner().invoke(cli, ["store", *command, "--namespace", "service"]).output
        assert told in shown.splitlines()
    assert "is empty" not in CliRunner().invoke(cli, ["store", "check", source]).output


def test_a_check_finds_unreadable_runs_of_a_file(tmp_path):
    asyncio.run(fill_file(tmp_path / "a.db"))
    url = f"sqlite:{tmp_path / 'a.db'}"
    assert check(url) == (0, [])
    edit(tmp_path / "a.db", "UPDATE runs SET reason = 'bored' WHERE schedule = 1")
    assert check(url) == (1, [("a", f"run at {T0}: the word 'bored' is unknown")])


# Copies


def elsewhere(work):
    """Run a coroutine to its end beside the event loop, as another process would."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


EDITS = {
    "apply": lambda store, _: declare(store, schedule("c")),
    "request": lambda store, _: store.request(wanted("ab")),
    "report": lambda store, run: report(store, run, T0 + 5),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_edits_are_refused_while_a_namespace_is_copied_and_allowed_afterwards(newest_postgres_url, edit):
    async def story(copied, api):
        await fill(copied)
        run = await open_run(api, "b")
        await copied.close()
        await copied.open()
        await copied.begin_transfer()
        with pytest.raises(StoreError, match=r"is being copied to another store.*repeat the request at the"):
            await edit(api, run)
        await copied.close()
        await edit(api, run)

    over(newest_postgres_url, story)


def test_a_copy_during_which_something_was_written_fails(newest_postgres_url, tmp_path):
    url, pairs = newest_postgres_url, []

    async def story():
        await fill_file(tmp_path / "a.db")
        pairs.append((SqliteStore(tmp_path / "a.db"), PostgresStore(url)))
        await tried(*pairs[-1], lambda _: edit(tmp_path / "a.db", "UPDATE runs SET detail = 'late'"))
        pairs.append((SqliteStore(tmp_path / "a.db"), PostgresStore(url)))
        await tried(*pairs[-1], None)
        pairs.append((PostgresStore(url), SqliteStore(tmp_path / "b.db")))
        late = f"UPDATE runs SET detail = 'late' WHERE schedule = {OF_B}"
        await tried(*pairs[-1], lambda _: elsewhere(execute(url, late)))

    async def tried(source, target, progress):
        await source.open()
        await target.open()
        try:
            if progress is None:
                await copy(source, target)
                return
            with pytest.raises(StoreError, match="was written to during the copy"):
                await copy(source, target, progress)
        finally:
            await source.close()
            await target.close()

    asyncio.run(story())


@pytest.mark.parametrize(("door", "shards"), [("service", 16), ("library", 1)])
def test_a_copy_of_a_service_has_the_shards_of_a_service(newest_postgres_url, tmp_path, door, shards):
    asyncio.run(fill_file(tmp_path / "a.db", door))
    source = f"sqlite:{tmp_path / 'a.db'}"
    copied = CliRunner().invoke(cli, ["store", "copy", source, newest_postgres_url, "--json"])
    assert copied.exit_code == 0, copied.output
    [[made]] = asyncio.run(execute(newest_postgres_url, "SELECT shards FROM namespaces"))
    assert made == shards
    [default] = [each.default for each in VARIABLES if each.name == "DUTIFUL_SHARDS"]
    assert int(default) == store_commands._SHARDS_OF_A_SERVICE
