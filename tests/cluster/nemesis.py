"""Real workers on a real database, each through its own proxy, and everything that is done to them.

What happened is judged by `judged`, which sees only the log of an executor outside and the ledger over HTTP.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter, defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.crash.service_observer import Observer, Seen, expected_key
from tests.ports import port_without_listener
from tests.servers.proxy import Proxy, proxy_to

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tests.servers.program import Program

LEASE = 2
KINDS = ("kill", "kill", "freeze", "cut", "refuse", "black_hole", "late", "roll", "restart")
SCHEDULES = {
    **{f"all-{n}": {"overlap_policy": "allow", "catchup_policy": "fire_immediately"} for n in range(6)},
    **{f"none-{n}": {"overlap_policy": "allow", "catchup_policy": "none", "grace_s": 2} for n in range(3)},
    **{
        f"once-{n}": {"overlap_policy": "allow", "catchup_policy": "latest", "delivery": "at_most_once"}
        for n in range(3)
    },
}


class Deed(NamedTuple):
    """Something that was done to a node, or to the database."""

    at: float
    kind: str
    target: str


class Node:
    """One process of dutiful, which can be killed, frozen and started again."""

    def __init__(self, name: str, database_port: int, executor: str, command: str, port: int = 0) -> None:
        self.name, self.port, self._command = name, port, command.split()
        self._environ = {
            **os.environ,
            "DUTIFUL_STORE": f"postgresql://postgres@127.0.0.1:{database_port}/postgres",
            "DUTIFUL_NODE": name,
            "DUTIFUL_PORT": str(self.port),
            "DUTIFUL_EXECUTOR": executor,
            "DUTIFUL_EXECUTOR_MODE": "webhook",
            "DUTIFUL_LEASE_S": str(LEASE),
            "DUTIFUL_LOG_LEVEL": "warning",
            "LOOKAHEAD_MS": "3000",
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = [sys.executable, "-m", "dutiful", *self._command]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(argv, env=self._environ, stdout=quiet, stderr=quiet)

    def start_again_if_ended(self) -> None:
        """Do what a supervisor does: a worker that finds no database when it starts says so and ends."""
        if self.process is None or self.process.poll() is not None:
            self.start()

    def send(self, how: int) -> None:
        assert self.process is not None
        self.process.send_signal(how)

    def end(self, how: int = signal.SIGTERM) -> None:
        """End the process, also where it is frozen, and wait for it."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(how)
            process.send_signal(signal.SIGCONT)
            process.wait(60)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())


class Site:
    """A database, an API node, workers behind proxies, and an executor that remembers every call."""

    def __init__(self, server: Program, workers: int) -> None:
        self.server, self.observer = server, Observer()
        self._stack = contextlib.ExitStack()
        port = self._stack.enter_context(port_without_listener())
        self.api = Node("api", server.port, self.observer.url, "serve --no-worker", port)
        self.proxies: dict[str, Proxy] = {}
        self.workers: list[Node] = []
        self.deeds: list[Deed] = []
        for number in range(workers):
            name = f"worker-{number}"
            self.proxies[name] = proxy = self._stack.enter_context(proxy_to(server.port))
            self.workers.append(Node(name, proxy.port, self.observer.url, "worker"))

    def __enter__(self) -> Site:
        self.api.start()
        until(lambda: self.api.ask("GET", "/healthz"), "the API node answers")
        for worker in self.workers:
            worker.start()
        self.until_led()
        self.api.ask("PUT", "/workflows/work/1", {"nodes": []})
        for name, policy in SCHEDULES.items():
            declared = {"schedule_id": name, "workflow_id": "work", "version": 1, "user_id": "ada"}
            self.api.ask("POST", "/schedules/upsert", {**declared, "cron_expr": "* * * * * *", **policy})
        return self

    def __exit__(self, *_: object) -> None:
        for node in (*self.workers, self.api):
            node.end(signal.SIGKILL)
        self._stack.close()
        self.observer.close()

    def until_led(self) -> None:
        """Return when every worker has joined and leads its share."""

        def is_even() -> bool:
            for worker in self.workers:
                worker.start_again_if_ended()
            view = self.api.ask("GET", "/cluster")
            loads = [len(node["shards"]) for node in view["nodes"]]
            return sum(loads) == 16 and len(loads) == len(self.workers) and max(loads) - min(loads) <= 1

        until(is_even, "every worker leads its share")

    # What is done

    def harm(self, rng: Random) -> None:
        """Do one thing to a worker, or to the database, and wait until it is over."""
        worker = rng.choice(self.workers)
        kind = rng.choice(
            ("kill", "kill", "freeze", "cut", "refuse", "black_hole", "late", "roll", "restart")
        )
        self.deeds.append(Deed(time.time(), kind, "database" if kind == "restart" else worker.name))
        getattr(self, f"_{kind}")(worker, rng)

    def _kill(self, worker: Node, rng: Random) -> None:
        worker.end(signal.SIGKILL)
        time.sleep(rng.choice((0, 2)))
        worker.start()

    def _freeze(self, worker: Node, rng: Random) -> None:
        worker.send(signal.SIGSTOP)
        time.sleep(LEASE + rng.choice((-1, 1.5)))
        worker.send(signal.SIGCONT)

    def _cut(self, worker: Node, _: Random) -> None:
        self.proxies[worker.name].cut()

    def _refuse(self, worker: Node, rng: Random) -> None:
        proxy = self.proxies[worker.name]
        proxy.refuse = True
        proxy.cut()
        time.sleep(rng.choice((0.5, LEASE + 1)))
        proxy.refuse = False

    def _black_hole(self, worker: Node, _: Random) -> None:
        proxy = self.proxies[worker.name]
        proxy.drop_answers = True
        time.sleep(LEASE + 1)
        proxy.drop_answers = False

    def _late(self, worker: Node, rng: Random) -> None:
        proxy = self.proxies[worker.name]
        proxy.hold_requests = True
        time.sleep(rng.choice((0.3, LEASE + 1)))
        proxy.hold_requests = False
        proxy.deliver()

    def _roll(self, worker: Node, _: Random) -> None:
        worker.end(signal.SIGTERM)
        worker.start()

    def _restart(self, _: Node, rng: Random) -> None:
        (self.server.stop if rng.random() < 0.5 else self.server.kill)()
        self.server.start()

    # What is left

    def ledger(self, schedule: str) -> list[dict[str, Any]]:
        """Return all rows of a schedule."""
        rows, cursor = [], ""
        while True:
            page = self.api.ask("GET", f"/schedules/{schedule}/runs?limit=1000{cursor}")
            rows += page["runs"]
            if page["next_cursor"] is None:
                return rows
            cursor = f"&cursor={page['next_cursor']}"

    def until_decided(self, last: int) -> None:
        """Return when every tick up to an instant has been decided, and no run is open."""

        def is_decided() -> bool:
            heads = [self.api.ask("GET", f"/schedules/{name}/runs?limit=200")["runs"] for name in SCHEDULES]
            return all(
                rows and ticks_of(rows[0])[-1] >= last and not any(row["status"] in OPEN for row in rows[3:])
                for rows in heads
            )

        until(is_decided, "every tick is decided")


OPEN = {"ENQUEUED", "STARTED"}


def until(holds: Any, what: str, within: float = 90) -> None:
    """Return when something holds; an answer that does not come counts as no."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if holds():
                return
        time.sleep(0.05)
    raise AssertionError(f"not within {within} s: {what}")


def ticks_of(row: dict[str, Any]) -> range:
    """Return the seconds that a row accounts for."""
    ends = row["run_at"], row["run_until"] or row["run_at"]
    first, last = (round(datetime.fromisoformat(end).timestamp()) for end in ends)
    return range(first, last + 1)


def judged(log: list[Seen], ledger: dict[str, list[dict[str, Any]]], first: int, last: int) -> Iterator[str]:
    """Yield what is wrong with the ticks of [first, last]: missing, extra, early, repeated, without a row."""
    calls: dict[str, list[Seen]] = defaultdict(list)
    for seen in sorted(log):
        calls[seen.key].append(seen)
        if seen.key != expected_key(seen.schedule, seen.tick):
            yield f"extra: {seen} has another key than its tick"
        if seen.at < seen.tick:
            yield f"early: {seen}"
    for key, made in calls.items():
        repeated = [attempt for attempt, count in Counter(seen.attempt for seen in made).items() if count > 1]
        if repeated:
            yield f"repeated: {key} in the attempts {repeated}: {made}"
        if made[0].schedule.startswith("once") and len(made) > 1:
            yield f"repeated: {made}, which is at most once"
    for schedule, rows in ledger.items():
        covered = Counter(tick for row in rows for tick in ticks_of(row))
        yield from (f"missing: {schedule} {tick}" for tick in range(first, last + 1) if not covered[tick])
        yield from (
            f"extra: {schedule} has {count} rows for {tick}" for tick, count in covered.items() if count > 1
        )
        keys = {row["idempotency_key"] for row in rows}
        ours = [key for key, made in calls.items() if made[0].schedule == schedule and made[0].tick <= last]
        yield from (f"without a row: {calls[key]}" for key in ours if key not in keys)
        for row in rows:
            if row["status"] == "SUCCESS" and row["idempotency_key"] not in calls:
                yield f"missing: {row} was never called"
