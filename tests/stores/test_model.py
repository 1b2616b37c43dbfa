"""The durable stores against the reference: the same operations, the same answers, step by step.

Moves are made by the real planner, each on what its own store has loaded; versions are compared only
by what they do.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import asyncpg
import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import Phase as Stage
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.stores.notation import MINUTE, MINUTELY, T0, ending, put
from tests.stores.postgres_rig import OneOfFour

from dutiful.core.cadence import Every, Once, OnDemand
from dutiful.core.changes import Changes, Note
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.backfill import backfill, past_ticks
from dutiful.core.plan.outcome import (
    Accepted,
    Failed,
    NoWork,
    Report,
    Settlement,
    Succeeded,
    Unanswered,
    Unreached,
    hear,
)
from dutiful.core.plan.planner import plan
from dutiful.core.policy import Capacity, CatchUp, OnOrphan, Overlap, Policy, Retry
from dutiful.core.run import Phase, Run, Status
from dutiful.core.schedule import Schedule, Task
from dutiful.core.snapshot import Limits
from dutiful.runtime.ledger_lookup import recalled
from dutiful.runtime.ports import Retention
from dutiful.stores.memory import MemoryStore
from dutiful.stores.postgres import PostgresStore, commit
from dutiful.stores.sqlite import SqliteStore

IDS = [*"abcd"]
CADENCES = [MINUTELY, Every(90_000), Every(90_000, "start"), Once(T0 + 3 * MINUTE), OnDemand()]
GROUPS = [Capacity("g", 1), Capacity("g", 2), Capacity("h", 1), None, None]
POLICIES = st.builds(
    Policy,
    overlap=st.sampled_from(Overlap),
    catch_up=st.sampled_from(CatchUp),
    grace=st.sampled_from([0, 60_000, 600_000]),
    catch_up_cap=st.integers(1, 3),
    jitter=st.sampled_from([0, 0, 5_000]),
    retry=st.sampled_from([None, None, Retry(30_000, 2)]),
    launch_retry=st.sampled_from([None, Retry(0, 3, 2)]),
    capacity=st.sampled_from(GROUPS),
    max_runs=st.sampled_from([None, None, 3]),
    on_orphan=st.sampled_from(OnOrphan),
    run_timeout=st.sampled_from([None, 90_000, 3_600_000]),
    queue_limit=st.integers(1, 2),
    ledger=st.sampled_from([True, True, True, False]),
)
# Under these a store may keep a run in its own way until there is more than one.
LONE = st.builds(
    Policy, overlap=st.sampled_from(Overlap), catch_up=st.sampled_from(CatchUp),
    retry=st.sampled_from([None, Retry(30_000, 2)]), on_orphan=st.sampled_from(OnOrphan),
    run_timeout=st.none(), ledger=st.just(False),
)  # fmt: skip
SCHEDULES = st.builds(
    Schedule, st.sampled_from(IDS), st.just(Task("t", "p")), st.sampled_from(CADENCES), POLICIES | LONE,
    paused=st.sampled_from([False, False, True]), pause_until=st.sampled_from([None, None, T0 + 5 * MINUTE]),
)  # fmt: skip
OUTCOMES = [Succeeded(), Succeeded("fine"), Failed("oh"), NoWork(), Accepted("7"), Unreached(), Unanswered()]
OFFSETS = st.sampled_from([-3 * MINUTE, -MINUTE, 0, MINUTE])


def plain(due):
    return [(each.schedule, each.state, [*each.runs]) for each in due]


class TwoStores(RuleBasedStateMachine):
    @initialize(schedules=st.lists(SCHEDULES, max_size=4))
    def begin(self, schedules):
        self.runner = asyncio.Runner()
        self.stores = [MemoryStore(), self.new_store()]
        self.now, self.epoch = T0, 1
        self.launches, self.held = [], []
        self.both(lambda store: store.open())
        assert self.both(lambda store: store.lead("me")) == 1
        self.declare(schedules, -MINUTE, 0)

    def teardown(self):
        if hasattr(self, "runner"):
            self.both(lambda store: store.close())
            self.runner.close()
            self.forget()

    def new_store(self):
        self.directory = tempfile.TemporaryDirectory()
        return SqliteStore(Path(self.directory.name, "state.db"))

    def forget(self):
        self.directory.cleanup()

    def both(self, ask, shown=lambda answer: answer):
        """Return the answer that both stores give."""
        memory, other = [self.runner.run(ask(store)) for store in self.stores]
        assert shown(memory) == shown(other)
        return memory

    @rule(schedules=st.lists(SCHEDULES, min_size=1, max_size=4), cursor=OFFSETS, wake=OFFSETS | st.none())
    def declare(self, schedules, cursor, wake):
        wake_at = None if wake is None else self.now + wake
        puts = [put(each, wake_at, self.now + cursor) for each in schedules]
        self.both(lambda store: store.apply(Changes(puts)))

    @rule(ids=st.sets(st.sampled_from(IDS), max_size=2), schedules=st.lists(SCHEDULES, max_size=2))
    def remove_and_declare(self, ids, schedules):
        puts = [put(each, self.now, self.now - MINUTE) for each in schedules]
        self.both(lambda store: store.apply(Changes(puts, sorted(ids))))

    @rule(id_=st.sampled_from(IDS), later=st.sampled_from([0, MINUTE]))
    def ask_for_a_run(self, id_, later):
        due = self.both(lambda store: store.get(id_), lambda due: due and plain([due]))
        if due is not None:
            fire_at = self.now + later
            run = Run(
                id_, self.now, "manual", Status.ENQUEUED, Phase.DELAYED, fire_at, epoch=self.epoch,
                own_key=f"{self.now:064x}", created_at=self.now, updated_at=self.now,
            )  # fmt: skip
            changes = Changes([put(due.schedule, self.now, due.state.cursor)], rows=[run])
            if not any(known.run_at == self.now and known.kind == "manual" for known in self.ledger(id_)):
                self.both(lambda store: store.apply(changes))

    @rule(seconds=st.sampled_from([0, 1, 59, 60, 90, 600]))
    def wait(self, seconds):
        self.now += seconds * 1000

    @rule(limit=st.integers(1, 4), commit=st.sampled_from([True, True, True, False]))
    def make_a_pass(self, limit, commit):
        made = [self.runner.run(self.moves(store, limit)) for store in self.stores]
        if commit:
            self.commit(made)
        else:
            self.held.append(made)

    @rule(minutes=st.integers(1, 3))
    def make_a_pass_later(self, minutes):
        self.now += minutes * MINUTE
        self.make_a_pass(4, True)

    @precondition(lambda self: self.held)
    @rule()
    def commit_what_was_held_back(self):
        self.commit(self.held.pop())

    async def moves(self, store, limit):
        loaded = await store.load(self.now, limit)
        due = [await recalled(store, each, self.now) for each in loaded.batch.due]
        return plan(loaded.batch._replace(due=due), self.now, Limits(self.epoch))

    def commit(self, made):
        answers = [
            self.runner.run(store.commit(moves, self.epoch))
            for store, moves in zip(self.stores, made, strict=True)
        ]
        memory, other = answers
        assert memory.launches == other.launches
        assert [move.due.schedule for move in memory.made] == [move.due.schedule for move in other.made]
        self.launches += memory.launches

    @precondition(lambda self: self.launches)
    @rule(data=st.data())
    def settle(self, data):
        launches = data.draw(st.lists(st.sampled_from(self.launches), min_size=1, max_size=4))
        settlements = [
            ending(launch, self.now + n, data.draw(st.sampled_from(self.outcomes(launch))))
            for n, launch in enumerate(launches)
        ]
        applied = self.both(lambda store: store.settle(settlements, self.epoch))
        for launch, settlement, hit in zip(launches, settlements, applied, strict=True):
            if hit and settlement.run.phase is Phase.ACCEPTED:
                self.launches.append(launch._replace(run=settlement.run))

    @staticmethod
    def outcomes(launch):
        accepted = launch.run.phase is Phase.ACCEPTED
        return [each for each in OUTCOMES if not (accepted and isinstance(each, Accepted))]

    @precondition(lambda self: self.launches)
    @rule(data=st.data(), status=st.sampled_from([Status.STARTED, Status.SUCCESS, Status.FAILED]))
    def report(self, data, status):
        said = data.draw(st.sampled_from(self.launches)).run
        known = self.both(lambda store: store.find(said.key))
        found = known and known.run
        became = found and hear(found, Report(status, said.attempt, "r 1", "oh"), Policy(), self.now)
        if became:
            self.both(lambda store: store.report(found, Settlement(became, found.created_at is not None)))

    @rule(
        id_=st.sampled_from(IDS),
        since=st.integers(-5, 0),
        minutes=st.integers(1, 6),
        overlap=st.sampled_from([None, *Overlap]),
    )
    def backfill(self, id_, since, minutes, overlap):
        due = self.both(lambda store: store.get(id_), lambda due: due and plain([due]))
        if due is None or due.state.quarantine or not isinstance(due.schedule.cadence, Cron):
            return
        start = self.now + since * MINUTE
        ticks = past_ticks(due, start, start + minutes * MINUTE)
        planned = backfill(due, ticks, self.ledger(id_), overlap, self.now).changes
        # Each store has versions of its own.
        unversioned = planned._replace(puts=[each._replace(version=None) for each in planned.puts])
        self.both(lambda store: store.apply(unversioned))

    @rule(id_=st.sampled_from(IDS), text=st.sampled_from([None, "why"]))
    def note(self, id_, text):
        self.both(lambda store: store.apply(Changes(notes=[(id_, Note(self.now, text))])))

    @rule(declared=st.lists(SCHEDULES, max_size=4, unique_by=lambda each: each.id))
    def survey(self, declared):
        self.both(lambda store: store.survey(declared), self.surveyed)

    @rule(beyond=st.sampled_from([0, MINUTE]))
    def rearm(self, beyond):
        self.both(lambda store: store.rearm(self.now, beyond))

    @rule(retention=st.builds(Retention, st.sampled_from([0, MINUTE, 10 * MINUTE]), st.integers(0, 3)))
    def prune(self, retention):
        self.both(lambda store: store.prune(self.now, retention))

    @rule(owner=st.sampled_from(["me", "you"]))
    def lead_anew(self, owner):
        self.both(lambda store: store.close())
        self.both(lambda store: store.open())
        self.epoch = self.both(lambda store: store.lead(owner))
        self.launches.clear()

    @invariant()
    def everything_is_equal(self):
        if not hasattr(self, "runner"):
            return
        due = self.both(lambda store: store.every(), plain)
        for each in due:
            for row in self.ledger(each.schedule.id):
                self.both(lambda store, key=row.key: store.find(key))
        self.both(lambda store: store.notes(IDS))
        self.both(lambda store: store.page("a", 2), plain)
        # Schedules of one store may have other numbers than those of the other.
        self.both(lambda store: store.recent(100), lambda runs: sorted(runs, key=repr))
        self.both(lambda store: store.load(self.now, 3), self.shown)
        self.both(lambda store: store.load(self.now + 10**12, 99), self.shown)

    def ledger(self, id_):
        return self.both(lambda store: store.ledger(id_, None, 1000))

    @staticmethod
    def surveyed(survey):
        pairs = [(schedule, known and plain([known])) for schedule, known in survey.differing]
        return pairs, survey.undeclared

    @staticmethod
    def shown(loaded):
        capacities = {due.schedule.policy.capacity for due in loaded.batch.due} - {None}
        used = {capacity.group: loaded.batch.used.get(capacity.group, 0) for capacity in capacities}
        return plain(loaded.batch.due), loaded.next_wake, used


# Deterministic, so that a red build is red again, and red soon: shrinking over a file takes minutes.
# The soak looks further every time, and shrinks what it finds.
SHORT = settings(
    max_examples=30, stateful_step_count=25, derandomize=True, database=None, deadline=None,
    suppress_health_check=[*HealthCheck], phases=[Stage.generate],
)  # fmt: skip


class WithPostgres(TwoStores):
    """The same with a database in place of the file; each example has a schema of its own."""

    names = itertools.count()

    def __init__(self, port, make, compared=1):
        super().__init__()
        self.address, self.make = f"postgresql://postgres@127.0.0.1:{port}/postgres", make
        self.steps, self.compared = 0, compared

    def new_store(self):
        self.schema = f"model_{os.getpid()}_{next(self.names)}"
        return self.make(f"{self.address}?schema={self.schema}")

    @invariant()
    def everything_is_equal(self):
        """Compare after every so many steps: it takes longer than the steps."""
        self.steps += 1
        if self.steps % self.compared == 0:
            super().everything_is_equal()

    def forget(self):
        asyncio.run(self.drop())

    async def drop(self):
        connection = await asyncpg.connect(self.address)
        await connection.execute(f'DROP SCHEMA "{self.schema}" CASCADE')
        await connection.close()


@pytest.fixture
def ways(monkeypatch):
    """How many moves were written with one statement ("together"), and one by one ("each")."""
    counts = Counter()
    for way in ("together", "each"):
        whole = getattr(commit, f"_write_{way}")

        def counted(session, fence, moves, places, whole=whole, way=way):
            counts[way] += len(places)
            return whole(session, fence, moves, places)

        monkeypatch.setattr(commit, f"_write_{way}", counted)
    return counts


of_one_or_four = pytest.mark.parametrize("make", [PostgresStore, OneOfFour], ids=["one shard", "of four"])


@of_one_or_four
def test_the_database_agrees_however_moves_are_written(postgres_port, make, ways):
    # With another seed so few examples may have no move of a rare shape.
    machine = seed(3)(partial(WithPostgres, postgres_port, make, 4))
    run_state_machine_as_test(machine, settings=settings(SHORT, max_examples=6, stateful_step_count=20))
    assert min(ways["together"], ways["each"]) > 0, ways


@pytest.mark.soak
@of_one_or_four
def test_the_database_agrees_for_long(postgres_port, make):
    long = settings(SHORT, max_examples=150, stateful_step_count=50, derandomize=False)
    run_state_machine_as_test(partial(WithPostgres, postgres_port, make), settings=long)


class TestTheStoresAgree(TwoStores.TestCase):
    settings = SHORT


@pytest.mark.soak
class TestTheStoresAgreeForLong(TwoStores.TestCase):
    settings = settings(SHORT, max_examples=2000, stateful_step_count=60, derandomize=False, phases=[*Stage])
