"""An outside observer: takes the launches of a service over HTTP, writes them down, and judges them.

Shares no code with the service: keys are hashed here, ticks are whole seconds counted here.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
import time
from collections import defaultdict
from datetime import UTC, datetime
from typing import NamedTuple


class Seen(NamedTuple):
    """One request that arrived."""

    at: float
    schedule: str
    tick: int
    key: str
    attempt: int


class Observer:
    """A server on loopback that accepts every launch; its log is what is judged."""

    def __init__(self) -> None:
        self.log: list[Seen] = []
        observer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                meta = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["meta"]
                tick = datetime.fromisoformat(meta["scheduled_for"]).timestamp()
                attempt = int(self.headers["Dutiful-Attempt"])
                key = self.headers["Idempotency-Key"]
                observer.log.append(Seen(time.time(), meta["schedule_id"], round(tick), key, attempt))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/launch"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def expected_key(schedule: str, tick: int) -> str:
    return hashlib.sha256(f"{schedule}:{tick}".encode()).hexdigest()


def wrong(log: list[Seen], rows: dict[str, list[dict]], first: int, last: int) -> list[str]:
    """Return everything that is wrong with the ticks of [first, last]; `rows` is the ledger by schedule."""
    problems = []
    seen: dict[tuple[str, int], list[Seen]] = defaultdict(list)
    for each in sorted(log):
        seen[each.schedule, each.tick].append(each)
        if each.key != expected_key(each.schedule, each.tick):
            problems.append(f"{each} has another key than its tick")
        if each.at < each.tick:
            problems.append(f"{each} arrived before its time")
    for arrivals in seen.values():
        attempts = [each.attempt for each in arrivals]
        if attempts != sorted(set(attempts)):
            problems.append(f"doubled without a higher attempt: {arrivals}")
    for schedule, entries in rows.items():
        accounted = {
            tick for row in entries if row["status"] in ("SKIPPED", "FAILED") for tick in _ticks(row)
        }
        missing = [t for t in range(first, last + 1) if (schedule, t) not in seen and t not in accounted]
        problems += [f"{schedule} has nothing to say about {_iso(tick)}" for tick in missing]
        problems += [
            f"{row} has no reason" for row in entries if row["status"] == "SKIPPED" and not row["reason"]
        ]
    return problems


def _ticks(row: dict) -> range:
    first = round(datetime.fromisoformat(row["run_at"]).timestamp())
    last = first if row["run_until"] is None else round(datetime.fromisoformat(row["run_until"]).timestamp())
    return range(first, last + 1)


def _iso(tick: int) -> str:
    return datetime.fromtimestamp(tick, UTC).isoformat()
