"""Service, broker and consumers of a queue, killed again and again; their effects are judged from outside."""

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

from dutiful.core.plan.outcome import Accepted
from dutiful.launchers.url import executor_for

ROOT = Path(__file__).resolve().parents[2]
URLS = {
    "nats": "nats://127.0.0.1:{port}",
    "redis": "redis://127.0.0.1:{port}/0",
    "celery": "celery+redis://127.0.0.1:{port}/0?task=app.run",
}
# A busy machine needs minutes for a few thousand runs.
SETTLED_WITHIN_S = 900
# Longer than any run waits in the queue of a busy machine; a lost run ends after it.
RUN_TIMEOUT_S = 600
CONSUMERS = 2
# Runs of each schedule that are published twice after each kill of the service.
REPEATED_EACH = 8


class Effect(NamedTuple):
    """One effect of a consumer: for which key, in which attempt of the service and which start of the key."""

    key: str
    attempt: int
    start: int


class Told(NamedTuple):
    """The result of a campaign: the ledger, the effects, and the keys whose consumer was killed."""

    rows: list[dict]
    effects: list[Effect]
    deaths: set[str]
    may_lose: int = 0
    """How many messages the kills of the broker may have lost on their way to a consumer."""

    @property
    def lost(self) -> set[str]:
        """The keys that ended as `lost_run` without an effect."""
        return {row["idempotency_key"] for row in self.rows if row["reason"] == "lost_run"} - {*self.done}

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
        self.relay_kills = self.broker_kills = 0
        self.repeated: set[str] = set()

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
            threads = [threading.Thread(target=self._consume, args=(n,)) for n in range(CONSUMERS)]
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
        """Fire every second for this many seconds, while service and broker are killed in turn."""
        self.service.ask("PUT", "/workflows/w/1", {"nodes": []})
        self.schedules = [f"s{n}" for n in range(schedules)]
        common = {"workflow_id": "w", "version": 1, "user_id": "u", "timezone": "UTC"}
        common |= {"cron_expr": "* * * * * *", "overlap_policy": "allow"}
        common |= {"catchup_policy": "fire_immediately", "run_timeout_s": RUN_TIMEOUT_S}
        for name in self.schedules:
            self.service.ask("POST", "/schedules/upsert", {"schedule_id": name, **common})
        for number in range(rounds):
            time.sleep(seconds / rounds)
            self._harm(number)
        for name in self.schedules:
            self.service.ask("POST", "/schedules/pause", {"schedule_id": name, "paused": True})

    def _harm(self, number: int) -> None:
        if number % 2 == 0:
            # Kill the service between publish and settle: lose the broker's confirmations first.
            self.proxy.drop_answers = True
            time.sleep(1.2)
            self.service.kill()
            self.proxy.drop_answers = False
            self.proxy.cut()
            self.service.start()
            self.relay_kills += 1
            asyncio.run(self._repeat_messages())
        else:
            self.broker.kill()
            time.sleep(1)
            self.broker.start()
            self.broker_kills += 1

    async def _repeat_messages(self) -> None:
        """Publish the newest runs of each schedule again, with an id that the broker does not recognise."""
        executor = executor_for(self.direct, SETTINGS)
        newest = [row for name in self.schedules for row in self.service.ledger(name)[:REPEATED_EACH]]
        for key in {row["idempotency_key"] for row in newest if row["attempt"]}:
            meta = META._replace(idempotency_key=key, attempt=1, task_failures=1)
            assert isinstance(await executor.run({"nodes": []}, meta), Accepted)
            self.repeated.add(key)
        await executor.close()

    def told(self) -> Told:
        """Return ledger, effects and deaths once every run of the ledger has ended."""
        deadline = time.monotonic() + SETTLED_WITHIN_S
        while True:
            rows = [row for name in self.schedules for row in self.service.ledger(name)]
            if all(row["status"] in {"SUCCESS", "FAILED", "SKIPPED"} for row in rows):
                break
            assert time.monotonic() < deadline, [row for row in rows if row["status"] != "SUCCESS"][:3]
            time.sleep(0.2)
        deaths = {path.name.removeprefix("died-") for path in self.folder.glob("died-*")}
        # Celery pops a message from Redis before it notes it as unacknowledged: a kill in between loses it.
        may_lose = CONSUMERS * self.broker_kills if self.kind == "celery" else 0
        return Told(rows, self._effects(), deaths, may_lose)

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
    """Return the breaches of the promise: one effect per key, or repeats with a death or attempt as cause.

    Each repeat must have a higher start than the effect before it, so that the consumer can tell.
    """
    excused = told.lost if len(told.lost) <= told.may_lose else set()
    rows = [row for row in told.rows if row["idempotency_key"] not in excused]
    fired = [row for row in rows if row["reason"] != "paused"]
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
    """Run a campaign to its end; return its result, and a sentence with its counts."""
    # Every death costs the start of a process, so the large campaign has them at longer intervals.
    campaign = Campaign(folder, kind, seen, effects_in, 32 if large else 8)
    with campaign.running():
        campaign.fire(*((20, 30, 8) if large else (4, 5, 2)))
        told = campaign.told()
    repeats = len(told.effects) - len(told.done)
    aware = sum(effect.start > 1 for effect in told.effects)
    faults = f"{campaign.relay_kills} relay kills, {campaign.broker_kills} broker kills"
    faults += f", {len(campaign.repeated)} keys published twice, {len(told.deaths)} consumers killed"
    counts = f"{len(told.done)} keys, {repeats} effects repeated, {aware} with a start above 1"
    counts += f", {len(told.lost)} lost by the broker"
    return told, f"{kind} with {seen.partition(':')[0]}: {faults}; {counts}"


def exactly_once(folder: Path, kind: str, postgres_url: str, *, large: bool) -> tuple[Told, str]:
    asyncio.run(_rows(postgres_url, "CREATE TABLE effects (key text, attempt int, start int)"))
    return fought(folder, kind, postgres_url, postgres_url, large=large)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)
def test_with_postgres_seen_every_key_has_exactly_one_effect(tmp_path, postgres_url):
    told, _ = exactly_once(tmp_path, "nats", postgres_url, large=False)
    assert wrong(told, exactly=True) == []
    assert len(told.done) >= 16


@pytest.mark.timeout(900)
@pytest.mark.soak
@pytest.mark.parametrize("kind", ["redis", "celery"])
def test_with_valkey_seen_a_repeat_has_a_cause_and_a_higher_start(tmp_path, valkey_url, kind):
    told, _ = fought(tmp_path, kind, valkey_url, None, large=False)
    assert wrong(told, exactly=False) == []
    assert len(told.done) >= 16


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", URLS)
@pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)
def test_with_postgres_seen_500_keys_have_exactly_one_effect_each(tmp_path, postgres_url, kind, capfd):
    told, summary = exactly_once(tmp_path, kind, postgres_url, large=True)
    with capfd.disabled():
        print(f"\n{summary}", file=sys.stderr)
    assert wrong(told, exactly=True) == []
    assert len(told.done) >= 500
    assert told.deaths


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", URLS)
def test_with_valkey_seen_the_repeats_of_500_keys_are_explained(tmp_path, valkey_url, kind, capfd):
    told, summary = fought(tmp_path, kind, valkey_url, None, large=True)
    with capfd.disabled():
        print(f"\n{summary}", file=sys.stderr)
    assert wrong(told, exactly=False) == []
    assert len(told.done) >= 500
    assert told.deaths


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
    assert wrong(Told([lost], [once], set(), may_lose=1), exactly=True) == ["t is FAILED lost_run"]
    assert wrong(Told([lost], [], set(), may_lose=1), exactly=True) == []
    assert wrong(Told([lost], [], set()), exactly=True) == ["t is FAILED lost_run", "a was never done"]
