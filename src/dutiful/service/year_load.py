"""The load of many days: the ticks of each day, counted once for all days that are alike to a cron."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from dutiful.core.cadence import count_ticks
from dutiful.core.errors import CronCalculationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.cron.cron import Cron

DAY = 86_400_000
_ONE = timedelta(days=1)
# What a cron knows of a day in UTC: the offset of its zone, and whether the local days around it have ticks.
_Likeness: TypeAlias = "tuple[timedelta | None, tuple[bool, ...]] | None"


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
    """Return a value that crons with the same days and zone have in common."""
    fields = cron.fields
    return fields.day, fields.month, fields.weekday, fields.either_day, cron.zone.name, cron.calendar


def _group_load(group: Sequence[tuple[Cron, int]], days: Sequence[Instant]) -> dict[Instant, int]:
    """Return the ticks of crons with the same days and zone, by day."""
    try:
        kinds = _likenesses(group[0][0], days)
    except CronCalculationError:
        return {}
    # One day of each kind, and every day that is like no other.
    first = {(kind or day): day for day, kind in reversed([*zip(days, kinds, strict=True)])}
    ticks = {kind: sum(_ticks(cron, day) * number for cron, number in group) for kind, day in first.items()}
    return {day: ticks[kind or day] for day, kind in zip(days, kinds, strict=True)}


def _ticks(cron: Cron, day: Instant) -> int:
    try:
        return count_ticks(cron, day - 1000, day + DAY - 1000)
    except CronCalculationError:
        return 0


def _likenesses(cron: Cron, days: Sequence[Instant]) -> list[_Likeness]:
    """Return the kind of each day to this cron; None for a day near a change of the clock, like no other."""
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
