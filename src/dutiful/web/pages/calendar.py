"""The calendar of all schedules: the crowded times, the crons behind them, and the cost of an outage."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import Field

from dutiful.core.cron.zone import epoch_ms
from dutiful.httpd.fields import QueryModel
from dutiful.service.load import READ_MAX, Firing, Load
from dutiful.web.authorized_service import Reader
from dutiful.web.drawing.matrix import (
    DAY_SHADES,
    HOUR_SHADES,
    SHADES,
    load_matrix,
    week_matrix,
    year_matrix,
)
from dutiful.web.pages import words
from dutiful.web.pages.rendering import page
from dutiful.web.pages.schedules import Filter

if TYPE_CHECKING:
    from collections.abc import Callable

    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

T = TypeVar("T")
View = Literal["day", "week", "year"]
_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
# The time of one cell of each drawing, and of the whole drawing.
_CELLS: dict[View, timedelta] = {"day": _MINUTE, "week": _HOUR, "year": _DAY}
_LENGTHS: dict[View, timedelta] = {"day": _DAY, "week": 7 * _DAY, "year": 365 * _DAY}
_SHADES: dict[View, tuple[int, ...]] = {"day": SHADES, "week": HOUR_SHADES, "year": DAY_SHADES}
_FULLEST, _QUIETEST, _FIRING = 20, 5, 20
_HOURS_MAX = 168
# The days a reader may ask for: a week or an outage before or after them is still a valid datetime.
_FIRST, _LAST = date(1970, 1, 2), date(9000, 1, 1)


class CalendarQuery(QueryModel):
    """Which time to show, of which schedules, which part of it to list, and which outage to imagine."""

    view: View = "day"
    q: Annotated[str, Field(max_length=200)] = ""
    day: Annotated[str, Field(max_length=32)] = ""
    at: Annotated[str, Field(max_length=32)] = ""
    down: Annotated[str, Field(max_length=32)] = "02:00"
    hours: Annotated[str, Field(max_length=32)] = "3"


class Asked(NamedTuple):
    """What the query means; `wrong` names each field that means nothing, and what to write instead."""

    view: View
    q: str
    day: date
    at: datetime | None
    start: datetime
    hours: float
    wrong: dict[str, str]

    @property
    def begin(self) -> datetime:
        """Return the first instant of the drawing."""
        return datetime.combine(self.day, time(), UTC)

    @property
    def cell(self) -> timedelta:
        """Return the time that one cell of the drawing stands for."""
        return _CELLS[self.view]

    @property
    def length(self) -> timedelta:
        """Return the time that the drawing shows."""
        return _LENGTHS[self.view]

    @property
    def outage(self) -> dict[str, str]:
        """Return the query of the imagined outage, empty if it is the usual one."""
        given = {"down": f"{self.start:%H:%M}", "hours": f"{self.hours:g}"}
        return {} if given == {"down": "02:00", "hours": "3"} else given

    def href(self, **changes: object) -> str:
        """Return the address of this page with some of its query changed."""
        own = {"view": self.view, "q": self.q, "day": self.day, **self.outage, **changes}
        return f"/ui/calendar?{urlencode({name: value for name, value in own.items() if value})}"


class Place(NamedTuple):
    """One cell of the drawing, or a few together, with the number of its ticks."""

    said: str
    href: str
    ticks: int


class Chosen(NamedTuple):
    """One cell of the drawing: its ticks, its crons in English, and the quietest minutes of its hour."""

    at: datetime
    ticks: int
    schedules: int
    firing: list[tuple[Firing, str]]
    more: int
    quiet: list[Place]


def read(query: CalendarQuery, now: datetime) -> Asked:
    """Return what a query asks for, with the usual value in place of each one that cannot be read."""
    wrong: dict[str, str] = {}

    def taken(name: str, parse: Callable[[str], T], usual: T, advice: str) -> T:
        text = getattr(query, name).strip()
        try:
            return parse(text) if text else usual
        except ValueError:
            wrong[name] = f"{words.foreign(text, 20)!r} is not known; write {advice}"
            return usual

    day = taken("day", _day, now.date(), f"a day, such as {now.date()}")
    at = taken("at", lambda text: _instant(text, day), None, "a time of day, such as 02:00")
    two = datetime.combine(day, time(2), UTC)
    start = taken("down", lambda text: _clock_on(day, text), two, "a time of day, such as 02:00")
    hours = taken("hours", _hours, 3.0, f"a number of hours, at most {_HOURS_MAX}")
    return Asked(query.view, query.q.strip(), day, at, start, hours, wrong)


def _day(text: str) -> date:
    day = date.fromisoformat(text)
    if not _FIRST <= day <= _LAST:
        raise ValueError
    return day


def _clock_on(day: date, text: str) -> datetime:
    """Return a time of day such as 2:00 on a day."""
    return datetime.combine(day, datetime.strptime(text, "%H:%M").time(), UTC)  # noqa: DTZ007 - no date


def _instant(text: str, day: date) -> datetime:
    """Return a time of day on a day, or on the day that the text names."""
    named, has_day, clock = text.rpartition("T")
    return _clock_on(_day(named) if has_day else day, clock)


def _hours(text: str) -> float:
    hours = float(text)
    if not 0 < hours <= _HOURS_MAX:
        raise ValueError
    return hours


@router.get("/ui/calendar")
async def calendar(
    request: Request, authorized: Reader, query: Annotated[CalendarQuery, Query()]
) -> HTMLResponse:
    """Show how many ticks each minute, hour or day of some time has, and what an outage would do."""
    asked = read(query, authorized.service.clock.now().astimezone(UTC))
    load = await load_of(authorized, asked.q)
    counts = await _counts(load, asked)
    week = await _counts(load, asked._replace(view="week")) if asked.view == "day" else counts
    fullest = _fullest(counts)
    wide, narrow = _drawn(asked, counts, week, fullest)
    return page(
        "calendar.html",
        request,
        422 if asked.wrong else 200,
        asked=asked,
        typed=query,
        wide=wide,
        narrow=narrow,
        scales={
            "wide": _SHADES[asked.view],
            "narrow": _SHADES["week" if asked.view == "day" else asked.view],
        },
        cut=READ_MAX if load.cut else None,
        total=sum(counts),
        fullest=[_place(asked, cell, counts[cell]) for cell in fullest],
        quietest=_quietest(asked, counts),
        chosen=None if asked.at is None else await _chosen(load, asked, asked.at),
        outage=await load.outage(epoch_ms(asked.start), round(asked.hours * 3_600_000)),
    )


async def load_of(authorized: AuthorizedService, text: str) -> Load:
    """Return the load of the schedules that a filter matches, and that the caller may see."""
    wanted, board = Filter.read(text), authorized.service.board
    if wanted == Filter():
        return await board.load(authorized.tenant)
    if not wanted.may_be_seen(authorized):
        return Load(authorized.service.clock, [])
    user = wanted.user_id or authorized.tenant
    facets = [*([] if user is None else [("user", user)]), *wanted.facets]
    return await board.load(facets=facets)


async def _counts(load: Load, asked: Asked) -> list[int]:
    """Return the number of ticks in each cell of the drawing."""
    begin, end = epoch_ms(asked.begin), epoch_ms(asked.begin + asked.length)
    width = asked.cell // timedelta(milliseconds=1)
    found = await load.forecast(begin, end, width)
    return [found.get(at, 0) for at in range(begin, end, width)]


def _drawn(asked: Asked, counts: list[int], week: list[int], fullest: list[int]) -> tuple[str, str]:
    """Return the drawings for wide and narrow pages; of a day, the fullest minutes are links."""
    days = [asked.day + number * _DAY for number in range(7)]
    names = [f"{day:%a} {day.day}" for day in days]
    linked = fullest if asked.view == "day" else [cell for cell, ticks in enumerate(week) if ticks]
    if asked.view == "year":
        linked = fullest
    links = {cell: _link(asked, cell, counts[cell]) for cell in linked}
    if asked.view == "year":
        return year_matrix(asked.day, counts, "wide", links), year_matrix(asked.day, counts)
    if asked.view == "day":
        return load_matrix(counts, links), week_matrix(week, names)
    return week_matrix(week, names, "wide", links), week_matrix(week, names)


def _link(asked: Asked, cell: int, ticks: int) -> tuple[str, str]:
    place = _place(asked, cell, ticks)
    return place.href, f"{place.said}: {words.counted(ticks, 'tick')}"


def _place(asked: Asked, cell: int, ticks: int) -> Place:
    at = asked.begin + cell * asked.cell
    if asked.view == "year":
        return Place(f"{at:%a} {at.day} {at:%b %Y}", asked.href(view="day", day=at.date()), ticks)
    said = f"{at:%H:%M}" if asked.view == "day" else f"{at:%a} {at.day}, {at:%H:%M}"
    return Place(said, asked.href(at=f"{at:%Y-%m-%dT%H:%M}") + "#at", ticks)


def _fullest(counts: list[int]) -> list[int]:
    cells = sorted(range(len(counts)), key=lambda cell: (-counts[cell], cell))[:_FULLEST]
    return [cell for cell in cells if counts[cell]]


def _quietest(asked: Asked, counts: list[int]) -> list[Place]:
    """Return the half hours of a day, or the cells of a week or a year, with the fewest ticks."""
    cells = 30 if asked.view == "day" else 1
    sums = [(sum(counts[begin : begin + cells]), begin) for begin in range(0, len(counts), cells)]
    return [_place(asked, begin, ticks) for ticks, begin in sorted(sums)[:_QUIETEST]]


async def _chosen(load: Load, asked: Asked, at: datetime) -> Chosen:
    """Return the crons that fire in one minute, or in one hour of a week."""
    hour = at.replace(minute=0)
    begin, length = (hour, _HOUR) if asked.view == "week" else (at, _MINUTE)
    found = await load.firing(epoch_ms(begin), epoch_ms(begin + length))
    minutes = await _counts(load, asked._replace(view="day", day=at.date()))
    in_hour = [(minutes[hour.hour * 60 + minute], minute) for minute in range(60)]
    quiet = [Place(f"{hour:%H}:{minute:02}", "", ticks) for ticks, minute in sorted(in_hour)[:_QUIETEST]]
    return Chosen(
        begin,
        sum(each.ticks for each in found),
        sum(each.schedules for each in found),
        [(each, words.when(each.cron)) for each in found[:_FIRING]],
        len(found[_FIRING:]),
        quiet,
    )
