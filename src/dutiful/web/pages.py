"""The overview page: what failed, what is next, what fired, and whether the worker works. No script."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dutiful.httpd.instants import rfc_3339
from dutiful.httpd.strict_route import StrictRoute
from dutiful.web import requests
from dutiful.web.authorized_service import AuthorizedService, Reader

if TYPE_CHECKING:
    from dutiful.service.types import Damaged, RunView, ScheduleView

router = APIRouter(tags=["pages"], route_class=StrictRoute)

_RUNS_SHOWN, _NEXT_SHOWN = 20, 20
# So many are looked at: of the schedules on each page, of the latest runs in all. The page says so.
_SCHEDULES_READ = _RUNS_READ = 1000


class Overview(NamedTuple):
    """What the page shows."""

    now: datetime
    health: Any
    failed: list[RunView]
    failed_count: int
    recent: list[RunView]
    runs_read: int
    next: list[ScheduleView]
    troubled: list[ScheduleView]
    damaged: list[Damaged]
    paused: int
    schedules: int
    # Where this page of schedules, and the next one, begins.
    cursor: str | None
    next_cursor: str | None


@router.get("/", response_class=Response, responses={200: {"content": {"text/html": {}}}})
async def overview(authorized: Reader, query: Annotated[requests.OverviewQuery, Query()]) -> HTMLResponse:
    """Show what failed, what is next and what fired."""
    return HTMLResponse(_PAGE.render((await _overview(authorized, query.cursor))._asdict()))


async def _overview(authorized: AuthorizedService, cursor: str | None) -> Overview:
    registrar = authorized.service.registrar
    page = await registrar.list_schedules(user_id=authorized.tenant, limit=_SCHEDULES_READ, cursor=cursor)
    runs = await registrar.recent(_RUNS_READ, user_id=authorized.tenant)
    failed = [run for run in runs if run.status == "FAILED"]
    waiting = [view for view in page.items if view.next_run_at is not None and not view.paused]
    return Overview(
        now=authorized.service.clock.now().astimezone(UTC),
        health=await authorized.service.health(),
        failed=failed[:_RUNS_SHOWN],
        failed_count=len(failed),
        recent=runs[:_RUNS_SHOWN],
        runs_read=_RUNS_READ,
        next=sorted(waiting, key=lambda view: (view.next_run_at, view.schedule_id))[:_NEXT_SHOWN],
        troubled=[view for view in page.items if view.quarantine is not None],
        damaged=await authorized.damaged(),
        paused=sum(view.paused for view in page.items),
        schedules=len(page.items),
        cursor=cursor,
        next_cursor=page.next_cursor,
    )


def _distance(instant: datetime, now: datetime) -> str:
    """Return how far away an instant is, in its two largest units."""
    seconds = round((instant - now).total_seconds())
    ahead, seconds = seconds > 0, abs(seconds)
    units = [
        ("d", seconds // 86_400),
        ("h", seconds // 3600 % 24),
        ("min", seconds // 60 % 60),
        ("s", seconds % 60),
    ]
    first = next((place for place, (_, count) in enumerate(units) if count), 3)
    text = " ".join(f"{count} {unit}" for unit, count in units[first : first + 2] if count or first == 3)
    return f"in {text}" if ahead else f"{text} ago"


_PAGES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_PAGES.filters["rfc_3339"] = rfc_3339
_PAGES.globals["distance"] = _distance
_PAGE = _PAGES.get_template("overview.html")
