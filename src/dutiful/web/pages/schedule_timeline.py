"""The ticks of one schedule in time: each as a mark of a strip, or as bars where there are too many."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.web.drawing.axis import ClockChange, Span
from dutiful.web.drawing.density import Bucket, Density, density
from dutiful.web.drawing.marks import Tick
from dutiful.web.drawing.strip import MARKS_MAX, Strip, strip
from dutiful.web.pages.ledger_entries import said, ticks_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dutiful.service.declaration import ScheduleView
    from dutiful.service.types import RunView
    from dutiful.web.pages.ledger_entries import Href

# Place the present at 76 % of the strip, because more is known of the past.
_AHEAD = 24 / 76
_WIDE, _NARROW = 1180, 360
_SCALE_ROOM = 34


class Drawn(NamedTuple):
    """The drawing of a timeline, and whether it counts ticks in bars instead of showing each."""

    svg: str
    counts: bool


class Timeline(NamedTuple):
    """All that is drawn: `fires` are the ticks to come, `href` returns the page about a tick."""

    view: ScheduleView
    runs: Sequence[RunView]
    fires: Sequence[datetime]
    now: datetime
    href: Href
    chosen: datetime | None = None

    @property
    def resumes_at(self) -> datetime | None:
        """Return the instant from which on ticks are to come; None if it is unknown."""
        if self.view.quarantine is not None:
            return None
        return self.view.pause_until if self.view.paused else self.now


def draw(it: Timeline, back: timedelta, css: str) -> Drawn:
    """Return the drawing of the ticks since `back`, and of about a third of that time ahead."""
    cron, zone = it.view.cron, it.view.cron.zone.tzinfo
    span = Span(it.now - back, it.now + back * _AHEAD, zone, _WIDE if css == "wide" else _NARROW)
    ticks = [tick for tick in ticks_of(it.runs, cron) if (tick.until or tick.at) >= span.start]
    begins = it.resumes_at
    if begins is not None:
        ticks += [Tick(at.astimezone(UTC), "to_come") for at in it.fires if begins <= at < span.end]
    # The cron may have more ticks than are recorded, and marks as close as those would touch.
    there = max(len(ticks), cron.count_epoch(int(span.start.timestamp()), int(span.end.timestamp())))
    if there > (MARKS_MAX if css == "wide" else MARKS_MAX // 2):
        return Drawn(_dense(it, ticks, span, css), counts=True)
    drawn = strip(
        Strip(
            span,
            ticks,
            it.now,
            ClockChange.between(cron.zone, span.start, span.end),
            lambda tick: it.href(tick.at),
            lambda tick: said(tick, zone, it.now),
            it.chosen,
            pauses_of(it.view, it.runs, span.end),
            ends=it.view.quarantine is not None,
        ),
        css,
    )
    return Drawn(drawn, counts=False)


def pauses_of(view: ScheduleView, runs: Sequence[RunView], end: datetime) -> list[tuple[datetime, datetime]]:
    """Return the beginning and the end of each pause; one that goes on without an end lasts until `end`."""
    until = end if view.pause_until is None else min(end, view.pause_until)
    present = [] if not view.paused or view.paused_at is None else [(view.paused_at, until)]
    since = end if not present else present[0][0]
    past = [
        (run.run_at, run.run_until)
        for run in runs
        if run.reason == "paused" and run.run_until is not None and run.run_until < since
    ]
    return present + past


def counts_of(ticks: list[Tick], span: Span, buckets: int) -> list[dict[str, Any]]:
    """Return how many of the ticks of a span ran, failed or were skipped in each of so many equal parts."""
    width = (span.end - span.start) / buckets
    found: list[dict[str, Any]] = [
        {"ran": 0, "failed": 0, "skipped": Counter(), "to_come": 0} for _ in range(buckets)
    ]
    for tick in ticks:
        place = int((max(tick.at, span.start) - span.start) / width)
        if tick.state != "to_come" and 0 <= place < buckets:
            _count(found[place], tick)
    return found


def _dense(it: Timeline, ticks: list[Tick], span: Span, css: str) -> str:
    """Return a density drawing, whose future ticks are counted and not listed."""
    buckets = 120 if css == "wide" else 60
    width, found = (span.end - span.start) / buckets, counts_of(ticks, span, buckets)
    begins = it.resumes_at
    for place in range(buckets):
        begin = span.start + place * width
        if begins is not None and begin + width > max(it.now, begins):
            low, high = max(begin, it.now, begins).timestamp(), (begin + width).timestamp()
            found[place]["to_come"] = it.view.cron.count_epoch(int(low), int(high))
    drawn = [Bucket(span.start + place * width, **found[place]) for place in range(buckets)]
    target = span._replace(width=span.width - _SCALE_ROOM) if css == "wide" else span
    changes = ClockChange.between(it.view.cron.zone, span.start, span.end)
    return density(
        Density(
            target,
            drawn,
            width,
            it.now,
            lambda begin, _: it.href(begin.replace(microsecond=0)),
            width * 6,
            changes,
            pauses_of(it.view, it.runs, span.end),
        ),
        css,
    )


def _count(bucket: dict[str, Any], tick: Tick) -> None:
    if tick.state == "skipped":
        bucket["skipped"][tick.reason or "skipped"] += tick.ticks
    else:
        bucket["failed" if tick.state == "failed" else "ran"] += 1
