"""The overview of all schedules: the account of a day, schedules in trouble, runs in flight, next ticks."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.cadence import count_ticks
from dutiful.core.cron.cron import Cron
from dutiful.core.cron.zone import epoch_ms
from dutiful.core.plan.draft import Draft
from dutiful.core.plan.upcoming import upcoming
from dutiful.core.run import IN_FLIGHT, Run, Status
from dutiful.core.schedule import alike, is_troubled
from dutiful.core.snapshot import Limits
from dutiful.runtime.ports import RunFilter
from dutiful.service.cache import TimedCache
from dutiful.service.load import READ_MAX, Load
from dutiful.service.payload import has_facets
from dutiful.service.views import moment, view_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from dutiful.core.cadence import Instant
    from dutiful.core.snapshot import Snapshot
    from dutiful.core.tally import Tally
    from dutiful.runtime.ports import Clock, Facets, PausedUntil, Store
    from dutiful.service.types import RunView

TEN_MINUTES = 600_000
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
# Ticks of the last 10 to 20 s (ms) are counted anew for each overview; counts of earlier ticks are cached.
_LIVE = 10_000
# The usual duration of a schedule is the median of this many runs.
_USUAL_OF = 20
# Ticks that are due and still undecided after this time (ms) are shown as unaccounted.
_LATE = 5_000
_LATE_READ = 1000
# The schedules that are due first, read for the next ticks and to see whether any schedule is overdue.
_NEXT_READ = 200
# The schedules that fire in one minute are counted up to this number.
MINUTE_COUNTED = 10_000
# A run is long from this many times its usual duration on, and not before this many seconds.
_LONG, _LONG_S = 3, 60.0
# Schedules to read at first; more are read only if all of these matter.
_FIRST_READ = 100
# The kinds of trouble, worst first.
_KINDS = ["quarantined", "failed", "skipping"]


class Census(NamedTuple):
    """How many schedules there are, and how many of them are paused."""

    schedules: int
    paused: int


class Account(NamedTuple):
    """The ticks of a period: due = ran + failed + skipped + open + unaccounted."""

    ran: int
    failed: int
    skipped: Counter[str]
    open: int
    unaccounted: int

    @property
    def due(self) -> int:
        """Return how many ticks were due."""
        return self.ran + self.failed + self.skipped.total() + self.open + self.unaccounted


class Day(NamedTuple):
    """Recorded ticks by bucket, the forecast by bucket, and the account of the last 24 hours."""

    tallies: list[Tally]
    forecast: dict[Instant, int]
    account: Account
    # Delay from tick to launch in seconds: the median and the 99th percentile.
    drift: tuple[float, float] | None


class Trouble(NamedTuple):
    """One schedule that needs attention: why, since when, and its latest runs, newest first."""

    due: Snapshot
    kind: str  # quarantined, failed or skipping
    runs: list[Run]
    open_run: RunView | None
    usual: float | None


class Running(NamedTuple):
    """One run in flight, and how many seconds a run of its schedule usually takes."""

    run: RunView
    usual: float | None

    def seconds(self, now: datetime) -> float:
        """Return for how long it has been in flight."""
        return max(0.0, (now - (self.run.started_at or self.run.fire_at)).total_seconds())

    def is_long(self, now: datetime) -> bool:
        """Return whether it takes much longer than usual for its schedule."""
        return self.usual is not None and self.seconds(now) > max(_LONG * self.usual, _LONG_S)


class Line(NamedTuple):
    """One schedule of a list, with its latest runs, newest first, and why it is paused."""

    due: Snapshot
    runs: list[Run]
    pause_note: str | None = None


class Wanted(NamedTuple):
    """Which schedules of a view to list: those with all facets, and whether paused."""

    facets: Facets = ()
    paused: bool | None = None

    def has(self, due: Snapshot) -> bool:
        """Return whether a schedule is wanted."""
        return self.paused in (None, due.schedule.paused) and has_facets(due.schedule, self.facets)


class Soon(NamedTuple):
    """The schedules whose next tick is in one minute: the first tick, some of them, and their number.

    The number is counted up to `MINUTE_COUNTED`.
    """

    at: datetime
    schedules: list[Snapshot]
    number: int


class Matching(NamedTuple):
    """The number of schedules that match a filter, of paused ones, and of those that fire within an hour.

    `paused` counts the pauses that the filter asks for: all of them, or those with one end. `soon` is counted
    up to 1,000.
    """

    schedules: int
    paused: int
    soon: int


class Board:
    """Answers the queries of the overview, each at a bounded cost whatever the number of schedules."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._settled: TimedCache[list[Tally]] = TimedCache(clock)
        self._loads: TimedCache[Load] = TimedCache(clock)
        self._delays: TimedCache[list[float]] = TimedCache(clock)
        # How many things need an operator, as the bar of every page shows it; by kind of caller.
        self.needs: TimedCache[tuple[int]] = TimedCache(clock, 10_000)

    async def revision(self) -> str:
        """Return a text that differs after every write to the store, and tells nothing about the writes."""
        # Hash the store's own text: it counts the writes of all users, and tenants see the revision.
        return hashlib.sha256((await self._store.revision()).encode()).hexdigest()[:16]

    async def census(self, owner: str | None = None) -> Census:
        """Return how many schedules there are, and how many are paused."""
        facets = _facets(owner)
        return Census(
            *await asyncio.gather(self._store.count(facets), self._store.count(facets, paused=True))
        )

    async def matching(
        self, facets: Sequence[tuple[str, str]], paused: bool | PausedUntil = True
    ) -> Matching:
        """Return how many schedules have all of these facets: (`user`, `workflow` or `label`, value)."""
        now = self._now()
        # The store returns the schedules by their next wake: read more only while all of these fire within
        # the hour.
        for limit in (_FIRST_READ, _LATE_READ):
            next_ones = await self._store.soonest(limit, facets)
            soon = sum(1 for due in next_ones for tick, _ in upcoming(due, now, 1) if tick <= now + _HOUR)
            if soon < limit:
                break
        return Matching(await self._store.count(facets), await self._store.count(facets, paused), soon)

    async def day(self, owner: str | None = None) -> Day:
        """Return the account of the ticks of the last 24 hours, and the forecast of the next 12."""
        return (await self.day_and_next(owner))[0]

    async def day_and_next(self, owner: str | None = None) -> tuple[Day, list[Soon]]:
        """Return the account of a day, and the next minutes in which schedules fire; both share one read."""
        now = self._now()
        until = now - now % TEN_MINUTES + TEN_MINUTES
        first, tallies, forecast, delays = await asyncio.gather(
            self._store.soonest(_NEXT_READ, _facets(owner)),
            self._tallies(now, until, owner),
            self._forecast(until - TEN_MINUTES, until + _DAY // 2, owner),
            self.delays(owner),
        )
        account = _account(tallies, await self._unaccounted(first, now, owner))
        return Day(tallies, forecast, account, spread(delays)), await self._next(first, owner)

    async def _next(self, first: Sequence[Snapshot], owner: str | None) -> list[Soon]:
        """Return the minutes whose schedules were all read, and the minute in which the read ended."""
        now = self._now()
        groups = soon(first, now)
        idle = (due for due in reversed(first) if not due.runs)
        last = next((tick for due in idle for tick, _ in upcoming(due, now, 1)), None)
        if len(first) < _NEXT_READ or last is None:
            return groups
        end = last - last % _MINUTE + _MINUTE
        known = [group for group in groups if epoch_ms(group.at) < end]
        before = sum(group.number for group in known[:-1])
        due = await self._store.count_due(end - 1, before + MINUTE_COUNTED, _facets(owner))
        return [*known[:-1], known[-1]._replace(number=max(known[-1].number, due - before))]

    async def _tallies(self, now: Instant, until: Instant, owner: str | None) -> list[Tally]:
        """Return the tallies of the day before `until`.

        Those of ticks before the last minute hardly change, and are cached for a minute. Those of the last
        minute are cached for ten seconds, and only the last 10 to 20 s are counted anew: hundreds of runs a
        second are slow to count.
        """
        settled, live = now - now % _MINUTE - _MINUTE, now - now % _LIVE - _LIVE
        present = settled - settled % TEN_MINUTES
        parts = await asyncio.gather(
            self._settled_tallies(until - _DAY, present, TEN_MINUTES, owner),
            self._settled_tallies(present, settled, _MINUTE, owner),
            self._settled_tallies(settled, live, _MINUTE, owner),
            self._store.tallies(live, until, _MINUTE, owner),
        )
        return [tally._replace(at=tally.at - tally.at % TEN_MINUTES) for part in parts for tally in part]

    async def _settled_tallies(
        self, since: Instant, until: Instant, width: int, owner: str | None
    ) -> list[Tally]:
        return await self._settled.get(
            (since, until, owner), lambda: self._store.tallies(since, until, width, owner)
        )

    async def _unaccounted(self, first: Sequence[Snapshot], now: Instant, owner: str | None) -> int:
        """Return how many ticks are overdue without a row; every decided tick has one."""
        found = sum(_undecided(due, now - _LATE) for due in first)
        # The schedules come most overdue first, so the first ones usually show that the others are on time.
        if not found or len(first) < _NEXT_READ:
            return found
        late = await self._store.soonest(_LATE_READ, _facets(owner))
        return sum(_undecided(due, now - _LATE) for due in late)

    async def delays(self, owner: str | None = None) -> list[float]:
        """Return the seconds from tick to launch of the latest launches of schedules, smallest first.

        Kept for a minute, or for ten seconds while there are none.
        """
        return await self._delays.get(owner, lambda: self._read_delays(owner))

    async def _read_delays(self, owner: str | None) -> list[float]:
        if owner is None:
            runs = await self._store.recent(_LATE_READ)
        else:
            runs = (await self._store.runs(RunFilter(owner=owner), None, _LATE_READ)).runs
        return sorted(lateness(run) for run in runs if run.started_at is not None and run.kind == "schedule")

    async def _forecast(self, since: Instant, until: Instant, owner: str | None) -> dict[Instant, int]:
        return await (await self.load(owner)).forecast(since, until, TEN_MINUTES)

    async def load(self, owner: str | None = None, facets: Facets = ()) -> Load:
        """Return the load of all schedules, of one user's, or of up to 1,000 that have all of these facets.

        Kept for a minute, or for ten seconds while there are no schedules.
        """
        return await self._loads.get((owner, *facets), lambda: self._read_load(owner, facets))

    async def _read_load(self, owner: str | None, facets: Facets) -> Load:
        if not facets:
            return Load(self._clock, await self._store.cadences(owner))
        found = await self._store.page("", READ_MAX + 1, [*_facets(owner), *facets], False)
        return Load(self._clock, alike(due.schedule for due in found[:READ_MAX]), cut=len(found) > READ_MAX)

    async def troubled(self, owner: str | None = None) -> list[Snapshot]:
        """Return up to 1,000 schedules that need attention: quarantined, then failed, then skipping ones."""
        return sorted(await self._store.troubled(_LATE_READ, owner), key=worst_first)

    async def troubles(self, troubled: Sequence[Snapshot]) -> list[Trouble]:
        """Return why these schedules need attention, with their latest runs."""
        latest = await self.latest([due.schedule.id for due in troubled])
        return [_trouble(due, latest.get(due.schedule.id, [])) for due in troubled]

    async def in_flight(self, owner: str | None = None) -> list[Run]:
        """Return up to 1,000 runs in flight, oldest first."""
        return [run for run in await self._store.open_runs(_LATE_READ, owner) if run.phase in IN_FLIGHT]

    async def running(self, runs: Sequence[Run]) -> list[Running]:
        """Return these runs, each with its schedule's usual duration."""
        latest = await self._store.latest({run.schedule_id for run in runs}, _USUAL_OF)
        usuals = {schedule_id: usual(rows) for schedule_id, rows in latest.items()}
        return [Running(view_run(run), usuals.get(run.schedule_id)) for run in runs]

    async def lines(
        self, view: str, wanted: Wanted, limit: int, owner: str | None = None, after: str = ""
    ) -> list[Line]:
        """Return at most `limit` schedules of a view that are wanted, each with its last 20 runs.

        The views are `needs` (in trouble), `running`, `next` (soonest first) and `all`: by id, from the id
        `after` on.
        """
        found = await self._in_view(view, wanted, limit, owner, after)
        dues = [due for due in found if wanted.has(due)][:limit]
        latest = await self.latest([due.schedule.id for due in dues])
        notes = await self._store.notes([due.schedule.id for due in dues if due.schedule.paused])
        whys = {schedule_id: note.pause_note for schedule_id, note in notes.items()}
        return [Line(due, latest.get(due.schedule.id, []), whys.get(due.schedule.id)) for due in dues]

    async def latest(self, ids: Sequence[str]) -> dict[str, list[Run]]:
        """Return the last 20 rows of each of these schedules that has any, newest first."""
        return await self._store.latest(ids, _USUAL_OF)

    async def _in_view(
        self, view: str, wanted: Wanted, limit: int, owner: str | None, after: str
    ) -> Sequence[Snapshot]:
        facets = [*_facets(owner), *wanted.facets]
        if view == "needs":
            return await self.troubled(owner)
        if view == "next":
            groups = soon(await self._store.soonest(limit, facets), self._now())
            return [due for group in groups for due in group.schedules]
        if view == "running":
            return await self._store.some({run.schedule_id for run in await self.in_flight(owner)})
        return await self._store.page(after, limit, facets, wanted.paused)

    async def find_ids(self, part: str, after: str, limit: int, owner: str | None = None) -> list[str]:
        """Return ids that contain a text and come after another id."""
        return await self._store.find_ids(part, after, limit, owner)

    def _now(self) -> Instant:
        return epoch_ms(self._clock.now())


def _facets(owner: str | None) -> list[tuple[str, str]]:
    return [] if owner is None else [("user", owner)]


def kind_of(due: Snapshot) -> str:
    """Return the kind of trouble of a schedule: quarantined, failed or skipping."""
    if due.state.quarantine is not None:
        return "quarantined"
    return "failed" if due.state.skipped is None else "skipping"


def worst_first(due: Snapshot) -> tuple[int, str]:
    """Return the order in which schedules in trouble are shown; the others come after them."""
    kind = _KINDS.index(kind_of(due)) if is_troubled(due.state) else len(_KINDS)
    return kind, due.schedule.id


def _trouble(due: Snapshot, latest: list[Run]) -> Trouble:
    in_flight = [run for run in due.runs if run.phase in IN_FLIGHT]
    return Trouble(due, kind_of(due), latest, view_run(in_flight[0]) if in_flight else None, usual(latest))


def soon(dues: Sequence[Snapshot], now: Instant) -> list[Soon]:
    """Return schedules grouped by the minute of their next tick, the soonest first."""
    dues = [due for due in dues if not due.schedule.paused]
    ticks = [(tick, place) for place, due in enumerate(dues) for tick, _ in upcoming(due, now, 1)]
    found = list[Soon]()
    for _, members in groupby(sorted(ticks), key=lambda each: each[0] // _MINUTE):
        (first, place), *others = members
        group = [dues[place], *(dues[other] for _, other in others)]
        found.append(Soon(moment(first), group, len(group)))
    return found


def lateness(run: Run) -> float:
    """Return how many seconds after its fire time a run was first launched."""
    assert run.started_at is not None
    return max(0, run.started_at - run.fire_at) / 1000


def spread(delays: Sequence[float]) -> tuple[float, float] | None:
    """Return the median and the 99th percentile of sorted delays; None where there are none."""
    return (delays[len(delays) // 2], delays[len(delays) * 99 // 100]) if delays else None


def usual(runs: Sequence[Run]) -> float | None:
    """Return the median duration of the successful runs, in seconds; None where there are none."""
    took = [
        (run.ended_at - run.started_at) / 1000
        for run in runs
        if run.status is Status.SUCCESS and run.started_at is not None and run.ended_at is not None
    ]
    return median(took) if took else None


def _account(tallies: Sequence[Tally], unaccounted: int) -> Account:
    by_status: Counter[Status] = Counter()
    skipped: Counter[str] = Counter()
    for tally in tallies:
        by_status[tally.status] += tally.ticks
        if tally.status is Status.SKIPPED:
            skipped[str(tally.reason)] += tally.ticks
    still_open = by_status[Status.ENQUEUED] + by_status[Status.STARTED]
    return Account(by_status[Status.SUCCESS], by_status[Status.FAILED], skipped, still_open, unaccounted)


def _undecided(due: Snapshot, until: Instant) -> int:
    schedule, start = due.schedule, due.schedule.window.start
    cursor = due.state.cursor if start is None else max(due.state.cursor, start - 1)
    if schedule.paused or due.runs or due.state.quarantine is not None or cursor >= until:
        return 0
    if not isinstance(schedule.cadence, Cron) or not count_ticks(schedule.cadence, cursor, until):
        return 0
    # Ticks after the end of the window never come, and those that jitter holds back come later.
    last = Draft(due, until, Limits(), {}).last_due(until)
    return 0 if last is None else count_ticks(schedule.cadence, cursor, last)
