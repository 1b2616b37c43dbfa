"""Checks periodically that schedules start, end and succeed in the time that they expect.

Every process of the service checks, not only the leader: so the others find a worker that hangs.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from dutiful.core.errors import DutifulError
from dutiful.core.event import ExpectationMissed
from dutiful.core.plan.expectations import missed_expectations
from dutiful.service.payload import EXPECTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from dutiful.core.event import Event
    from dutiful.core.snapshot import Snapshot
    from dutiful.runtime.ports import Clock, Store

logger = logging.getLogger("dutiful.service")

LOOK_EVERY_S = 5.0
_PAGE = 500


class Expectations:
    """Reports each missed expectation to an observer once, and counts those missed now."""

    def __init__(self, store: Store, clock: Clock, observer: Callable[[Event], None]) -> None:
        self._store, self._clock, self._observer = store, clock, observer
        self._told: frozenset[tuple[str, str, int]] = frozenset()
        self._watching: asyncio.Task[None] | None = None

    def missed(self) -> dict[str, int]:
        """Return how many schedules miss an expectation, by its name, as of the last check."""
        names = [expectation for _, expectation, _ in self._told]
        return {name: names.count(name) for name in ("start_within", "finish_within", "succeed_every")}

    def start(self) -> None:
        """Start the periodic check."""
        self._watching = asyncio.create_task(self._watch(), name="dutiful-expectations")

    def stop(self) -> None:
        """Stop the periodic check."""
        if self._watching is not None:
            self._watching.cancel()

    async def look(self) -> None:
        """Check once, and report the expectations that were met at the check before."""
        now = self._clock.epoch_ms()
        found = {
            (known.schedule.id, *missed)
            async for known, declared_at in self._expecting()
            for missed in missed_expectations(known, declared_at, now)
        }
        new, self._told = found - self._told, frozenset(found)
        for schedule_id, expectation, since in sorted(new):
            self._observer(ExpectationMissed(now, schedule_id, expectation, since))

    async def _watch(self) -> None:
        while True:
            await self._clock.sleep(LOOK_EVERY_S)
            try:
                with self._clock.hold():
                    await self.look()
            except DutifulError as error:
                logger.warning("expectations could not be looked at: %s", error)

    async def _expecting(self) -> AsyncIterator[tuple[Snapshot, int]]:
        after = ""
        while page := await self._store.page(after, _PAGE, [EXPECTS]):
            notes = await self._store.notes([known.schedule.id for known in page])
            for known in page:
                note = notes.get(known.schedule.id)
                yield known, 0 if note is None else note.updated_at
            after = page[-1].schedule.id
