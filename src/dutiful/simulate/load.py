"""How many ticks fall into each minute of a day, and where schedules could move to flatten the peak."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.cron.cron import Cron
from dutiful.core.cron.zone import DAY_SECONDS, EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from dutiful.core.schedule import Schedule

MINUTES = 1440


class Move(NamedTuple):
    """A schedule that would fire some minutes later, and the cron text that says so."""

    schedule_id: str
    by: int
    before: str
    after: str


class Stagger(NamedTuple):
    """The effect of moving schedules: the ticks of each minute afterwards, and the moves."""

    counts: list[int]
    moves: list[Move]


def minutes_of(schedule: Schedule, start: datetime) -> list[int]:
    """Return the minutes of the day from `start` on in which a schedule has a tick, each once per tick."""
    if not isinstance(schedule.cadence, Cron):
        return []
    begin = (start - EPOCH) // timedelta(seconds=1)
    # In epoch seconds, as the last day of a datetime has no end that is one.
    ticks = schedule.cadence.between_epoch(begin - 1, begin + DAY_SECONDS - 1)
    return [(tick - begin) // 60 for tick in ticks]


def counts_of(schedules: Iterable[Schedule], start: datetime) -> list[int]:
    """Return how many ticks each of the 1,440 minutes from `start` on has."""
    counts = [0] * MINUTES
    for schedule in schedules:
        for minute in minutes_of(schedule, start):
            counts[minute] += 1
    return counts


def stagger(schedules: Sequence[Schedule], start: datetime, tolerance: int) -> Stagger:
    """Return a flatter day: each schedule with one fixed minute may fire up to `tolerance` minutes later.

    Schedules are placed one after the other, by id, where the fullest minute that they touch is emptiest; the
    same schedules always get the same places. A move never leaves the hour, so that its text stays simple.
    """
    counts = counts_of((one for one in schedules if _fixed_minute(one) is None), start)
    moves = []
    movable = [one for one in schedules if _fixed_minute(one) is not None]
    for schedule in sorted(movable, key=lambda one: one.id):
        minutes = minutes_of(schedule, start)
        by = _emptiest(counts, minutes, min(tolerance, 59 - (_fixed_minute(schedule) or 0)))
        for minute in minutes:
            counts[(minute + by) % MINUTES] += 1
        if by:
            moves.append(_move(schedule, by))
    return Stagger(counts, moves)


def _emptiest(counts: list[int], minutes: list[int], furthest: int) -> int:
    """Return the smallest shift whose fullest minute is the emptiest."""
    if not minutes:
        return 0
    return min(range(furthest + 1), key=lambda by: max(counts[(minute + by) % MINUTES] for minute in minutes))


def _fixed_minute(schedule: Schedule) -> int | None:
    """Return the one minute of the hour at which a schedule fires; None where it has several, or seconds."""
    cron = schedule.cadence
    if not isinstance(cron, Cron):
        return None
    fields = cron.text.split()
    return int(fields[0]) if len(fields) == 5 and fields[0].isdigit() else None


def _move(schedule: Schedule, by: int) -> Move:
    text = str(schedule.cadence)
    minute, _, rest = text.strip().partition(" ")
    return Move(schedule.id, by, text, f"{int(minute) + by} {rest.strip()}")
