"""Random lives of a service: whatever operators, executors and crashes do, every tick has one entry."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import timedelta

import pytest
from tests.service.rig import TEN, Rig, given

from dutiful.core.errors import UnknownRunError
from dutiful.core.plan.outcome import Accepted, Refused, Succeeded, Unanswered, Unreached
from dutiful.core.policy import CatchUp, Overlap, Reason

MINUTE = timedelta(minutes=1)
ANSWERS = [
    *(Accepted("r"), Accepted(None), Succeeded(), Unreached(), Unanswered()),
    Refused(Reason.LAUNCH_REFUSED),
]
ACTIONS = (
    ["advance"] * 6 + ["report"] * 4 + ["backfill", "trigger", "pause", "resume", "restart", "crash", "edit"]
)


class Life:
    """One seed decides everything that happens to one minutely schedule."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.rig = Rig(self._answer, TICK_MS="5000")

    async def _answer(self, meta):
        return random.Random(f"{meta.idempotency_key} {meta.attempt}").choice(ANSWERS)

    async def live(self, steps: int) -> None:
        async with self.rig:
            await self.edit()
            for _ in range(steps):
                await getattr(self, self.dice.choice(ACTIONS))()
                await self.rig.clock.advance(0)
                await self.check()

    async def edit(self):
        await self.rig.registrar.upsert_schedule(
            given(
                overlap_policy=self.dice.choice([*Overlap]),
                catchup_policy=self.dice.choice([*CatchUp]),
                jitter_ms=self.dice.choice([0, 0, 10_000]),
                grace_s=self.dice.choice([0, 60, 600]),
                run_timeout_s=self.dice.choice([90, 3600]),
                queue_limit=self.dice.choice([1, 1000]),
                delivery=self.dice.choice(["at_least_once", "at_most_once"]),
            )
        )

    async def advance(self):
        await self.rig.clock.advance(self.dice.choice([1, 30, 60, 90, 400]))

    async def report(self):
        if self.rig.calls.metas:
            meta = self.dice.choice(self.rig.calls.metas[-5:])
            status = self.dice.choice(["STARTED", "SUCCESS", "FAILED"])
            run = await self.rig.registrar.report(meta.idempotency_key, status, meta.attempt)
            assert run.idempotency_key == meta.idempotency_key
        with pytest.raises(UnknownRunError):
            await self.rig.registrar.report("0" * 64, "SUCCESS")

    async def backfill(self):
        start = self.rig.clock.now() - self.dice.randint(1, 30) * MINUTE
        end = start + self.dice.randint(1, 20) * MINUTE
        overlap = self.dice.choice([None, *Overlap])
        done = await self.rig.registrar.backfill("job", start, end, overlap)
        assert sum(done) <= 20

    async def trigger(self):
        await self.rig.registrar.trigger("job")

    async def pause(self):
        await self.rig.registrar.pause_schedule("job", True)

    async def resume(self):
        await self.rig.registrar.pause_schedule("job", False)

    async def restart(self):
        await self.rig.restart(self.dice.choice([0, 30, 500]))

    async def crash(self):
        await self.rig.crash(self.dice.choice([0, 30, 500]))

    async def check(self):
        """Every tick up to the cursor has exactly one entry, and every launch has the key of its own."""
        page = await self.rig.registrar.runs("job", 1000)
        entries, covered = Counter(), 0
        for run in page.items:
            if run.trigger != "manual":
                last, listed = run.run_until or run.run_at, 0
                tick = run.run_at
                while tick <= last:
                    entries[tick] += 1
                    tick, listed = tick + MINUTE, listed + 1
                assert listed == run.ticks, run
                covered += run.ticks
        assert covered == len(entries), [tick for tick, n in entries.items() if n > 1]
        due = await self.rig.service._store.get("job")
        decided = (due.state.cursor - int(TEN.timestamp() * 1000)) // 60_000
        missing = [n for n in range(1, decided + 1) if TEN + n * MINUTE not in entries]
        assert not missing
        first = Counter(meta.idempotency_key for meta in self.rig.calls.metas if meta.attempt == 1)
        assert not [key for key, launches in first.items() if launches > 1]


@pytest.mark.parametrize("seed", range(12))
def test_every_tick_has_one_entry_and_one_first_launch(seed):
    asyncio.run(Life(seed).live(60))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 400))
def test_every_tick_has_one_entry_and_one_first_launch_for_long(seed):
    asyncio.run(Life(seed).live(200))
