"""Any instant has a verdict: the tick of its minute, a tick that is not there, or one that is ahead."""

from __future__ import annotations

import asyncio
from datetime import UTC, timedelta, timezone

import pytest
from tests.core.plan.planner_notation import SECOND, at, run, schedule
from tests.runtime.registrar_notation import crash_and_boot, explained, registrar, utc
from tests.sim.rig import Rig

from dutiful.core.cadence import Every, Once, OnDemand
from dutiful.core.changes import Changes, Put
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.verdict import Verdict
from dutiful.core.policy import Overlap
from dutiful.core.run import Phase, Status
from dutiful.core.schedule import State, Window

HOURLY = Cron.parse("0 * * * *")


@pytest.mark.parametrize(
    ("cadence", "when", "tick", "code"),
    [
        # Any second of the minute means its tick, and the next minute's row is not taken for it.
        (Cron.parse("* * * * *"), "10:03:59.9", "10:03", "SUCCESS"),
        (Cron.parse("* * * * *"), "10:03", "10:03", "SUCCESS"),
        # Where ticks are closer than a minute, the second counts.
        (Cron.parse("*/20 * * * * *", "seconds"), "10:03", "10:03", "SUCCESS"),
        (Cron.parse("*/20 * * * * *", "seconds"), "10:03:20.5", "10:03:20", "SUCCESS"),
        (Cron.parse("*/20 * * * * *", "seconds"), "10:03:21", None, "not_due"),
        (Every(25 * SECOND), "10:02:30", "10:02:30", "SUCCESS"),
        (Every(25 * SECOND, "start"), "10:02:55.2", "10:02:55", "SUCCESS"),
        (Every(25 * SECOND, "start"), "10:02:56", None, "not_due"),
        # The past of a period is known, too.
        (Every(90 * SECOND), "10:01", "10:01:30", "SUCCESS"),
        (Every(90 * SECOND), "10:02:40", None, "not_due"),
        (Every(90 * SECOND, "start"), "10:03:30", "10:03", "SUCCESS"),
        (Once(at("10:02:30")), "10:02", "10:02:30", "SUCCESS"),
        (Once(at("10:02:30")), "10:03", None, "not_due"),
        (OnDemand(), "10:03", None, "not_due"),
    ],
    ids=str,
)
def test_an_instant_stands_for_its_minute_or_second(cadence, when, tick, code):
    async def told():
        async with Rig(schedule(cadence, overlap=Overlap.ALLOW)) as rig:
            await rig.time.advance(300)
            return await explained(rig, when)

    verdict = asyncio.run(told())
    assert (verdict.at, verdict.due, verdict.code) == (at(tick or when), tick is not None, code)
    assert verdict.setting == (None if tick else "cadence")


def test_a_tick_of_a_cadence_that_was_edited_since_is_still_in_the_ledger():
    async def told():
        async with Rig(schedule(HOURLY)) as rig:
            await rig.time.advance(3601)
            await crash_and_boot(rig, 4 * 3600)
            await registrar(rig).upsert(schedule(Cron.parse("45 23 * * *")))
            return [(await explained(rig, when)).code for when in ("11:00", "12:00", "14:00", "16:00")]

    # Of a stretch only its ends are known to have been ticks.
    assert asyncio.run(told()) == ["SUCCESS", "missed", "missed", "not_due"]


def test_a_manual_run_is_no_tick():
    manual = run("10:30", Phase.ENDED, kind="manual", status=Status.SUCCESS)

    async def told():
        async with Rig(schedule()) as rig:
            await rig.time.advance(31 * 60)
            await rig.store.apply(Changes(rows=[manual, manual._replace(run_at=at("10:30:20"))]))
            return await explained(rig, "10:30")

    assert asyncio.run(told()).run.kind == "schedule"


@pytest.mark.parametrize("when", ["08:00", "09:00", "11:00"])
def test_a_tick_before_the_cursor_without_a_row_is_unrecorded(when):
    async def told():
        async with Rig() as rig:
            await rig.store.apply(Changes([Put(schedule(HOURLY), State(at("11:00")), at("12:00"))]))
            return await explained(rig, when)

    text = "was decided before; its row is no longer kept, or the schedule did not exist yet"
    assert asyncio.run(told()) == Verdict(at(when), True, "unrecorded", None, f"s at {iso(when)} {text}")


def iso(when: str) -> str:
    return utc(when).isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("when", "inside"), [("10:59", False), ("11:00", True), ("12:00", True), ("12:01", False)]
)
def test_an_instant_outside_the_window_is_not_due(when, inside):
    window = Window(at("11:00"), at("12:00"))

    async def told():
        async with Rig(schedule(window=window)) as rig:
            return await explained(rig, when)

    verdict = asyncio.run(told())
    outside = (False, "outside_window", "window=2026-01-05T11:00:00Z to 2026-01-05T12:00:00Z")
    assert (verdict.due, verdict.code, verdict.setting) == ((True, "undecided", None) if inside else outside)


def test_a_quarantined_schedule_is_explained_by_its_error():
    async def told():
        async with Rig() as rig:
            await rig.store.apply(
                Changes([Put(schedule(Every(0, "start")), State(at("10:00")), at("10:00"))])
            )
            rig.engine.wake()
            await rig.time.advance(60)
            return [await explained(rig, when) for when in ("09:00", "11:00")]

    text = "cannot be computed: ZeroDivisionError: integer division or modulo by zero"
    assert asyncio.run(told()) == [
        Verdict(at(when), False, "quarantined", None, f"s at {iso(when)} {text}")
        for when in ("09:00", "11:00")
    ]


def test_the_instant_may_be_given_in_any_zone():
    async def told():
        async with Rig(schedule(HOURLY)) as rig:
            await rig.time.advance(3600)
            elsewhere = [
                utc("11:00").astimezone(zone) for zone in (UTC, timezone(timedelta(hours=5, minutes=45)))
            ]
            return [await registrar(rig).explain("s", when) for when in elsewhere]

    first, second = asyncio.run(told())
    assert first == second
