"""What is explained ahead of time is what happens, also in the hours that clocks skip or repeat."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.plan.planner_notation import HOUR, MINUTE, SECOND, at, schedule
from tests.runtime.registrar_notation import explained, registrar, slow_rig, utc
from tests.sim.rig import Rig

from dutiful.core.cadence import Every, Once
from dutiful.core.cron.cron import Cron
from dutiful.core.cron.zone import epoch_ms
from dutiful.core.plan.verdict import Verdict
from dutiful.core.policy import CatchUp, Overlap
from dutiful.core.schedule import Window

NEW_YORK = ZoneInfo("America/New_York")
HOURLY = Cron.parse("0 * * * *")


def wall(month, day, hour, minute, fold=0):
    return datetime(2026, month, day, hour, minute, tzinfo=NEW_YORK, fold=fold)


offset = datetime.fromisoformat


@pytest.mark.parametrize(
    ("text", "rules", "when", "expected"),
    [
        ("30 2 * * *", {}, wall(3, 8, 2, 30), (False, "dst_gap", "gap=skip")),
        ("30 2 * * *", {"gap": "run_after"}, wall(3, 8, 2, 30), (False, "dst_gap", "gap=run_after")),
        ("30 2 * * *", {"gap": "run_after"}, wall(3, 8, 3, 0), (True, "undecided", None)),
        ("30 2 * * *", {}, wall(3, 8, 3, 0), (False, "not_due", "cadence")),
        ("30 2 * * *", {}, wall(3, 8, 2, 31), (False, "not_due", "cadence")),
        ("30 2 * * *", {}, wall(3, 9, 2, 30), (True, "undecided", None)),
        # With an offset it is the skipped time if the zone has that offset before or after the change.
        ("30 2 * * *", {}, offset("2026-03-08T02:30:00-05:00"), (False, "dst_gap", "gap=skip")),
        ("30 2 * * *", {}, offset("2026-03-08T02:30:00-04:00"), (False, "dst_gap", "gap=skip")),
        ("30 2 * * *", {}, offset("2026-03-08T02:30:00-07:00"), (False, "not_due", "cadence")),
        ("30 2 * * *", {}, offset("2026-03-08T07:30:00+00:00"), (False, "not_due", "cadence")),
        ("30 3 * * *", {}, offset("2026-03-08T02:30:00-05:00"), (True, "undecided", None)),
        # An hour that another zone skips is an instant like any other to this one.
        ("30 7 * * *", {"timezone": "UTC"}, wall(3, 8, 2, 30), (True, "undecided", None)),
        ("30 1 * * *", {"fold": "first"}, wall(11, 1, 1, 30), (True, "undecided", None)),
        ("30 1 * * *", {"fold": "first"}, wall(11, 1, 1, 30, fold=1), (False, "dst_fold", "fold=first")),
        ("30 1 * * *", {"fold": "last"}, wall(11, 1, 1, 30), (False, "dst_fold", "fold=last")),
        ("30 1 * * *", {"fold": "last"}, wall(11, 1, 1, 30, fold=1), (True, "undecided", None)),
        ("30 1 * * *", {}, wall(11, 1, 1, 30, fold=1), (True, "undecided", None)),
        ("30 1 * * *", {}, wall(11, 1, 1, 31, fold=1), (False, "not_due", "cadence")),
    ],
)
def test_a_wall_time_that_is_missing_or_repeated_is_explained_by_the_rule(text, rules, when, expected):
    cadence = Cron.parse(text, **{"timezone": "America/New_York", **rules})

    async def told():
        async with Rig(schedule(cadence)) as rig:
            return await explained(rig, when)

    verdict = asyncio.run(told())
    assert (verdict.due, verdict.code, verdict.setting) == expected
    assert verdict.at == epoch_ms(when)


@pytest.mark.parametrize(
    ("when", "text"),
    [
        (
            wall(3, 8, 2, 30),
            "s at 2026-03-08 02:30:00 in America/New_York does not exist on that day, decided by gap=skip",
        ),
        (
            wall(11, 1, 2, 30),
            "s at 2026-11-01T07:30:00Z will fire at 2026-11-01T07:30:00Z",
        ),
    ],
)
def test_the_text_speaks_of_the_clock_on_the_wall_where_there_is_no_instant(when, text):
    async def told():
        async with Rig(schedule(Cron.parse("30 2 * * *", timezone=NEW_YORK))) as rig:
            return await explained(rig, when)

    assert asyncio.run(told()).text == text


@pytest.mark.parametrize(
    ("policy", "when", "code", "text"),
    [
        # Down since 10:00; it is 15:00:20, and 15:00 is within the grace.
        ({}, "12:00", "missed", "will be SKIPPED: missed, decided by catch_up=none"),
        ({}, "15:00", "undecided", "will fire at 2026-01-05T15:00:20Z"),
        (
            {"catch_up": CatchUp.LATEST}, "14:00", "coalesced",
            "will be SKIPPED: coalesced, decided by catch_up=latest",
        ),
        ({"catch_up": CatchUp.LATEST}, "15:00", "undecided", "will fire at 2026-01-05T15:00:20Z"),
        (
            {"catch_up": CatchUp.FIRE_IMMEDIATELY, "overlap": Overlap.ALLOW},
            "13:00", "undecided", "will fire at 2026-01-05T15:00:20Z",
        ),
        (
            {"catch_up": CatchUp.FIRE_IMMEDIATELY, "overlap": Overlap.QUEUE},
            "13:00", "undecided", "will be held, and fire at 2026-01-05T15:00:20Z or later",
        ),
        (
            {"catch_up": CatchUp.SPREAD}, "14:00", "undecided",
            "will be held, and fire at 2026-01-05T15:01:08Z or later",
        ),
    ],
)  # fmt: skip
def test_ticks_of_an_outage_are_explained_before_they_are_decided(policy, when, code, text):
    async def told():
        async with Rig(schedule(HOURLY, **policy)) as rig:
            await rig.crash()
            await rig.time.advance(5 * 3600 + 20)
            forecast = await explained(rig, when)
            rig.boot()
            await rig.time.advance(120)
            return forecast, await explained(rig, when)

    forecast, fact = asyncio.run(told())
    assert (forecast.code, forecast.text) == (code, f"s at {utc(when).isoformat()[:-6]}Z {text}")
    assert fact.code == ("SUCCESS" if code == "undecided" else code)


def test_a_tick_that_waits_for_a_run_in_flight_says_so():
    async def told():
        async with slow_rig(7000, schedule(HOURLY, overlap=Overlap.BUFFER_ONE, run_timeout=None)) as rig:
            await rig.time.advance(2 * 3600 + 60)
            return await explained(rig, "12:00")

    text = "s at 2026-01-05T12:00:00Z is due and waits for a run in flight to end"
    assert asyncio.run(told()) == Verdict(at("12:00"), True, "undecided", "overlap=buffer_one", text)


@pytest.mark.parametrize(
    ("when", "due", "code"),
    [
        ("10:15", False, "not_due"),
        ("10:20", True, "undecided"),
        ("10:40", False, "undecided"),
        ("10:41", False, "undecided"),
    ],
)
def test_a_period_counted_from_completion_knows_one_tick_ahead(when, due, code):
    async def told():
        async with Rig(schedule(Every(20 * MINUTE))) as rig:
            await rig.time.advance(60)
            return await explained(rig, when)

    verdict = asyncio.run(told())
    assert (verdict.due, verdict.code) == (due, code)


def test_a_period_counted_from_completion_knows_nothing_while_it_runs():
    async def told():
        async with slow_rig(1000, schedule(Every(20 * MINUTE))) as rig:
            await rig.time.advance(60)
            return await explained(rig, "10:20")

    text = "s at 2026-01-05T10:20:00Z depends on when the run before it ends"
    assert asyncio.run(told()) == Verdict(at("10:20"), False, "undecided", "cadence", text)


BEGINNINGS = ["2026-01-05T10:00:00+00:00", "2026-03-08T06:30:00+00:00", "2026-11-01T04:30:00+00:00"]
TEXTS = ["* * * * *", "0,7,30 * * * *", "*/5 1-3 * * *", "30 2 * * *", "30 1 * * *", "20 10-11 * * *"]
RULES = [{}, {"gap": "run_after"}, {"fold": "first"}, {"fold": "last"}, {"dst": "vixie"}]
CRONS = st.builds(
    lambda text, zone, rules: Cron.parse(text, "standard", zone, **rules),
    st.sampled_from(TEXTS), st.sampled_from(["UTC", "America/New_York"]), st.sampled_from(RULES),
)  # fmt: skip
FROM_NOW = st.integers(0, 3 * HOUR)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(BEGINNINGS), FROM_NOW)
def test_the_forecast_is_what_then_happens(data, begin, ahead):
    start = epoch_ms(datetime.fromisoformat(begin))
    instants = st.one_of(st.none(), FROM_NOW.map(start.__add__))
    cadence = data.draw(
        st.one_of(
            CRONS,
            st.integers(10, 3000).map(lambda seconds: Every(seconds * SECOND, "start")),
            FROM_NOW.map(lambda ms: Once(start + ms // 1000 * 1000)),
        )
    )
    window = Window(data.draw(instants), data.draw(instants))
    declared = schedule(
        cadence, window=window, overlap=data.draw(st.sampled_from(Overlap)),
        catch_up=data.draw(st.sampled_from(CatchUp)), jitter=data.draw(st.sampled_from([0, 0, 2000, 90_000])),
        jitter_early=data.draw(st.booleans()), max_runs=data.draw(st.sampled_from([None, None, 1, 5])),
        paused=data.draw(st.sampled_from([False, False, False, True])), run_timeout=None,
    )  # fmt: skip

    async def told():
        async with Rig() as rig:
            await rig.time.jump(timedelta(milliseconds=start - at("10:00")))
            await registrar(rig).upsert(declared)
            when = datetime.fromtimestamp((start + ahead) / 1000, UTC)
            forecast = await explained(rig, when)
            await rig.time.advance(4 * 3600)
            return forecast, await explained(rig, when)

    forecast, fact = asyncio.run(told())
    assert (forecast.at, forecast.due) == (fact.at, fact.due)
    if forecast.code == "undecided":
        promised = re.search(r"will fire at (\S+)$", forecast.text)
        assert fact.code == "SUCCESS"
        assert fact.run.started_at == epoch_ms(datetime.fromisoformat(promised[1]))
    else:
        assert (fact.code, fact.setting) == (forecast.code, forecast.setting)
