"""What every store promises. A store is bound to it by a class with a `new_store`."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from tests.stores.contract_figures import FiguresContract
from tests.stores.contract_lists import FenceContract, ListContract
from tests.stores.contract_pauses import PauseContract
from tests.stores.contract_requests import RequestContract
from tests.stores.contract_runs import SettlementContract, WakingContract
from tests.stores.contract_service import ServiceContract
from tests.stores.contract_stretches import StretchContract
from tests.stores.contract_survey import SurveyContract
from tests.stores.contract_upkeep import LeadershipContract, UpkeepContract
from tests.stores.notation import (
    MINUTE,
    T0,
    declare,
    due_at,
    end,
    make_moves,
    open_run,
    pass_at,
    put,
    rows,
    schedule,
    stored,
    wake_of,
)

from dutiful.core.cadence import Every, Once, OnDemand
from dutiful.core.changes import Changes, Put
from dutiful.core.cron.cron import Cron
from dutiful.core.errors import LostLeadershipError, OvertakenError
from dutiful.core.plan.outcome import Failed
from dutiful.core.plan.planner import Batch
from dutiful.core.policy import Capacity, CatchUp, Overlap, Reason, Retry
from dutiful.core.run import Phase, Run, Status
from dutiful.core.schedule import Schedule, SkippedRange, State, Task, Window
from dutiful.core.snapshot import Move, Snapshot
from dutiful.runtime.ports import Committed, Launch, Loaded

NOTHING = Committed([], [])


class DeclarationContract:
    """Schedules are written, edited and removed all together, and read back as they were."""

    @stored
    async def test_a_new_store_is_empty(self, store):
        assert await store.every() == []
        assert await store.get("a") is None
        assert await store.damaged() == []
        assert await store.ledger("a", None, 10) == []
        assert await store.load(T0, 10) == Loaded(Batch([], {}), None)

    @stored
    async def test_schedules_are_read_back_as_they_were_declared(self, store):
        berlin = Cron.parse("30 2 * * *", "standard", ZoneInfo("Europe/Berlin"), "run_after", "first")
        rich = Schedule(
            "rich", Task("t", "{}"), berlin, schedule(retry=Retry(5, 2)).policy, Window(1, 2), True, T0
        )
        others = [
            schedule("once", Once(T0)),
            schedule("period", Every(5000, "start"), capacity=Capacity("g", 2)),
            schedule("asked", OnDemand(), overlap=Overlap.QUEUE, ledger=False),
        ]
        state = State(T0, 3, 1, 2, 3, 4, SkippedRange(5, Reason.MISSED, 6), "broken")
        puts = [Put(each, state, None) for each in (rich, *others)]
        await store.apply(Changes(puts))
        found = await store.every()
        assert [(due.schedule, due.state, [*due.runs]) for due in found] == [
            (each, state, []) for each in (rich, *others)
        ]
        assert await store.get("rich") == next(due for due in found if due.schedule.id == "rich")

    @stored
    async def test_all_schedules_come_as_they_were_first_stored_and_pages_by_id(self, store):
        ids = ["é", "b", "a", "B", "日", "10", "9", "𝟘"]
        await declare(store, *map(schedule, ids))
        await declare(store, schedule("a", paused=True), schedule("later"))
        assert [due.schedule.id for due in await store.every()] == [*ids, "later"]
        assert [due.schedule.id for due in await store.page("", 10)] == sorted([*ids, "later"])

    @stored
    async def test_the_last_put_of_an_id_counts(self, store):
        first, last = schedule(paused=True), schedule(grace=1)
        await store.apply(Changes([put(first), put(last, cursor=5)]))
        [due] = await store.every()
        assert (due.schedule, due.state) == (last, State(5))

    @stored
    async def test_an_edit_of_a_version_that_has_passed_is_refused_with_all_that_came_with_it(self, store):
        await declare(store, schedule("a"), schedule("b"))
        a, b = await store.every()
        await store.apply(Changes([put(schedule("a"))._replace(version=a.version)]))
        before = await store.every()
        for stale, version in [("a", a.version), ("a", 0), ("c", 1)]:
            edits = [
                put(schedule("b", paused=True))._replace(version=b.version),
                put(schedule(stale))._replace(version=version),
            ]
            with pytest.raises(OvertakenError):
                await store.apply(Changes(edits))
        assert await store.every() == before
        await store.apply(Changes([put(schedule("c"))._replace(version=0)]))
        assert [due.schedule.id for due in await store.every()] == ["a", "b", "c"]

    @stored
    async def test_removes_come_before_puts(self, store):
        await declare(store, schedule("a"), schedule("b"))
        await store.apply(Changes([put(schedule("a", grace=7))], ["a", "b", "never there"]))
        [due] = await store.every()
        assert due.schedule == schedule("a", grace=7)

    @stored
    async def test_an_edit_keeps_open_runs_and_the_ledger(self, store):
        await declare(store, schedule())
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        edited = schedule(grace=1, ledger=False)
        await store.apply(Changes([put(edited, cursor=T0, runs_started=1)]))
        due = await store.get("a")
        assert due[:2] == (edited, State(T0, 1))
        assert [*due.runs] == [launch.run] == await store.ledger("a", None, 10)

    @stored
    async def test_a_removed_schedule_takes_its_history_along(self, store):
        await declare(store, schedule())
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        await store.apply(Changes(removes=["a"]))
        assert not await end(store, launch, T0 + 1)
        await declare(store, schedule())
        assert await rows(store) == []

    @stored
    async def test_a_schedule_declared_anew_is_not_moved_by_a_move_of_the_old_one(self, store):
        await declare(store, schedule())
        await store.lead("me")
        moves = await make_moves(store, T0)
        await store.apply(Changes(removes=["a"]))
        await declare(store, schedule())
        assert await store.commit(moves, 1) == NOTHING
        assert await rows(store) == []

    @stored
    async def test_a_schedule_never_has_a_version_that_one_of_its_id_had_before(self, store):
        versions = []
        for edits in (1, 4, 2, 3):
            for _ in range(edits):
                await declare(store, schedule("a"), schedule(f"b{edits}"))
                versions.append((await store.get("a")).version)
            await store.apply(Changes(removes=[f"b{edits}"]))
            await store.apply(Changes(removes=["a"]))
        assert len(set(versions)) == len(versions)

    @stored
    async def test_ledger_rows_of_an_edit_begin_or_extend_ranges(self, store):
        await declare(store, schedule())
        row = Run("a", T0, "schedule", Status.SKIPPED, Phase.ENDED, T0, Reason.PAUSED, ended_at=T0)
        await store.apply(Changes([put(schedule())], rows=[row]))
        longer = row._replace(run_until=T0 + MINUTE, ticks=2)
        await store.apply(Changes([put(schedule())], rows=[longer]))
        assert await store.ledger("a", None, 10) == [longer]

    @stored
    async def test_ledger_rows_of_an_edit_are_not_kept_without_a_ledger(self, store):
        row = Run("a", T0, "schedule", Status.SKIPPED, Phase.ENDED, T0, Reason.PAUSED, ended_at=T0)
        await store.apply(Changes([put(schedule(ledger=False))], rows=[row]))
        assert await rows(store) == []


class LoadingContract:
    """The most overdue schedules come first, and stay due until a move is committed."""

    @stored
    async def test_the_most_overdue_come_first_and_equals_in_the_order_they_were_stored(self, store):
        wakes = {"c": T0, "a": T0 + 1, "d": T0, "b": T0 - 1, "late": T0 + 9, "never": None}
        await store.apply(Changes([put(schedule(id_), wake) for id_, wake in wakes.items()]))
        assert await due_at(store, T0 + 1) == ["b", "c", "d", "a"]
        assert await due_at(store, T0 - 2) == []

    @stored
    async def test_a_limit_leaves_the_rest_for_later(self, store):
        await store.apply(Changes([put(schedule(f"{n}"), T0 + n) for n in range(4)]))
        loaded = await store.load(T0 + 9, 2)
        assert [due.schedule.id for due in loaded.batch.due] == ["0", "1"]
        assert loaded.next_wake == T0 + 2
        assert (await store.load(T0 + 9, 0)).next_wake == T0

    @stored
    async def test_the_next_wake_is_that_of_the_first_schedule_not_due(self, store):
        await store.apply(Changes([put(schedule(f"{n}"), T0 + n) for n in range(4)]))
        assert (await store.load(T0 + 1, 9)).next_wake == T0 + 2
        assert (await store.load(T0 + 9, 9)).next_wake is None

    @stored
    async def test_loading_twice_gives_the_same(self, store):
        await declare(store, schedule("a"), schedule("b"))
        assert await store.load(T0, 10) == await store.load(T0, 10)

    @stored
    async def test_a_loaded_schedule_has_its_state_and_its_open_runs_oldest_first(self, store):
        await declare(store, schedule(overlap=Overlap.ALLOW, catch_up=CatchUp.FIRE_IMMEDIATELY))
        await store.lead("me")
        launches = await pass_at(store, T0 + 2 * MINUTE)
        [due] = (await store.load(T0 + 9 * MINUTE, 10)).batch.due
        assert [*due.runs] == [launch.run for launch in launches]
        assert [run.run_at for run in due.runs] == [T0, T0 + MINUTE, T0 + 2 * MINUTE]
        assert due == await store.get("a")


class CommitContract:
    """A move happens whole and once, or not at all."""

    @stored
    async def test_a_run_is_recorded_before_it_is_launched(self, store):
        await declare(store, schedule())
        await store.lead("me")
        launches = await pass_at(store, T0 + 5)
        run = Run(
            "a", T0, "schedule", Status.STARTED, Phase.LAUNCHED, T0, None, 1, 1, T0 + 5,
            created_at=T0 + 5, updated_at=T0 + 5,
        )  # fmt: skip
        assert launches == [Launch(schedule(), run, number=1)]
        assert await store.ledger("a", None, 10) == [run]
        due = await store.get("a")
        assert due.state == State(T0, 1, T0 + 5)
        assert [*due.runs] == [run]

    @stored
    async def test_a_committed_schedule_is_due_at_its_new_wake(self, store):
        await declare(store, schedule())
        await store.lead("me")
        await pass_at(store, T0)
        assert await wake_of(store, "a") == T0 + MINUTE

    @stored
    async def test_a_move_on_a_schedule_edited_meanwhile_is_left_out_whole(self, store):
        await declare(store, schedule("a"), schedule("b"))
        await store.lead("me")
        moves = await make_moves(store, T0)
        await store.apply(Changes([put(schedule("a", grace=1))]))
        made, launches, _ = await store.commit(moves, 1)
        assert [*made] == moves[1:]
        assert [launch.run.schedule_id for launch in launches] == ["b"]
        assert (await store.get("a"))[:3] == Snapshot(schedule("a", grace=1), State(T0 - MINUTE))[:3]
        assert await rows(store, "a") == []

    @stored
    async def test_a_move_is_committed_once(self, store):
        await declare(store, schedule())
        await store.lead("me")
        moves = await make_moves(store, T0)
        made, launches, _ = await store.commit(moves, 1)
        assert ([*made], len(launches)) == (moves, 1)
        assert await store.commit(moves, 1) == NOTHING
        assert len(await rows(store)) == 1

    @stored
    async def test_of_two_moves_of_one_schedule_in_one_commit_the_first_counts(self, store):
        await declare(store, schedule())
        await store.lead("me")
        [move] = await make_moves(store, T0)
        made, launches, _ = await store.commit([move, move], 1)
        assert ([*made], len(launches)) == ([move], 1)

    @stored
    async def test_a_move_on_a_run_that_ended_meanwhile_is_left_out(self, store):
        await declare(store, schedule())
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        moves = await make_moves(store, T0 + MINUTE)
        await end(store, launch, T0 + MINUTE)
        assert await store.commit(moves, 1) == NOTHING
        assert len(await pass_at(store, T0 + MINUTE)) == 1

    @stored
    async def test_a_tick_that_has_a_row_is_left_out_alone(self, store):
        await declare(store, schedule(catch_up=CatchUp.FIRE_IMMEDIATELY, overlap=Overlap.ALLOW))
        await store.lead("me")
        [first] = await pass_at(store, T0)
        await end(store, first, T0)
        # An edit outside dutiful set the cursor back, as after a wrong clock.
        await store.apply(Changes([put(schedule(catch_up=CatchUp.FIRE_IMMEDIATELY, overlap=Overlap.ALLOW))]))
        launches = await pass_at(store, T0 + MINUTE)
        assert [launch.run.run_at for launch in launches] == [T0 + MINUTE]
        assert await rows(store) == [(1, "STARTED", "launched"), (0, "SUCCESS", "ended")]

    @stored
    async def test_a_range_of_skipped_ticks_grows_in_its_row(self, store):
        await declare(store, schedule(paused=True))
        await store.lead("me")
        for minute in range(3):
            await pass_at(store, T0 + minute * MINUTE)
        [row] = await store.ledger("a", None, 10)
        assert (row.run_at, row.run_until, row.ticks) == (T0, T0 + 2 * MINUTE, 3)
        assert (row.status, row.reason) == (Status.SKIPPED, Reason.PAUSED)
        assert (await store.get("a")).state.skipped == SkippedRange(T0, Reason.PAUSED, 3)

    @stored
    async def test_a_run_that_its_own_move_ends_again_is_not_launched(self, store):
        await declare(store, schedule("a"), schedule("b"))
        await store.lead("me")
        a, b = await make_moves(store, T0)
        [run] = a.inserts
        ended = run.to(Phase.ENDED, status=Status.FAILED, reason=Reason.INTERRUPTED, ended_at=T0)
        launches = (await store.commit([a._replace(changes=[ended]), b], 1)).launches
        assert [launch.run.schedule_id for launch in launches] == ["b"]
        assert await rows(store, "a") == [(0, "FAILED", "ended")]

    @stored
    async def test_a_change_of_a_run_that_has_ended_is_left_out(self, store):
        await declare(store, schedule())
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        await end(store, launch, T0)
        again = launch.run._replace(attempt=2)
        move = Move(await store.get("a"), State(T0), changes=[again])
        assert await store.commit([move], 1) == Committed([move], [])
        assert await rows(store) == [(0, "SUCCESS", "ended")]

    @stored
    async def test_a_change_of_an_earlier_attempt_is_left_out(self, store):
        await declare(store, schedule("kept"), schedule("dropped", ledger=False))
        await store.lead("me")
        runs = [launch.run._replace(attempt=2) for launch in await pass_at(store, T0)]
        for run in runs:
            again = Move(await store.get(run.schedule_id), State(T0), changes=[run])
            assert len((await store.commit([again], 1)).launches) == 1
            lost = run._replace(attempt=1, status=Status.FAILED, phase=Phase.ENDED, ended_at=T0)
            await store.commit([Move(await store.get(run.schedule_id), State(T0), changes=[lost])], 1)
            assert await open_run(store, run.schedule_id) == run

    @stored
    async def test_launches_come_in_the_order_of_their_moves(self, store):
        await declare(store, schedule("z", Once(T0), retry=Retry(0)), schedule("a", Once(T0 + 1)))
        await store.lead("me")
        [z] = await pass_at(store, T0)
        await end(store, z, T0, Failed())
        moves = await make_moves(store, T0 + 1)
        assert [[*map(len, move[5:7])] for move in moves] == [[0, 1], [1, 0]]
        launches = (await store.commit(moves, 1)).launches
        assert [launch.run.schedule_id for launch in launches] == ["z", "a"]

    @stored
    async def test_nothing_is_written_under_an_epoch_that_is_over(self, store):
        await declare(store, schedule())
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        moves = await make_moves(store, T0 + MINUTE)
        for work in (store.commit(moves, 2), store.settle([], 2), store.commit(moves, 0)):
            with pytest.raises(LostLeadershipError):
                await work
        assert await open_run(store) == launch.run


class StoreContract(
    FenceContract,
    ListContract,
    RequestContract,
    DeclarationContract,
    SurveyContract,
    LoadingContract,
    StretchContract,
    PauseContract,
    CommitContract,
    SettlementContract,
    WakingContract,
    LeadershipContract,
    UpkeepContract,
    ServiceContract,
    FiguresContract,
):
    """All of it: give a subclass a `new_store(directory)` that returns a closed, empty store."""
