"""The meaning of a cron text: English, fire times, remarks and a year of days. Needs no schedule."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode
from zoneinfo import available_timezones

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from pydantic import Field

from dutiful.core.cron.cron import Cron
from dutiful.core.cron.dialect import legal_dialect
from dutiful.core.cron.lint import dst_effects, lint
from dutiful.core.errors import CronCalculationError, DutifulError, InvalidCronExpressionError
from dutiful.httpd.fields import QueryModel
from dutiful.web.authorized_service import Reader
from dutiful.web.drawing.axis import ClockChange
from dutiful.web.drawing.matrix import Became, Year, year_pair
from dutiful.web.pages import words
from dutiful.web.pages.fire_time_changes import compare
from dutiful.web.pages.rendering import page

if TYPE_CHECKING:
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

FIRES = 8
# A minute, and the half hour before and after it in which the load is compared, in milliseconds.
_MINUTE, _NEAR = 60_000, 1_800_000
_FIELDS = ("minute", "hour", "day", "month", "weekday")
PRESETS = {
    "every 5 minutes": "*/5 * * * *",
    "hourly": "0 * * * *",
    "daily": "0 2 * * *",
    "weekdays": "30 9 * * 1-5",
    "monthly": "0 6 1 * *",
}
Dialect = Literal["standard", "posix", "seconds"]
# The zones of the tz database that are named by a place; the others are links to these, or old.
_CONTINENTS = {
    *("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe"),
    *("Indian", "Pacific"),
}


class CronQuery(QueryModel):
    """The text to look at, its zone and its dialect, and another text to compare it with."""

    e: Annotated[str, Field(max_length=256)] = "30 2 * * *"
    tz: Annotated[str, Field(max_length=64)] = "UTC"
    dialect: Dialect = "standard"
    than: Annotated[str, Field(max_length=256)] = ""

    def href(self, **changes: str) -> str:
        """Return the address of this page with some of its query changed."""
        own = {**self.model_dump(), **changes}
        return f"/ui/cron?{urlencode({name: value for name, value in own.items() if value})}"


class Load(NamedTuple):
    """The ticks of the stored schedules in the minute `at`, and in the fullest minute near it."""

    at: datetime
    ticks: int
    fullest: datetime
    most: int

    @property
    def href(self) -> str:
        """Return the address of that minute in the calendar."""
        at = self.at.astimezone(UTC)
        return f"/ui/calendar?day={at:%Y-%m-%d}&at={at:%H:%M}"


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
    # The next change of the clock and its effect, in words.
    clock_change: str | None = None
    problem: str | None = None
    # The setting to blame for the problem, and the field of the text if that is to blame.
    blames: str = "cron_expr"
    field: str | None = None
    # A dialect in which the text is legal.
    legal_in: str | None = None


def parts_of(text: str) -> list[tuple[str, str]]:
    """Return (part, name) of each field of a text."""
    parts = text.split()
    names = ("second", *_FIELDS) if len(parts) == 6 else _FIELDS
    return [*zip(parts, names, strict=False)]


def meaning(text: str, zone: str, now: datetime, dialect: str = "standard", **more: Any) -> Meaning:
    """Return the meaning of a text in a zone, from the present on; `more` are settings of `Cron.parse`."""
    try:
        cron = Cron.parse(text, dialect, zone, **(more or {"dst": "vixie"}))
    except DutifulError as error:
        return _refused(error, text)
    return Meaning(
        cron,
        parts_of(text),
        words.when(cron),
        [(finding.level, finding.message) for finding in lint(cron, now)],
        next_fires(cron, now, FIRES),
        count_in_year(cron, now),
        clock_change=next_change(cron, now),
    )


def _refused(error: DutifulError, text: str) -> Meaning:
    """Return a problem instead of a meaning, with the setting to blame and a dialect that takes the text."""
    told = Meaning(None, parts_of(text), problem=str(error))
    if not isinstance(error, InvalidCronExpressionError):
        return told._replace(blames=str(error.details.get("argument")))
    return told._replace(field=error.field, legal_in=legal_dialect(text))


def with_year(told: Meaning, now: datetime) -> Meaning:
    """Return a meaning with drawings of its next year, if it has one."""
    if told.cron is None:
        return told
    wide, narrow = _drawn_year(told.cron, now.replace(second=0, microsecond=0))
    return told._replace(year_wide=wide, year_narrow=narrow)


@lru_cache(maxsize=64)
def _drawn_year(cron: Cron, now: datetime) -> tuple[str, str]:
    """Return the drawings of a year; cached, because each key typed into a form asks for them again."""
    zone = cron.zone
    found = ClockChange.between(zone, now, now + timedelta(days=366))
    changes = frozenset(change.at.astimezone(zone.tzinfo).date() for change in found)
    return year_pair(Year(now.astimezone(zone.tzinfo).date(), fire_days(cron, now), changes))


def next_change(cron: Cron, now: datetime) -> str | None:
    """Return the effect of the next change of the clock on a cron; None if none comes within a year."""
    changes = ClockChange.between(cron.zone, now, now + timedelta(days=366))
    if not changes:
        return None
    first, zone = changes[0], cron.zone.tzinfo
    at = first.at.astimezone(zone)
    before = (first.at - timedelta(seconds=1)).astimezone(zone) + timedelta(seconds=1)
    moved = f"{at:%a} {at.day} {at:%B}: clocks go from {before.replace(tzinfo=None):%H:%M} to {at:%H:%M}"
    seconds = int(first.at.timestamp())
    touched = [*dst_effects(cron, seconds - 1, seconds + 1)]
    if not touched:
        return f"{moved}; no tick is touched"
    decided = f"gap={cron.gap}" if touched[0].kind == "gap" else f"fold={cron.fold}"
    return f"{moved}; ticks are touched, decided by {decided}"


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


async def load_near(authorized: AuthorizedService, fires: list[datetime]) -> Load | None:
    """Return how many ticks of all schedules fall in the minute of the next fire time, and near it."""
    if not fires:
        return None
    at = int(fires[0].timestamp()) // 60 * 60_000
    stored = await authorized.service.board.load(authorized.tenant)
    near = await stored.forecast(at - _NEAR, at + _NEAR, _MINUTE)
    fullest = max(near, key=lambda begin: near[begin], default=at)
    zone = fires[0].tzinfo
    return Load(fires[0], near.get(at, 0), datetime.fromtimestamp(fullest / 1000, zone), near.get(fullest, 0))


@router.get("/ui/cron")
async def cron_lab(
    request: Request, authorized: Reader, query: Annotated[CronQuery, Query()]
) -> HTMLResponse:
    """Show what a cron text means, and how it differs from another, without storing anything."""
    now = authorized.service.clock.now().astimezone(UTC)
    told = meaning(query.e, query.tz, now, query.dialect)
    other = meaning(query.than, query.tz, now, query.dialect) if query.than and told.cron else None
    return page(
        "cron.html",
        request,
        given=query,
        meaning=with_year(told, now),
        other=other,
        changes=compare(other.cron, told.cron, now) if other and other.cron and told.cron else None,
        load=await load_near(authorized, told.fires),
        presets=PRESETS,
        zones=zone_options(),
    )


@cache
def zone_options() -> Markup:
    """Return the zones that a form suggests, as the options of a list."""
    names = sorted(name for name in available_timezones() if name.partition("/")[0] in _CONTINENTS)
    return Markup("").join(Markup('<option value="{}">').format(name) for name in ("UTC", *names))
