"""The engine and a store that fails: nothing is launched twice, nothing is forgotten, and it goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

import pytest
from tests.core.plan.planner_notation import MINUTE, at, schedule
from tests.sim.gate import Gate
from tests.sim.rig import Rig

from dutiful.core.cadence import Once
from dutiful.core.changes import Changes, Put
from dutiful.core.errors import StoreError
from dutiful.core.event import PassFailed, RunSettled
from dutiful.core.plan.jitter import first_wake
from dutiful.core.plan.outcome import Accepted, Failed, Succeeded
from dutiful.core.policy import Capacity, Overlap, Retry
from dutiful.core.schedule import State


def nth(method, when, which=1):
    """Return a gate whose `which`th call of one method goes wrong."""
    calls = Counter()

    def verdict(name):
        calls[name] += 1
        return when if (name, calls[name]) == (method, which) else None

    return lambda store: Gate(store, verdict)


METHODS = ["lead", "rearm", "load", "commit", "settle"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("which", [1, 2, 3])
def test_an_error_of_the_store_costs_a_second_and_no_tick(method, when, which):
    async def story():
        async with Rig(schedule(), through=nth(method, when, which)) as rig:
            await rig.time.advance(200)
            return rig.told(PassFailed), rig.calls.noted, await rig.rows()

    failed, noted, rows = asyncio.run(story())
    assert len(failed) == (method != "rearm" or which == 1)
    assert [(tick, attempt) for _, _, tick, attempt in noted] == [("10:01", 1), ("10:02", 1), ("10:03", 1)]
    assert all(instant[:5] == tick and instant <= f"{tick}:01" for instant, _, tick, _ in noted)
    assert rows == ["10:01 SUCCESS", "10:02 SUCCESS", "10:03 SUCCESS"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_failed_pass_is_reported_and_made_again(when):
    async def story():
        async with Rig(schedule(), through=nth("commit", when)) as rig:
            await rig.time.advance(61)
            return [(event.at, event.error.split(":")[0]) for event in rig.told(PassFailed)], rig.calls.noted

    failed, noted = asyncio.run(story())
    assert failed == [(at("10:01"), "StoreError")]
    assert noted == [("10:01:01", "s", "10:01", 1)]


def test_a_commit_whose_answer_was_lost_is_looked_up_until_it_is_known():
    answers = iter([None] * 3 + ["after", "before", "before", None])

    def verdict(name):
        return next(answers, None) if name in ("commit", "get", "load") else None

    async def story():
        async with Rig(schedule(Once(at("10:01"))), through=lambda store: Gate(store, verdict)) as rig:
            await rig.time.advance(70)
            return rig.calls.noted, await rig.rows()

    noted, rows = asyncio.run(story())
    assert (len(noted), rows) == (1, ["10:01 SUCCESS"])


def test_a_store_that_is_down_for_long_is_tried_every_second():
    down = set()

    def verdict(_):
        return "before" if down else None

    async def story():
        async with Rig(schedule(), through=lambda store: Gate(store, verdict)) as rig:
            await rig.time.advance(1)
            down.add("disk full")
            await rig.time.advance(600)
            down.clear()
            await rig.time.advance(2)
            return len(rig.told(PassFailed)), await rig.rows()

    failures, rows = asyncio.run(story())
    assert failures == 542
    assert rows == ["10:01-10:09 SKIPPED missed", "10:10 SUCCESS"]


def test_the_outcome_of_a_task_is_not_lost_with_the_store():
    async def fail(_):
        return Failed("no")

    async def story():
        gate = nth("settle", "before")
        async with Rig(schedule(Once(at("10:01"))), behave=fail, through=gate) as rig:
            await rig.time.advance(70)
            return rig.calls.noted, await rig.rows(), len(rig.told(RunSettled))

    noted, rows, told = asyncio.run(story())
    assert (len(noted), rows, told) == (1, ["10:01 FAILED task_failed"], 1)


def test_answers_are_settled_at_stop_even_when_a_pass_is_never_made_again():
    async def story():
        async with Rig(schedule(Once(at("10:01"))), through=nth("settle", "before")) as rig:
            await rig.time.advance(60)
            await rig.engine.stop()
            return await rig.rows()

    assert asyncio.run(story()) == ["10:01 SUCCESS"]


def test_a_removed_schedule_ends_with_its_run_and_disturbs_no_other():
    async def story():
        async def slow(_):
            await rig.time.sleep(90)
            return Succeeded()

        rig = Rig(schedule(id_="gone"), schedule(id_="kept"), behave=slow)
        async with rig:
            await rig.time.advance(70)
            await rig.store.apply(Changes(removes=["gone"]))
            rig.engine.wake()
            await rig.time.advance(120)
            return await rig.rows("gone"), [id_ for _, id_, *_ in rig.calls.noted]

    gone, noted = asyncio.run(story())
    assert gone == []
    assert noted == ["gone", "kept", "kept"]


def test_an_edit_between_load_and_commit_leaves_the_stale_move_out():
    async def story():
        rig = Rig(schedule())

        class Meddler(Gate):
            async def _call(self, name, *args):
                if name == "commit" and not rig.calls.noted and not edited:
                    edited.append(name)
                    state = State(at("10:01"))
                    later = schedule(Once(at("10:05")))
                    await rig.store.apply(Changes([Put(later, state, first_wake(later, state))]))
                    rig.engine.wake()
                return await super()._call(name, *args)

        edited = []
        rig.through = Meddler(rig.store)
        async with rig:
            await rig.time.advance(600)
            return rig.calls.noted, await rig.rows()

    assert asyncio.run(story()) == ([("10:05", "s", "10:05", 1)], ["10:05 SUCCESS"])


def test_room_that_a_finished_run_leaves_is_taken_at_once():
    async def story():
        async def slow(_):
            await rig.time.sleep(30)
            return Succeeded()

        group = [schedule(Once(at("10:01")), id_=name, capacity=Capacity("g", 1)) for name in "abc"]
        async with Rig(*group, behave=slow) as rig:
            await rig.time.advance(200)
            return [instant for instant, *_ in rig.calls.noted]

    assert asyncio.run(story()) == ["10:01", "10:01:30", "10:02"]


def test_room_that_a_lost_run_leaves_is_taken_at_once():
    async def accept(_):
        return Accepted()

    async def story():
        room = Capacity("g", 1)
        lost = schedule(Once(at("10:01")), id_="a", capacity=room, run_timeout=MINUTE)
        waits = schedule(Once(at("10:01")), id_="b", capacity=room)
        async with Rig(lost, waits, behave=accept) as rig:
            await rig.time.advance(300)
            return [instant for instant, *_ in rig.calls.noted]

    assert asyncio.run(story()) == ["10:01", "10:02"]


def test_room_that_a_removed_schedule_leaves_is_taken_at_once():
    async def accept(_):
        return Accepted()

    async def story():
        group = [schedule(Once(at("10:01")), id_=name, capacity=Capacity("g", 1)) for name in "ab"]
        async with Rig(*group, behave=accept) as rig:
            await rig.time.advance(70)
            await rig.store.apply(Changes(removes=["a"]))
            rig.engine.wake()
            await rig.time.advance(10)
            return [id_ for _, id_, *_ in rig.calls.noted]

    assert asyncio.run(story()) == ["a", "b"]


def test_slots_are_shared_by_all_schedules_of_the_group_whatever_limit_they_name():
    async def story():
        async def slow(_):
            await rig.time.sleep(30)
            return Succeeded()

        limits = {"a": 2, "b": 1}
        group = [schedule(Once(at("10:01")), id_=id_, capacity=Capacity("g", limits[id_])) for id_ in limits]
        async with Rig(*group, behave=slow) as rig:
            await rig.time.advance(300)
            return [instant for instant, *_ in rig.calls.noted]

    assert asyncio.run(story()) == ["10:01", "10:01:30"]


def test_a_commit_whose_answer_was_lost_still_cancels():
    ended = []

    async def story():
        async def work(launch):
            try:
                await rig.time.sleep(1000)
            except asyncio.CancelledError:
                ended.append(launch.run.run_at)
                raise
            return Succeeded()

        rig = Rig(schedule(overlap=Overlap.CANCEL_OTHER), behave=work, through=nth("commit", "after", 2))
        async with rig:
            await rig.time.advance(130)
            return list(ended)

    assert asyncio.run(story()) == [at("10:01")]


@pytest.mark.parametrize("delay", [0, 30_000])
def test_a_timeout_whose_commit_was_not_answered_still_cancels_before_the_retry(delay):
    lives = []

    async def story():
        async def work(launch):
            lives.append(f"{launch.run.attempt} begins")
            try:
                await rig.time.sleep(1000)
            finally:
                lives.append(f"{launch.run.attempt} ends")
            return Succeeded()

        hanging = schedule(Once(at("10:01")), run_timeout=MINUTE, retry=Retry(delay, limit=1))
        rig = Rig(hanging, behave=work, through=nth("commit", "after", 2))
        async with rig:
            await rig.time.advance(165)
            return list(lives)

    assert asyncio.run(story()) == ["1 begins", "1 ends", "2 begins"]


def test_stop_records_each_run_as_it_ends():
    async def story():
        async def work(launch):
            await rig.time.sleep(10 if launch.run.schedule_id == "a" else 1000)
            return Succeeded()

        rig = Rig(schedule(id_="a"), schedule(id_="b"), behave=work)
        async with rig:
            await rig.time.advance(60)
            stopping = asyncio.create_task(rig.engine.stop())
            await rig.time.advance(60)
            rows = await rig.rows("a")
            stopping.cancel()
            return rows

    assert asyncio.run(story()) == ["10:01 SUCCESS"]


def test_a_pass_that_fails_unexpectedly_is_made_again():
    class Broken(Gate):
        async def _call(self, name, *args):
            if name == "load" and not failed:
                failed.append(name)
                raise RuntimeError(name)
            return await super()._call(name, *args)

    async def story():
        async with Rig(schedule(), through=Broken) as rig:
            await rig.time.advance(120)
            return await rig.rows()

    failed = []
    assert asyncio.run(story()) == ["10:01 SUCCESS", "10:02 SUCCESS"]


@pytest.mark.parametrize("delay", [0, 5000])
def test_a_run_that_timed_out_is_cancelled_before_its_next_attempt_also_when_the_answer_was_lost(delay):
    at_work = []

    async def hang_once(launch):
        at_work.append(launch.run.attempt)
        together.append(len(at_work))
        try:
            if launch.run.attempt == 1:
                await asyncio.Event().wait()
            return Succeeded()
        finally:
            at_work.remove(launch.run.attempt)

    together = []
    lost = iter(["after"])

    def verdict(method):
        late = rig.time.now().minute >= 2
        return next(lost, None) if method == "commit" and late else None

    rig = Rig(
        schedule(Once(at("10:01")), retry=Retry(delay, 3), run_timeout=MINUTE),
        behave=hang_once,
        through=lambda store: Gate(store, verdict),
    )

    async def story():
        async with rig:
            await rig.time.advance(180)
            return await rig.rows()

    assert asyncio.run(story()) == ["10:01 SUCCESS"]
    assert together == [1, 1]


class InDoubt(Gate):
    """A store that does not know for a while whether its lock is still held."""

    doubt = frozen = False

    def holds(self, epoch):
        return not self.doubt and super().holds(epoch)

    async def _call(self, name, *args):
        if name == "lead" and self.doubt:
            raise StoreError("The session is lost", "wait")
        answer = await super()._call(name, *args)
        # The answer to the first commit comes after the process was frozen for longer than the lease.
        if name == "commit" and not self.frozen:
            self.doubt = self.frozen = True
        return answer


@pytest.fixture
def doubting():
    return Rig(schedule(), through=InDoubt)


def test_nothing_is_launched_while_the_lead_is_in_doubt_and_all_of_it_afterwards(doubting):
    async def story():
        async with doubting as rig:
            await rig.time.advance(90)
            before = [*rig.calls.noted]
            rig.through.doubt = False
            await rig.time.advance(1)
            return before, rig.calls.noted, await rig.rows()

    before, after, rows = asyncio.run(story())
    assert (before, after) == ([], [("10:01:31", "s", "10:01", 1)])
    assert rows == ["10:01 SUCCESS"]


def test_a_process_that_was_deposed_while_it_was_frozen_launches_nothing(doubting):
    async def story():
        async with doubting as rig:
            await rig.time.advance(60)
            frozen = rig.engine
            await rig.store.close()
            rig.boot(rig.store)
            await rig.time.advance(5)
            rig.through.doubt = False
            await rig.time.advance(5)
            return frozen.in_flight, rig.calls.noted, await rig.rows()

    in_flight, noted, rows = asyncio.run(story())
    assert (in_flight, noted) == (0, [("10:01", "s", "10:01", 2)])
    assert rows == ["10:01 SUCCESS"]


def test_a_run_that_is_dropped_with_an_earlier_epoch_is_launched_again_and_not_failed():
    async def story():
        async def slow(_):
            await rig.time.sleep(30)
            return Succeeded()

        answering_later = partial(Gate, verdict=lambda _: "pause")
        rig = Rig(schedule(Once(at("10:01"))), behave=slow, through=answering_later)
        async with rig:
            await rig.time.advance(65)
            # The lock is lost, and taken again before the next pass; nobody has led in between.
            await rig.store.close()
            rig.engine.wake()
            await rig.time.advance(60)
            return rig.calls.noted, await rig.rows()

    noted, rows = asyncio.run(story())
    assert (noted, rows) == ([("10:01", "s", "10:01", 1), ("10:01:05", "s", "10:01", 2)], ["10:01 SUCCESS"])


def test_a_stop_does_not_wait_for_a_launch_that_is_in_doubt(doubting):
    async def story():
        async with doubting as rig:
            await rig.time.advance(60)
            stopping = asyncio.create_task(rig.engine.stop())
            await rig.time.advance(1)
            return stopping.done(), rig.calls.noted

    assert asyncio.run(story()) == (True, [])
