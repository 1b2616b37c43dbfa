"""Entries of the ledger as pages show them: drawn as ticks, said in words, linked, and as rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from dutiful.core.cron.zone import rfc_3339
from dutiful.web.drawing.marks import Bead, Mini, State, Tick, drawn_as
from dutiful.web.pages import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from dutiful.core.cron.cron import Cron
    from dutiful.core.run import Run
    from dutiful.service.types import RunView


# A launch that is later than this is drawn with an arrow.
LATE_S = 1.0
# The ticks of a stretch are drawn one by one up to this number.
_STRETCH_DRAWN = 60
# Characters of a detail in a row; the page of the run has all of it.
_DETAIL_SHOWN = 120

SAID = {
    "ran": "ran",
    "failed": "failed",
    "skipped": "skipped",
    "running": "running",
    "to_come": "to come",
    "hand": "ran by hand",
    "backfilled": "ran, backfilled",
}


def state_of(run: Run | RunView) -> State:
    """Return the state in which an entry is drawn."""
    return drawn_as(run.status, run.trigger)


def became(run: RunView) -> str:
    """Return the outcome of an entry in one word, the same on every page."""
    if is_open(run):
        return "waiting" if run.started_at is None or waits_for_retry(run) else "running"
    return {"SKIPPED": "skipped", "FAILED": "failed"}.get(run.status, "ran")


def is_open(run: Run | RunView) -> bool:
    """Return whether a run has not ended; its `ended_at` may be that of an earlier attempt."""
    return run.status in {"ENQUEUED", "STARTED"}


def waits_for_retry(run: RunView) -> bool:
    """Return whether the last attempt of a run failed and the next one is still to be launched."""
    return (
        is_open(run)
        and run.ended_at is not None
        and run.started_at is not None
        and run.fire_at > run.started_at
    )


def late_by(run: RunView) -> float | None:
    """Return the seconds from fire time to launch; None before the launch and for manual or backfill runs."""
    if run.started_at is None or run.trigger != "schedule":
        return None
    return max(0.0, (run.started_at - run.fire_at).total_seconds())


def took(run: RunView) -> float | None:
    """Return how many seconds a run took; None while it is running or where it never started."""
    if run.started_at is None or run.ended_at is None or is_open(run):
        return None
    return max(0.0, (run.ended_at - run.started_at).total_seconds())


def tick_of(run: RunView) -> Tick:
    """Return an entry as one tick, or as one stretch."""
    late = late_by(run)
    return Tick(
        run.run_at,
        state_of(run),
        run.reason,
        took(run),
        late is not None and late > LATE_S,
        run.run_until,
        run.ticks,
    )


def ticks_of(runs: Sequence[RunView], cron: Cron) -> Iterator[Tick]:
    """Yield entries as ticks, oldest first; short stretches tick by tick."""
    for run in reversed(runs):
        tick = tick_of(run)
        found = _ticks_within(run, cron)
        if found is None:
            yield tick
        else:
            yield from (tick._replace(at=at, until=None, ticks=1) for at in found)


def _ticks_within(run: RunView, cron: Cron) -> list[datetime] | None:
    """Return the ticks of a short stretch; None for other entries, and where the cron has other ticks.

    An edit may have replaced the cron under which the ticks were skipped, even by one with a tick a second.
    """
    if run.run_until is None or run.ticks > _STRETCH_DRAWN:
        return None
    ticks = cron.between(run.run_at, run.run_until + timedelta(seconds=1))
    found = [at.astimezone(UTC) for at in islice(ticks, run.ticks + 1)]
    is_whole = len(found) == run.ticks and (found[0], found[-1]) == (run.run_at, run.run_until)
    return found if is_whole else None


def beads(rows: Sequence[Run]) -> list[Bead]:
    """Return as many ticks of rows, which come newest first, as a small strip shows, oldest first.

    A list has a thousand of these rows, so they are not made into entries.
    """
    found = list[Bead]()
    for run in rows:
        seconds = None
        if run.ended_at is not None and run.started_at is not None and not is_open(run):
            seconds = max(0, run.ended_at - run.started_at) / 1000
        found += [Bead(state_of(run), seconds)] * min(run.ticks, Mini.PAST)
    return found[: Mini.PAST][::-1]


def tick_href(schedule_id: str, at: datetime) -> str:
    """Return the address of the page of a schedule with one tick chosen."""
    return f"/ui/schedules/{quote(schedule_id)}{chosen_href(at)}"


def chosen_href(at: datetime, **query: str | None) -> str:
    """Return the address, relative to the page of a schedule, at which one of its ticks is chosen."""
    return f"{query_href(at=rfc_3339(at.astimezone(UTC)), **query)}#why"


def query_href(**query: str | None) -> str:
    """Return a query as an address relative to its page; what is None is left out."""
    return "?" + "&".join(f"{name}={quote(value)}" for name, value in query.items() if value is not None)


def said(tick: Tick, zone: tzinfo, now: datetime) -> str:
    """Return a tick in words: Mon 2 Nov 01:30: skipped, overlap."""
    reason = f", {tick.reason}" if tick.reason else ""
    return f"{words.moment(tick.at.astimezone(zone), now)}: {SAID[tick.state]}{reason}"


CSS = {"ran": "ok", "failed": "fail", "skipped": "skip", "running": "run", "hand": "ok", "backfilled": "ok"}


class Entry(NamedTuple):
    """One row of the table."""

    when: str
    at: datetime
    href: str
    key: str
    shape: str
    css: str
    became: str
    reason: str | None
    why: str
    drift: str
    took: str
    attempt: str
    # The first and the last tick of the row.
    first: datetime
    last: datetime
    quiet: bool = False

    def holds(self, instant: datetime | None) -> bool:
        """Return whether a tick is in this row."""
        return instant is not None and self.first <= instant <= self.last


Href = Callable[[datetime], str]


class Table(NamedTuple):
    """The rows of the table, and the last entry in them if others follow."""

    rows: list[Entry]
    last: RunView | None


def table(runs: list[RunView], cron: Cron, now: datetime, href: Href, most: int, *, fold: bool) -> Table:
    """Return at most so many rows for entries, newest first.

    With `fold`, neighbouring plain successes share one row. `href` returns the page about a tick.
    """
    groups = [
        [*group]
        for _, group in groupby(enumerate(runs), lambda each: -1 if fold and _is_quiet(each[1]) else each[0])
    ]
    shown = [[run for _, run in group] for group in groups[:most]]
    rows = [_row(group, cron, now, href) for group in shown]
    return Table(rows, shown[-1][-1] if len(groups) > most else None)


def _row(runs: list[RunView], cron: Cron, now: datetime, href: Href) -> Entry:
    return _entry(runs[0], cron, now, href) if len(runs) == 1 else _folded(runs, cron, now, href)


def _is_quiet(run: RunView) -> bool:
    plain = run.status == "SUCCESS" and run.trigger == "schedule" and run.attempt <= 1
    return plain and (late_by(run) or 0) <= LATE_S


def _folded(runs: list[RunView], cron: Cron, now: datetime, href: Href) -> Entry:
    newest, oldest = runs[0], runs[-1]
    first, last = (run.run_at.astimezone(cron.zone.tzinfo) for run in (oldest, newest))
    late = [found for found in map(late_by, runs) if found is not None]
    times = [found for found in map(took, runs) if found is not None]
    return Entry(
        _between(first, last, now),
        newest.run_at,
        href(newest.run_at),
        "",
        "ran",
        "ok",
        f"{len(runs):,} ran",
        None,
        "",
        _extent(late),
        _extent(times),
        "",
        oldest.run_at,
        newest.run_at,
        quiet=True,
    )


def _between(first: datetime, last: datetime, now: datetime) -> str:
    if first.date() == last.date():
        return f"{words.day(first, now)} {words.clock(first)} to {words.clock(last)}"
    same_month = (first.year, first.month) == (last.year, last.month)
    begin = f"{first.day}" if same_month else f"{first.day} {first:%b}"
    return f"{begin} to {last.day} {last:%b}"


def _extent(values: list[float]) -> str:
    if not values:
        return ""
    low, high = words.span(min(values)), words.span(max(values))
    return low if low == high else f"{low} to {high}"


def _entry(run: RunView, cron: Cron, now: datetime, href: Href) -> Entry:
    zone, state = cron.zone.tzinfo, state_of(run)
    at, late, length = run.run_at.astimezone(zone), late_by(run), took(run)
    stretch = run.run_until is not None
    last = None if run.run_until is None else run.run_until.astimezone(zone)
    when = words.moment(at, now) if last is None else _between(at, last, now)
    return Entry(
        when,
        run.run_at,
        href(run.run_until or run.run_at),
        run.idempotency_key,
        state,
        CSS[state],
        f"{run.ticks:,} {became(run)}" if stretch else became(run),
        run.reason,
        _why(run, cron),
        "" if late is None else words.span(late),
        "" if length is None else words.span(length),
        f"{run.attempt}" if run.attempt else "",
        run.run_at,
        run.run_until or run.run_at,
    )


def _why(run: RunView, cron: Cron) -> str:
    if run.trigger == "manual":
        return "by hand" + (f": {words.main_line(run.detail, _DETAIL_SHOWN)}" if run.detail else "")
    if run.trigger == "backfill":
        return "backfill" + (f": {words.main_line(run.detail, _DETAIL_SHOWN)}" if run.detail else "")
    if run.detail:
        return words.main_line(run.detail, _DETAIL_SHOWN)
    late = late_by(run)
    if late is not None and late > LATE_S:
        return "launched late"
    before = run.run_at - timedelta(hours=1)
    # If the hour before has the same wall time, the clock went back and this is the second of the two.
    zone = cron.zone.tzinfo
    same = before.astimezone(zone).replace(tzinfo=None) == run.run_at.astimezone(zone).replace(tzinfo=None)
    return "this time came twice" if same and before.tzinfo is UTC else ""
