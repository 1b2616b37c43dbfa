"""The meaning of a cron text: English, fire times, remarks and a year of days. Needs no schedule."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple
from zoneinfo import available_timezones

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field

from dutiful.core.cron.cron import Cron
from dutiful.core.cron.lint import lint
from dutiful.core.errors import CronCalculationError, DutifulError
from dutiful.web.authorized_service import Reader
from dutiful.web.drawing.matrix import Became, Year, year
from dutiful.web.pages import words
from dutiful.web.pages.ledger import clock_changes
from dutiful.web.pages.rendering import page

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

FIRES = 8
_FIELDS = ("minute", "hour", "day", "month", "weekday")
PRESETS = {
    "every 5 minutes": "*/5 * * * *",
    "hourly": "0 * * * *",
    "daily": "0 2 * * *",
    "weekdays": "30 9 * * 1-5",
    "monthly": "0 6 1 * *",
}
Dialect = Literal["standard", "posix", "seconds"]


class CronQuery(BaseModel):
    """The text to look at, its zone and its dialect."""

    model_config = ConfigDict(extra="forbid")

    e: Annotated[str, Field(max_length=256)] = "30 2 * * *"
    tz: Annotated[str, Field(max_length=64)] = "UTC"
    dialect: Dialect = "standard"


class Meaning(NamedTuple):
    """A cron text in words, drawings and fire times, or the `problem` for which it has none."""

    cron: Cron | None
    parts: list[tuple[str, str]]
    english: str = ""
    findings: list[tuple[str, str]] = []  # noqa: RUF012 - a value, never changed
    fires: list[datetime] = []  # noqa: RUF012 - a value, never changed
    in_year: int = 0
    year_wide: str = ""
    year_narrow: str = ""
    problem: str | None = None
    field: str | None = None


def parts_of(text: str) -> list[tuple[str, str]]:
    """Return (part, name) of each field of a text."""
    parts = text.split()
    names = ("second", *_FIELDS) if len(parts) == 6 else _FIELDS
    return [*zip(parts, names, strict=False)]


def meaning(
    text: str, zone: str, now: datetime, dialect: str = "standard", *, draws: bool = True, **dst: Any
) -> Meaning:
    """Return the meaning of a text in a zone, from the present on, with a drawing of the year if wanted."""
    parts = parts_of(text)
    try:
        cron = Cron.parse(text, dialect, zone, **(dst or {"dst": "vixie"}))
    except DutifulError as error:
        return Meaning(None, parts, problem=str(error), field=getattr(error, "field", None))
    return Meaning(
        cron,
        parts,
        words.when(cron),
        [(finding.level, finding.message) for finding in lint(cron, now)],
        next_fires(cron, now, FIRES),
        count_in_year(cron, now),
        *(_drawn_year(cron, now) if draws else ()),
    )


def _drawn_year(cron: Cron, now: datetime) -> tuple[str, str]:
    """Return the next year as a wide and a narrow drawing."""
    zone = cron.zone.tzinfo
    found = clock_changes(cron.zone, now, now + timedelta(days=366))
    changes = frozenset(change.at.astimezone(zone).date() for change in found)
    drawn = Year(now.astimezone(zone).date(), fire_days(cron, now), changes)
    return year(drawn), year(drawn._replace(weeks=22), "narrow")


def next_fires(cron: Cron, now: datetime, count: int) -> list[datetime]:
    """Return the next fire times; fewer where the calendar ends."""
    found, at = list[datetime](), now
    while len(found) < count:
        try:
            at = cron.next(at)
        except CronCalculationError:
            break
        found.append(at)
    return found


def count_in_year(cron: Cron, now: datetime) -> int:
    """Return how many ticks the next 365 days have."""
    begin = int(now.timestamp())
    return cron.count_epoch(begin, begin + 365 * 86_400)


def fire_days(cron: Cron, now: datetime) -> dict[Any, Became]:
    """Return the days of the next year that have a tick, with one search for each day."""
    days: dict[Any, Became] = {}
    at, end = now, now + timedelta(days=371)
    while True:
        try:
            at = cron.next(at)
        except CronCalculationError:
            return days
        if at >= end:
            return days
        day = at.date()
        days[day] = "same"
        # Continue from the last second of the day, so that the next search finds another day.
        at = datetime(day.year, day.month, day.day, 23, 59, 59, tzinfo=cron.zone.tzinfo, fold=1)


@router.get("/ui/cron")
async def cron_lab(
    request: Request, authorized: Reader, query: Annotated[CronQuery, Query()]
) -> HTMLResponse:
    """Show what a cron text means, without storing anything."""
    now = authorized.service.clock.now().astimezone(UTC)
    return page(
        "cron.html",
        request,
        given=query,
        meaning=meaning(query.e, query.tz, now, query.dialect),
        presets=PRESETS,
        zones=zone_names(),
    )


def zone_names() -> list[str]:
    """Return the zones that a form offers."""
    return sorted(name for name in available_timezones() if "/" in name or name == "UTC")
