"""A service with thirty days of history: one schedule for each state that a page can show."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.web.running import Running, running

from dutiful.core.changes import Changes, Put
from dutiful.core.plan.outcome import Failed, Outcome, Succeeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dutiful.testing import VirtualClock

START = "2026-10-03T14:05:12+00:00"
NOW = "2026-11-02T14:05:12Z"
_DAY, _HOUR_MS = 86_400.0, 3_600_000

# The DAG says what its runs do: how long they take, on which dates they fail, and from when they hang.
WORKFLOWS = {
    "settle-ledger": {
        "takes": 300,
        "fails": ["2026-10-19", "2026-11-02"],
        "why": "ConnectionRefusedError: ledger-db.internal:5432",
    },
    "dun": {"takes": 95},
    "report": {"takes": 240, "hangs": "2026-11-02T07"},
    "clicks": {"takes": 660},
    "back-up": {"takes": 5400},
    "poll": {"takes": 4},
    "suggest": {"takes": 12},
}


def _schedule(schedule_id: str, workflow_id: str, cron_expr: str, timezone: str = "UTC", **more: Any) -> Any:
    return {
        "schedule_id": schedule_id,
        "workflow_id": workflow_id,
        "cron_expr": cron_expr,
        "timezone": timezone,
        **more,
    }


SCHEDULES = [
    _schedule(
        "settlement.us-east", "settle-ledger", "30 1 * * *", "America/New_York",
        labels={"team": "settlement", "tier": "1"}, catchup_policy="latest",
    ),
    _schedule("billing.dunning", "dun", "30 9 * * 1-5", "America/New_York", labels={"team": "billing"}),
    _schedule("reports.hourly-emea", "report", "0 * * * *", run_timeout_s=43200),
    _schedule("etl.clickstream", "clicks", "*/30 * * * *", overlap_policy="queue"),
    _schedule("backup.nightly-eu", "back-up", "0 2 * * *", "Europe/Berlin", run_timeout_s=10800),
    _schedule("orders.sync", "poll", "0,30 * * * *"),
    _schedule("search.suggest", "suggest", "15 * * * *", labels={"team": "search"}),
    _schedule("import.supplier-kyiv", "poll", "40 6 * * *", "Europe/Kyiv"),
]  # fmt: skip
# Stored for the last two days only, because they have many ticks, or none.
RECENT = [
    _schedule("edge.heartbeat", "poll", "0 */5 * * * *"),
    _schedule("cache.warm", "suggest", "*/10 * * * *"),
    _schedule("invoices.export", "dun", "5 * * * *", labels={"team": "billing"}),
    _schedule("year-end.close", "settle-ledger", "0 23 31 12 *"),
]


class Acting:
    """An executor that does what the DAG says, on the virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    async def run(self, dag: Any, meta: Any) -> Outcome:
        begins = meta.scheduled_for.isoformat()
        if "hangs" in dag and begins.startswith(dag["hangs"]):
            await asyncio.Event().wait()
        # The key of a run by hand is random, and pictures of the pages must not be.
        longer = int(meta.idempotency_key[:2], 16) if meta.source == "schedule" else 128
        await self._clock.sleep(dag["takes"] * (1 + longer / 512))
        if begins[:10] in dag.get("fails", ()) and meta.source == "schedule":
            return Failed(dag["why"])
        return Succeeded()


@contextmanager
def seeded(**environ: str) -> Iterator[Running]:
    """Run the service at NOW with its thirty days behind it, until the block ends."""
    with started(**environ) as it:
        _fill(it)
        yield it


@contextmanager
def started(**environ: str) -> Iterator[Running]:
    """Run the service at START without any schedule, until the block ends."""
    with running(None, start=START, executor=Acting, tick_ms=_HOUR_MS, **environ) as it:
        yield it


def store(it: Running, schedule: dict[str, Any]) -> None:
    """Store a schedule of the user acme that runs version 14 of its workflow."""
    it.post("/schedules/upsert", {"version": 14, "user_id": "acme", **schedule})


def _pause(it: Running, schedule_id: str, note: str) -> None:
    it.post("/schedules/pause", {"schedule_id": schedule_id, "paused": True, "note": note})


def _set_aside(it: Running, schedule_id: str, why: str) -> None:
    """Quarantine a schedule, as the planner does with one that it cannot compute."""

    async def write() -> None:
        kept = it.service._store
        known = await kept.get(schedule_id)
        assert known is not None
        state = known.state._replace(quarantine=why)
        await kept.apply(Changes([Put(known.schedule, state, None, known.version)]))

    asyncio.run_coroutine_threadsafe(write(), it.loop).result(60)


def _fill(it: Running) -> None:
    for workflow, dag in WORKFLOWS.items():
        it.put(f"/workflows/{workflow}/14", dag)
    for schedule in SCHEDULES:
        store(it, schedule)
    it.advance(9 * _DAY)
    _pause(it, "settlement.us-east", "ledger moves, ask Ada")
    it.advance(3 * _DAY)
    it.post("/schedules/pause", {"schedule_id": "settlement.us-east", "paused": False})
    it.advance(4 * _DAY)
    it.post("/schedules/settlement.us-east/trigger")
    it.advance(12 * _DAY)
    for schedule in RECENT:
        store(it, schedule)
    it.advance(1.9 * _DAY)
    _set_aside(
        it, "import.supplier-kyiv", "the time zone 'Europe/Kiew' is not known; did you mean 'Europe/Kyiv'?"
    )
    _pause(it, "search.suggest", "index moves, ask Ada")
    it.advance(0.1 * _DAY)
    backfill = {"start": "2026-10-12T00:00:00Z", "end": "2026-10-14T00:00:00Z"}
    it.post("/schedules/settlement.us-east/backfill", backfill)
    it.advance(0)
