"""What every store promises of the ends of runs, and of the schedules that they wake; see `contract.py`."""

from __future__ import annotations

from tests.stores.notation import (
    MINUTE,
    T0,
    declare,
    due_at,
    end,
    ending,
    make_moves,
    open_run,
    pass_at,
    put,
    report,
    rows,
    schedule,
    stored,
    wake_of,
)

from dutiful.core.cadence import Every, Once
from dutiful.core.changes import Changes
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.outcome import Accepted, Failed, NoWork, Settlement, Succeeded, Unreached
from dutiful.core.policy import Capacity, CatchUp, OnOrphan, Overlap, Reason, Retry
from dutiful.core.run import CANCEL_ASKED, Phase, Run, Status
from dutiful.core.schedule import State

ONE_PLACE = Capacity("agent", 1)
_SOME = {"int": 7, "Instant": T0 + 7, "str": "7", "Reason": Reason.OVERLAP, "Overlap": Overlap.ALLOW}


async def used(store, now=T0 + 10**9):
    return {group: n for group, n in (await store.load(now, 100)).batch.used.items() if n}


def with_one_value_each(run):
    """Yield the run with another value in one of its fields, for each field that is no key."""
    for name in Run._field_defaults:
        kind = Run.__annotations__[name].__forward_arg__.removesuffix(" | None")
        if name not in ("attempt", "epoch", "own_key"):
            yield run._replace(**{name: _SOME[kind]})


class SettlementContract:
    """An ending counts once, for the attempt it belongs to."""

    @stored
    async def test_a_run_that_stays_open_keeps_the_request_to_cancel_it(self, store):
        """The launch was accepted, failed, or was reported before the leader saw the request."""
        await store.lead("me")
        answers = {"a": Accepted("job 7"), "b": Unreached("gone"), "c": Failed("broke")}
        retry = Retry(1000, 3)
        await declare(store, *(schedule(id_, retry=retry, launch_retry=retry) for id_ in "abcd"))
        launches = await pass_at(store, T0)
        asked = {"reason": CANCEL_ASKED, "detail": "cancelled by request"}
        puts = [put(launch.schedule, T0 + 1, T0) for launch in launches]
        await store.apply(Changes(puts, rows=[launch.run._replace(**asked) for launch in launches]))
        for launch in launches[:3]:
            assert await end(store, launch, T0 + 2, answers[launch.schedule.id])
        accepted = Settlement(launches[3].run._replace(phase=Phase.ACCEPTED), keep=True)
        assert await store.report(launches[3].run, accepted)
        assert await due_at(store, T0 + 2) == ["a", "b", "c", "d"]
        assert [
            (run.phase, run.reason, run.detail) for id_ in "abcd" for run in [await open_run(store, id_)]
        ] == [
            (phase, *asked.values()) for phase in (Phase.ACCEPTED, Phase.RETRY, Phase.RETRY, Phase.ACCEPTED)
        ]
        assert await pass_at(store, T0 + 2) == []
        assert {run.reason for id_ in "abcd" for run in await store.ledger(id_, None, 9)} == {CANCEL_ASKED}
        assert await used(store) == {}

    @stored
    async def test_every_value_of_a_run_is_stored_at_its_launch_and_at_its_end(self, store):
        for ledger in (True, False):
            plain = Run.launched("a", T0, T0, T0, 1, Status.STARTED, T0 if ledger else None)
            for number, other in enumerate(with_one_value_each(plain)):
                run = other._replace(schedule_id=f"{ledger}-{number}")
                await declare(store, schedule(run.schedule_id, ledger=ledger))
                await store.lead("me")
                [move] = await make_moves(store, T0)
                [launch] = (await store.commit([move._replace(inserts=[run])], 1)).launches
                assert await open_run(store, run.schedule_id) == run
                ended = ending(launch, T0 + 1)
                assert await store.settle([ended], 1) == [True]
                assert await store.ledger(run.schedule_id, None, 10) == ([ended.run] if ledger else [])

    @stored
    async def test_an_end_is_recorded_and_the_schedule_remembers_when(self, store):
        await declare(store, schedule("good"), schedule("bad"), schedule("idle"))
        await store.lead("me")
        good, bad, idle = await pass_at(store, T0)
        endings = [
            ending(good, T0 + 1, Succeeded("all done")),
            ending(bad, T0 + 2, Failed("oh")),
            ending(idle, T0 + 3, NoWork("empty")),
        ]
        assert await store.settle(endings, 1) == [True, True, True]
        for settlement in endings:
            assert await store.ledger(settlement.run.schedule_id, None, 10) == [settlement.run]
        states = {due.schedule.id: due.state for due in await store.every()}
        assert states == {
            "good": State(T0, 1, T0, succeeded_at=T0 + 1, ended_at=T0 + 1),
            "bad": State(T0, 1, T0, failed_at=T0 + 2, ended_at=T0 + 2),
            "idle": State(T0, 1, T0, ended_at=T0 + 3),
        }

    @stored
    async def test_several_ends_of_one_schedule_leave_the_last_one(self, store):
        await declare(store, schedule(overlap=Overlap.ALLOW, catch_up=CatchUp.FIRE_IMMEDIATELY))
        await store.lead("me")
        first, second, third = await pass_at(store, T0 + 2 * MINUTE)
        now = T0 + 2 * MINUTE
        endings = [ending(third, now + 5), ending(first, now + 9, Failed()), ending(second, now + 7)]
        assert await store.settle(endings, 1) == [True, True, True]
        state = (await store.get("a")).state
        assert state[3:6] == (now + 7, now + 9, now + 7)

    @stored
    async def test_an_end_counts_once(self, store):
        await declare(store, schedule("a"), schedule("b"))
        await store.lead("me")
        a, b = await pass_at(store, T0)
        assert await end(store, a, T0 + 1)
        late = [ending(a, T0 + 2, Failed()), ending(b, T0 + 2), ending(b, T0 + 3, Failed())]
        assert await store.settle(late, 1) == [False, True, False]
        assert await rows(store, "a") == await rows(store, "b") == [(0, "SUCCESS", "ended")]
        assert (await store.get("a")).state.failed_at is None

    @stored
    async def test_of_several_ends_of_a_run_the_first_counts(self, store):
        await declare(store, schedule("a", ledger=False, run_timeout=None), schedule("b", ledger=False))
        await store.lead("me")
        a, b = await pass_at(store, T0)
        ends = [
            ending(a, T0 + 1, NoWork()),
            ending(b, T0 + 2),
            ending(a, T0 + 3),
            ending(b, T0 + 4, NoWork()),
        ]
        assert await store.settle(ends, 1) == [True, True, False, False]
        assert [(await store.get(id_)).state[3:6] for id_ in "ab"] == [
            (None, None, T0 + 1),
            (T0 + 2, None, T0 + 2),
        ]

    @stored
    async def test_an_outcome_of_an_unknown_run_is_not_recorded(self, store):
        await declare(store, schedule("a"), schedule("gone"))
        await store.lead("me")
        a, gone = await pass_at(store, T0)
        await store.apply(Changes(removes=["gone"]))
        strange = ending(a, T0)._replace(run=a.run._replace(run_at=1))
        assert await store.settle([ending(gone, T0), strange, ending(a, T0)], 1) == [False, False, True]
        assert await store.settle([], 1) == []

    @stored
    async def test_a_run_of_a_removed_schedule_ends_no_run_of_one_declared_anew(self, store):
        await store.lead("me")
        for timeout in (None, MINUTE):
            what = schedule(ledger=False, run_timeout=timeout)
            await declare(store, what)
            [old] = await pass_at(store, T0)
            await store.apply(Changes(removes=["a"]))
            await declare(store, what)
            [new] = await pass_at(store, T0)
            assert old.run == new.run
            assert not await end(store, old, T0 + 1)
            assert await rows(store, "a") == [(0, "STARTED", "launched")]
            assert await end(store, new, T0 + 2)
            assert (await store.get("a")).state == State(T0, 1, T0, succeeded_at=T0 + 2, ended_at=T0 + 2)
            await store.apply(Changes(removes=["a"]))

    @stored
    async def test_of_many_that_are_written_alike_each_counts_for_itself(self, store):
        ids = [f"s{n:02}" for n in range(30)]
        await declare(store, *(schedule(id_, ledger=False, run_timeout=None) for id_ in ids))
        await store.lead("me")
        moves = await make_moves(store, T0)
        await store.apply(Changes([put(schedule("s07"), T0 + MINUTE)], removes=["s21"]))
        made, launches, _ = await store.commit(moves, 1)
        ids = [id_ for id_ in ids if id_ not in {"s07", "s21"}]
        assert [move.due.schedule.id for move in made] == ids
        assert [launch.schedule.id for launch in launches] == ids
        assert [due.schedule.id for due in await store.every() if due.runs] == ids
        assert await end(store, launches[3], T0 + 1)
        endings = [ending(launch, T0 + 2 + n % 2) for n, launch in enumerate(launches)]
        assert await store.settle(endings, 1) == [n != 3 for n in range(28)]
        ended = [1 if n == 3 else 2 + n % 2 for n in range(28)]
        assert [(await store.get(id_)).state for id_ in ids] == [
            State(T0, 1, T0, succeeded_at=T0 + at, ended_at=T0 + at) for at in ended
        ]
        assert (await store.get("s07")).state == State(T0 - MINUTE)

    @stored
    async def test_the_end_of_an_earlier_attempt_is_ignored(self, store):
        await declare(store, schedule(on_orphan=OnOrphan.RESTART))
        await store.lead("me")
        [first] = await pass_at(store, T0)
        await store.close()
        await store.open()
        assert await store.lead("heir") == 2
        [second] = await pass_at(store, T0 + 1, epoch=2)
        assert (second.run.attempt, second.run.run_at) == (2, first.run.run_at)
        assert await store.settle([ending(first, T0 + 2)], 2) == [False]
        assert await store.settle([ending(second, T0 + 2)], 2) == [True]

    @stored
    async def test_a_run_that_waits_to_be_tried_again_has_nothing_to_end(self, store):
        await declare(store, schedule(retry=Retry(1000)))
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        assert await end(store, launch, T0, Failed())
        assert not await end(store, launch, T0 + 1)
        assert (await open_run(store)).phase is Phase.RETRY

    @stored
    async def test_an_accepted_run_stays_in_flight_until_it_ends(self, store):
        await declare(store, schedule(capacity=ONE_PLACE))
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        before = await store.get("a")
        assert await end(store, launch, T0 + 1, Accepted("job 7"))
        run = await open_run(store)
        assert (run.phase, run.status, run.run_id) == (Phase.ACCEPTED, Status.ENQUEUED, "job 7")
        assert (await store.get("a")).state == before.state
        assert await used(store) == {"agent": 1}
        assert await report(store, run, T0 + 2)
        assert await used(store) == {}

    @stored
    async def test_a_failed_run_that_is_tried_again_wakes_its_schedule_then(self, store):
        await declare(store, schedule(retry=Retry(1000)))
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        await end(store, launch, T0 + 5, Failed("oh"))
        assert (await open_run(store)).phase is Phase.RETRY
        assert (await store.get("a")).state.failed_at == T0 + 5
        assert await wake_of(store, "a") == T0 + 1005
        [again] = await pass_at(store, T0 + 1005)
        assert (again.run.attempt, again.run.run_at) == (2, T0)

    @stored
    async def test_a_retry_does_not_put_off_an_earlier_wake(self, store):
        await declare(store, schedule(retry=Retry(10 * MINUTE)))
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        await end(store, launch, T0 + 5, Failed("oh"))
        assert await wake_of(store, "a") == T0 + MINUTE

    @stored
    async def test_a_retry_wakes_a_schedule_that_had_no_wake(self, store):
        once = schedule("a", Once(T0), launch_retry=Retry(1000), run_timeout=None)
        await declare(store, once)
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        assert await wake_of(store, "a") is None
        await end(store, launch, T0 + 5, Unreached("no route"))
        assert await wake_of(store, "a") == T0 + 1005

    @stored
    async def test_without_a_ledger_rows_vanish_when_they_end(self, store):
        await declare(store, schedule("a", ledger=False), schedule("b", ledger=False, run_timeout=1))
        await store.lead("me")
        a, _ = await pass_at(store, T0)
        assert [len(await rows(store, id_)) for id_ in "ab"] == [1, 1]
        assert await end(store, a, T0 + 1)
        await pass_at(store, T0 + 2)
        assert [await rows(store, id_) for id_ in "ab"] == [[], []]
        assert (await store.get("a")).state == State(T0, 1, T0, succeeded_at=T0 + 1, ended_at=T0 + 1)


class WakingContract:
    """What waited for a run to end becomes due when it does."""

    @stored
    async def test_a_schedule_that_waits_for_its_own_run_is_woken_by_its_end(self, store):
        await declare(store, schedule("a", Every(MINUTE)), schedule("b", Every(MINUTE)))
        await store.lead("me")
        a, _ = await pass_at(store, T0)
        assert await due_at(store, T0 + MINUTE) == []
        await end(store, a, T0 + 7)
        assert await due_at(store, T0 + 7) == ["a"]

    @stored
    async def test_a_run_that_has_ended_leaves_no_wake_at_its_timeout(self, store):
        daily = Cron.parse("14 22 * * *")
        await declare(store, schedule("a", daily, run_timeout=MINUTE))
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        assert await wake_of(store, "a") == T0 + MINUTE
        await end(store, launch, T0 + 7)
        assert await wake_of(store, "a") == T0 + 24 * 60 * MINUTE

    @stored
    async def test_a_run_that_is_accepted_keeps_the_wake_at_its_timeout(self, store):
        await declare(store, schedule("a", Cron.parse("14 22 * * *"), run_timeout=MINUTE))
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        loaded = await store.get("a")
        await end(store, launch, T0 + 7, Accepted())
        assert await wake_of(store, "a") == T0 + MINUTE
        # A move made before would not know of it.
        assert (await store.get("a")).version != loaded.version

    @stored
    async def test_a_schedule_that_waits_for_room_is_woken_by_any_end_in_its_group(self, store):
        full = [schedule(id_, capacity=ONE_PLACE) for id_ in "ab"]
        third = schedule("c", capacity=ONE_PLACE)
        other = schedule("d", capacity=Capacity("other", 1))
        await declare(store, *full, third, other)
        await store.lead("me")
        launches = await pass_at(store, T0)
        assert [launch.run.schedule_id for launch in launches] == ["a", "d"]
        # What the first pass promised to "a" the others find taken.
        assert await pass_at(store, T0) == []
        await end(store, launches[1], T0 + 1)
        assert await due_at(store, T0 + 5) == []
        await end(store, launches[0], T0 + 5)
        assert await due_at(store, T0 + 5) == ["b", "c"]

    @stored
    async def test_of_several_ends_in_a_group_the_last_one_wakes(self, store):
        two = schedule(
            "a", overlap=Overlap.ALLOW, catch_up=CatchUp.FIRE_IMMEDIATELY, capacity=Capacity("g", 3)
        )
        full = schedule("c", Once(T0 + MINUTE), capacity=Capacity("g", 3))
        await declare(store, two, schedule("b", Once(T0), capacity=Capacity("g", 3)), full)
        await store.lead("me")
        first, second, other = await pass_at(store, T0 + MINUTE)
        now = T0 + MINUTE
        endings = [ending(first, now + 5), ending(other, now + 7), ending(second, now + 9)]
        assert await store.settle(endings, 1) == [True, True, True]
        assert await wake_of(store, "c") == now + 9

    @stored
    async def test_a_group_is_one_whatever_limit_its_members_name(self, store):
        await declare(store, schedule("a", capacity=ONE_PLACE), schedule("b", capacity=Capacity("agent", 1)))
        await declare(store, schedule("low", capacity=Capacity("agent", 0)))
        await store.lead("me")
        [a] = await pass_at(store, T0)
        await end(store, a, T0 + 5)
        assert await due_at(store, T0 + 5) == ["b", "low"]

    @stored
    async def test_a_slot_that_the_planner_frees_wakes_the_schedules_blocked_on_it(self, store):
        lost = schedule("a", Once(T0), capacity=ONE_PLACE, run_timeout=MINUTE)
        await declare(store, lost, schedule("b", Once(T0), capacity=ONE_PLACE))
        await store.lead("me")
        assert [len(await pass_at(store, T0)) for _ in range(2)] == [1, 0]
        assert await wake_of(store, "b") is None
        assert await pass_at(store, T0 + MINUTE) == []
        assert await rows(store) == [(0, "FAILED", "ended")]
        [launch] = await pass_at(store, T0 + MINUTE)
        assert launch.run.schedule_id == "b"

    @stored
    async def test_a_slot_that_an_edit_or_a_removal_frees_wakes_the_schedules_blocked_on_it(self, store):
        await declare(store, *(schedule(id_, Once(T0), capacity=ONE_PLACE) for id_ in "abc"))
        await store.lead("me")
        assert [len(await pass_at(store, T0)) for _ in range(2)] == [1, 0]
        assert await due_at(store, T0 + MINUTE) == []
        await store.apply(Changes([put(schedule("a", Once(T0)), None, T0)]))
        [launch] = await pass_at(store, T0 + MINUTE)
        assert launch.run.schedule_id == "b"
        await store.apply(Changes(removes=["b"]))
        [launch] = await pass_at(store, T0 + MINUTE)
        assert launch.run.schedule_id == "c"

    @stored
    async def test_a_schedule_asked_for_is_loaded_beside_the_due_ones_with_the_slots_of_its_group(
        self, store
    ):
        other = Capacity("other", 2)
        await declare(store, schedule("b", capacity=ONE_PLACE), schedule("a"), schedule("c", capacity=other))
        await store.lead("me")
        assert len(await pass_at(store, T0)) == 3
        await declare(store, schedule("d"))
        loaded = await store.load(T0, 1, ["c", "b", "d", "nobody"])
        assert [due.schedule.id for due in loaded.batch.due] == ["d", "b", "c"]
        assert loaded.batch.due[1:] == [await store.get("b"), await store.get("c")]
        assert loaded.batch.used == {"agent": 1, "other": 1}
        # Nothing became due by this, and what is due stays so.
        assert await due_at(store, T0) == ["d"]

    @stored
    async def test_runs_in_flight_are_counted_by_group_on_every_path(self, store):
        await declare(store, *(schedule(id_, capacity=Capacity("g", 9)) for id_ in "abcd"))
        await store.lead("me")
        a, b, c, _ = await pass_at(store, T0)
        assert await used(store) == {"g": 4}
        await end(store, a, T0)
        assert await used(store) == {"g": 3}
        await end(store, b, T0, Accepted())
        assert await used(store) == {"g": 3}
        await store.apply(Changes(removes=["d"]))
        assert await used(store) == {"g": 2}
        await store.apply(Changes([put(schedule("c", capacity=Capacity("h", 9)), cursor=T0)]))
        assert await used(store) == {"g": 1, "h": 1}
        await end(store, c, T0)
        assert await used(store) == {"g": 1}
        await store.apply(Changes([put(schedule("b"), cursor=T0)]))
        assert await used(store) == {}
