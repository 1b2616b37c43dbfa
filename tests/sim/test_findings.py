"""What the campaigns found, each in the smallest story that shows it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import count

import pytest
from tests.core.plan.planner_notation import HOUR, MINUTE, at, schedule
from tests.sim.gate import Gate, depose
from tests.sim.genesis import world_of
from tests.sim.rig import Rig
from tests.sim.stages import STAGES
from tests.spec.world import play

from dutiful.core.cadence import Once
from dutiful.core.changes import Changes
from dutiful.core.cron.cron import Cron
from dutiful.core.cron.zone import epoch_ms
from dutiful.core.plan.outcome import Accepted, Failed, Succeeded
from dutiful.core.policy import Capacity, OnOrphan, Overlap, Policy, Retry
from dutiful.core.run import IN_FLIGHT
from dutiful.core.schedule import Schedule, Task, Window
from dutiful.runtime.engine import Settings
from dutiful.runtime.registrar import Registrar


async def hang(_):
    await asyncio.Event().wait()


async def advance(clock, **by):
    await clock.advance(timedelta(**by).total_seconds())


def test_a_run_in_flight_is_still_given_up_when_its_tick_comes_again():
    policy = Policy(overlap=Overlap.QUEUE, run_timeout=48 * HOUR)
    monthly = schedule()._replace(cadence=Cron.parse("0 12 5 * *"), policy=policy)

    async def scenario():
        async with Rig(monthly, behave=hang) as rig:
            await advance(rig.time, hours=3)
            await rig.time.jump(-30 * 3600)
            await advance(rig.time, days=10)
            return await rig.rows()

    assert asyncio.run(scenario()) == ["12:00 FAILED lost_run"]


def test_an_orphan_without_room_is_run_again_after_an_outage_of_any_length():
    policy = Policy(on_orphan=OnOrphan.RELAUNCH, run_timeout=2 * MINUTE, retry=Retry(10 * MINUTE))
    orphan = Schedule("orphan", Task("task"), Once(at("10:02")), policy)
    failed = orphan._replace(id="failed", cadence=Once(at("10:01")))

    async def behave(launch):
        return await hang(launch) if launch.run.schedule_id == "orphan" else Failed()

    async def scenario():
        async with Rig(orphan, failed, behave=behave, settings=Settings(in_flight_max=1)) as rig:
            await advance(rig.time, minutes=3)
            await rig.crash()
            await advance(rig.time, hours=1)
            rig.boot()
            await advance(rig.time, minutes=1)
            return [attempt for _, schedule_id, _, attempt in rig.calls.noted if schedule_id == "orphan"]

    assert asyncio.run(scenario()) == [1, 2]


def test_a_retry_after_days_waits_through_a_restart():
    async def story(world):
        task = world.task("job", "0 9 1 * *", world.failing(), delay=2 * 24 * 3600)
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(3600)
        await world.restart(scheduler, task)

    assert play(story, "2026-01-01T08:30:00", monitored=False).ran == ["09:00 job"]


def test_a_scheduler_starts_again_after_a_step_back_that_was_cut_short():
    async def story(world):
        task = world.task("job", "0 9 1 * *", world.failing(), delay=3600)
        scheduler = world.scheduler()
        await scheduler.initialize([task])
        await world.clock.advance(3600)
        await world.crash(scheduler)
        await world.clock.jump(-30 * 3600)
        await world.memory.rearm(epoch_ms(world.clock.now()), 24 * HOUR)
        await world.scheduler().initialize([task])

    play(story, "2026-01-01T08:30:00", monitored=False)


def test_the_restart_of_an_orphan_serves_the_minute_in_which_it_comes():
    async def story(world):
        first, passes = world.scheduler(), count()
        await first.initialize([world.task(does=world.sleeping(3600))])
        await advance(world.clock, seconds=25)
        await world.crash(first)
        second = world.scheduler()
        # The first passes fail, until the next minute has begun.
        second._store = Gate(
            world.memory, lambda name: "before" if name == "load" and next(passes) < 6 else None
        )
        await second.initialize([world.task()])
        await advance(world.clock, seconds=10)

    assert play(story, "2026-01-01T10:00:30", monitored=False).ran == ["10:00:30 job", "10:01:01 job"]


def test_a_lost_answer_is_resolved_also_after_a_step_back():
    lost = iter(["after"])
    once = schedule(Once(at("10:01")), run_timeout=10 * MINUTE)

    def gate(store):
        return Gate(store, lambda name: next(lost, None) if name == "commit" else None)

    async def scenario():
        async with Rig(once, through=gate) as rig:
            await advance(rig.time, minutes=1)
            await rig.time.jump(-30 * 3600)
            await advance(rig.time, minutes=1)
            return await rig.rows()

    assert asyncio.run(scenario()) == ["10:01 SUCCESS"]


def test_the_place_of_a_removed_run_is_free_after_its_timeout_also_after_a_step_back():
    hanging = schedule(Once(at("10:01")), "hanging", run_timeout=2 * MINUTE)
    other = schedule(id_="other", run_timeout=2 * MINUTE)

    async def behave(launch):
        return await hang(launch) if launch.schedule == hanging else Succeeded()

    async def scenario():
        async with Rig(hanging, behave=behave, settings=Settings(in_flight_max=1)) as rig:
            await advance(rig.time, minutes=1)
            await rig.store.apply(Changes(removes=["hanging"]))
            await rig.time.jump(-30 * 3600)
            await rig.declare(other)
            rig.engine.wake()
            await advance(rig.time, minutes=10)
            return {schedule_id for _, schedule_id, _, _ in rig.calls.noted}

    assert asyncio.run(scenario()) == {"hanging", "other"}


def test_a_launch_in_doubt_at_the_loss_of_leadership_is_not_started_beside_its_restart():
    lost = iter(["after"])
    once = schedule(Once(at("10:01")), on_orphan=OnOrphan.RESTART, run_timeout=10 * MINUTE)

    def gate(store):
        return Gate(store, lambda name: next(lost, None) if name == "commit" else None)

    async def scenario():
        async with Rig(once, behave=hang, through=gate) as rig:
            await advance(rig.time, minutes=1)
            await depose(rig.store)
            await advance(rig.time, seconds=5)
            await rig.store.close()
            await advance(rig.time, seconds=5)
            return rig.calls.noted

    assert len(asyncio.run(scenario())) == 1


def test_a_window_that_is_taken_away_holds_nothing_back():
    later = schedule(window=Window(start=at("10:00") + 240 * HOUR))

    async def scenario():
        async with Rig(later) as rig:
            registrar = Registrar(rig.store, rig.time, rig.engine.wake)
            await registrar.trigger("s", "0" * 64)
            rig.engine.wake()
            await advance(rig.time, seconds=30)
            await registrar.upsert(later._replace(window=Window()))
            await advance(rig.time, minutes=3)
            return [tick for _, _, tick, _ in rig.calls.noted]

    assert asyncio.run(scenario()) == ["10:00", "10:01", "10:02", "10:03"]


def test_a_run_that_was_unsure_during_a_suspend_is_not_given_up_as_it_starts():
    lost = iter(["after"])
    once = schedule(Once(at("10:01")), run_timeout=10 * MINUTE)

    def gate(store):
        return Gate(store, lambda name: next(lost, None) if name == "commit" else None)

    async def scenario():
        async with Rig(once, through=gate) as rig:
            await advance(rig.time, minutes=1)
            await rig.time.jump(20 * 60)
            await advance(rig.time, minutes=1)
            return await rig.rows()

    assert asyncio.run(scenario()) == ["10:01 SUCCESS"]


class Most:
    """A task that hangs until it is released; how many of its calls were in flight and not cancelled."""

    def __init__(self):
        self.ongoing = self.seen = 0
        self.released = asyncio.Event()

    async def behave(self, _):
        self.ongoing += 1
        self.seen = max(self.seen, self.ongoing)
        try:
            await self.released.wait()
        finally:
            self.ongoing -= 1
        return Succeeded()

    async def ignore_cancels(self, launch):
        try:
            await self.behave(launch)
        finally:
            await hang(launch)


def test_a_run_that_outlives_its_timeout_makes_one_place_free_and_not_two():
    slow = schedule(id_="slow", overlap=Overlap.QUEUE, run_timeout=2 * MINUTE)
    others = [schedule(id_=f"other {n}", run_timeout=2 * MINUTE) for n in range(6)]
    most = Most()

    async def scenario():
        settings = Settings(in_flight_max=1, batch=2)
        async with Rig(slow, *others, behave=most.ignore_cancels, settings=settings) as rig:
            await advance(rig.time, minutes=20)
            return most.seen

    assert asyncio.run(scenario()) == 1


def test_a_run_that_ends_while_it_is_replaced_makes_one_place_free_and_not_two():
    replaced = schedule(overlap=Overlap.CANCEL_OTHER)
    other = schedule(Once(at("10:02")), "other")
    most = Most()

    async def end_before_load(method, *_):
        if method == "load" and rig.time.now().minute == 2:
            most.released.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            most.released.clear()

    rig = Rig(
        replaced,
        other,
        behave=most.behave,
        settings=Settings(in_flight_max=1),
        through=lambda store: Gate(store, between=end_before_load),
    )

    async def scenario():
        async with rig:
            await advance(rig.time, minutes=2)
            return most.seen

    assert asyncio.run(scenario()) == 1


def test_a_place_that_was_promised_to_a_run_which_an_edit_took_away_is_not_waited_for():
    hourly, group = Cron.parse("0 * * * *"), Capacity("g", 1)
    first, second = (schedule(hourly, id_, capacity=group) for id_ in ("first", "second"))
    edited = iter([first._replace(cadence=Cron.parse("30 * * * *"))])

    async def edit_before_commit(method, *_):
        if method == "commit" and rig.time.now().hour == 11:
            for changed in edited:
                await rig.declare(changed)

    rig = Rig(first, second, through=lambda store: Gate(store, between=edit_before_commit))

    async def scenario():
        async with rig:
            await advance(rig.time, minutes=61)
            return rig.calls.noted

    assert asyncio.run(scenario()) == [("11:00", "second", "11:00", 1)]


def test_a_place_whose_run_an_edit_saved_from_the_plan_is_not_given_away():
    first, second = (
        schedule(Once(at(tick)), id_, capacity=Capacity("g", 1), run_timeout=2 * MINUTE)
        for id_, tick in (("first", "10:01"), ("second", "10:03"))
    )
    edited, in_flight = iter([first._replace(task=Task("another"))]), []

    async def edit_before_commit(method, *_):
        if method == "commit" and rig.time.now().minute == 3:
            for changed in edited:
                await Registrar(rig.store, rig.time, rig.engine.wake).upsert(changed)

    async def behave(_):
        in_flight.append(sum(run.phase in IN_FLIGHT for due in await rig.store.every() for run in due.runs))
        return Accepted()

    rig = Rig(first, second, behave=behave, through=lambda store: Gate(store, between=edit_before_commit))

    async def scenario():
        async with rig:
            await advance(rig.time, minutes=4)
            return rig.calls.noted

    assert asyncio.run(scenario()) == [("10:01", "first", "10:01", 1), ("10:03", "second", "10:03", 1)]
    assert in_flight == [1, 1]


def test_the_only_place_of_the_engine_is_not_given_away_when_an_edit_saves_its_run_from_the_plan():
    saved = schedule(Once(at("10:01")), "saved", run_timeout=2 * MINUTE)
    other = schedule(Once(at("10:03")), "other")
    edited, most = iter([saved._replace(task=Task("another"))]), Most()

    async def edit_before_commit(method, *_):
        if method == "commit" and rig.time.now().minute == 3:
            for changed in edited:
                await Registrar(rig.store, rig.time, rig.engine.wake).upsert(changed)

    rig = Rig(
        saved,
        other,
        behave=most.behave,
        settings=Settings(in_flight_max=1),
        through=lambda store: Gate(store, between=edit_before_commit),
    )

    async def scenario():
        async with rig:
            await advance(rig.time, minutes=4)
            return most.seen, [schedule_id for _, schedule_id, *_ in rig.calls.noted]

    assert asyncio.run(scenario()) == (1, ["saved", "other"])


def test_a_run_that_waits_for_a_full_engine_does_not_wait_for_a_clock_that_was_set_back():
    first, second = (schedule(Once(at("10:01")), id_, on_orphan=OnOrphan.RELAUNCH) for id_ in ("a", "b"))
    released = asyncio.Event()

    async def behave(launch):
        await (hang(launch) if launch.run.attempt == 1 else released.wait())
        return Succeeded()

    async def scenario():
        async with Rig(first, second, behave=behave) as rig:
            await advance(rig.time, minutes=1)
            await rig.crash()
            rig.boot(settings=Settings(in_flight_max=1))
            await advance(rig.time, minutes=1)
            await rig.time.jump(-3600)
            await advance(rig.time, minutes=1)
            released.set()
            await advance(rig.time, minutes=1)
            return [call for call in rig.calls.noted if call[3] == 2]

    assert asyncio.run(scenario()) == [("10:01", "a", "10:01", 2), ("09:03", "b", "10:01", 2)]


def test_ticks_from_before_a_schedule_was_there_are_accounted_for_once_the_clock_is_set_back():
    async def scenario():
        async with Rig(schedule(overlap=Overlap.SKIP), behave=hang) as rig:
            await advance(rig.time, minutes=3)
            await rig.time.jump(-30 * 3600)
            await advance(rig.time, minutes=3)
            return await rig.rows()

    assert asyncio.run(scenario()) == [
        "-1+04:04--1+04:06 SKIPPED overlap",
        "10:01 STARTED",
        "10:02-10:03 SKIPPED overlap",
    ]


def test_ticks_of_another_cadence_that_begin_where_a_stretch_is_on_record_are_accounted_for():
    every_minute = schedule()

    async def scenario():
        async with Rig(every_minute) as rig:
            registrar = Registrar(rig.store, rig.time, rig.engine.wake)
            await registrar.pause("s", paused=True)
            await advance(rig.time, minutes=8)
            await rig.time.jump(-30 * 3600)
            await registrar.upsert(every_minute._replace(cadence=Cron.parse("1/2 * * * *", "standard")))
            await advance(rig.time, hours=30, minutes=-8)
            await rig.crash()
            await advance(rig.time, minutes=16, seconds=30)
            rig.boot()
            await advance(rig.time, seconds=1)
            return (await rig.rows())[-2:]

    assert asyncio.run(scenario()) == ["10:01-10:08 SKIPPED paused", "10:03-10:15 SKIPPED missed"]


@pytest.mark.parametrize(
    "seed",
    [
        # A run whose commit was not acknowledged began after the next commit had ended it.
        927,
        # An edit of the catch-up policy counts ticks as missed that the old policy had missed.
        1470,
    ],
)
def test_a_world_that_broke_a_rule_keeps_it_now(seed):
    assert STAGES["memory"](world_of(seed)).problems == []
