"""The progress of backfills: how many of the past ticks that a user asked for have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dutiful.runtime.ports import RunFilter
from dutiful.service.cache import TimedCache

if TYPE_CHECKING:
    from collections.abc import Collection

    from dutiful.core.cadence import Instant
    from dutiful.core.run import Run
    from dutiful.runtime.ports import Clock, Store

Asked: TypeAlias = "tuple[str, Instant]"
"""One request for past ticks: the schedule, and when all its rows were made."""
_HOUR = 3_600_000
_READ_MAX, _READS_MAX = 1000, 5


class Progress(NamedTuple):
    """How many past ticks of a request have ended, and how many were asked for."""

    ended: int
    ticks: int


class Backfills:
    """Counts the rows of a request once, and after that only those that are still open."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        # Cached for an hour, not for ever: the number of rows never changes, but a request ends.
        self._ticks: TimedCache[tuple[int | None]] = TimedCache(clock, _HOUR)

    async def progress(self, asked: Collection[Asked]) -> dict[Asked, Progress]:
        """Return the progress of requests with open runs; left out where the ledger is too long to count."""
        if not asked:
            return {}
        opened = {due.schedule.id: due.runs for due in await self._store.some({one for one, _ in asked})}
        found = dict[Asked, Progress]()
        for each in {*asked}:
            (ticks,) = await self._ticks.get(each, lambda each=each: self._count(*each))  # type: ignore[misc]
            still = sum(1 for run in opened.get(each[0], ()) if is_of(run, each))
            if ticks is not None and still <= ticks:
                found[each] = Progress(ticks - still, ticks)
        return found

    async def _count(self, schedule_id: str, made_at: Instant) -> tuple[int | None]:
        wanted, place, count = RunFilter(schedule_id=schedule_id, trigger="backfill"), None, 0
        for _ in range(_READS_MAX):
            page = await self._store.runs(wanted, place, _READ_MAX)
            count += sum(1 for run in page.runs if is_of(run, (schedule_id, made_at)))
            if (place := page.more_after) is None:
                return (count,)
        return (None,)


def is_of(run: Run, asked: Asked) -> bool:
    """Return whether a run was made by a request."""
    return run.trigger == "backfill" and (run.schedule_id, run.created_at) == asked
