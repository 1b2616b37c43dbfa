"""Pauses that may have been forgotten: the schedules that have been paused for a long time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dutiful.service.board import Kept
from dutiful.service.declaration import has_facets

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.snapshot import Snapshot
    from dutiful.runtime.ports import Clock, Facets, Store

OLD_DAYS = 30
"""A pause is old after this many days."""
_DAY = 86_400_000
# Most pauses whose age is looked at.
_READ_MAX = 500


class OldPauses(NamedTuple):
    """The ids of schedules with an old pause, the oldest first, and whether there may be more of them."""

    ids: list[str]
    more: bool


class Pauses:
    """Finds old pauses at a bounded cost, whatever the number of pauses."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._kept: Kept[OldPauses] = Kept(clock)

    async def old(self, owner: str | None = None) -> OldPauses:
        """Return the old pauses of all users or of one; kept for a minute."""
        return await self._kept.get(owner, lambda: self._read(owner))

    async def old_ones(self, facets: Facets, owner: str | None, limit: int) -> list[Snapshot]:
        """Return schedules with these facets and an old pause, the oldest first, as they are now."""
        ids = (await self._read(owner)).ids
        found = {due.schedule.id: due for due in await self._store.some(ids)}
        wanted = [due for due in map(found.get, ids) if due is not None and has_facets(due.schedule, facets)]
        return wanted[:limit]

    async def _read(self, owner: str | None) -> OldPauses:
        facets = [] if owner is None else [("user", owner)]
        paused = await self._store.page("", _READ_MAX, facets, True)
        notes = await self._store.notes([due.schedule.id for due in paused])
        before: Instant = self._clock.epoch_ms() - OLD_DAYS * _DAY
        old = sorted(
            (note.paused_at, schedule_id)
            for schedule_id, note in notes.items()
            if note.paused_at is not None and note.paused_at < before
        )
        return OldPauses([schedule_id for _, schedule_id in old], len(paused) == _READ_MAX)
