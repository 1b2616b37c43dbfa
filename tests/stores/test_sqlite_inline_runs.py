"""Inline runs: stored in the state of their schedule, until a change needs a row of its own."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest
from tests.stores.notation import (
    MINUTE,
    T0,
    declare,
    end,
    ending,
    open_run,
    pass_at,
    put,
    report,
    rows,
    schedule,
)
from tests.stores.sqlite_rig import edit, with_store

from dutiful.core.changes import Changes
from dutiful.core.plan.outcome import Accepted, Failed
from dutiful.core.policy import Capacity, OnOrphan, Overlap, Retry
from dutiful.core.run import Phase, Run, Status
from dutiful.core.schedule import State
from dutiful.stores.memory import MemoryStore
from dutiful.stores.sqlite import SqliteStore

LAUNCHED = Run("a", T0, "schedule", Status.STARTED, Phase.LAUNCHED, T0, attempt=1, epoch=1, started_at=T0 + 5)
OPEN = (0, "STARTED", "launched")


def lone(id_="a", **policy):
    return schedule(id_, **{"run_timeout": None, "ledger": False, **policy})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


def told(path):
    """Return the inline runs that states tell of, and how many runs have rows of their own."""
    connection = sqlite3.connect(path)
    alone = connection.execute(
        "SELECT number, inline_at, inline_epoch FROM states WHERE inline_at IS NOT NULL"
    )
    answer = alone.fetchall(), connection.execute("SELECT count(*) FROM runs").fetchone()[0]
    connection.close()
    return answer


def test_an_inline_run_is_found_by_every_query_and_has_no_row(path):
    async def story(store):
        await declare(store, lone())
        await store.lead("me")
        [launch] = await pass_at(store, T0 + 5)
        assert launch.run == LAUNCHED
        assert told(path) == ([(1, T0, 1)], 0)
        assert await open_run(store) == LAUNCHED
        assert [[*due.runs] for due in await store.every()] == [[LAUNCHED]]
        assert await store.ledger("a", None, 10) == [LAUNCHED]
        assert await store.ledger("a", T0 - 1, 10) == []
        [due] = (await store.load(T0 + MINUTE, 10)).batch.due
        assert [*due.runs] == [LAUNCHED]

    with_store(path, story)


def test_the_end_of_an_inline_run_is_written_once(path):
    async def story(store):
        await declare(store, lone())
        await store.lead("me")
        [launch] = await pass_at(store, T0 + 5)
        twice = [ending(launch, T0 + 9), ending(launch, T0 + 10)]
        assert await store.settle(twice, 1) == [True, False]
        assert told(path) == ([], 0)
        due = await store.get("a")
        assert (due.state, due.runs) == (State(T0, 1, T0 + 5, T0 + 9, ended_at=T0 + 9), ())
        assert await end(store, launch, T0 + 11) is False

    with_store(path, story)


@pytest.mark.parametrize(
    ("outcome", "phase"), [(Failed("oh"), Phase.RETRY), (Accepted("7"), Phase.ACCEPTED)], ids=str
)
def test_an_inline_run_gets_a_row_when_it_does_not_just_end(path, outcome, phase):
    async def story(store):
        await declare(store, lone(retry=Retry(1000)), lone("b"))
        await store.lead("me")
        first, second = await pass_at(store, T0 + 5)
        # In one go with one that ends well.
        assert await store.settle([ending(first, T0 + 9, outcome), ending(second, T0 + 9)], 1) == [True, True]
        assert told(path) == ([], 1)
        assert (await open_run(store)).phase is phase
        assert (await store.get("b")).state.succeeded_at == T0 + 9

    with_store(path, story)


def test_an_inline_run_gets_a_row_when_another_run_begins_beside_it(path):
    async def story(store):
        await declare(store, lone(overlap=Overlap.ALLOW))
        await store.lead("me")
        [first] = await pass_at(store, T0 + 5)
        [second] = await pass_at(store, T0 + MINUTE)
        assert told(path) == ([], 2)
        assert await rows(store) == [(1, "STARTED", "launched"), OPEN]
        assert await store.settle([ending(second, T0 + MINUTE), ending(first, T0 + MINUTE)], 1) == [
            True,
            True,
        ]
        assert told(path) == ([], 0)

    with_store(path, story)


def test_an_inline_run_gets_a_row_when_its_schedule_is_edited(path):
    async def story(store):
        await declare(store, lone())
        await store.lead("me")
        [launch] = await pass_at(store, T0 + 5)
        await store.apply(Changes([put(lone(grace=1), T0 + MINUTE, T0)]))
        assert told(path) == ([], 1)
        assert await open_run(store) == LAUNCHED
        assert await end(store, launch, T0 + 9)
        assert told(path) == ([], 0)

    with_store(path, story)


def test_an_inline_run_gets_a_row_when_it_is_reported_on(path):
    async def story(store):
        await declare(store, lone())
        await store.lead("me")
        [launch] = await pass_at(store, T0 + 5)
        assert await report(store, launch.run, T0 + 9)
        assert await rows(store) == [(0, "SUCCESS", "ended")]

    with_store(path, story)


def test_an_inline_run_is_removed_with_its_schedule(path):
    async def story(store):
        await declare(store, lone())
        await store.lead("me")
        [launch] = await pass_at(store, T0 + 5)
        await store.apply(Changes(removes=["a"]))
        await declare(store, lone())
        assert await end(store, launch, T0 + 9) is False
        assert told(path) == ([], 0)

    with_store(path, story)


def test_the_next_leader_adopts_it(path):
    async def begin(store):
        await declare(store, lone(on_orphan=OnOrphan.RESTART))
        await store.lead("me")
        await pass_at(store, T0 + 5)

    async def adopt(store):
        assert await store.lead("heir") == 2
        [again] = await pass_at(store, T0 + 20, epoch=2)
        assert (again.run.run_at, again.run.attempt, again.run.epoch) == (T0, 2, 2)
        assert await store.settle([ending(again, T0 + 21)], 2) == [True]
        assert told(path) == ([], 0)

    with_store(path, begin)
    with_store(path, adopt)


def test_the_lone_runs_of_another_namespace_are_left_alone(path):
    async def begin(store):
        await declare(store, lone())
        await store.lead("me")
        await pass_at(store, T0 + 5)
        other = SqliteStore(path, namespace="other")
        await other.open()
        await other.lead("you")
        await other.rearm(T0, MINUTE)
        await other.close()
        assert told(path) == ([(1, T0, 1)], 0)

    with_store(path, begin)


def test_a_clock_that_was_far_ahead_has_its_lone_runs_brought_back(path):
    async def story(store):
        await declare(store, lone())
        await store.lead("me")
        await pass_at(store, T0 + 5)
        assert await store.rearm(T0 - 10 * MINUTE, MINUTE) == 1
        return await open_run(store)

    brought_back = asyncio.run(story(MemoryStore()))
    assert brought_back.run_at == T0 > brought_back.fire_at
    assert with_store(path, story) == brought_back


def test_a_survey_finds_it_at_work(path):
    async def story(store):
        await declare(store, lone())
        await store.lead("me")
        await pass_at(store, T0 + 5)
        [(_, due)] = (await store.survey([lone()])).differing
        assert [*due.runs] == [LAUNCHED]

    with_store(path, story)


@pytest.mark.parametrize(
    "policy",
    [{"ledger": True}, {"run_timeout": 30_000}, {"capacity": Capacity("g", 1)}],
    ids=["has a ledger", "times out before its next tick", "shares places"],
)
def test_a_run_that_a_state_cannot_hold_has_a_row_at_once(path, policy):
    async def story(store):
        await declare(store, lone(**policy))
        await store.lead("me")
        await pass_at(store, T0 + 5)
        assert told(path) == ([], 1)

    with_store(path, story)


def test_a_tick_that_was_decided_before_does_not_run_again(path):
    async def story(store):
        await declare(store, schedule())
        await store.lead("me")
        [launch] = await pass_at(store, T0 + 5)
        assert await end(store, launch, T0 + 9)
        # The ledger is given up, and then the clock is set back by days.
        state = State(T0 - MINUTE, decided_until=T0)
        await store.apply(Changes([put(lone(), T0)._replace(state=state)]))
        assert await pass_at(store, T0 + 5) == []
        assert await rows(store) == [(0, "SUCCESS", "ended")]

    with_store(path, story)


def test_a_foreign_trigger_that_skips_known_keys_does_no_harm(path):
    async def story(store):
        await declare(store, lone("a"), lone("b"))
        await store.lead("me")
        edit(
            path,
            "CREATE TABLE seen (cursor INTEGER UNIQUE)",
            "CREATE TRIGGER seeing AFTER UPDATE ON states BEGIN"
            " INSERT OR IGNORE INTO seen VALUES (new.cursor); END",
        )
        launches = await pass_at(store, T0)
        return await store.settle([ending(launch, T0) for launch in launches], 1)

    assert with_store(path, story) == [True, True]
