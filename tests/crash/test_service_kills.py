"""The service, killed with -9 again and again under schedules that fire every second, judged from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from random import Random

import pytest
from tests.crash.service_observer import Observer, Seen, expected_key, wrong
from tests.ports import port_without_listener

POLICIES = {
    "all": {"overlap_policy": "allow", "catchup_policy": "fire_immediately"},
    "spread": {"overlap_policy": "allow", "catchup_policy": "spread", "grace_s": 1},
    "none": {"overlap_policy": "allow", "catchup_policy": "none", "grace_s": 1},
    "once": {"overlap_policy": "allow", "catchup_policy": "fire_immediately", "delivery": "at_most_once"},
}


class Service:
    """`dutiful serve` in a process of its own, started again after each kill."""

    def __init__(self, folder, executor: str, port: int) -> None:
        self.port = port
        self._environ = {
            **os.environ,
            "DUTIFUL_STORE": f"sqlite:{folder}/service.db",
            "DUTIFUL_PORT": str(self.port),
            "DUTIFUL_EXECUTOR": executor,
            "LOOKAHEAD_MS": "3000",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "dutiful", "serve"]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, env=self._environ, stdout=quiet, stderr=quiet)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                return self.ask("GET", "/healthz")
            except OSError:
                assert self._process.poll() is None, "the service ended by itself"
                time.sleep(0.02)
        raise AssertionError("the service does not answer")

    def kill(self, how: int = signal.SIGKILL) -> int:
        assert self._process is not None
        self._process.send_signal(how)
        return self._process.wait(60)

    def ask(self, method: str, path: str, body: object = None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def ledger(self, schedule: str) -> list[dict]:
        rows, cursor = [], ""
        while True:
            page = self.ask("GET", f"/schedules/{schedule}/runs?limit=1000{cursor}")
            rows += page["runs"]
            if page["next_cursor"] is None:
                return rows
            cursor = f"&cursor={page['next_cursor']}"


def campaign(folder, seconds: float, seed: int) -> tuple[list[str], int, int]:
    """Kill the service for so long; return what is wrong, the kills and the launches that arrived."""
    with port_without_listener() as port:
        return campaign_at(port, folder, seconds, seed)


def campaign_at(port: int, folder, seconds: float, seed: int) -> tuple[list[str], int, int]:
    rng, kills = Random(seed), 0
    observer = Observer()
    service = Service(folder, observer.url, port)
    service.start()
    service.ask("PUT", "/workflows/w/1", {"nodes": []})
    common = {"workflow_id": "w", "version": 1, "user_id": "u", "cron_expr": "* * * * * *", "timezone": "UTC"}
    for name, policy in POLICIES.items():
        service.ask("POST", "/schedules/upsert", {"schedule_id": name, **common, **policy})
    first = int(time.time()) + 1
    until = time.monotonic() + seconds
    while time.monotonic() < until or kills < 2:
        time.sleep(rng.uniform(0.3, 4))
        service.kill()
        kills += 1
        time.sleep(rng.choice([0, 0, rng.uniform(0, 3)]))
        service.start()
    problems = lasting_problems(service, observer, first, last=int(time.time()))
    assert service.kill(signal.SIGTERM) == 0
    observer.close()
    return problems, kills, len(observer.log)


def lasting_problems(service: Service, observer: Observer, first: int, last: int) -> list[str]:
    """Return what is wrong with the ticks of [first, last] and stays so."""
    until = time.monotonic() + 60
    # What was missed is caught up with, spread over the look-ahead, and later on a busy machine.
    time.sleep(5)
    while True:
        rows = {name: service.ledger(name) for name in POLICIES}
        problems = wrong([*observer.log], rows, first, last)
        if not problems or time.monotonic() > until:
            return problems
        time.sleep(0.1)


@pytest.mark.timeout(300)
def test_nothing_is_missing_doubled_or_early(tmp_path):
    problems, kills, launches = campaign(tmp_path, seconds=8, seed=1)
    assert problems == []
    assert kills >= 2
    assert launches > 20


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_nothing_is_missing_doubled_or_early_for_two_minutes(tmp_path, capfd):
    problems, kills, launches = campaign(tmp_path, seconds=120, seed=2)
    with capfd.disabled():
        print(f"\n{kills} kills, {launches} launches, {len(problems)} problems", file=sys.stderr)
    assert problems == []


def test_the_judge_finds_what_is_wrong():
    good = Seen(100.5, "s", 100, expected_key("s", 100), 1)
    row = {"run_at": "1970-01-01T00:01:41Z", "run_until": "1970-01-01T00:01:43Z", "status": "SKIPPED",
           "reason": "missed"}  # fmt: skip
    assert wrong([good], {"s": [row]}, 100, 103) == []
    assert wrong([good], {"s": []}, 100, 101) == ["s has nothing to say about 1970-01-01T00:01:41+00:00"]
    again = good._replace(at=101.0)
    assert len(wrong([good, again], {"s": []}, 100, 100)) == 1
    assert wrong([good, again._replace(attempt=2)], {"s": []}, 100, 100) == []
    assert len(wrong([good._replace(at=99.9)], {"s": []}, 100, 100)) == 1
    assert len(wrong([good._replace(key="k")], {"s": []}, 100, 100)) == 1
    assert len(wrong([good], {"s": [{**row, "reason": None}]}, 100, 100)) == 1
