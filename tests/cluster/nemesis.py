"""Faults and edits, done to a site one by one and two at once.

`torment` returns the log of an executor outside, the ledger as it is read over HTTP, and everything that was
done; `judge.problems` compares them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tests.cluster.excuses import LEASE, Deed
from tests.cluster.judge import STEPS, Edit, Evidence, Life
from tests.cluster.leaders import Leaders
from tests.cluster.nodes import until
from tests.cluster.outside import LONG_S
from tests.cluster.site import COUNTS, EVERY_OTHER, EVERY_SECOND, SCHEDULES, Site
from tests.stores.postgres_rig import execute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.nodes import Node


class Nemesis:
    """Does harm to a site, and remembers what it did."""

    def __init__(self, site: Site) -> None:
        self.site, self.api = site, site.api
        self.deeds: list[Deed] = []
        self.edits: list[Edit] = []
        self.lives: list[Life] = []
        self.triggered: list[str] = []
        self.backfilled: dict[str, list[int]] = defaultdict(list)
        self._now = dict.fromkeys(SCHEDULES, EVERY_SECOND)
        self._removed = 0
        self._declared_at: float | None = None
        # The first minute that was not asked for again.
        self._refilled = int(time.time()) // 60 * 60

    def harm(self, kind: str, worker: Node, rng: Random) -> None:
        """Do one thing, and wait until it is over."""
        began = time.time()
        target = getattr(self, f"_{kind}")(worker, rng) or worker.name
        self.deeds.append(Deed(began, kind, target, time.time()))

    def harm_twice(self, kinds: tuple[str, str], rng: Random) -> None:
        """Do two things at once, to different workers where they are done to workers."""
        workers = rng.sample(self.site.workers, 2)
        threads = [
            threading.Thread(target=self.harm, args=(kind, worker, Random(rng.random())))
            for kind, worker in zip(kinds, workers, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    # Workers

    def _kill(self, worker: Node, rng: Random) -> None:
        worker.restart(signal.SIGKILL, after=rng.choice((0, 2)))

    def _freeze(self, worker: Node, rng: Random) -> None:
        """Stop a worker for less than a lease, or for longer."""
        worker.start_again_if_ended()
        worker.send(signal.SIGSTOP)
        time.sleep(LEASE + rng.choice((-1, 1.5)))
        worker.send(signal.SIGCONT)

    def _roll(self, worker: Node, _: Random) -> None:
        worker.restart(signal.SIGTERM)

    def _roll_long(self, worker: Node, _: Random) -> str:
        """Stop a worker in the middle of a run that takes longer than two leases, or any worker.

        A worker whose runs are ended by reports carries none, and may lead the only schedule with long ones.
        """
        site, ends = self.site, time.time() + 3 * STEPS["long"]
        workers = {
            node.name: node for node, mode in zip(site.workers, site.modes, strict=True) if mode != "report"
        }
        carrying = list[str]()
        while not carrying and time.time() < ends:
            time.sleep(0.1)
            carrying = [
                call.node
                for call in site.outside.log
                if call.schedule.startswith("long")
                and call.at > time.time() - LONG_S / 2
                and call.node in workers
            ]
        chosen = workers[carrying[-1]] if carrying else worker
        chosen.restart(signal.SIGTERM)
        return chosen.name

    def _skew(self, worker: Node, rng: Random) -> None:
        """Start a worker again with a wall clock that is wrong."""
        worker.variables["NEMESIS_SKEW_S"] = rng.choice((0.7, -0.7, 5, -3600, 86_400))
        worker.restart(signal.SIGTERM)

    # Connections

    def _cut(self, worker: Node, _: Random) -> None:
        self.site.proxies[worker.name].cut()

    def _refuse(self, worker: Node, rng: Random) -> None:
        proxy = self.site.proxies[worker.name]
        proxy.refuse = True
        proxy.cut()
        time.sleep(rng.choice((0.5, LEASE + 1)))
        proxy.refuse = False

    def _slow(self, worker: Node, rng: Random) -> None:
        """Delay every answer and every request, by less than any deadline or by about one."""
        proxy = self.site.proxies[worker.name]
        proxy.delay_s = rng.choice((0.05, 0.3))
        time.sleep(LEASE + 1)
        proxy.delay_s = 0.0

    def _half_open(self, worker: Node, _: Random) -> None:
        """Lose the answers of the database, while requests still reach it."""
        proxy = self.site.proxies[worker.name]
        proxy.drop_answers = True
        time.sleep(LEASE + 1)
        proxy.drop_answers = False

    def _black_hole(self, worker: Node, _: Random) -> None:
        """Let nothing pass for longer than a lease; what was sent never arrives."""
        proxy = self.site.proxies[worker.name]
        proxy.drop_answers = proxy.hold_requests = True
        time.sleep(LEASE + 1)
        proxy.cut()
        proxy.drop_answers = proxy.hold_requests = False

    def _late(self, worker: Node, rng: Random) -> None:
        """Deliver requests after the worker may have stopped waiting for their answers."""
        proxy = self.site.proxies[worker.name]
        proxy.hold_requests = True
        time.sleep(rng.choice((0.3, LEASE + 1)))
        proxy.hold_requests = False
        proxy.deliver()

    # The database

    def _terminate(self, _worker: Node, rng: Random) -> str:
        """End some sessions inside the server, whichever nodes they belong to."""
        share = rng.choice((0.3, 1))
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dutiful'"
        asyncio.run(execute(self.site.url, f"{ended} AND abs(hashtext(pid::text)) % 10 < {10 * share}"))
        return "database"

    def _restart(self, _worker: Node, rng: Random) -> str:
        (self.site.server.stop if rng.random() < 0.5 else self.site.server.kill)()
        self.site.server.start()
        return "database"

    def _freeze_database(self, _worker: Node, _rng: Random) -> str:
        """Stop all processes of the server for longer than a lease."""
        process = self.site.server.process
        assert process is not None
        os.kill(process.pid, signal.SIGSTOP)
        # A stopped server starts no more of them.
        stopped = [*children_of(process.pid)]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(LEASE + 1)
        for pid in (*stopped, process.pid):
            os.kill(pid, signal.SIGCONT)
        return "database"

    # The API

    def _kill_api(self, _worker: Node, _rng: Random) -> str:
        self.api.restart(signal.SIGKILL)
        return "api"

    def _cut_api(self, _worker: Node, _rng: Random) -> str:
        self.site.proxies["api"].cut()
        return "api"

    def _edit(self, _worker: Node, rng: Random) -> str:
        """Change when a schedule fires."""
        name = f"edited-{rng.randrange(COUNTS['edited'])}"
        cron = EVERY_OTHER if self._now[name] == EVERY_SECOND else EVERY_SECOND
        self._change(name, cron, lambda: self.site.declare(name, cron))
        return name

    def _relabel(self, _worker: Node, rng: Random) -> str:
        """Change a schedule that fires on as before."""
        name = rng.choice([name for name in SCHEDULES if not name.startswith(("edited", "paused"))])
        self.site.declare(name, labels={"edited": str(rng.randrange(1000))})
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

    def _change(self, name: str, present: str, make: Callable[[], Any]) -> None:
        sent = time.time()
        make()
        self._now[name] = present
        step = {EVERY_SECOND: 1, EVERY_OTHER: 2}.get(present)
        self.edits.append(Edit(name, sent, time.time(), step))

    def _remove(self, _worker: Node, _rng: Random) -> str:
        """Declare a schedule, and remove the one that was declared the last time."""
        before, since = f"removed-{self._removed}", self._declared_at
        self._removed += 1
        name = f"removed-{self._removed}"
        self.site.declare(name)
        self._declared_at = time.time()
        if since is not None:
            self.api.ask_until_answered("DELETE", f"/schedules/{before}")
            self.lives.append(Life(before, since, self._declared_at, time.time()))
        return name

    def _trigger(self, _worker: Node, rng: Random) -> str:
        """Ask for a run by hand; the key makes it one run, however often it is asked for."""
        name = f"asked-{rng.randrange(COUNTS['asked'])}"
        key = f"by-hand-{len(self.triggered)}-{rng.random()}"
        answer = self.api.ask_until_answered("POST", f"/schedules/{name}/trigger", {}, key)
        self.triggered.append(answer["idempotency_key"])
        return name

    def _backfill(self, _worker: Node, rng: Random) -> str:
        """Ask for three minutes of the past."""
        name = f"asked-{rng.randrange(COUNTS['asked'])}"
        end, self._refilled = self._refilled, self._refilled - 180
        start, stop = (datetime.fromtimestamp(each, UTC).isoformat() for each in (self._refilled, end))
        body = {"start": start, "end": stop, "overlap_policy": "allow"}
        self.api.ask_until_answered("POST", f"/schedules/{name}/backfill", body)
        self.backfilled[name] += range(self._refilled, end, 60)
        return name

    # The end

    def evidence(self, first: int, last: int, leaders: Leaders) -> Evidence:
        """Return what happened to the ticks of [first, last], all of them decided."""
        for name, present in self._now.items():
            if present == "paused":
                # The ticks of a paused schedule are recorded when it goes on.
                self._set_paused(name, False)
        self.site.until_decided(last)
        ledger = {name: self.site.ledger(name) for name in SCHEDULES}
        return Evidence(
            self.site.outside.log, ledger, first, last, self.edits, self.deeds, leaders.led, self.lives,
            self.triggered, self.backfilled, self.site.outside.reported,
        )  # fmt: skip


def children_of(pid: int) -> Iterator[int]:
    """Yield the processes that a process has started."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        # A process may end while it is looked at.
        with contextlib.suppress(OSError):
            # The name, in parentheses, may contain blanks.
            if int(status.read_text().rpartition(")")[2].split()[1]) == pid:
                yield int(status.parent.name)


_DATABASE = ("terminate", "restart", "freeze_database")
_REQUESTS = ("edit", "relabel", "pause", "remove", "trigger", "backfill")
KINDS = (
    *("kill", "freeze", "roll", "roll_long", "skew"),
    *("cut", "refuse", "slow", "half_open", "black_hole", "late"),
    *(*_DATABASE, "kill_api", "cut_api", *_REQUESTS),
)


def torment(site: Site, rng: Random, seconds: float) -> Evidence:
    """Do every kind of deed, in a random order, and again until so many seconds are over."""
    nemesis = Nemesis(site)
    with Leaders(site.url) as leaders:
        site.until_led()
        first, end = int(time.time()) + 2, time.monotonic() + seconds
        while True:
            # Edits and pauses come twice, so that their ends are seen, too.
            for kinds in in_steps(rng.sample(deck := [*KINDS, "edit", "pause"], len(deck)), rng):
                if len(kinds) == 1:
                    nemesis.harm(kinds[0], rng.choice(site.workers), rng)
                else:
                    nemesis.harm_twice(kinds, rng)
                time.sleep(rng.uniform(0, 0.5))
            if time.monotonic() >= end:
                break
        last = int(time.time())
        site.until_led()
        return nemesis.evidence(first, last, leaders)


def in_steps(kinds: list[str], rng: Random) -> Iterator[tuple[str, ...]]:
    """Yield deeds one by one or two at once, of which one may be done to the database, and one by request."""
    left = [*kinds]
    while left:
        one = left.pop()
        mates = [
            other for other in left if not any({one, other} <= {*group} for group in (_DATABASE, _REQUESTS))
        ]
        if mates and rng.random() < 0.4:
            left.remove(mates[0])
            yield one, mates[0]
        else:
            yield (one,)


def seconds_without_leader(site: Site, victim: Node, how: int) -> float:
    """Send a signal to a worker, and return after how many seconds other workers led all of its shards."""

    def is_quiet() -> bool:
        # A stop waits for the long runs, which begin every ten seconds.
        return LONG_S + 0.5 < time.time() % 10 < 9

    until(is_quiet, "no long run is in flight")
    began = time.monotonic()
    victim.send(how)

    def is_led() -> bool:
        shards = site.api.ask("GET", "/cluster")["shards"]
        return all(shard["node"] not in (None, victim.name) for shard in shards)

    until(is_led, f"other workers lead the shards of {victim.name}", pause=0.01)
    return time.monotonic() - began
