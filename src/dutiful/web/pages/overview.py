"""The overview: health, the schedules that need attention, the last day, runs in flight, next ticks."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from starlette.background import BackgroundTask

from dutiful.core.cron.cron import Cron
from dutiful.core.cron.zone import epoch_ms, rfc_3339
from dutiful.service.board import MINUTE_COUNTED, TEN_MINUTES
from dutiful.service.views import moment
from dutiful.web.authorized_service import Reader
from dutiful.web.drawing.axis import Span
from dutiful.web.drawing.density import Bucket, Density, density
from dutiful.web.drawing.strip import meter
from dutiful.web.pages import words
from dutiful.web.pages.audit import catch_up, quick_chain
from dutiful.web.pages.needs import find_needs, first_needs
from dutiful.web.pages.rendering import LIVE, page
from dutiful.web.pages.system import latest_changes, leaders_said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dutiful.service.board import Day, Running, Soon
    from dutiful.service.types import Health
    from dutiful.web.authorized_service import AuthorizedService


router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

NEEDS_SHOWN, _NEXT_SHOWN, _RUNNING_SHOWN, _NAMES_SHOWN = 10, 8, 6, 3
_WIDTH = timedelta(milliseconds=TEN_MINUTES)


@router.get("/", dependencies=[LIVE])
async def overview(request: Request, authorized: Reader) -> HTMLResponse:
    """Show the schedules in trouble, the last day, the runs in flight and the next ticks."""
    origin, local = str(request.base_url).rstrip("/"), authorized.service.settings.is_loopback
    shown = await facts(authorized)
    told = page("overview.html", request, every=5, origin=origin, has_examples=local, **shown)
    told.background = BackgroundTask(catch_up, authorized)
    return told


async def facts(authorized: AuthorizedService) -> dict[str, Any]:
    """Return all that the overview shows."""
    board, owner = authorized.service.board, authorized.tenant
    now = authorized.service.clock.now().astimezone(UTC)
    # Reads that wait together share one transaction and one turn of the store's thread.
    health, (day, soon), found, census, changes, old = await asyncio.gather(
        authorized.service.health(),
        board.day_and_next(owner),
        find_needs(authorized),
        board.census(owner),
        latest_changes(authorized),
        authorized.service.pauses.old(owner),
    )
    buckets = buckets_of(day, now)
    running = found.running[:_RUNNING_SHOWN]
    return {
        "health": health,
        "leaders": await leaders_said(authorized.service, health.leading),
        "heading": heading(health, found.number),
        "title": f"{found.number:,} need you" if found.number else "Nothing needs you",
        "needs": await first_needs(authorized, found, NEEDS_SHOWN),
        "needs_count": found.number,
        "census": census,
        "day": day,
        "day_wide": draw_day(buckets, now, 12, 1146, "wide"),
        "day_narrow": draw_day(buckets, now, 6, 360, "narrow"),
        "day_said": day_said(day),
        "soon": [soon_of(each) for each in soon[:_NEXT_SHOWN]],
        "old_pauses": old,
        "changes": changes,
        "chain": await quick_chain(authorized),
        "in_flight": len(found.runs),
        "since": now - timedelta(days=1),
        "running": [running_of(each, now) for each in running],
        "progress": await authorized.service.backfills.progress(backfills_of(running)),
    }


def heading(health: Health, needs: int) -> str:
    """Return the state of the service in one line."""
    if not health.ok:
        return f"Not working: {health.reason}"
    if needs == 0:
        return "Working. Nothing needs you."
    return f"Working. {words.in_words(needs)} {'thing needs' if needs == 1 else 'things need'} you."


def buckets_of(day: Day, now: datetime) -> list[Bucket]:
    """Return the day in buckets of ten minutes: recorded ticks, and after the present the forecast."""
    found: dict[datetime, dict[str, Any]] = {}
    for tally in day.tallies:
        bucket = found.setdefault(moment(tally.at), {"ran": 0, "failed": 0, "skipped": Counter()})
        if tally.status == "SKIPPED":
            bucket["skipped"][str(tally.reason)] += tally.ticks
        else:
            # Count a run in flight above the line too, because it did start.
            bucket["failed" if tally.status == "FAILED" else "ran"] += tally.ticks
    present = now - timedelta(milliseconds=int(now.timestamp() * 1000) % TEN_MINUTES)
    for at, ticks in day.forecast.items():
        bucket = found.setdefault(moment(at), {})
        recorded = (
            bucket.get("ran", 0) + bucket.get("failed", 0) + sum(bucket.get("skipped", Counter()).values())
        )
        # The bucket of the present is partly over, so subtract the ticks that are recorded.
        bucket["to_come"] = max(0, ticks - recorded) if moment(at) <= present else ticks
    return [Bucket(at, **found[at]) for at in sorted(found)]


def draw_day(buckets: list[Bucket], now: datetime, hours: int, width: float, css: str) -> str:
    """Return the drawing of the day, with this many hours back and ahead."""
    around, hour = timedelta(hours=hours), timedelta(hours=1)
    span = Span(now - around, now + around, UTC, width)
    return density(Density(span, buckets, _WIDTH, now, lambda a, b: _period(a, b, now), hour), css)


def _period(begin: datetime, end: datetime, now: datetime) -> str:
    if begin >= now:
        return f"/ui/calendar?day={begin:%Y-%m-%d}"
    return f"/ui/runs?since={quote(rfc_3339(_whole(begin)))}&until={quote(rfc_3339(_whole(end)))}"


def _whole(at: datetime) -> datetime:
    return at.replace(microsecond=0)


def day_said(day: Day) -> str:
    """Return the drawing of the day as a sentence."""
    account, ahead = day.account, sum(day.forecast.values())
    said = (
        f"In the last 24 hours {account.ran:,} ticks ran, {account.failed:,} failed and"
        f" {account.skipped.total():,} were skipped. {ahead:,} are to come in the next 12 hours"
    )
    if not ahead:
        return said + "."
    fullest = max(day.forecast, key=lambda at: (day.forecast[at], -at))
    return f"{said}, most of them at {moment(fullest):%H:%M}, {day.forecast[fullest]:,} in ten minutes."


def soon_of(soon: Soon) -> dict[str, Any]:
    """Return the schedules that are due in one minute, in words."""
    first, names = soon.schedules[0], [due.schedule.id for due in soon.schedules]
    if soon.number == 1:
        cadence = first.schedule.cadence
        at = soon.at.astimezone(cadence.zone.tzinfo) if isinstance(cadence, Cron) else soon.at
        where = f" in {words.place(cadence.zone.name)}" if isinstance(cadence, Cron) else ""
        local = words.clock(at) + where
        detail = cadence.describe() if isinstance(cadence, Cron) and at.utcoffset() == timedelta() else local
        return {"at": soon.at, "name": names[0], "href": f"/ui/schedules/{quote(names[0])}", "detail": detail}
    shown = names[:_NAMES_SHOWN]
    left = f" and {soon.number - len(shown):,} more" if soon.number > len(shown) else ""
    minute = soon.at.replace(second=0, microsecond=0)
    until = minute + timedelta(minutes=1)
    href = f"/ui/schedules?since={quote(rfc_3339(minute))}&until={quote(rfc_3339(until))}"
    more = " or more" if soon.number >= MINUTE_COUNTED else ""
    return {
        "at": soon.at,
        "name": words.counted(soon.number, "schedule") + more,
        "href": href,
        "detail": ", ".join(shown) + left,
    }


def backfills_of(running: Sequence[Running]) -> set[tuple[str, int]]:
    """Return the requests for past ticks whose runs are in flight."""
    runs = [each.run for each in running if each.run.trigger == "backfill"]
    return {(run.schedule_id, epoch_ms(run.created_at)) for run in runs}


def running_of(running: Running, now: datetime) -> dict[str, Any]:
    """Return one run in flight, in words and as a bar against its usual time."""
    run, seconds = running.run, running.seconds(now)
    return {
        "run": run,
        "asked": (run.schedule_id, epoch_ms(run.created_at)),
        "began": run.started_at or run.fire_at,
        "seconds": seconds,
        "usual": running.usual,
        "meter": meter(seconds, running.usual),
    }
