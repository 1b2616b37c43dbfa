"""One schedule: its state, its next tick, and the outcome of each tick with the reason."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import Field

from dutiful.core.cron.cron import Cron
from dutiful.core.cron.zone import epoch_ms
from dutiful.core.errors import UnknownScheduleError
from dutiful.httpd.fields import QueryModel
from dutiful.service.board import spread
from dutiful.service.views import encode_cursor
from dutiful.web import requests
from dutiful.web.authorized_service import Reader
from dutiful.web.drawing.strip import drift
from dutiful.web.pages import words
from dutiful.web.pages.cron_lab import next_change
from dutiful.web.pages.ledger_entries import (
    chosen_href,
    late_by,
    query_href,
    table,
)
from dutiful.web.pages.rendering import LIVE, page
from dutiful.web.pages.schedule_timeline import Timeline, draw
from dutiful.web.pages.system import latest_changes
from dutiful.web.pages.tick_account import account_of
from dutiful.web.pages.why import Why, parse_time, why
from dutiful.web.pages.words import settings_said

if TYPE_CHECKING:
    from dutiful.service.declaration import ScheduleView
    from dutiful.service.types import Page, RunView
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
_TICKS_WANTED = 60
_ROWS_READ, _ROWS_SHOWN, _FIRES_SHOWN, _DRIFT_SHOWN = 1000, 15, 6, 60


class ScheduleQuery(QueryModel):
    """How far back to look, which tick to explain, and whether quiet entries are folded."""

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
    # Reads that wait together share one transaction and one turn of the store's thread.
    found, fires, changes, obstacles = await asyncio.gather(
        registrar.runs(schedule_id, _ROWS_READ),
        registrar.next_fires(schedule_id, 200),
        latest_changes(authorized, schedule_id),
        authorized.obstacles(view),
    )
    account = account_of(view, found.items, since, now, found.next_cursor is not None)
    shown = [run for run in found.items if (run.run_until or run.run_at) >= since]
    kept = {"range": query.range, "entries": query.entries}
    asked = await _asked(authorized, view, cron, query.at, found.items)
    chosen = None if asked is None else asked.instant
    href = partial(chosen_href, range=query.range, entries=query.entries)
    timeline = Timeline(view, shown, fires, now, href, chosen)
    return {
        "view": view,
        "when": words.when(cron),
        "standing": standing(view, last_of(found.items)),
        "ranges": {name: query_href(**_chosen(query, range=name)) for name in RANGES},
        "chosen_range": chosen_range,
        "last": last_of(found.items),
        "account": account,
        "since": None if account.begin == since else account.begin,
        "drift": drift([late_by(run) for run in reversed(shown[:_DRIFT_SHOWN])]),
        "drift_said": _drift_said(shown),
        "strip_wide": draw(timeline, RANGES[chosen_range], "wide"),
        "strip_narrow": draw(timeline, RANGES[chosen_range] * 0.4, "narrow"),
        "why": asked,
        "kept": {name: value for name, value in kept.items() if value is not None},
        **await _ledger(authorized, view, query, found, since),
        "fires": fires[:_FIRES_SHOWN],
        "change": next_change(cron, now),
        "settings": settings_said(view),
        "changes": changes,
        "zone": cron.zone.tzinfo,
        "obstacles": obstacles,
        "done": query.done,
    }


def _chosen(query: ScheduleQuery, **changes: str | None) -> dict[str, str | None]:
    """Return the query with other choices, at the first page of the ledger."""
    return {"range": query.range, "at": query.at, "entries": query.entries, **changes}


async def _ledger(
    authorized: AuthorizedService,
    view: ScheduleView,
    query: ScheduleQuery,
    newest: Page[RunView],
    since: datetime,
) -> dict[str, Any]:
    """Return the facts of the ledger: a page of its rows, and the addresses of the other pages."""
    found, fold = newest, query.entries is None
    if query.cursor is not None:
        size = _ROWS_READ if fold else _ROWS_SHOWN
        found = await authorized.service.registrar.runs(view.schedule_id, size, query.cursor)
    inside = [run for run in found.items if not fold or (run.run_until or run.run_at) >= since]
    now = authorized.service.clock.now().astimezone(UTC)
    href = partial(chosen_href, range=query.range, entries=query.entries, cursor=query.cursor)
    rows, last = table(inside, view.cron, now, href, _ROWS_SHOWN, fold=fold)
    more = found.next_cursor if len(inside) == len(found.items) else None
    if last is not None:
        more = encode_cursor(epoch_ms(last.run_at), "manual" if last.trigger == "manual" else "schedule")
    return {
        "entries": rows,
        "entries_count": f"{len(newest.items):,}" + ("+" if newest.next_cursor else ""),
        "folded": fold,
        "fold_href": query_href(**_chosen(query, entries=None)),
        "all_href": query_href(**_chosen(query, entries="all")),
        "newest_href": None if query.cursor is None else query_href(**_chosen(query)),
        "older_href": None if more is None else query_href(**_chosen(query, cursor=more)),
    }


def usual_range(cron: Cron, now: datetime) -> str:
    """Return the shortest range with at least 20 ticks, so that each tick can be seen; else a year."""
    begin = int(now.timestamp())
    for name, length in RANGES.items():
        if cron.count_epoch(begin - int(length.total_seconds()), begin) >= _TICKS_WANTED // 3:
            return name
    return "1y"


def standing(view: ScheduleView, last: RunView | None) -> tuple[str, str, str]:
    """Return (shape, css, words) for the state of a schedule, whose newest entry this is."""
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
        instant, problem = parse_time(at, cron.zone.tzinfo, now)
        if instant is None:
            return Why.refused(at, problem)
        return await why(authorized, view, cron, instant, at)
    last = last_of(runs)
    newest = None if last is None else last.run_until or last.run_at
    instant = newest or view.next_run_at
    return None if instant is None else await why(authorized, view, cron, instant)


def _drift_said(runs: list[RunView]) -> str:
    drift = spread(sorted(found for found in map(late_by, runs) if found is not None))
    if drift is None:
        return "nothing was launched in this time"
    return f"half within {words.span(drift[0])}, 99 % within {words.span(drift[1])}"
