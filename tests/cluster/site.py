"""A database, an API node and workers, each behind a proxy of its own, and the schedules that they run."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, Any

from tests.cluster.judge import OPEN, STEPS, ticks_of
from tests.cluster.nodes import Api, Node, until
from tests.cluster.outside import Outside
from tests.ports import port_without_listener
from tests.servers.proxy import Proxy, proxy_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.program import Program

EVERY_SECOND, EVERY_OTHER = "* * * * * *", "*/2 * * * * *"
# The first word of an id tells `judge` what the schedule promises.
_ALL = {"overlap_policy": "allow", "catchup_policy": "fire_immediately"}
POLICIES: dict[str, dict[str, object]] = {
    **dict.fromkeys(("all", "edited", "paused", "removed", "asked", "long"), _ALL),
    "queue": {"overlap_policy": "queue", "catchup_policy": "fire_immediately"},
    "none": {"overlap_policy": "allow", "catchup_policy": "none", "grace_s": 2},
    "once": {"overlap_policy": "allow", "catchup_policy": "latest", "delivery": "at_most_once"},
}
CRONS = {"long": "*/10 * * * * *", "asked": "0 * * * * *"}
COUNTS = {"all": 5, "queue": 3, "none": 3, "once": 3, "edited": 2, "paused": 2, "long": 3, "asked": 2}
SCHEDULES = [f"{kind}-{number}" for kind, count in COUNTS.items() for number in range(count)]
SHARDS = 16


class Site:
    """Nodes behind proxies, and an executor that remembers every call.

    `modes` says for each worker how its runs end: with the answer to a webhook, a report, or a command.
    """

    def __init__(self, server: Program, modes: Sequence[str], **variables: object) -> None:
        self.server, self.outside, self.modes = server, Outside(), modes
        self._stack = contextlib.ExitStack()
        self.proxies: dict[str, Proxy] = {}
        port = self._stack.enter_context(port_without_listener())
        self.api = Api(self._proxy("api"), self.outside.url("api", "webhook"), port, **variables)
        self.workers = [self._worker(f"worker-{n}", mode, **variables) for n, mode in enumerate(modes)]
        self.outside.report_by(self._report)

    def _worker(self, name: str, mode: str, **variables: object) -> Node:
        ended_by = "report" if mode == "report" else "webhook"
        url = self.outside.url(name, mode)
        return Node(name, self._proxy(name), url, "worker", DUTIFUL_EXECUTOR_MODE=ended_by, **variables)

    def _proxy(self, name: str) -> int:
        self.proxies[name] = proxy = self._stack.enter_context(proxy_to(self.server.port))
        return proxy.port

    def _report(self, key: str, attempt: int) -> None:
        """Report the success of a run, and of every other run also that it began."""
        for status in ("STARTED", "SUCCESS")[int(key, 16) % 2 :]:
            body = {"status": status, "attempt": attempt}
            self.api.ask_until_answered("POST", f"/runs/{key}/status", body)

    @property
    def url(self) -> str:
        """The address of the database, past all proxies."""
        return f"postgresql://postgres@127.0.0.1:{self.server.port}/postgres"

    def __enter__(self) -> Site:
        try:
            self.api.start()
            self.api.ask_until_answered("PUT", "/workflows/work/1", {"nodes": []})
            for worker in self.workers:
                worker.start()
            for name in SCHEDULES:
                self.declare(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.outside.end_reports()
        for node in (*self.workers, self.api):
            node.end(signal.SIGKILL)
        self._stack.close()
        self.outside.close()

    def declare(self, name: str, cron: str | None = None, **changes: object) -> None:
        kind = name.partition("-")[0]
        declared = {"schedule_id": name, "workflow_id": "work", "version": 1, "user_id": "ada"}
        # All rows are judged at the end, however many there are.
        kept = {"retention_rows": 1_000_000, "cron_expr": cron or CRONS.get(kind, EVERY_SECOND)}
        body = {**declared, **kept, **POLICIES[kind], **changes}
        self.api.ask_until_answered("POST", "/schedules/upsert", body)

    def until_led(self) -> None:
        """Return when every worker has joined and leads its share."""

        def is_even() -> bool:
            for node in (self.api, *self.workers):
                node.start_again_if_ended()
            view = self.api.ask("GET", "/cluster")
            loads = [len(node["shards"]) for node in view["nodes"]]
            return sum(loads) == SHARDS and len(loads) == len(self.workers) and max(loads) - min(loads) <= 1

        until(is_even, "every worker leads its share")

    def ledger(self, schedule: str) -> list[dict[str, Any]]:
        """Return all rows of a schedule."""
        rows: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = self.api.ask_until_answered("GET", f"/schedules/{schedule}/runs?limit=1000{cursor}")
            rows += page["runs"]
            if page["next_cursor"] is None:
                return rows
            cursor = f"&cursor={page['next_cursor']}"

    def until_decided(self, last: int) -> None:
        """Return when every tick up to an instant has been decided, and none of their runs is open."""

        def is_decided() -> bool:
            for name in SCHEDULES:
                rows = self.api.ask("GET", f"/schedules/{name}/runs?limit=200")["runs"]
                old = [row for row in rows if ticks_of(row)[0] <= last]
                newest = max((ticks_of(row)[-1] for row in rows if row["trigger"] == "schedule"), default=0)
                step = STEPS.get(name.partition("-")[0], 1)
                if newest < last // step * step or any(row["status"] in OPEN for row in old):
                    return False
            return True

        until(is_decided, "every tick is decided")
