"""The ledger rows that decisions need: those of ticks that come again after a clock rollback."""

from __future__ import annotations

import asyncio

import pytest
from tests.core.plan.planner_notation import HOUR, at, clock, schedule
from tests.sim.rig import Rig

from dutiful.core.cadence import Every
from dutiful.core.cron.cron import Cron
from dutiful.runtime.ledger_lookup import recalled

HOURLY = Cron.parse("0 * * * *")


async def recalled_after_a_step_back(declared, now):
    """Return what is known of a schedule that has run for 30 hours when it is noon again."""
    async with Rig(declared) as rig:
        await rig.time.advance(30 * 3600)
        await rig.time.jump(-28 * 3600)
        await rig.time.advance(1)
        due = await rig.store.get("s")
        return due, await recalled(rig.store, due, at(now))


def test_the_rows_up_to_now_are_recalled_back_to_the_one_that_may_reach_beyond_the_cursor():
    due, known = asyncio.run(recalled_after_a_step_back(schedule(HOURLY), "14:30"))
    assert clock(due.state.cursor) == "12:00"
    assert {clock(row.run_at) for row in known.repeated} >= {"12:00", "13:00", "14:00"}
    assert max(row.run_at for row in known.repeated) == at("14:00")
    assert known._replace(repeated=()) == due


def test_a_tick_that_fires_before_its_time_is_among_them():
    _, known = asyncio.run(recalled_after_a_step_back(schedule(HOURLY, jitter=HOUR // 2), "14:30"))
    assert max(row.run_at for row in known.repeated) == at("15:00")


@pytest.mark.parametrize("declared", [schedule(HOURLY, ledger=False), schedule(Every(HOUR, "start"))])
def test_nothing_is_looked_up_where_no_row_can_come_again(declared):
    due, known = asyncio.run(recalled_after_a_step_back(declared, "14:30"))
    assert due.state.decided_until > due.state.cursor
    assert known is due
