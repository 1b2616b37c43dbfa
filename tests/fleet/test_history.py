"""The history of a large fleet: nothing is lost behind the many runs of others."""

from __future__ import annotations

import asyncio

import pytest
from tests.fleet.rig import FleetRig, agent, cron
from tests.stores.notation import put, schedule

from dutiful.core.cadence import OnDemand
from dutiful.core.changes import Changes
from dutiful.core.policy import Reason
from dutiful.core.run import Phase, Run, Status
from dutiful.fleet import AgentNotFoundError
from dutiful.fleet.scheduler import HISTORY_FILE
from dutiful.stores.sqlite import SqliteStore

# 9 o'clock on 2 March 2026, and so many runs of one schedule since.
NINE, MANY = 1_772_442_000_000, 20_500


def row(id_, seconds, status=Status.SUCCESS, reason=None):
    at = NINE + 1000 * seconds
    return Run(id_, at, "schedule", status, Phase.ENDED, at, reason, 1, created_at=at, updated_at=at)


@pytest.fixture
def busy(tmp_path):
    """A history in which a run of `rare`, which failed, lies behind the many runs of `busy`."""

    async def fill():
        store = SqliteStore(str(tmp_path / HISTORY_FILE), namespace="fleet")
        await store.open()
        puts = [put(schedule(id_, OnDemand()), None) for id_ in ("busy/s", "rare/s", "so-rare/s")]
        failed = [row(id_, 0, Status.FAILED, Reason.TASK_FAILED) for id_ in ("rare/s", "so-rare/s")]
        await store.apply(Changes(puts, rows=[*failed, *(row("busy/s", n) for n in range(1, MANY))]))
        await store.close()

    asyncio.run(fill())
    return tmp_path


def test_an_agent_has_its_history_behind_the_many_runs_of_another(busy):
    async def story():
        agents = [agent("busy", s=cron("@yearly")), agent("rare", t=cron("@yearly"))]
        async with FleetRig(busy, *agents) as rig:
            found = {
                "rare": await rig.fleet.get_recent(agent="rare"),
                "failed": await rig.fleet.get_recent(failed=True),
                "failed of busy": await rig.fleet.get_recent(agent="busy", failed=True),
                "failed of rare/s": await rig.fleet.get_history("rare", "s", failed=True),
            }
            with pytest.raises(AgentNotFoundError):
                await rig.fleet.get_recent(agent="r")
            return {name: [run.schedule_id for run in runs] for name, runs in found.items()}

    assert asyncio.run(story()) == {
        "rare": ["rare/s"],
        "failed": ["so-rare/s", "rare/s"],
        "failed of busy": [],
        "failed of rare/s": ["rare/s"],
    }
