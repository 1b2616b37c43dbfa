"""A second reading of every cadence, to judge the ledger by; it shares no code with the planner.

Wall times are enumerated day by day and each is looked up: which instants showed it? None is a gap,
two are a fold. Instants are epoch milliseconds, as in the ledger.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from tests.oracles import changes

from dutiful.core.cadence import Every, Once
from dutiful.core.cron.cron import Cron

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dutiful.core.schedule import Schedule

EPOCH_DAY = date(1970, 1, 1).toordinal()
DAY, DAY_MS = 86_400, 86_400_000
SINCE, UNTIL = 1_400_000_000, 2_100_000_000
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
BOUNDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
NAMES = {
    name: str(number)
    for names, first in (
        ("jan feb mar apr may jun jul aug sep oct nov dec", 1),
        ("sun mon tue wed thu fri sat", 0),
    )
    for number, name in enumerate(names.split(), first)
}


def ticks(schedule: Schedule, after: int, until: int) -> list[int]:
    """Return the ticks in (after, until] and within the window; a period counts from `after`."""
    start, end = schedule.window.start, schedule.window.end
    found = _ticks(schedule.cadence, after, until)
    return [tick for tick in found if (start is None or tick >= start) and (end is None or tick <= end)]


def _ticks(cadence: object, after: int, until: int) -> list[int]:
    if isinstance(cadence, Cron):
        return cron_ticks_between(cadence, after, until)
    if isinstance(cadence, Every) and cadence.anchor == "start" and cadence.period:
        return list(range(after + cadence.period, until + 1, cadence.period))
    if isinstance(cadence, Once):
        return [cadence.at] if after < cadence.at <= until else []
    return []


def cron_ticks_between(cron: Cron, after: int, until: int) -> list[int]:
    """Return the ticks in (after, until]."""
    found = cron_ticks(cron, after // DAY_MS, until // DAY_MS)
    return found[bisect_right(found, after) : bisect_right(found, until)]


@lru_cache(maxsize=512)
def cron_ticks(cron: Cron, first_day: int, last_day: int) -> list[int]:
    """Return the ticks of a span of UTC days, and some around it."""
    zone = offsets(cron.zone.tzinfo.key if isinstance(cron.zone.tzinfo, ZoneInfo) else "UTC")
    due: set[int] = set()
    for wall in walls(cron.text, cron.dialect, first_day - 2, last_day + 2):
        shown = zone.instants(wall)
        if shown:
            due.update(shown[{"both": slice(None), "first": slice(1), "last": slice(-1, None)}[cron.fold]])
        elif cron.gap == "run_after":
            due.add(zone.after_gap(wall))
    return sorted(instant * 1000 for instant in due)


def walls(text: str, dialect: str, first_day: int, last_day: int) -> Iterator[int]:
    """Yield the matching wall times of a span of days as seconds since 1970, as if all were UTC."""
    fields = MACROS.get(text, text).split()
    if len(fields) == 5:
        fields = ["0", *fields]
    assert fields[0] == "0" or dialect == "seconds"
    seconds, minutes, hours, days, months, weekdays = map(expand, fields, BOUNDS)
    weekdays |= {0} if 7 in weekdays else set()
    either = fields[3] != "*" and fields[5] != "*"
    times = [(h * 60 + m) * 60 + s for h, m, s in product(sorted(hours), sorted(minutes), sorted(seconds))]
    for number in range(first_day, last_day + 1):
        day = date.fromordinal(EPOCH_DAY + number)
        in_days, in_weekdays = day.day in days, day.isoweekday() % 7 in weekdays
        if day.month in months and (in_days or in_weekdays if either else in_days and in_weekdays):
            yield from (number * DAY + time for time in times)


def expand(field: str, bounds: tuple[int, int]) -> set[int]:
    """Return the values of one field."""
    chosen: set[int] = set()
    for item in field.lower().split(","):
        span, _, step = item.partition("/")
        low, dash, high = span.partition("-")
        if low == "*":
            low, dash, high = str(bounds[0]), "-", str(6 if bounds[1] == 7 else bounds[1])
        low, high = NAMES.get(low, low), NAMES.get(high, high)
        last = int(high) if dash else (bounds[1] if step else int(low))
        chosen.update(range(int(low), last + 1, int(step or 1)))
    return chosen


class Offsets:
    """The offsets of one zone, by the changes that its file lists."""

    def __init__(self, name: str) -> None:
        zone = ZoneInfo(name)
        self.changes = changes(name, zone, SINCE, UNTIL)
        self._at = [at for at, _, _ in self.changes]
        first = datetime.fromtimestamp(SINCE, UTC).astimezone(zone).utcoffset()
        assert first is not None
        self._offsets = [first // timedelta(seconds=1), *(after for _, _, after in self.changes)]

    def at(self, instant: int) -> int:
        return self._offsets[bisect_right(self._at, instant)]

    def instants(self, wall: int) -> list[int]:
        """Return the instants at which clocks showed this wall time, in order."""
        low, high = bisect_right(self._at, wall - 2 * DAY), bisect_right(self._at, wall + 2 * DAY)
        nearby = {self._offsets[index] for index in range(low, high + 1)}
        return sorted(wall - offset for offset in nearby if self.at(wall - offset) == offset)

    def after_gap(self, wall: int) -> int:
        """Return the first instant after the gap that swallowed this wall time."""
        return next(at for at, before, after in self.changes if at + before <= wall < at + after)


@lru_cache(maxsize=64)
def offsets(name: str) -> Offsets:
    return Offsets(name)


def fire_time(schedule: Schedule, tick: int, neighbours: list[int]) -> int:
    """Return when a tick fires: a hash of its key chooses, at most half-way to its neighbours."""
    jitter = schedule.policy.jitter
    early, late = jitter * schedule.policy.jitter_early, jitter
    for other in neighbours:
        if other < tick:
            early = min(early, (tick - other - 1) // 2)
        elif other > tick:
            late = min(late, (other - tick - 1) // 2)
    digest = hashlib.sha256(f"jitter:{schedule.id}:{tick}".encode()).digest()
    return tick - early + int.from_bytes(digest[:8], "big") % (early + late + 1)
