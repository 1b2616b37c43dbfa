"""The calendar of all schedules: the crowded times, and the cost of an outage."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field

from dutiful.core.cron.zone import epoch_ms
from dutiful.web.authorized_service import Reader
from dutiful.web.drawing.matrix import HOUR_SHADES, SHADES, load_matrix, week_matrix
from dutiful.web.pages.rendering import page

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_FULLEST, _QUIETEST = 10, 5


class CalendarQuery(BaseModel):
    """Which day to show, and which outage to imagine on it."""

    model_config = ConfigDict(extra="forbid")

    day: date | None = None
    down: Annotated[str, Field(pattern=r"^([01]?\d|2[0-3]):[0-5]\d$")] = "02:00"
    hours: Annotated[float, Field(gt=0, le=168, allow_inf_nan=False)] = 3


@router.get("/ui/calendar")
async def calendar(
    request: Request, authorized: Reader, query: Annotated[CalendarQuery, Query()]
) -> HTMLResponse:
    """Show how many ticks each minute of a day has, and what an outage would do."""
    board, owner = authorized.service.board, authorized.tenant
    now = authorized.service.clock.now().astimezone(UTC)
    chosen = query.day or now.date()
    begin = epoch_ms(datetime.combine(chosen, time(), UTC))
    minutes = await board.forecast(begin, begin + _DAY, _MINUTE, owner)
    counts = [minutes.get(begin + minute * _MINUTE, 0) for minute in range(1440)]
    week = await board.forecast(begin, begin + 7 * _DAY, _HOUR, owner)
    hours = [week.get(begin + hour * _HOUR, 0) for hour in range(168)]
    names = [f"{chosen + timedelta(days=number):%a}" for number in range(7)]
    start = datetime.combine(chosen, time.fromisoformat(query.down.zfill(5)), UTC)
    outage = await board.outage(epoch_ms(start), round(query.hours * _HOUR), owner)
    return page(
        "calendar.html",
        request,
        chosen=chosen,
        before=chosen - timedelta(days=1),
        after=chosen + timedelta(days=1),
        matrix=load_matrix(counts),
        week=week_matrix(hours, names),
        scales={"wide": SHADES, "narrow": HOUR_SHADES},
        total=sum(counts),
        fullest=_fullest(counts),
        quietest=_quietest(counts),
        filter=query,
        outage=outage,
        outage_start=start,
    )


def _fullest(counts: list[int]) -> list[tuple[str, int]]:
    places = sorted(range(len(counts)), key=lambda minute: (-counts[minute], minute))[:_FULLEST]
    return [(_clock(minute), counts[minute]) for minute in places if counts[minute]]


def _quietest(counts: list[int]) -> list[tuple[str, int]]:
    """Return the half hours with the fewest ticks, where a deploy disturbs least."""
    halves = [(sum(counts[begin : begin + 30]), begin) for begin in range(0, 1440, 30)]
    return [(_clock(begin), ticks) for ticks, begin in sorted(halves)[:_QUIETEST]]


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
