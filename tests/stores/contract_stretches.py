"""What every store promises of stretches of skipped ticks; see `contract.py`."""

from __future__ import annotations

import pytest
from tests.stores.notation import MINUTE, T0, declare, end, pass_at, schedule, stored

from dutiful.core.changes import Changes, Put
from dutiful.core.policy import Reason
from dutiful.core.run import Phase, Run, Status
from dutiful.core.schedule import SkippedRange, State
from dutiful.core.snapshot import Move


class StretchContract:
    """A stretch of skipped ticks that begins at a tick which was decided before begins after it."""

    async def write(self, store, way, stretch, growing):
        state = State(T0 + 9 * MINUTE, skipped=growing)
        due = await store.get("a")
        if way == "commit":
            await store.commit([Move(due, state, inserts=[stretch])], 1)
        else:
            await store.apply(Changes([Put(due.schedule, state, None)], rows=[stretch]))

    def stretch(self, ticks):
        until = T0 + (ticks - 1) * MINUTE if ticks > 1 else None
        return Run(
            "a", T0, "schedule", Status.SKIPPED, Phase.ENDED, T0, Reason.MISSED, 0, 1, None, T0, until, ticks
        )

    @pytest.mark.parametrize("way", ["commit", "apply"])
    def test_a_stretch_begins_after_a_run(self, way, tmp_path):
        @stored
        async def story(self, store):
            await declare(store, schedule())
            await store.lead("me")
            [launch] = await pass_at(store, T0)
            await end(store, launch, T0)
            await self.write(store, way, self.stretch(4), SkippedRange(T0, Reason.MISSED, 4))
            rest, run = await store.ledger("a", None, 10)
            assert run.status is Status.SUCCESS
            assert rest == self.stretch(4)._replace(run_at=T0 + 1, fire_at=T0 + 1, ticks=3)
            assert (await store.get("a")).state.skipped == SkippedRange(T0 + 1, Reason.MISSED, 3)

        story(self, tmp_path)

    @pytest.mark.parametrize("way", ["commit", "apply"])
    @pytest.mark.parametrize("ticks", [1, 2])
    def test_a_stretch_whose_ticks_are_all_decided_is_left_out(self, way, ticks, tmp_path):
        @stored
        async def story(self, store):
            await declare(store, schedule())
            await store.lead("me")
            known = self.stretch(2)._replace(reason=Reason.PAUSED)
            await store.commit([Move(await store.get("a"), State(T0 + MINUTE), inserts=[known])], 1)
            await self.write(store, way, self.stretch(ticks), SkippedRange(T0, Reason.MISSED, ticks))
            assert await store.ledger("a", None, 10) == [known]
            assert (await store.get("a")).state.skipped is None

        story(self, tmp_path)
