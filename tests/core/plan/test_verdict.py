"""Why a tick ran, did not run, or will run: the answer is the ledger's, or what then happens."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from tests.core.plan.planner_notation import HOUR, MINUTE, at, schedule
from tests.runtime.registrar_notation import answering_rig, crash_and_boot, explained, registrar, slow_rig
from tests.sim.rig import Rig

from dutiful.core.cadence import Every
from dutiful.core.changes import Changes, Put
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.outcome import Failed, NoWork, Refused, Unanswered, Unreached
from dutiful.core.plan.verdict import Verdict
from dutiful.core.policy import Capacity, CatchUp, OnOrphan, Overlap, Reason, Retry
from dutiful.core.run import Status

HOURLY = Cron.parse("0 * * * *")


# Each story brings the schedule to the point at which 11:00, or the tick it names, was decided.


async def through_an_outage(rig):
    await crash_and_boot(rig, 4 * 3600 - 10)


async def until_half_past_twelve(rig):
    await rig.time.advance(2 * 3600 + 1800)


async def paused_from_the_start(rig):
    await registrar(rig).pause("s", True)
    await until_half_past_twelve(rig)
    await registrar(rig).pause("s", False)


async def killed_at_eleven(rig):
    await rig.time.advance(3601)
    await crash_and_boot(rig, 60)


async def down_for_three_hours(rig):
    await crash_and_boot(rig, 3 * 3600)


async def limit_lifted(rig):
    await until_half_past_twelve(rig)
    await registrar(rig).upsert(schedule(HOURLY))


async def mended_after_quarantine(rig):
    await rig.crash()
    due = await rig.store.get("s")
    await rig.store.apply(Changes([Put(due.schedule, due.state._replace(quarantine="no such zone"), None)]))
    await until_half_past_twelve(rig)
    await registrar(rig).upsert(schedule(Cron.parse("45 * * * *")))


async def beside_another(rig):
    await registrar(rig).upsert(
        schedule(Every(24 * HOUR), "other", capacity=Capacity("g", 1), run_timeout=None)
    )
    await until_half_past_twelve(rig)


def takes(seconds):
    return partial(slow_rig, seconds)


def answers(outcome):
    return partial(answering_rig, outcome)


REASONS = [
    (Reason.OVERLAP, {"run_timeout": None}, takes(5000), until_half_past_twelve, "12:00", "overlap=skip"),
    (Reason.MISSED, {}, Rig, through_an_outage, "12:00", "catch_up=none"),
    (Reason.COALESCED, {"catch_up": CatchUp.LATEST}, Rig, through_an_outage, "12:00", "catch_up=latest"),
    (
        Reason.CATCHUP_CAP, {"catch_up": CatchUp.FIRE_IMMEDIATELY, "catch_up_cap": 1},
        Rig, through_an_outage, "12:00", "catch_up_cap=1",
    ),
    (
        Reason.QUEUE_FULL, {"overlap": Overlap.QUEUE, "queue_limit": 1, "run_timeout": None},
        takes(9 * 3600), lambda rig: rig.time.advance(4 * 3600), "13:00", "queue_limit=1",
    ),
    (
        Reason.REPLACED, {"overlap": Overlap.BUFFER_ONE, "run_timeout": None},
        takes(10_000), lambda rig: rig.time.advance(5 * 3600), "12:00", "overlap=buffer_one",
    ),
    (
        Reason.REPLACED, {"overlap": Overlap.CANCEL_OTHER, "catch_up": CatchUp.FIRE_IMMEDIATELY}, Rig,
        down_for_three_hours, "11:00", "overlap=cancel_other",
    ),
    (Reason.PAUSED, {}, Rig, paused_from_the_start, "12:00", "paused=True"),
    (Reason.LIMIT_REACHED, {"max_runs": 1}, Rig, limit_lifted, "12:00", "max_runs=none"),
    (
        Reason.AT_CAPACITY, {"capacity": Capacity("g", 1), "grace": 9 * HOUR},
        takes(9 * 3600), beside_another, "11:00", "capacity=g, at most 1",
    ),
    (Reason.NO_WORK, {}, answers(NoWork()), until_half_past_twelve, "11:00", None),
    (Reason.QUARANTINED, {}, Rig, mended_after_quarantine, "12:00", None),
    (
        Reason.LAUNCH_REFUSED, {}, answers(Refused(Reason.LAUNCH_REFUSED)),
        until_half_past_twelve, "11:00", None,
    ),
    (Reason.LAUNCH_FAILED, {}, answers(Unreached()), until_half_past_twelve, "11:00", "launch_retry=none"),
    (Reason.LAUNCH_FAILED, {}, answers(Unanswered()), until_half_past_twelve, "11:00", "launch_retry=none"),
    (
        Reason.UNKNOWN_WORKFLOW, {}, answers(Refused(Reason.UNKNOWN_WORKFLOW)),
        until_half_past_twelve, "11:00", None,
    ),
    (
        Reason.OUTCOME_UNKNOWN, {"on_orphan": OnOrphan.GIVE_UP}, takes(600),
        killed_at_eleven, "11:00", "on_orphan=give_up",
    ),
    (
        Reason.OUTCOME_UNKNOWN, {"on_orphan": OnOrphan.GIVE_UP}, answers(Unanswered()),
        until_half_past_twelve, "11:00", "on_orphan=give_up",
    ),
    (
        Reason.LOST_RUN, {"run_timeout": 30 * MINUTE}, takes(9 * 3600),
        until_half_past_twelve, "11:00", "run_timeout=1800000",
    ),
    (
        Reason.INTERRUPTED, {"on_orphan": OnOrphan.WAIT}, takes(600),
        killed_at_eleven, "11:00", "on_orphan=wait",
    ),
    (
        Reason.INTERRUPTED, {"overlap": Overlap.CANCEL_OTHER, "run_timeout": None}, takes(9 * 3600),
        until_half_past_twelve, "11:00", "overlap=cancel_other",
    ),
    (Reason.TASK_FAILED, {}, answers(Failed("no disk")), until_half_past_twelve, "11:00", "retry=none"),
    (
        Reason.TASK_FAILED, {"retry": Retry(2 * HOUR)}, answers(Failed("no disk")),
        lambda rig: rig.time.advance(3601), "11:00", "retry=after 7200 s",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "policy", "rig_of", "story", "tick", "setting"), REASONS)
def test_the_past_is_explained_with_the_reason_of_the_ledger_and_the_setting_behind_it(
    reason, policy, rig_of, story, tick, setting
):
    async def told():
        async with rig_of(schedule(HOURLY, **policy)) as rig:
            await rig.time.advance(0)
            await story(rig)
            rows = await rig.store.ledger("s", at(tick), 1)
            return rows[0], await explained(rig, tick)

    row, verdict = asyncio.run(told())
    assert (verdict.at, verdict.due, verdict.code, verdict.setting) == (at(tick), True, reason, setting)
    assert verdict.run == row
    assert row.reason is reason
    assert row.run_at <= at(tick) <= (row.run_until or row.run_at)


def test_every_reason_is_explained_but_the_one_that_has_no_row():
    assert {reason for reason, *_ in REASONS} == {*Reason} - {Reason.OUTSIDE_WINDOW}


@pytest.mark.parametrize(
    ("when", "status", "attempt", "text"),
    [
        ("11:00", Status.SUCCESS, 1, "s at 2026-01-05T11:00:00Z is SUCCESS"),
        ("13:00", Status.STARTED, 2, "s at 2026-01-05T13:00:00Z is STARTED, attempt 2"),
    ],
)
def test_a_run_is_explained_by_its_status(when, status, attempt, text):
    async def told():
        async with slow_rig(600, schedule(HOURLY)) as rig:
            await rig.time.advance(3 * 3600 + 60)
            await crash_and_boot(rig, 60)
            return await explained(rig, when)

    verdict = asyncio.run(told())
    assert verdict == Verdict(at(when), True, status, None, text, verdict.run)
    assert (verdict.run.status, verdict.run.attempt) == (status, attempt)


def test_the_text_names_the_reason_the_detail_and_the_setting():
    async def told():
        async with answering_rig(Failed("no disk"), schedule(HOURLY)) as rig:
            await rig.time.advance(3601)
            return await explained(rig, "11:00")

    text = "s at 2026-01-05T11:00:00Z is FAILED: task_failed (no disk), decided by retry=none"
    assert asyncio.run(told()).text == text
