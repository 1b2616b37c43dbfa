"""One schedule: its state, its next tick, and the outcome of each tick with the reason."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field

from dutiful.core.cron.cron import Cron
from dutiful.core.errors import UnknownScheduleError
from dutiful.httpd.instants import rfc_3339
from dutiful.service.board import spread
from dutiful.web import requests
from dutiful.web.authorized_service import Reader
from dutiful.web.drawing.axis import Span
from dutiful.web.drawing.density import Bucket, Density, density
from dutiful.web.drawing.marks import Tick
from dutiful.web.drawing.strip import MARKS_MAX, Strip, drift, strip
from dutiful.web.pages import words
from dutiful.web.pages.account import account_of
from dutiful.web.pages.cron_lab import next_change
from dutiful.web.pages.ledger import clock_changes, entries, late_by, said, tick_href, ticks_of
from dutiful.web.pages.rendering import LIVE, page
from dutiful.web.pages.why import Why, parse_asked, why
from dutiful.web.pages.words import settings_said

if TYPE_CHECKING:
    from dutiful.service.types import RunView, ScheduleView
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

RANGES = {
    "1h": timedelta(hours=1),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "90d": timedelta(days=90),
    "1y": timedelta(days=365),
}
# Place the present at 76 % of the strip, because more is known of the past.
_AHEAD = 24 / 76
_TICKS_WANTED = 60
_ROWS_READ, _FIRES_SHOWN, _DRIFT_SHOWN = 1000, 6, 60


class ScheduleQuery(BaseModel):
    """How far back to look, which tick to explain, and whether quiet entries are folded."""

    model_config = ConfigDict(extra="forbid")

    range: Annotated[str, Field(pattern=f"^({'|'.join(RANGES)})$")] | None = None
    at: Annotated[str, Field(max_length=64)] | None = None
    entries: Annotated[str, Field(pattern="^all$")] | None = None
    cursor: Annotated[str, Field(max_length=1000)] | None = None
    done: Annotated[str, Field(max_length=200)] | None = None


@router.get("/ui/schedules/{schedule_id}", dependencies=[LIVE])
async def schedule(
    request: Request,
    authorized: Reader,
    schedule_id: requests.ScheduleId,
    query: Annotated[ScheduleQuery, Query()],
) -> HTMLResponse:
    """Show one schedule."""
    try:
        shown = await facts(authorized, schedule_id, query)
    except UnknownScheduleError:
        request.state.near_ids = await authorized.near_ids(schedule_id)
        raise
    return page("schedule.html", request, every=2 if shown["account"].open else 5, **shown)


async def facts(authorized: AuthorizedService, schedule_id: str, query: ScheduleQuery) -> dict[str, Any]:
    """Return all that the page of a schedule shows; raises UnknownScheduleError."""
    view = await authorized.schedule(schedule_id)
    registrar = authorized.service.registrar
    now, cron = authorized.service.clock.now().astimezone(UTC), view.cron
    chosen_range = query.range or usual_range(cron, now)
    since = now - RANGES[chosen_range]
    found = await registrar.runs(schedule_id, _ROWS_READ)
    account = account_of(view, found.items, since, now, found.next_cursor is not None)
    shown = [run for run in found.items if (run.run_until or run.run_at) >= since]
    fires = await registrar.next_fires(schedule_id, 200)
    asked = await _asked(authorized, view, cron, query.at, found.items)
    return {
        "view": view,
        "when": words.when(cron),
        "standing": standing(view, found.items),
        "ranges": list(RANGES),
        "chosen_range": chosen_range,
        "last": last_of(found.items),
        "account": account,
        "since": None if account.begin == since else account.begin,
        "drift": drift([late_by(run) for run in reversed(shown[:_DRIFT_SHOWN])]),
        "drift_said": _drift_said(shown),
        "strip_wide": _draw(view, cron, shown, fires, now, RANGES[chosen_range], asked, "wide"),
        "strip_narrow": _draw(view, cron, shown, fires, now, RANGES[chosen_range] * 0.4, asked, "narrow"),
        "why": asked,
        "entries": entries(
            shown if query.entries is None else found.items, cron, now, fold=query.entries is None
        ),
        "entries_count": len(found.items),
        "folded": query.entries is None,
        "fires": fires[:_FIRES_SHOWN],
        "change": next_change(cron, now),
        "settings": settings_said(view),
        "zone": cron.zone.tzinfo,
        "done": query.done,
    }


def usual_range(cron: Cron, now: datetime) -> str:
    """Return the shortest range with at least 20 ticks, else a year, so that each tick can be seen."""
    begin = int(now.timestamp())
    for name, length in RANGES.items():
        if cron.count_epoch(begin - int(length.total_seconds()), begin) >= _TICKS_WANTED // 3:
            return name
    return "1y"


def standing(view: ScheduleView, runs: list[RunView]) -> tuple[str, str, str]:
    """Return (shape, css, words) for the state of a schedule."""
    last = last_of(runs)
    if view.quarantine is not None:
        return "aside", "skip", "Set aside"
    if view.paused:
        return "paused", "", "Paused"
    if last is None:
        return "to_come", "", "Has not fired yet"
    kinds = {
        "FAILED": ("failed", "fail", "Last run failed"),
        "SKIPPED": ("skipped", "skip", "Last tick skipped"),
        "SUCCESS": ("ran", "ok", "Last run succeeded"),
    }
    return kinds.get(last.status, ("running", "run", "Running"))


def last_of(runs: list[RunView]) -> RunView | None:
    """Return the newest entry, None before the first tick."""
    return runs[0] if runs else None


async def _asked(
    authorized: AuthorizedService, view: ScheduleView, cron: Cron, at: str | None, runs: list[RunView]
) -> Why | None:
    """Return the verdict on the tick that was asked about, else on the newest one, else on the next."""
    now = authorized.service.clock.now().astimezone(UTC)
    if at is not None:
        instant, problem = parse_asked(at, cron, now)
        if instant is None:
            return Why.refused(at, problem)
        return await why(authorized, view, cron, instant, at)
    last = last_of(runs)
    newest = None if last is None else last.run_until or last.run_at
    instant = newest or view.next_run_at
    return None if instant is None else await why(authorized, view, cron, instant)


def _draw(
    view: ScheduleView,
    cron: Cron,
    runs: list[RunView],
    fires: list[datetime],
    now: datetime,
    back: timedelta,
    asked: Why | None,
    css: str,
) -> str:
    span = Span(now - back, now + back * _AHEAD, cron.zone.tzinfo, 1180 if css == "wide" else 360)
    ticks = [tick for tick in ticks_of(runs, cron) if (tick.until or tick.at) >= span.start]
    if not view.paused:
        ticks += [_to_come(at) for at in fires if span.start <= at < span.end]
    changes = clock_changes(cron.zone, span.start, span.end)
    limit = MARKS_MAX if css == "wide" else MARKS_MAX // 2
    if sum(1 for tick in ticks) > limit:
        return _dense(view, cron, ticks, now, span, css)
    chosen = None if asked is None else asked.instant
    zone = cron.zone.tzinfo
    return strip(
        Strip(
            span,
            ticks,
            now,
            changes,
            lambda tick: tick_href(view.schedule_id, tick.at),
            lambda tick: said(tick, zone, now),
            chosen,
        ),
        css,
    )


def _to_come(at: datetime) -> Tick:
    return Tick(at.astimezone(UTC), "to_come")


def _dense(view: ScheduleView, cron: Cron, ticks: list[Tick], now: datetime, span: Span, css: str) -> str:
    """Return a density drawing, whose future ticks are counted and not listed."""
    buckets, width = 120 if css == "wide" else 60, (span.end - span.start) / (120 if css == "wide" else 60)
    found: list[dict[str, Any]] = [
        {"ran": 0, "failed": 0, "skipped": Counter(), "to_come": 0} for _ in range(buckets)
    ]
    for tick in ticks:
        place = int((max(tick.at, span.start) - span.start) / width)
        if tick.state != "to_come" and 0 <= place < buckets:
            _count(found[place], tick)
    for place in range(buckets):
        begin = span.start + place * width
        if begin + width > now and not view.paused:
            low, high = max(begin, now).timestamp(), (begin + width).timestamp()
            found[place]["to_come"] = cron.count_epoch(int(low), int(high))
    drawn = [Bucket(span.start + place * width, **found[place]) for place in range(buckets)]
    target = span._replace(width=span.width - 34) if css == "wide" else span

    def href(begin: datetime, end: datetime) -> str:
        del end
        return (
            f"/ui/schedules/{quote(view.schedule_id)}?at={quote(rfc_3339(begin.replace(microsecond=0)))}#why"
        )

    return density(Density(target, drawn, width, now, href, width * 6), css)


def _count(bucket: dict[str, Any], tick: Tick) -> None:
    if tick.state == "skipped":
        bucket["skipped"][tick.reason or "skipped"] += tick.ticks
    else:
        bucket["failed" if tick.state == "failed" else "ran"] += 1


def _drift_said(runs: list[RunView]) -> str:
    drift = spread(sorted(found for found in map(late_by, runs) if found is not None))
    if drift is None:
        return "nothing was launched in this time"
    return f"half within {words.span(drift[0])}, 99 % within {words.span(drift[1])}"
