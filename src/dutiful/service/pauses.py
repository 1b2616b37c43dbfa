"""Pauses: reading the pause that a request asks for, and finding pauses by their age or their note."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.edit import pause_has_ended, paused_until, resumed
from dutiful.service.cache import TimedCache
from dutiful.service.declaration import instant
from dutiful.service.payload import has_facets
from dutiful.service.views import LIMIT_MAX

if TYPE_CHECKING:
    from datetime import datetime

    from dutiful.core.cadence import Instant
    from dutiful.core.schedule import Schedule
    from dutiful.core.snapshot import Snapshot
    from dutiful.runtime.ports import Clock, Facets, Store
    from dutiful.service.declaration import ScheduleInput

OLD_DAYS = 30
"""A pause is old after this many days."""
_DAY = 86_400_000
# Most pauses whose age is looked at.
_READ_MAX = 500


def pause_end(until: datetime | None, paused: bool, now: Instant) -> Instant | None:
    """Return when a pause that is asked for ends by itself, or raise InvalidArgumentError."""
    end = _end("until", until, paused)
    if until is not None and end is not None and end <= now:
        raise InvalidArgumentError(
            "until", until.isoformat(), "is not in the future; a pause ends later than now"
        )
    return end


def declared_end(given: ScheduleInput) -> Instant | None:
    """Return when the pause of a deploy ends by itself, or raise InvalidArgumentError."""
    return _end("pause_until", given.pause_until, given.paused)


def resumption_note(note: str, paused: bool) -> str:
    """Return the note that limits a resumption, or raise InvalidArgumentError for a pause."""
    if paused:
        raise InvalidArgumentError("pause_note", note, "only a resumption is limited by a note")
    return note


async def paused_with_note(store: Store, facets: Facets, note: str) -> list[str]:
    """Return the ids of the paused schedules that have these facets and this note."""
    ids, after = list[str](), ""
    while page := await store.page(after, LIMIT_MAX, facets, True):
        paused = [due.schedule.id for due in page]
        notes, after = await store.notes(paused), paused[-1]
        ids += [each for each in paused if each in notes and notes[each].pause_note == note]
    return ids


def with_pause(schedule: Schedule, given: ScheduleInput, known: Snapshot | None, now: Instant) -> Schedule:
    """Return a declared schedule with the pause of the request, or else with that of the stored schedule.

    A schedule that is paused already keeps the end of its pause unless the request has another one. A pause
    whose end has passed is over and asks for nothing, so that the same file can be deployed at any time.
    """
    end, paused = declared_end(given), given.paused
    if end is not None and end <= now:
        end = paused = None
    stored = None if known is None or pause_has_ended(known.schedule, now) else known.schedule
    before = stored is not None and stored.paused
    if not (before if paused is None else paused):
        return resumed(schedule)
    return paused_until(schedule, end or (stored.pause_until if stored is not None else None))


def _end(field: str, until: datetime | None, paused: bool | None) -> Instant | None:
    if until is None:
        return None
    end = instant(field, until)
    if paused is not True:
        raise InvalidArgumentError(field, until.isoformat(), "only a pause has an end; send paused as true")
    return end


class OldPauses(NamedTuple):
    """The ids of schedules with an old pause, the oldest first, and whether there may be more of them."""

    ids: list[str]
    more: bool


class Pauses:
    """Finds old pauses at a bounded cost, whatever the number of pauses."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._kept: TimedCache[OldPauses] = TimedCache(clock)

    async def old(self, owner: str | None = None) -> OldPauses:
        """Return the old pauses of all users or of one; kept for a minute."""
        return await self._kept.get(owner, lambda: self._read(owner))

    async def old_ones(self, facets: Facets, owner: str | None, limit: int) -> list[Snapshot]:
        """Return schedules with these facets and an old pause, the oldest first, as they are now."""
        ids = (await self._read(owner)).ids
        found = {due.schedule.id: due for due in await self._store.some(ids)}
        wanted = [due for due in map(found.get, ids) if due is not None and has_facets(due.schedule, facets)]
        return wanted[:limit]

    async def noted(self, facets: Facets, note: str) -> int:
        """Return how many schedules with these facets are paused with this note."""
        return len(await paused_with_note(self._store, facets, note))

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
