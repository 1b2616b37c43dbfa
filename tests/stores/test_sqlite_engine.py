"""The engine over a file does what it does over memory, also across restarts."""

from __future__ import annotations

import asyncio

from tests.stores.notation import MINUTE, T0, declare, put, schedule

from dutiful.core.cadence import Every, Once
from dutiful.core.changes import Changes
from dutiful.core.plan.outcome import Failed, Succeeded
from dutiful.core.policy import Capacity, CatchUp, Overlap, Retry
from dutiful.runtime.engine import Engine
from dutiful.stores.memory import MemoryStore
from dutiful.stores.sqlite import SqliteStore
from dutiful.testing import RecordingLauncher, VirtualClock

SCHEDULES = [
    schedule("plain"),
    schedule("failing", retry=Retry(20_000, 2)),
    schedule("period", Every(90_000)),
    schedule("once", Once(T0 + 5 * MINUTE)),
    schedule("one", capacity=Capacity("agent", 1)),
    schedule("two", capacity=Capacity("agent", 1), overlap=Overlap.QUEUE, catch_up=CatchUp.FIRE_IMMEDIATELY),
    schedule("quiet", ledger=False),
]


def behave(launch):
    return Failed("oh") if launch.run.schedule_id == "failing" else Succeeded()


async def live(store, clock, minutes, owner):
    """Let an engine run for a while; return what it launched."""
    launcher = RecordingLauncher(behave)
    engine = Engine(store, launcher, clock, lambda _: None, owner)
    engine.start()
    await clock.advance(minutes * 60)
    await engine.stop()
    return [launch.run for launch in launcher.launches]


async def two_lives(store):
    """Declare, run, restart an hour later, run; return the launches and all that is stored."""
    clock = VirtualClock("2023-11-14T22:13:00+00:00")
    await store.open()
    await declare(store, *SCHEDULES)
    launched = await live(store, clock, 10, "first")
    await store.close()
    await clock.jump(3600)
    await store.open()
    await store.apply(Changes([put(schedule("new"), cursor=T0 + 70 * MINUTE)]))
    launched += await live(store, clock, 10, "second")
    due = [(each.schedule, each.state, [*each.runs]) for each in await store.every()]
    ledgers = [await store.ledger(each.id, None, 1000) for each, _, _ in due]
    await store.close()
    return launched, due, ledgers


def test_two_lives_over_a_file_are_as_over_memory(tmp_path):
    memory = asyncio.run(two_lives(MemoryStore()))
    sqlite = asyncio.run(two_lives(SqliteStore(tmp_path / "state.db")))
    assert sqlite == memory
    assert len(sqlite[0]) > 100
