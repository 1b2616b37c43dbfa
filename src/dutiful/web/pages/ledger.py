"""Entries of the ledger as rows of a table; quiet successes are folded into one row."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING, NamedTuple

from dutiful.web.pages import words
from dutiful.web.pages.ticks import LATE_S, late_by, state_of, tick_href, took

if TYPE_CHECKING:
    from datetime import datetime

    from dutiful.core.cron.cron import Cron
    from dutiful.service.types import RunView

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
    quiet: bool = False


def entries(runs: list[RunView], cron: Cron, now: datetime, *, fold: bool) -> list[Entry]:
    """Return rows for entries, newest first; with `fold`, two and more quiet successes are one row."""
    rows: list[Entry] = []
    quiet: list[RunView] = []
    for run in runs:
        if fold and _is_quiet(run):
            quiet.append(run)
            continue
        rows += _folded(quiet, cron, now)
        quiet = []
        rows.append(_entry(run, cron, now))
    return rows + _folded(quiet, cron, now)


def _is_quiet(run: RunView) -> bool:
    plain = run.status == "SUCCESS" and run.trigger == "schedule" and run.attempt <= 1
    return plain and (late_by(run) or 0) <= LATE_S


def _folded(runs: list[RunView], cron: Cron, now: datetime) -> list[Entry]:
    if len(runs) < 2:
        return [_entry(run, cron, now) for run in runs]
    newest, oldest = runs[0], runs[-1]
    first, last = (run.run_at.astimezone(cron.zone.tzinfo) for run in (oldest, newest))
    late = [found for found in map(late_by, runs) if found is not None]
    times = [found for found in map(took, runs) if found is not None]
    return [
        Entry(
            _between(first, last, now),
            newest.run_at,
            tick_href(newest.schedule_id, newest.run_at),
            "",
            "ran",
            "ok",
            f"{len(runs):,} ran",
            None,
            "",
            _extent(late),
            _extent(times),
            "",
            quiet=True,
        )
    ]


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


def _entry(run: RunView, cron: Cron, now: datetime) -> Entry:
    zone, state = cron.zone.tzinfo, state_of(run)
    at, late, length = run.run_at.astimezone(zone), late_by(run), took(run)
    stretch = run.run_until is not None
    last = None if run.run_until is None else run.run_until.astimezone(zone)
    when = words.moment(at, now) if last is None else _between(at, last, now)
    became = {
        "skipped": "skipped",
        "failed": "failed",
        "running": "waiting" if run.started_at is None else "running",
    }.get(state, "ran")
    return Entry(
        when,
        run.run_at,
        tick_href(run.schedule_id, run.run_until or run.run_at),
        run.idempotency_key,
        state,
        CSS[state],
        f"{run.ticks:,} {became}" if stretch else became,
        run.reason,
        _why(run, cron),
        "" if late is None else words.span(late),
        "" if length is None else words.span(length),
        f"{run.attempt}" if run.attempt else "",
    )


def _why(run: RunView, cron: Cron) -> str:
    if run.trigger == "manual":
        return "by hand" + (f": {words.first_line(run.detail)}" if run.detail else "")
    if run.trigger == "backfill":
        return "backfill" + (f": {words.first_line(run.detail)}" if run.detail else "")
    if run.detail:
        return words.first_line(run.detail)
    late = late_by(run)
    if late is not None and late > LATE_S:
        return "launched late, within the grace"
    before = run.run_at - timedelta(hours=1)
    # The hour before has the same wall time: the clock went back, and this is the second of two.
    zone = cron.zone.tzinfo
    same = before.astimezone(zone).replace(tzinfo=None) == run.run_at.astimezone(zone).replace(tzinfo=None)
    return "this time came twice" if same and before.tzinfo is UTC else ""
