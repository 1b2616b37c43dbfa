"""The load of a period, counted from distinct cadences: ticks by bucket, an outage, the crons of a minute."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dutiful.core.cadence import count_ticks
from dutiful.core.cron.cron import Cron
from dutiful.core.errors import CronCalculationError
from dutiful.core.policy import CatchUp, Policy
from dutiful.service.cache import TimedCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dutiful.core.cadence import Cadence, Instant
    from dutiful.core.snapshot import Snapshot
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
    """The load of schedules, by their distinct cadences; `cut` if more of them match than were read.

    Counts are made in a thread, and kept for a minute.
    """

    def __init__(
        self, clock: Clock, cadences: Sequence[tuple[Cadence, Policy, int, str]], *, cut: bool = False
    ) -> None:
        self._clock, self._cadences, self.cut = clock, cadences, cut
        self._counts: TimedCache[Any] = TimedCache(clock)

    def __len__(self) -> int:
        return len(self._cadences)

    async def forecast(self, since: Instant, until: Instant, width: int) -> dict[Instant, int]:
        """Return how many ticks fall in each bucket from `since` on."""
        cadences = [(cadence, number) for cadence, _, number, _ in self._cadences]
        found: dict[Instant, int] = await self._counted(forecast, cadences, since, until, width)
        return found

    async def outage(self, start: Instant, length: int) -> Outage:
        """Return the effect of an outage in [start, start + length] on the ticks of that period."""
        found: Outage = await self._counted(outage, self._cadences, start, start + length)
        return found

    async def firing(self, since: Instant, until: Instant) -> list[Firing]:
        """Return the crons with ticks in [since, until), the one with the most ticks first."""
        found: list[Firing] = await self._counted(firing, self._cadences, since, until)
        return found

    async def _counted(self, count: Callable[..., Any], cadences: Sequence[Any], *period: int) -> Any:
        async def compute() -> Any:
            with self._clock.hold():
                return await asyncio.to_thread(count, cadences, *period)

        return await self._counts.get((count, *period), compute)


def distinct(schedules: Sequence[Snapshot]) -> list[tuple[Cadence, Policy, int, str]]:
    """Return each cadence and policy, the number of schedules that have both, and the first id of these."""
    ids: dict[tuple[Cadence, Policy], list[str]] = {}
    for due in schedules:
        ids.setdefault((due.schedule.cadence, due.schedule.policy), []).append(due.schedule.id)
    return [(cadence, policy, len(names), min(names)) for (cadence, policy), names in ids.items()]


def forecast(
    cadences: Sequence[tuple[object, int]], since: Instant, until: Instant, width: int
) -> dict[Instant, int]:
    """Return how many ticks fall in each bucket; buckets without ticks are left out."""
    if width == DAY and since % DAY == 0:
        return days_load(
            [(each, number) for each, number in cadences if isinstance(each, Cron)], since, until
        )
    counts: dict[Instant, int] = {}
    for cadence, number in cadences:
        if isinstance(cadence, Cron):
            for bucket, ticks in _buckets(cadence, since, until, width):
                counts[bucket] = counts.get(bucket, 0) + ticks * number
    return counts


def _buckets(cron: Cron, since: Instant, until: Instant, width: int) -> Iterator[tuple[Instant, int]]:
    """Yield (bucket, ticks) of one cron: tick by tick where ticks are few, else by counting each bucket."""
    try:
        total = count_ticks(cron, since - 1000, until - 1000)
        if total > (until - since) // width:
            for bucket in range(since, until, width):
                ticks = count_ticks(cron, bucket - 1000, bucket + width - 1000)
                if ticks:
                    yield bucket, ticks
            return
        at = since // 1000 - 1
        while (at := cron.upcoming_epoch(at)) * 1000 < until:
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
        return count_ticks(cron, day - 1000, day + DAY - 1000)
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
    return count_ticks(cron, _ms(begin) - 1000, _ms(end) - 1000) > 0


def _ms(at: datetime) -> Instant:
    return int(at.timestamp()) * 1000


def outage(cadences: Sequence[tuple[object, Policy, int, str]], start: Instant, end: Instant) -> Outage:
    """Return the effect of an outage in [start, end] on the ticks of that period."""
    schedules = ticks = run = missed = coalesced = capped = 0
    for cadence, policy, number, _ in cadences:
        if not isinstance(cadence, Cron) or not (found := count_ticks(cadence, start - 1000, end)):
            continue
        # Ticks within the grace still count as on time when the service is back.
        on_time = count_ticks(cadence, max(start - 1000, end - policy.grace), end)
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


def firing(
    cadences: Sequence[tuple[object, Policy, int, str]], since: Instant, until: Instant
) -> list[Firing]:
    """Return the crons with ticks in [since, until), the one with the most ticks first."""
    found: dict[Cron, Firing] = {}
    for cadence, _, number, first in cadences:
        if not isinstance(cadence, Cron):
            continue
        ticks = count_ticks(cadence, since - 1000, until - 1000) * number
        if ticks:
            # The same cron with another policy.
            known = found.get(cadence, Firing(cadence, first, 0, 0))
            first_id, schedules = min(first, known.first_id), known.schedules + number
            found[cadence] = Firing(cadence, first_id, schedules, known.ticks + ticks)
    return sorted(found.values(), key=lambda each: (-each.ticks, each.first_id))
