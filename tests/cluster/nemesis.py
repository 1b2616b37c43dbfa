"""Real workers and a real API node on a real database, each through its own proxy, and faults done to them.

`torment` returns the log of an executor outside, the ledger as it is read over HTTP, and everything that was
done; `judge.problems` compares them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.cluster.judge import OPEN, Edit, Evidence, ticks_of
from tests.crash.service_observer import Observer
from tests.ports import port_without_listener
from tests.servers.proxy import Proxy, proxy_to
from tests.stores.postgres_rig import execute

if TYPE_CHECKING:
    from random import Random

    from tests.servers.program import Program

LEASE = 2
EVERY_SECOND, EVERY_OTHER = "* * * * * *", "*/2 * * * * *"
# The first word of an id tells `judge` what the schedule promises.
POLICIES: dict[str, dict[str, object]] = {
    "all": {"overlap_policy": "allow", "catchup_policy": "fire_immediately"},
    "queue": {"overlap_policy": "queue", "catchup_policy": "fire_immediately"},
    "none": {"overlap_policy": "allow", "catchup_policy": "none", "grace_s": 2},
    "once": {"overlap_policy": "allow", "catchup_policy": "latest", "delivery": "at_most_once"},
    "edited": {"overlap_policy": "allow", "catchup_policy": "fire_immediately"},
    "paused": {"overlap_policy": "allow", "catchup_policy": "fire_immediately"},
}
COUNTS = {"all": 5, "queue": 3, "none": 3, "once": 3, "edited": 2, "paused": 2}
SCHEDULES = [f"{kind}-{number}" for kind, count in COUNTS.items() for number in range(count)]


class Deed(NamedTuple):
    """Something that was done to a node, to the database or to a schedule, and when it was over."""

    at: float
    kind: str
    target: str
    until: float


class Node:
    """One process of dutiful, which can be killed, frozen and started again."""

    def __init__(self, name: str, database: int, executor: str, command: str, **variables: object) -> None:
        self.name, self._command = name, command.split()
        self.variables = {
            "DUTIFUL_STORE": f"postgresql://postgres@127.0.0.1:{database}/postgres",
            "DUTIFUL_NODE": name,
            "DUTIFUL_EXECUTOR": executor,
            "DUTIFUL_EXECUTOR_MODE": "webhook",
            "DUTIFUL_LEASE_S": LEASE,
            "DUTIFUL_LOG_LEVEL": "warning",
            "LOOKAHEAD_MS": 3000,
            **variables,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = [sys.executable, "-m", "tests.cluster.entry", *self._command]
        environ = {**os.environ, **{name: str(value) for name, value in self.variables.items()}}
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(argv, env=environ, stdout=quiet, stderr=quiet)

    def start_again_if_ended(self) -> None:
        """Do what a supervisor does: a node that finds no database when it starts prints why and ends."""
        if self.process is None or self.process.poll() is not None:
            self.start()

    def send(self, how: int) -> None:
        assert self.process is not None
        self.process.send_signal(how)

    def end(self, how: int = signal.SIGTERM) -> None:
        """End the process, even if it is frozen, and wait for it."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(how)
            process.send_signal(signal.SIGCONT)
            process.wait(60)


class Api(Node):
    """A node that answers requests and leads nothing."""

    def __init__(self, database: int, executor: str, port: int, **variables: object) -> None:
        super().__init__("api", database, executor, "serve --no-worker", DUTIFUL_PORT=port, **variables)
        self.port = port

    def ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            # A node that lost its database answers 5xx, and is asked again; any other refusal is a mistake.
            if error.code < 500:
                raise AssertionError(error.read()) from error
            raise

    def ask_until_answered(self, method: str, path: str, body: object = None) -> Any:
        """Return the answer; repeat the request while the node or its database is away."""
        answers: list[Any] = []

        def is_answered() -> bool:
            self.start_again_if_ended()
            answers.append(self.ask(method, path, body))
            return True

        until(is_answered, f"{method} {path} is answered")
        return answers[0]


class Site:
    """A database, an API node and workers behind proxies, and an executor that remembers every call."""

    def __init__(self, server: Program, workers: int, **variables: object) -> None:
        self.server, self.observer = server, Observer()
        self._stack = contextlib.ExitStack()
        self.proxies: dict[str, Proxy] = {}
        port = self._stack.enter_context(port_without_listener())
        self.api = Api(self._proxy("api"), self.observer.url, port, **variables)
        self.workers = [
            Node(name, self._proxy(name), self.observer.url, "worker", **variables)
            for name in [f"worker-{number}" for number in range(workers)]
        ]
        self.deeds: list[Deed] = []
        self.edits: list[Edit] = []
        self._now = dict.fromkeys(SCHEDULES, EVERY_SECOND)

    def _proxy(self, name: str) -> int:
        self.proxies[name] = proxy = self._stack.enter_context(proxy_to(self.server.port))
        return proxy.port

    def __enter__(self) -> Site:
        try:
            self.api.start()
            self.api.ask_until_answered("PUT", "/workflows/work/1", {"nodes": []})
            for worker in self.workers:
                worker.start()
            for name in SCHEDULES:
                self._declare(name, EVERY_SECOND)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in (*self.workers, self.api):
            node.end(signal.SIGKILL)
        self._stack.close()
        self.observer.close()

    def _declare(self, name: str, cron: str, **changes: object) -> None:
        declared = {"schedule_id": name, "workflow_id": "work", "version": 1, "user_id": "ada"}
        # All rows are judged at the end, however many there are.
        kept = {"retention_rows": 1_000_000, "cron_expr": cron}
        policy = POLICIES[name.partition("-")[0]]
        body = {**declared, **kept, **policy, **changes}
        self.api.ask_until_answered("POST", "/schedules/upsert", body)

    def until_led(self) -> None:
        """Return when every worker has joined and leads its share."""

        def is_even() -> bool:
            for node in (self.api, *self.workers):
                node.start_again_if_ended()
            view = self.api.ask("GET", "/cluster")
            loads = [len(node["shards"]) for node in view["nodes"]]
            return sum(loads) == 16 and len(loads) == len(self.workers) and max(loads) - min(loads) <= 1

        until(is_even, "every worker leads its share")

    # Deeds

    def harm(self, kind: str, rng: Random) -> None:
        """Do one thing, and wait until it is over."""
        worker = rng.choice(self.workers)
        began = time.time()
        target = getattr(self, f"_{kind}")(worker, rng) or worker.name
        self.deeds.append(Deed(began, kind, target, time.time()))

    def _kill(self, worker: Node, rng: Random) -> None:
        worker.end(signal.SIGKILL)
        time.sleep(rng.choice((0, 2)))
        worker.start()

    def _freeze(self, worker: Node, rng: Random) -> None:
        """Stop a worker for less than a lease, or for longer."""
        worker.start_again_if_ended()
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

    def _terminate(self, _worker: Node, rng: Random) -> str:
        """End some sessions inside the server, whichever nodes they belong to."""
        share = rng.choice((0.3, 1))
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dutiful'"
        asyncio.run(execute(self._url, f"{ended} AND abs(hashtext(pid::text)) % 10 < {10 * share}"))
        return "database"

    def _half_open(self, worker: Node, _: Random) -> None:
        """Lose the answers of the database, while requests still reach it."""
        proxy = self.proxies[worker.name]
        proxy.drop_answers = True
        time.sleep(LEASE + 1)
        proxy.drop_answers = False

    def _black_hole(self, worker: Node, _: Random) -> None:
        """Let nothing pass for longer than a lease; what was sent never arrives."""
        proxy = self.proxies[worker.name]
        proxy.drop_answers = proxy.hold_requests = True
        time.sleep(LEASE + 1)
        proxy.cut()
        proxy.drop_answers = proxy.hold_requests = False

    def _late(self, worker: Node, rng: Random) -> None:
        """Deliver requests after the worker may have stopped waiting for their answers."""
        proxy = self.proxies[worker.name]
        proxy.hold_requests = True
        time.sleep(rng.choice((0.3, LEASE + 1)))
        proxy.hold_requests = False
        proxy.deliver()

    def _roll(self, worker: Node, _: Random) -> None:
        worker.end(signal.SIGTERM)
        worker.start()

    def _skew(self, worker: Node, rng: Random) -> None:
        """Start a worker again with a wall clock that is wrong."""
        worker.end(signal.SIGTERM)
        worker.variables["NEMESIS_SKEW_S"] = rng.choice((0.7, -0.7, 5, -3600, 86_400))
        worker.start()

    def _restart(self, _worker: Node, rng: Random) -> str:
        (self.server.stop if rng.random() < 0.5 else self.server.kill)()
        self.server.start()
        return "database"

    def _kill_api(self, _worker: Node, _rng: Random) -> str:
        self.api.end(signal.SIGKILL)
        self.api.start()
        return "api"

    def _cut_api(self, _worker: Node, _rng: Random) -> str:
        self.proxies["api"].cut()
        return "api"

    def _edit(self, _worker: Node, rng: Random) -> str:
        """Change when a schedule fires."""
        name = f"edited-{rng.randrange(COUNTS['edited'])}"
        cron = EVERY_OTHER if self._now[name] == EVERY_SECOND else EVERY_SECOND
        self._change(name, cron, lambda: self._declare(name, cron))
        return name

    def _relabel(self, _worker: Node, rng: Random) -> str:
        """Change a schedule that fires on as before."""
        name = rng.choice([name for name in SCHEDULES if not name.startswith(("edited", "paused"))])
        self._declare(name, EVERY_SECOND, labels={"edited": str(rng.randrange(1000))})
        return name

    def _pause(self, _worker: Node, rng: Random) -> str:
        name = f"paused-{rng.randrange(COUNTS['paused'])}"
        self._set_paused(name, self._now[name] != "paused")
        return name

    def _set_paused(self, name: str, paused: bool) -> None:
        body = {"schedule_id": name, "paused": paused}
        self._change(
            name,
            "paused" if paused else EVERY_SECOND,
            lambda: self.api.ask_until_answered("POST", "/schedules/pause", body),
        )

    def _change(self, name: str, present: str, make: Any) -> None:
        sent = time.time()
        make()
        self._now[name] = present
        step = {EVERY_SECOND: 1, EVERY_OTHER: 2}.get(present)
        self.edits.append(Edit(name, sent, time.time(), step))

    # The end

    @property
    def _url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.server.port}/postgres"

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
        for name, present in self._now.items():
            if present == "paused":
                # The ticks of a paused schedule are recorded when it goes on.
                self._set_paused(name, False)

        def is_decided() -> bool:
            for name in SCHEDULES:
                rows = self.api.ask("GET", f"/schedules/{name}/runs?limit=200")["runs"]
                old = [row for row in rows if ticks_of(row)[0] <= last]
                newest = max((ticks_of(row)[-1] for row in rows), default=0)
                if newest < last or any(row["status"] in OPEN for row in old):
                    return False
            return True

        until(is_decided, "every tick is decided")

    def evidence(self, first: int, last: int) -> Evidence:
        """Return what happened to the ticks of [first, last], all of them decided."""
        self.until_decided(last)
        ledger = {name: self.ledger(name) for name in SCHEDULES}
        ends = [deed.until for deed in self.deeds]
        return Evidence([*self.observer.log], ledger, first, last, self.edits, ends)


KINDS = (
    *("kill", "freeze", "roll", "skew"),
    *("cut", "refuse", "half_open", "black_hole", "late"),
    *("terminate", "restart", "kill_api", "cut_api"),
    *("edit", "relabel", "pause"),
)


def torment(site: Site, rng: Random, seconds: float) -> Evidence:
    """Do every kind of deed, in a random order, and again until so many seconds are over."""
    site.until_led()
    first, end = int(time.time()) + 2, time.monotonic() + seconds
    while True:
        # Edits and pauses come twice, so that their ends are seen, too.
        for kind in rng.sample(deck := [*KINDS, "edit", "pause"], len(deck)):
            site.harm(kind, rng)
            time.sleep(rng.uniform(0, 0.5))
        if time.monotonic() >= end:
            break
    last = int(time.time())
    site.until_led()
    return site.evidence(first, last)


def seconds_without_leader(site: Site, victim: Node, how: int) -> float:
    """Send a signal to a worker, and return after how many seconds other workers led all of its shards."""
    began = time.monotonic()
    victim.send(how)

    def is_led() -> bool:
        shards = site.api.ask("GET", "/cluster")["shards"]
        return all(shard["node"] not in (None, victim.name) for shard in shards)

    until(is_led, f"other workers lead the shards of {victim.name}", pause=0.01)
    return time.monotonic() - began


def until(holds: Any, what: str, within: float = 90, pause: float = 0.05) -> None:
    """Return when something holds; a request that fails counts as no."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if holds():
                return
        time.sleep(pause)
    raise AssertionError(f"not within {within} s: {what}")
