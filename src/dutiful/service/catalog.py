"""Lists of schedules: those of a filter and a state, in an order, a page at a time, and their number."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from dutiful.core.plan.upcoming import upcoming
from dutiful.core.run import IN_FLIGHT
from dutiful.runtime.ports import PART_OF_ID
from dutiful.service.board import kind_of, worst_first
from dutiful.service.payload import has_facets
from dutiful.service.views import decode_cursor, encode_cursor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.snapshot import Snapshot
    from dutiful.runtime.ports import Clock, Facets, Store

State: TypeAlias = Literal["all", "trouble", "failed", "skipping", "running", "paused", "aside"]
Order: TypeAlias = Literal["id", "next", "trouble"]

READ_MAX = 1000
"""Most schedules that are read for one list: of those in trouble, of those in flight, of those due first."""

# Read at once to fill a page with schedules that are not in trouble.
_PAGE_READ = 100
_NEVER = 2**62
_KINDS = {"failed": "failed", "skipping": "skipping", "aside": "quarantined"}


class Wanted(NamedTuple):
    """Which schedules to list: those with all facets, of one user, in one state, and in which order.

    With `since` or `until`, only the schedules whose next tick is in [since, until), the soonest first.
    """

    facets: Facets = ()
    owner: str | None = None
    state: State = "all"
    order: Order = "id"
    since: Instant | None = None
    until: Instant | None = None

    @property
    def is_timed(self) -> bool:
        """Return whether the time of the next tick matters."""
        return self.since is not None or self.until is not None

    @property
    def is_plain(self) -> bool:
        """Return whether all schedules of the filter are listed, by id."""
        return self.state == "all" and self.order == "id" and not self.is_timed

    @property
    def all_facets(self) -> Facets:
        """Return the facets, with that of the owner."""
        user = [] if self.owner is None else [("user", self.owner)]
        return [*user, *self.facets]


class Listed(NamedTuple):
    """One page of a list, and the cursor of the next page."""

    schedules: list[Snapshot]
    cursor: str | None
    # Whether more schedules may match than were read.
    cut: bool = False


class _Place(NamedTuple):
    """The beginning of a page (after so many schedules of a list, or after an id) and its size."""

    first: int
    after: str
    size: int

    @staticmethod
    def read(cursor: str | None, size: int) -> _Place:
        if cursor is None:
            return _Place(0, "", size)
        first, after = decode_cursor(cursor, int, str)
        return _Place(max(0, int(first)), str(after), size)


class Catalog:
    """Lists schedules at a bounded cost, whatever their number."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def find(self, wanted: Wanted, cursor: str | None, limit: int) -> tuple[Listed, dict[State, int]]:
        """Return one page, and how many schedules of the filter are in each state.

        Raises InvalidArgumentError for a cursor that no page has.
        """
        place = _Place.read(cursor, limit)
        troubled, running, paused = await asyncio.gather(
            self._troubled(wanted),
            self._running(wanted),
            self._store.count(wanted.all_facets, paused=True),
        )
        listed = await self._listed(wanted, troubled, running, place)
        # Do not count if the page has all: to count the ids with some part, the store looks at every id.
        is_whole = wanted.is_plain and cursor is None and listed.cursor is None
        every = len(listed.schedules) if is_whole else await self._store.count(wanted.all_facets)
        return listed, _counts(troubled, len(running), every, paused)

    async def _listed(
        self, wanted: Wanted, troubled: Sequence[Snapshot], running: Sequence[str], place: _Place
    ) -> Listed:
        if wanted.state in {"all", "paused"}:
            return await self._of_all(wanted, troubled, place)
        found = await self._store.some(running) if wanted.state == "running" else troubled
        kind = _KINDS.get(wanted.state)
        kept = [due for due in found if kind is None or kind_of(due) == kind]
        return _sliced(self._in_order(kept, wanted), place)

    async def _troubled(self, wanted: Wanted) -> list[Snapshot]:
        found = await self._store.troubled(READ_MAX, wanted.owner)
        return [due for due in found if has_facets(due.schedule, wanted.facets)]

    async def _running(self, wanted: Wanted) -> list[str]:
        """Return the ids of the schedules with runs in flight."""
        runs = await self._store.open_runs(READ_MAX, wanted.owner)
        ids = sorted({run.schedule_id for run in runs if run.phase in IN_FLIGHT})
        stored = [facet for facet in wanted.facets if facet[0] != PART_OF_ID]
        if stored:
            found = await self._store.some(ids)
            return [due.schedule.id for due in found if has_facets(due.schedule, wanted.facets)]
        return [one for one in ids if all(part in one for _, part in wanted.facets)]

    async def _of_all(self, wanted: Wanted, troubled: Sequence[Snapshot], place: _Place) -> Listed:
        is_paused = wanted.state == "paused"
        if is_paused and wanted.order == "id" and not wanted.is_timed:
            return await self._by_id(wanted, place, paused=True)
        if is_paused or wanted.is_timed:
            found = (
                await self._store.page("", READ_MAX, wanted.all_facets, paused=True)
                if is_paused
                else await self._store.soonest(READ_MAX, wanted.all_facets)
            )
            return _sliced(self._in_order(found, wanted), place)._replace(cut=len(found) == READ_MAX)
        if wanted.order == "next":
            return await self._soonest(wanted, place)
        if wanted.order == "trouble":
            return await self._then_others(sorted(troubled, key=worst_first), wanted, place)
        return await self._by_id(wanted, place)

    async def _by_id(self, wanted: Wanted, place: _Place, paused: bool | None = None) -> Listed:
        found = await self._store.page(place.after, place.size + 1, wanted.all_facets, paused)
        more = encode_cursor(0, found[place.size - 1].schedule.id) if len(found) > place.size else None
        return Listed(found[: place.size], more)

    async def _soonest(self, wanted: Wanted, place: _Place) -> Listed:
        """Return the schedules that wake first, and after all of them those that are paused or ended.

        Within the page they are in the order of their ticks.
        """
        most = min(place.first + place.size + 1, READ_MAX)
        found = await self._store.soonest(most, wanted.all_facets)
        if len(found) < most:
            return await self._then_others(self._in_order(found, wanted), wanted, place)
        listed = _sliced(found, place)
        cut = listed.cursor is None and len(found) == READ_MAX
        return Listed(self._in_order(listed.schedules, wanted), listed.cursor, cut)

    async def _then_others(self, first: Sequence[Snapshot], wanted: Wanted, place: _Place) -> Listed:
        """Return the page of a list that begins with these schedules; the others follow by id."""
        # Read one schedule more than the page has, to know whether another page follows.
        found = [*first[place.first : place.first + place.size + 1]]
        known, in_front = {due.schedule.id for due in first}, min(len(found), place.size)
        after = place.after
        while len(found) <= place.size and (page := await self._page(after, wanted)):
            found += [due for due in page if due.schedule.id not in known]
            after = page[-1].schedule.id
        if len(found) <= place.size:
            return Listed(found, None)
        last = found[place.size - 1].schedule.id if in_front < place.size else place.after
        return Listed(found[: place.size], encode_cursor(place.first + in_front, last))

    async def _page(self, after: str, wanted: Wanted) -> list[Snapshot]:
        return await self._store.page(after, _PAGE_READ, wanted.all_facets)

    def _in_order(self, found: Sequence[Snapshot], wanted: Wanted) -> list[Snapshot]:
        if wanted.is_timed or wanted.order == "next":
            return self._by_next_tick(found, wanted)
        return sorted(found, key=worst_first if wanted.order == "trouble" else _id_of)

    def _by_next_tick(self, found: Sequence[Snapshot], wanted: Wanted) -> list[Snapshot]:
        """Return the schedules whose next tick is in the time asked for; those without a tick come last."""
        # `next_tick` returns _NEVER for a schedule without a next tick: no period asked for holds it.
        every = _NEVER if wanted.is_timed else _NEVER + 1
        now, since, until = self._clock.epoch_ms(), wanted.since or 0, wanted.until or every
        ticks = [(next_tick(due, now), due.schedule.id, due) for due in found]
        kept = [each for each in ticks if since <= each[0] < until]
        return [due for *_, due in sorted(kept, key=lambda each: each[:2])]


def _counts(troubled: Sequence[Snapshot], running: int, every: int, paused: int) -> dict[State, int]:
    """Return how many schedules are in each state."""
    kinds = [kind_of(due) for due in troubled]
    return {
        "all": every,
        "trouble": len(kinds),
        "failed": kinds.count("failed"),
        "skipping": kinds.count("skipping"),
        "running": running,
        "paused": paused,
        "aside": kinds.count("quarantined"),
    }


def next_tick(due: Snapshot, now: Instant) -> Instant:
    """Return the next tick that may run, after the end of a pause, or an instant after all ticks."""
    until = due.schedule.pause_until
    if due.schedule.paused and until is None:
        return _NEVER
    return next((tick for tick, _ in upcoming(due, max(now, until or now), 1)), _NEVER)


def _sliced(found: Sequence[Snapshot], place: _Place) -> Listed:
    end = place.first + place.size
    return Listed([*found[place.first : end]], encode_cursor(end, "") if len(found) > end else None)


def _id_of(due: Snapshot) -> str:
    return due.schedule.id
