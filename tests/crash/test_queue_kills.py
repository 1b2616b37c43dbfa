"""Service, broker and consumers of a queue, killed again and again; what was done is judged from outside."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest
from tests.crash.test_service_kills import Service
from tests.launchers.metas import META, SETTINGS
from tests.ports import port_without_listener
from tests.servers import program
from tests.servers.proxy import proxy_to

from dutiful.launchers.url import executor_for

ROOT = Path(__file__).resolve().parents[2]
URLS = {
    "nats": "nats://127.0.0.1:{port}",
    "redis": "redis://127.0.0.1:{port}/0",
    "celery": "celery+redis://127.0.0.1:{port}/0?task=app.run",
}


# A busy machine takes its time for a few thousand runs.
SETTLED_WITHIN_S = 600


class Effect(NamedTuple):
    """One effect of a consumer: for which key, in which attempt of the service and which start of the key."""

    key: str
    attempt: int
    start: int


class Told(NamedTuple):
    """What a campaign has come to."""

    rows: list[dict]
    effects: list[Effect]
    deaths: set[str]

    @property
    def done(self) -> dict[str, list[Effect]]:
        """The effects of each key, in their order."""
        done: dict[str, list[Effect]] = {}
        for effect in self.effects:
            done.setdefault(effect.key, []).append(effect)
        return done


class Campaign:
    """One service on one broker, with consumers that are started again when they end."""

    def __init__(self, folder: Path, kind: str, seen: str, effects_in: str | None, one_death_in: int) -> None:
        self.folder, self.kind, self.seen, self.effects_in = folder, kind, seen, effects_in
        self.one_death_in = one_death_in
        self.over = threading.Event()
        self.schedules: list[str] = []

    @contextmanager
    def running(self):
        (self.folder / "broker").mkdir()
        with ExitStack() as stack:
            start = program.nats if self.kind == "nats" else program.valkey
            self.broker = start(self.folder / "broker")
            stack.callback(self.broker.close)
            self.broker.start()
            self.proxy = stack.enter_context(proxy_to(self.broker.port))
            port = stack.enter_context(port_without_listener())
            self.direct = URLS[self.kind].format(port=self.broker.port)
            self.service = Service(self.folder, URLS[self.kind].format(port=self.proxy.port), port)
            self.service._environ |= {"DUTIFUL_LAUNCH_RETRIES": "8", "DUTIFUL_EXECUTOR_TIMEOUT_S": "2"}
            self.service.start()
            stack.callback(lambda: self.service.kill(15))
            threads = [threading.Thread(target=self._consume, args=(n,)) for n in range(2)]
            for thread in threads:
                thread.start()
            try:
                yield
            finally:
                self.over.set()
                for thread in threads:
                    thread.join(60)

    def _consume(self, number: int) -> None:
        environ = {**os.environ, "FOLDER": str(self.folder), "ONE_DEATH_IN": str(self.one_death_in)}
        environ["SERVICE"] = f"http://127.0.0.1:{self.service.port}"
        command = [sys.executable, "-m", "tests.receivers.consumer", self.direct, self.seen]
        if self.kind == "celery":
            environ |= {"BROKER": f"redis://127.0.0.1:{self.broker.port}/0", "SEEN": self.seen}
            command = [sys.executable, "-m", "celery", "-A", "tests.receivers.consumer", "worker"]
            command += ["--concurrency", "2", "--hostname", f"{number}@campaign"]
        with (self.folder / f"consumer{number}.log").open("ab") as log:
            while not self.over.is_set():
                process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=log, stderr=log)
                while process.poll() is None and not self.over.wait(0.05):
                    pass
            process.terminate()
            process.wait(60)

    def fire(self, schedules: int, seconds: float, rounds: int) -> None:
        """Fire every second for so long, while the parts are killed in turn."""
        self.service.ask("PUT", "/workflows/w/1", {"nodes": []})
        self.schedules = [f"s{n}" for n in range(schedules)]
        common = {"workflow_id": "w", "version": 1, "user_id": "u", "timezone": "UTC"}
        common |= {"cron_expr": "* * * * * *", "overlap_policy": "allow"}
        common |= {"catchup_policy": "fire_immediately", "run_timeout_s": 600}
        for name in self.schedules:
            self.service.ask("POST", "/schedules/upsert", {"schedule_id": name, **common})
        for number in range(rounds):
            time.sleep(seconds / rounds)
            self._harm(number)
        for name in self.schedules:
            self.service.ask("POST", "/schedules/pause", {"schedule_id": name, "paused": True})

    def _harm(self, number: int) -> None:
        if number % 2 == 0:
            # Published and not settled: the broker's confirmations are lost, and then the service.
            self.proxy.drop_answers = True
            time.sleep(1.2)
            self.service.kill()
            self.proxy.drop_answers = False
            self.proxy.cut()
            self.service.start()
            asyncio.run(self._repeat_messages())
        else:
            self.broker.kill()
            time.sleep(1)
            self.broker.start()

    async def _repeat_messages(self) -> None:
        """Publish the last runs again, past the duplicate window of the broker."""
        executor = executor_for(self.direct, SETTINGS)
        keys = [row["idempotency_key"] for row in self.service.ledger("s0") if row["attempt"]][:5]
        for key in keys:
            meta = META._replace(idempotency_key=key, attempt=1, task_failures=1)
            await executor.run({"nodes": []}, meta)
        await executor.close()

    def told(self) -> Told:
        """Return what there is once every run of the ledger has ended."""
        deadline = time.monotonic() + SETTLED_WITHIN_S
        while True:
            rows = [row for name in self.schedules for row in self.service.ledger(name)]
            if all(row["status"] in {"SUCCESS", "FAILED", "SKIPPED"} for row in rows):
                break
            assert time.monotonic() < deadline, [row for row in rows if row["status"] != "SUCCESS"][:3]
            time.sleep(0.2)
        deaths = {path.name.removeprefix("died-") for path in self.folder.glob("died-*")}
        return Told(rows, self._effects(), deaths)

    def _effects(self) -> list[Effect]:
        if self.effects_in is None:
            lines = [line.split() for line in (self.folder / "effects").read_text().splitlines()]
            return [Effect(key, int(attempt), int(start)) for key, attempt, start in lines]
        found = asyncio.run(_rows(self.effects_in, "SELECT key, attempt, start FROM effects"))
        return [Effect(*row) for row in found]


async def _rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(statement)]
    finally:
        await connection.close()


def wrong(told: Told, *, exactly: bool) -> list[str]:
    """Return what breaks the promise: one effect a key, or repeats that a death or an attempt explains.

    Every repeat must know that it is one: it has a higher start than the effect before it.
    """
    fired = [row for row in told.rows if row["reason"] != "paused"]
    failed = [row for row in fired if row["status"] != "SUCCESS"]
    problems = [f"{row['run_at']} is {row['status']} {row['reason']}" for row in failed]
    keys = {row["idempotency_key"] for row in fired}
    problems += [f"{key} was never done" for key in keys - {*told.done}]
    problems += [f"{key} is in no ledger" for key in {*told.done} - keys]
    for key, effects in told.done.items():
        attempts = {effect.attempt for effect in effects}
        explained = 1 if exactly else len(attempts) + (key in told.deaths)
        if len(effects) > explained:
            problems.append(f"{key} was done {len(effects)} times in attempts {attempts}")
        starts = [effect.start for effect in effects]
        if any(later <= earlier for earlier, later in itertools.pairwise(starts)):
            problems.append(f"{key} was repeated without a higher start: {starts}")
    return problems


def fought(folder: Path, kind: str, seen: str, effects_in: str | None, *, large: bool) -> tuple[Told, str]:
    # Every death costs the start of a process, so the large campaign has them at longer intervals.
    campaign = Campaign(folder, kind, seen, effects_in, 32 if large else 8)
    with campaign.running():
        campaign.fire(*((20, 30, 8) if large else (4, 5, 2)))
        told = campaign.told()
    repeats = len(told.effects) - len(told.done)
    aware = sum(effect.start > 1 for effect in told.effects)
    said = f"{len(told.done)} keys, {len(told.deaths)} deaths, {repeats} repeats, {aware} that know it"
    return told, f"{kind}: {said}"


def exactly_once(folder, postgres_url, *, large):
    asyncio.run(_rows(postgres_url, "CREATE TABLE effects (key text, attempt int, start int)"))
    return fought(folder, "nats", postgres_url, postgres_url, large=large)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)
def test_with_postgres_seen_every_key_has_exactly_one_effect(tmp_path, postgres_url):
    told, _ = exactly_once(tmp_path, postgres_url, large=False)
    assert wrong(told, exactly=True) == []
    assert len(told.done) >= 16


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["redis", pytest.param("celery", marks=pytest.mark.soak)])
def test_with_valkey_seen_a_repeat_has_a_cause_and_a_higher_start(tmp_path, valkey_url, kind):
    told, _ = fought(tmp_path, kind, valkey_url, None, large=False)
    assert wrong(told, exactly=False) == []
    assert len(told.done) >= 16


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)
def test_with_postgres_seen_500_keys_have_exactly_one_effect_each(tmp_path, postgres_url, capfd):
    told, summary = exactly_once(tmp_path, postgres_url, large=True)
    with capfd.disabled():
        print(f"\n{summary}", file=sys.stderr)
    assert wrong(told, exactly=True) == []
    assert len(told.done) >= 500
    assert told.deaths


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["nats", "redis", "celery"])
def test_with_valkey_seen_the_repeats_of_500_keys_are_explained(tmp_path, valkey_url, kind, capfd):
    told, summary = fought(tmp_path, kind, valkey_url, None, large=True)
    with capfd.disabled():
        print(f"\n{summary}", file=sys.stderr)
    assert wrong(told, exactly=False) == []
    assert len(told.done) >= 500


def test_the_judge_finds_what_is_wrong():
    row = {"idempotency_key": "a", "run_at": "t", "status": "SUCCESS", "reason": None}
    once, again, retried = Effect("a", 1, 1), Effect("a", 1, 2), Effect("a", 2, 2)
    assert wrong(Told([row], [once], set()), exactly=True) == []
    assert wrong(Told([row], [], set()), exactly=True) == ["a was never done"]
    assert wrong(Told([row], [once, again], {"a"}), exactly=True) == ["a was done 2 times in attempts {1}"]
    assert wrong(Told([row], [once, again], {"a"}), exactly=False) == []
    assert wrong(Told([row], [once, again], set()), exactly=False) == ["a was done 2 times in attempts {1}"]
    assert wrong(Told([row], [once, retried], set()), exactly=False) == []
    unaware = "a was repeated without a higher start: [1, 1]"
    assert wrong(Told([row], [once, once], {"a"}), exactly=False) == [unaware]
    assert wrong(Told([], [once], set()), exactly=True) == ["a is in no ledger"]
    lost = {**row, "status": "FAILED", "reason": "lost_run"}
    assert wrong(Told([lost], [once], set()), exactly=True) == ["t is FAILED lost_run"]
