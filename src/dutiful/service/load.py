"""The load of a period, counted from distinct cadences: ticks by bucket, an outage, the crons of a minute."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dutiful.core.cadence import count_ticks
from dutiful.core.cron.cron import Cron
from dutiful.core.errors import CronCalculationError
from dutiful.core.policy import CatchUp
from dutiful.service.cache import TimedCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.schedule import Alike, Window
    from dutiful.runtime.ports import Clock

READ_MAX = 1000
"""The most schedules of a filter that are counted."""
DAY = 86_400_000
_ONE = timedelta(days=1)
# The kind of a day in UTC for a cron: the offset of its zone, and which local days around it have ticks.
_Likeness: TypeAlias = "tuple[timedelta | None, tuple[bool, ...]] | None"


class Outage(NamedTuple):
    """The ticks of an outage, and the effect of each schedule's own catch-up policy on them."""

    schedules: int
    ticks: int
    run: int
    missed: int
    coalesced: int
    capped: int


class Firing(NamedTuple):
    """The schedules with one cron that fire in a period: the first id, how many they are, and their ticks."""

    cron: Cron
    first_id: str
    schedules: int
    ticks: int


class Load:
    """The load of schedules, counted once for all that are alike; `cut` if more match than were read.

    Counts are made in a thread, and kept for a minute.
    """

    def __init__(self, clock: Clock, alike: Sequence[Alike], *, cut: bool = False) -> None:
        self._clock, self._alike, self.cut = clock, alike, cut
        self._counts: TimedCache[Any] = TimedCache(clock)

    def __len__(self) -> int:
        return len(self._alike)

    async def forecast(self, since: Instant, until: Instant, width: int) -> dict[Instant, int]:
        """Return how many ticks fall in each bucket from `since` on."""
        found: dict[Instant, int] = await self._counted(forecast, since, until, width)
        return found

    async def outage(self, start: Instant, length: int) -> Outage:
        """Return the effect of an outage in [start, start + length] on the ticks of that period."""
        found: Outage = await self._counted(outage, start, start + length)
        return found

    async def firing(self, since: Instant, until: Instant) -> list[Firing]:
        """Return the crons with ticks in [since, until), the one with the most ticks first."""
        found: list[Firing] = await self._counted(firing, since, until)
        return found

    async def _counted(self, count: Callable[..., Any], *period: int) -> Any:
        async def compute() -> Any:
            with self._clock.hold():
                return await asyncio.to_thread(count, self._alike, *period)

        return await self._counts.get((count, *period), compute)


def forecast(alike: Sequence[Alike], since: Instant, until: Instant, width: int) -> dict[Instant, int]:
    """Return how many ticks fall in each bucket; buckets without ticks are left out."""
    crons = [*_crons(alike, since, until)]
    counts: dict[Instant, int] = {}
    if width == DAY and since % DAY == 0:
        whole = [(cron, number) for cron, number, *period in crons if period == [since, until]]
        counts = days_load(whole, since, until)
        # A day that a window cuts is like no other.
        crons = [each for each in crons if each[2:] != (since, until)]
    for cron, number, begin, end in crons:
        for bucket, ticks in _buckets(cron, since, width, begin, end):
            counts[bucket] = counts.get(bucket, 0) + ticks * number
    return counts


def _crons(
    alike: Iterable[Alike], since: Instant, until: Instant
) -> Iterator[tuple[Cron, int, Instant, Instant]]:
    """Yield each cron, its number of schedules, and the part of [since, until) in their window."""
    for each in alike:
        begin, end = _within(each.window, since, until)
        if isinstance(each.cadence, Cron) and begin < end:
            yield each.cadence, each.number, begin, end


def _within(window: Window, since: Instant, until: Instant) -> tuple[Instant, Instant]:
    """Return the part of [since, until) in a window."""
    begin = since if window.start is None else max(since, window.start)
    # A tick at the end of the window counts.
    return begin, until if window.end is None else min(until, window.end + 1)


def _count(cron: Cron, begin: Instant, end: Instant) -> int:
    """Return how many ticks lie in [begin, end)."""
    return count_ticks(cron, begin - 1, end - 1) if begin < end else 0


def _buckets(
    cron: Cron, since: Instant, width: int, begin: Instant, end: Instant
) -> Iterator[tuple[Instant, int]]:
    """Yield (bucket, ticks) of one cron in [begin, end); the buckets are counted from `since`.

    Tick by tick where ticks are few, else by counting each bucket.
    """
    try:
        if _count(cron, begin, end) > (end - begin) // width:
            for bucket in range(begin - (begin - since) % width, end, width):
                ticks = _count(cron, max(bucket, begin), min(bucket + width, end))
                if ticks:
                    yield bucket, ticks
            return
        at = (begin - 1) // 1000
        while (at := cron.upcoming_epoch(at)) * 1000 < end:
            instant = at * 1000
            yield instant - (instant - since) % width, 1
    except CronCalculationError:
        return


def days_load(crons: Iterable[tuple[Cron, int]], since: Instant, until: Instant) -> dict[Instant, int]:
    """Return the number of ticks in each day in UTC from `since` on, a midnight; days without are left out.

    Days are alike to crons with the same days and zone. So each of these crons is counted once for each kind
    of day, and day by day only where the clock changes.
    """
    days = [*range(since, until, DAY)]
    counts: dict[Instant, int] = {}
    groups: dict[object, list[tuple[Cron, int]]] = {}
    for cron, number in crons:
        groups.setdefault(_days_of(cron), []).append((cron, number))
    for group in groups.values():
        for day, ticks in _group_load(group, days).items():
            counts[day] = counts.get(day, 0) + ticks
    return {day: ticks for day, ticks in counts.items() if ticks}


def _days_of(cron: Cron) -> object:
    """Return the key by which crons with the same days and zone are grouped."""
    fields = cron.fields
    return fields.day, fields.month, fields.weekday, fields.either_day, cron.zone.name, cron.calendar


def _group_load(group: Sequence[tuple[Cron, int]], days: Sequence[Instant]) -> dict[Instant, int]:
    """Return the ticks of crons with the same days and zone, by day."""
    try:
        kinds = _likenesses(group[0][0], days)
    except CronCalculationError:
        return {}
    # The first day of each kind, and every day without a kind.
    first = {(kind or day): day for day, kind in reversed([*zip(days, kinds, strict=True)])}
    ticks = {kind: sum(_ticks(cron, day) * number for cron, number in group) for kind, day in first.items()}
    return {day: ticks[kind or day] for day, kind in zip(days, kinds, strict=True)}


def _ticks(cron: Cron, day: Instant) -> int:
    try:
        return _count(cron, day, day + DAY)
    except CronCalculationError:
        return 0


def _likenesses(cron: Cron, days: Sequence[Instant]) -> list[_Likeness]:
    """Return the kind of each day for this cron; None for a day near a change of the clock."""
    dates = [datetime.fromtimestamp(day / 1000, UTC).date() for day in days]
    around = [dates[0] - _ONE + place * _ONE for place in range(len(dates) + 2)]
    begins = [datetime.combine(each, time(), cron.zone.tzinfo) for each in [*around, around[-1] + _ONE]]
    fires = [_fires(cron, begin, end) for begin, end in pairwise(begins)]
    offsets = [begin.utcoffset() for begin in begins]
    kinds = list[_Likeness]()
    for place in range(len(dates)):
        near = {*offsets[place : place + 4]}
        kinds.append((offsets[place], tuple(fires[place : place + 3])) if len(near) == 1 else None)
    return kinds


def _fires(cron: Cron, begin: datetime, end: datetime) -> bool:
    return _count(cron, _ms(begin), _ms(end)) > 0


def _ms(at: datetime) -> Instant:
    return int(at.timestamp()) * 1000


def outage(alike: Sequence[Alike], start: Instant, end: Instant) -> Outage:
    """Return the effect of an outage in [start, end] on the ticks of that period."""
    schedules = ticks = run = missed = coalesced = capped = 0
    for cadence, policy, window, number, _ in alike:
        begin, stop = _within(window, start, end + 1)
        if not isinstance(cadence, Cron) or not (found := _count(cadence, begin, stop)):
            continue
        # Ticks within the grace still count as on time when the service is back.
        on_time = _count(cadence, max(begin, end - policy.grace + 1), stop)
        late = found - on_time
        owed = min(late, {CatchUp.NONE: 0, CatchUp.LATEST: 1}.get(policy.catch_up, policy.catch_up_cap))
        schedules += number
        ticks += found * number
        run += (on_time + owed) * number
        missed += (late if policy.catch_up is CatchUp.NONE else 0) * number
        coalesced += (late - owed if policy.catch_up is CatchUp.LATEST else 0) * number
        spread_out = policy.catch_up in {CatchUp.FIRE_IMMEDIATELY, CatchUp.SPREAD}
        capped += (late - owed if spread_out else 0) * number
    return Outage(schedules, ticks, run, missed, coalesced, capped)


def firing(alike: Sequence[Alike], since: Instant, until: Instant) -> list[Firing]:
    """Return the crons with ticks in [since, until), the one with the most ticks first."""
    found: dict[Cron, Firing] = {}
    for cadence, _, window, number, first in alike:
        if not isinstance(cadence, Cron):
            continue
        ticks = _count(cadence, *_within(window, since, until)) * number
        if ticks:
            # The same cron with another policy or window.
            known = found.get(cadence, Firing(cadence, first, 0, 0))
            first_id, schedules = min(first, known.first_id), known.schedules + number
            found[cadence] = Firing(cadence, first_id, schedules, known.ticks + ticks)
    return sorted(found.values(), key=lambda each: (-each.ticks, each.first_id))
