"""A service with thirty days of history: one schedule for each state that a page can show."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2

from dutiful.core.plan.outcome import Failed, Outcome, Succeeded
from dutiful.core.plan.reconcile import Changes, Put
from dutiful.httpd.server import HttpServer, listen
from dutiful.service.settings import settings_from
from dutiful.service.wiring import Service
from dutiful.testing import VirtualClock
from dutiful.web.app import create_app

if TYPE_CHECKING:
    from collections.abc import Iterator

START = "2026-10-03T14:05:12+00:00"
NOW = "2026-11-02T14:05:12Z"
_DAY = 86_400.0

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
LATER = _schedule("edge.heartbeat", "poll", "*/30 * * * * *")
NEVER = _schedule("year-end.close", "settle-ledger", "0 23 31 12 *")


class Acting:
    """An executor that does what the DAG says, on the virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    async def run(self, dag: Any, meta: Any) -> Outcome:
        begins = meta.scheduled_for.isoformat()
        if "hangs" in dag and begins.startswith(dag["hangs"]):
            await asyncio.Event().wait()
        await self._clock.sleep(dag["takes"] * (1 + int(meta.idempotency_key[:2], 16) / 512))
        if begins[:10] in dag.get("fails", ()) and meta.source == "schedule":
            return Failed(dag["why"])
        return Succeeded()


@dataclass
class Seeded:
    url: str
    client: httpx2.Client
    clock: VirtualClock
    service: Service
    loop: asyncio.AbstractEventLoop

    def advance(self, seconds: float) -> None:
        asyncio.run_coroutine_threadsafe(self.clock.advance(seconds), self.loop).result(120)

    def post(self, path: str, body: Any) -> Any:
        answer = self.client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def upsert(self, schedule: dict[str, Any]) -> None:
        self.post("/schedules/upsert", {"version": 14, "user_id": "acme", **schedule})

    def pause(self, schedule_id: str, note: str) -> None:
        self.post("/schedules/pause", {"schedule_id": schedule_id, "paused": True, "note": note})

    def set_aside(self, schedule_id: str, why: str) -> None:
        """Quarantine a schedule, as the planner does with one that it cannot compute."""

        async def write() -> None:
            store = self.service._store
            known = await store.get(schedule_id)
            assert known is not None
            state = known.state._replace(quarantine=why)
            await store.apply(Changes([Put(known.schedule, state, None, known.version)]))

        asyncio.run_coroutine_threadsafe(write(), self.loop).result(60)


@contextmanager
def seeded(**environ: str) -> Iterator[Seeded]:
    """Run the service at NOW with its thirty days behind it, until the block ends."""
    with started(**environ) as it:
        _fill(it)
        yield it


@contextmanager
def started(**environ: str) -> Iterator[Seeded]:
    """Run the service at START without any schedule, until the block ends."""
    thread = _Thread(
        {
            "DUTIFUL_STORE": "memory:",
            "DUTIFUL_PORT": "0",
            "TICK_MS": "60000",
            "DUTIFUL_DRAIN_S": "0",
            **environ,
        }
    )
    with thread, httpx2.Client(base_url=thread.url, trust_env=False, verify=False, timeout=60) as client:
        yield Seeded(thread.url, client, thread.clock, thread.service, thread.loop)


def _fill(it: Seeded) -> None:
    for workflow, dag in WORKFLOWS.items():
        assert it.client.put(f"/workflows/{workflow}/14", json=dag).status_code == 200
    for schedule in SCHEDULES:
        it.upsert(schedule)
    it.advance(9 * _DAY)
    it.pause("settlement.us-east", "ledger moves, ask Ada")
    it.advance(3 * _DAY)
    it.post("/schedules/pause", {"schedule_id": "settlement.us-east", "paused": False})
    it.advance(4 * _DAY)
    it.post("/schedules/settlement.us-east/trigger", None)
    it.advance(12 * _DAY)
    it.upsert(NEVER)
    it.advance(1.9 * _DAY)
    it.upsert(LATER)
    it.set_aside(
        "import.supplier-kyiv", "the time zone 'Europe/Kiew' is not known; did you mean 'Europe/Kyiv'?"
    )
    it.pause("search.suggest", "index moves, ask Ada")
    it.advance(0.1 * _DAY)
    backfill = {"start": "2026-10-12T00:00:00Z", "end": "2026-10-14T00:00:00Z"}
    it.post("/schedules/settlement.us-east/backfill", backfill)
    it.advance(0)


class _Thread:
    """The loop of the service in a thread of its own."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._settings = settings_from(environ)
        self._listening = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self.url = ""

    def __enter__(self) -> _Thread:
        self._thread.start()
        assert self._listening.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.clock = VirtualClock(START)
        self.service = Service(self._settings, self.clock, executor=Acting(self.clock))
        with listen("127.0.0.1", 0) as listener:
            await self.service.start()
            try:
                self.server = HttpServer(create_app(self.service), listener, None, self._listen)
                await self.server.answer()
            finally:
                await self.service.stop()

    def _listen(self, url: str) -> None:
        self.url = url
        self._listening.set()
