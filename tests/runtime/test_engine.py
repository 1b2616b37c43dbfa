"""The engine on a virtual clock: what is durable is launched, and nothing that a task does ends it."""

from __future__ import annotations

import asyncio

import pytest
from tests.core.plan.planner_notation import MINUTE, SECOND, at, schedule
from tests.sim.rig import Rig

from dutiful.core.cadence import Every, Once
from dutiful.core.changes import Changes, Put
from dutiful.core.event import (
    LeadershipChanged,
    RunEndedByPlan,
    RunHeld,
    RunLaunched,
    RunSettled,
    ScheduleQuarantined,
)
from dutiful.core.plan.outcome import Accepted, Failed, NoWork, Refused, Settlement, Succeeded, settle
from dutiful.core.policy import Overlap, Reason, Retry
from dutiful.core.run import Phase
from dutiful.core.schedule import State


def test_a_tick_fires_at_its_own_instant():
    async def story():
        async with Rig(schedule()) as rig:
            await rig.time.advance(150)
            return rig.calls.noted, await rig.rows()

    noted, rows = asyncio.run(story())
    assert noted == [("10:01", "s", "10:01", 1), ("10:02", "s", "10:02", 1)]
    assert rows == ["10:01 SUCCESS", "10:02 SUCCESS"]


def test_a_run_is_durable_before_it_is_launched():
    seen = []

    async def look(launch):
        seen.append((launch.run, (await rig.store.get("s")).runs))
        return Succeeded()

    async def story():
        nonlocal rig
        rig = Rig(schedule(), behave=look)
        async with rig:
            await rig.time.advance(60)

    rig = None
    asyncio.run(story())
    ((launched, stored),) = seen
    assert (list(stored), launched.phase) == ([launched], Phase.LAUNCHED)


def test_events_come_in_the_order_in_which_things_happened():
    async def story():
        async with Rig(schedule()) as rig:
            await rig.time.advance(60)
            return rig.events

    events = asyncio.run(story())
    assert [type(event) for event in events] == [LeadershipChanged, RunLaunched, RunSettled]
    assert [event.at for event in events] == [at("10:00"), at("10:01"), at("10:01")]
    assert (events[1].late, events[2].run.phase) == (0, Phase.ENDED)


class Own(BaseException):
    """Something that is no Exception."""


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (ValueError("no"), "ValueError: no"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (asyncio.CancelledError(), "CancelledError"),
        (Own(), "Own"),
        (OSError(), "OSError"),
    ],
)
def test_whatever_a_task_raises_is_a_failed_run(raised, told):
    async def fail(_):
        raise raised

    async def story():
        async with Rig(schedule(), behave=fail) as rig:
            await rig.time.advance(120)
            return await rig.rows(), (await rig.store.ledger("s", None, 1))[0].detail

    rows, detail = asyncio.run(story())
    assert rows == ["10:01 FAILED task_failed", "10:02 FAILED task_failed"]
    assert detail == told


class UnspeakableError(Exception):
    def __str__(self):
        raise ValueError("not even this")


def test_an_exception_that_cannot_be_rendered_is_a_failed_run():
    async def fail(_):
        raise UnspeakableError

    async def story():
        async with Rig(schedule(), behave=fail) as rig:
            await rig.time.advance(60)
            return await rig.rows()

    assert asyncio.run(story()) == ["10:01 FAILED task_failed"]


@pytest.mark.parametrize("answer", [None, 3, True, "SUCCESS", (), object()])
def test_an_answer_that_means_nothing_is_a_failed_run(answer):
    async def mumble(_):
        return answer

    async def story():
        async with Rig(schedule(), behave=mumble) as rig:
            await rig.time.advance(120)
            return await rig.rows()

    assert asyncio.run(story()) == ["10:01 FAILED task_failed", "10:02 FAILED task_failed"]


def test_a_task_that_hangs_delays_no_other():
    async def hang(launch):
        if launch.run.schedule_id == "a":
            await asyncio.Event().wait()
        return Succeeded()

    async def story():
        async with Rig(schedule(id_="a"), schedule(id_="b"), behave=hang) as rig:
            await rig.time.advance(180)
            return await rig.rows("a"), await rig.rows("b")

    hanging, other = asyncio.run(story())
    assert hanging == ["10:01 STARTED", "10:02-10:03 SKIPPED overlap"]
    assert other == ["10:01 SUCCESS", "10:02 SUCCESS", "10:03 SUCCESS"]


OUTCOMES = [
    (Succeeded(), "10:00 SUCCESS"),
    (Failed(), "10:00 FAILED task_failed"),
    (NoWork(), "10:00 SKIPPED no_work"),
    (Refused(Reason.UNKNOWN_WORKFLOW), "10:00 FAILED unknown_workflow"),
    (Accepted("r"), "10:00 ENQUEUED"),
]


@pytest.mark.parametrize(("outcome", "row"), OUTCOMES)
def test_an_outcome_becomes_the_row(outcome, row):
    async def behave(_):
        return outcome

    async def story():
        async with Rig(schedule(Every(MINUTE)), behave=behave) as rig:
            await rig.time.advance(0)
            return await rig.rows()

    assert asyncio.run(story()) == [row]


def test_a_period_counts_from_the_end_of_its_run():
    async def story():
        async def work(_):
            await rig.time.sleep(20)
            return Succeeded()

        async with Rig(schedule(Every(MINUTE)), behave=work) as rig:
            await rig.time.advance(200)
            return [instant for instant, *_ in rig.calls.noted]

    assert asyncio.run(story()) == ["10:00", "10:01:20", "10:02:40"]


def test_ticks_due_during_a_run_make_one_run_when_it_ends():
    async def story():
        async def work(_):
            await rig.time.sleep(200)
            return Failed("it still counts")

        async with Rig(schedule(overlap=Overlap.BUFFER_ONE), behave=work) as rig:
            await rig.time.advance(500)
            return rig.calls.noted, await rig.rows()

    noted, rows = asyncio.run(story())
    assert [instant for instant, *_ in noted] == ["10:01", "10:04:20", "10:07:40"]
    assert rows[:3] == [
        "10:01 FAILED task_failed",
        "10:02-10:03 SKIPPED replaced",
        "10:04 FAILED task_failed",
    ]


def test_a_queue_keeps_every_tick_in_order():
    async def story():
        async def work(_):
            await rig.time.sleep(90)
            return Succeeded()

        async with Rig(schedule(overlap=Overlap.QUEUE), behave=work) as rig:
            await rig.time.advance(400)
            return rig.calls.noted, rig.told(RunHeld)

    noted, held = asyncio.run(story())
    assert [(instant, tick) for instant, _, tick, _ in noted] == [
        ("10:01", "10:01"),
        ("10:02:30", "10:02"),
        ("10:04", "10:03"),
        ("10:05:30", "10:04"),
    ]
    assert [event.run.phase for event in held] == [Phase.QUEUED] * 5


def test_the_newer_run_cancels_the_older_one():
    lives = []

    async def story():
        async def work(launch):
            lives.append(("begins", launch.run.run_at))
            try:
                await rig.time.sleep(90)
            except asyncio.CancelledError:
                lives.append(("ends", launch.run.run_at))
                raise
            return Succeeded()

        async with Rig(schedule(overlap=Overlap.CANCEL_OTHER), behave=work) as rig:
            await rig.time.advance(150)
            return await rig.rows(), rig.told(RunEndedByPlan)

    rows, told = asyncio.run(story())
    assert rows == ["10:01 FAILED interrupted", "10:02 STARTED"]
    assert lives[:3] == [("begins", at("10:01")), ("ends", at("10:01")), ("begins", at("10:02"))]
    assert [event.run.reason for event in told] == [Reason.INTERRUPTED]


def test_a_run_beyond_its_timeout_is_lost_and_its_late_answer_is_not_heard():
    async def story():
        async def stubborn(_):
            try:
                await rig.time.sleep(600)
            except asyncio.CancelledError:
                await rig.time.sleep(30)
            return Succeeded()

        declared = schedule(Once(at("10:01")), run_timeout=2 * MINUTE)
        async with Rig(declared, behave=stubborn) as rig:
            await rig.time.advance(181)
            at_timeout = await rig.rows()
            await rig.time.advance(600)
            return at_timeout, await rig.rows()

    assert asyncio.run(story()) == (["10:01 FAILED lost_run"], ["10:01 FAILED lost_run"])


def test_a_report_ends_an_accepted_run():
    async def accept(_):
        return Accepted("r-1")

    async def story():
        async with Rig(schedule(Once(at("10:01"))), behave=accept) as rig:
            await rig.time.advance(90)
            (run,) = (await rig.store.get("s")).runs
            ended = settle(run, Succeeded(), schedule().policy, at("10:01:30"))
            heard = [await rig.store.report(run, Settlement(ended, keep=True)) for _ in range(2)]
            return heard, await rig.rows()

    assert asyncio.run(story()) == ([True, False], ["10:01 SUCCESS"])


def test_a_failed_task_is_tried_again_and_a_tick_pre_empts_the_retry():
    async def story():
        async def fail(_):
            return Failed("no")

        async with Rig(schedule(retry=Retry(40 * SECOND)), behave=fail) as rig:
            await rig.time.advance(150)
            return rig.calls.noted, await rig.rows()

    noted, rows = asyncio.run(story())
    assert [(instant, tick, attempt) for instant, _, tick, attempt in noted] == [
        ("10:01", "10:01", 1),
        ("10:01:40", "10:01", 2),
        ("10:02", "10:02", 1),
    ]
    assert rows == ["10:01 FAILED task_failed", "10:02 ENQUEUED task_failed"]


def test_a_retry_without_delay_lets_others_run():
    async def story():
        async def fail(launch):
            return Failed("no") if launch.run.schedule_id == "a" and launch.run.attempt < 500 else Succeeded()

        retried = schedule(Once(at("10:01")), id_="a", retry=Retry(0))
        async with Rig(retried, schedule(id_="b"), behave=fail) as rig:
            await rig.time.advance(60)
            return rig.calls.noted

    noted = asyncio.run(story())
    assert sorted(noted[:2]) == [("10:01", "a", "10:01", 1), ("10:01", "b", "10:01", 1)]
    assert noted[-1] == ("10:01", "a", "10:01", 500)


def test_a_schedule_that_cannot_be_computed_is_reported_and_left_alone():
    async def story():
        async with Rig(schedule(id_="good")) as rig:
            bad = schedule(Every(0, "start"), id_="bad")
            await rig.store.apply(Changes([Put(bad, State(at("10:00")), at("10:00"))]))
            rig.engine.wake()
            await rig.time.advance(120)
            return rig.told(ScheduleQuarantined), rig.calls.noted

    told, noted = asyncio.run(story())
    assert [(event.schedule_id, event.error[:17]) for event in told] == [("bad", "ZeroDivisionError")]
    assert [id_ for _, id_, *_ in noted] == ["good", "good"]


def test_a_run_is_carried_by_a_task_named_after_its_schedule_from_the_first_step_on():
    names = []

    async def note(_):
        names.append(asyncio.current_task().get_name())
        return Succeeded()

    async def story():
        async with Rig(schedule(), behave=note) as rig:
            await rig.time.advance(60)

    asyncio.run(story())
    assert names == ["s"]
