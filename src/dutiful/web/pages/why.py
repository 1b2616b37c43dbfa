"""Why a tick ran, did not run, or will run: the verdict, the deciding setting, and every check made."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import Field

from dutiful.core.errors import CronCalculationError, DutifulError, UnknownScheduleError
from dutiful.httpd.fields import QueryModel, in_utc, parse_instant
from dutiful.web.authorized_service import Reader
from dutiful.web.pages import words
from dutiful.web.pages.ledger_entries import CSS, became, state_of
from dutiful.web.pages.rendering import page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from dutiful.core.cron.cron import Cron
    from dutiful.core.plan.verdict_steps import Step
    from dutiful.service.declaration import ScheduleView
    from dutiful.service.types import Explanation, RunView
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

_WALL = re.compile(r"(?:(\d{4}-\d\d-\d\d)|(today|yesterday|tomorrow))[ T]+(\d\d?:\d\d(?::\d\d)?)", re.ASCII)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", re.ASCII)
_EXAMPLES = 3
# The field of the editor for each setting that decides; browsers open the folded part in which it is.
_FIELDS = {
    "overlap": "overlap_policy",
    "queue_limit": "queue_limit",
    "catch_up": "catchup_policy",
    "window": "start_at",
    "on_orphan": "delivery",
    "run_timeout": "run_timeout_s",
    "retry": "retry_limit",
}
_DAYS = {"today": 0, "yesterday": -1, "tomorrow": 1}
ADVICE = "write a time such as 2026-11-01 01:30, yesterday 01:30, or 2026-11-01T06:30:00Z"


class Why(NamedTuple):
    """A verdict as the page shows it, or the `problem` for which the question could not be read."""

    asked: str
    instant: datetime | None = None
    said_at: str = ""
    shape: str = "to_come"
    css: str = ""
    status: str = ""
    code: str = ""
    sentence: str = ""
    setting: str | None = None
    text: str = ""
    detail: str | None = None
    steps: Sequence[Step] = ()
    run: RunView | None = None
    problem: str | None = None

    @property
    def question(self) -> str:
        """Return the page of the schedule, and the field, in which the deciding setting can be changed."""
        name = (self.setting or "").partition("=")[0]
        return "pause" if name == "paused" else f"edit#f-{_FIELDS[name]}" if name in _FIELDS else "edit"

    @staticmethod
    def refused(asked: str, problem: str) -> Why:
        """Return the answer to a question that cannot be read."""
        return Why(asked, problem=problem)


def parse_time(text: str, zone: tzinfo, now: datetime) -> tuple[datetime | None, str]:
    """Return the instant that a text names in a zone, or the problem with the text.

    A wall time that the clock skips on that day is kept, so that a verdict can say so.
    """
    given = text.strip()
    if match := _WALL.fullmatch(given):
        date, word, clock = match.groups()
        try:
            day = (
                datetime.fromisoformat(date).date()
                if date
                else (now.astimezone(zone) + timedelta(days=_DAYS[word])).date()
            )
            hour, _, rest = clock.partition(":")
            wall = datetime.fromisoformat(f"{day.isoformat()}T{int(hour):02}:{rest}").replace(tzinfo=zone)
            in_utc(wall)
        except ValueError:
            return None, f"There is no such time: {ADVICE}."
        return wall, ""
    try:
        return parse_instant(given).astimezone(zone), ""
    except ValueError:
        return None, f"That is not a time that can be read: {ADVICE}."


class Range(NamedTuple):
    """The ends of a range, in UTC, or the problem with one of them and the name of its field."""

    since: datetime | None = None
    until: datetime | None = None
    problem: str = ""
    field: str = ""


def read_range(since: str, until: str, now: datetime) -> Range:
    """Return the range between two texts, each of which may be empty; a time without an offset is UTC."""
    begin, wrong_begin = parse_time(since, UTC, now) if since.strip() else (None, "")
    end, wrong_end = parse_time(until, UTC, now) if until.strip() else (None, "")
    if wrong_begin:
        return Range(problem=f"From: {wrong_begin}", field="since")
    if wrong_end:
        return Range(problem=f"Until: {wrong_end}", field="until")
    if begin is not None and end is not None and end <= begin:
        return Range(begin, end, "The end must be after the start.", "until")
    return Range(begin, end)


async def why(
    authorized: AuthorizedService, view: ScheduleView, cron: Cron, instant: datetime, asked: str | None = None
) -> Why:
    """Return the verdict on the tick of an instant."""
    now, zone = authorized.service.clock.now().astimezone(UTC), cron.zone.tzinfo
    local = instant if instant.tzinfo is zone else instant.astimezone(zone)
    shown = asked or f"{local:%Y-%m-%d %H:%M}" + (f":{local:%S}" if local.second else "")
    try:
        told = await authorized.service.registrar.explain(view.schedule_id, local)
    except DutifulError as error:
        return Why.refused(shown, str(error))
    shape, css, status = _standing(told)
    run = told.run
    at = local.replace(second=local.second if "seconds" in view.dialect else 0)
    return Why(
        shown,
        instant.astimezone(UTC),
        words.moment(at, now),
        shape,
        css,
        status,
        # "TO COME" says the same as the code undecided.
        told.code if told.code != "undecided" and (run is None or run.reason is not None) else "",
        _sentence(told, view, now),
        told.setting,
        told.text,
        None if run is None else run.detail,
        told.steps,
        run,
    )


def beside(cron: Cron, instant: datetime, now: datetime) -> list[tuple[str, datetime, str]]:
    """Return the tick before an instant and the tick after it, as (name, tick, in words)."""
    # A question is about a whole minute, or a second in the dialect with seconds; its own tick is neither.
    unit = timedelta(seconds=1 if cron.dialect == "seconds" else 60)
    begin = instant.astimezone(UTC).replace(microsecond=0)
    begin -= timedelta(seconds=begin.second if unit.seconds == 60 else 0)
    found = list[tuple[str, datetime, str]]()
    for name, find, at in (
        ("before", cron.previous, begin - timedelta(seconds=1)),
        ("after", cron.next, begin + unit - timedelta(seconds=1)),
    ):
        with suppress(CronCalculationError):
            tick = find(at)
            found.append((name, tick, words.moment(tick, now)))
    return found


def _standing(told: Explanation) -> tuple[str, str, str]:
    if told.run is not None:
        state = state_of(told.run)
        return state, CSS[state], told.run.status
    if told.code == "undecided":
        return "to_come", "", "TO COME"
    if told.due:
        return "skipped", "skip", "WILL NOT RUN" if told.code != "unrecorded" else "NO ENTRY"
    return "skipped", "", "NO TICK"


def _sentence(told: Explanation, view: ScheduleView, now: datetime) -> str:
    run = told.run
    if run is None:
        if told.code != "undecided":
            return words.REASONS.get(told.code, told.text)
        later = told.text.removeprefix(f"{view.schedule_id} at ").partition(" ")[2]
        later = _INSTANT.sub(lambda found: _in_zone(found[0], view, now), later)
        return f"It is due and {later}." if later.startswith("will") else f"It {later}."
    parts = [_launched(run)]
    if run.reason is not None:
        parts.append(words.REASONS.get(run.reason, ""))
    elif run.status == "SUCCESS":
        parts.append("It ran and succeeded.")
    elif run.started_at is not None:
        parts.append(f"It has been running for {words.span((now - run.started_at).total_seconds())}.")
    else:
        parts.append("It waits for its turn.")
    if run.ticks > 1:
        parts.append(f"{run.ticks:,} ticks in a row have this entry.")
    return " ".join(part for part in parts if part)


def _in_zone(instant: str, view: ScheduleView, now: datetime) -> str:
    """Return an instant of a verdict as a time in the zone of the schedule."""
    at = parse_instant(instant).astimezone(view.cron.zone.tzinfo)
    return f"{words.moment(at, now)} {words.offset(at)}"


def _launched(run: RunView) -> str:
    if run.started_at is None:
        return ""
    late = (run.started_at - run.fire_at).total_seconds()
    times = f", in {run.attempt} attempts" if run.attempt > 1 else ""
    who = {"manual": "A user asked for it", "backfill": "A backfill asked for it"}.get(
        run.trigger, "It was due"
    )
    return f"{who} and it was launched {words.span(max(0.0, late))} after its time{times}."


class WhyQuery(QueryModel):
    """Which schedule, and which time."""

    schedule: Annotated[str, Field(max_length=128)] = ""
    at: Annotated[str, Field(max_length=64)] = ""


@router.get("/ui/why")
async def explain(request: Request, authorized: Reader, query: Annotated[WhyQuery, Query()]) -> HTMLResponse:
    """Explain any tick of any schedule."""
    facts: dict[str, Any] = {
        "asked": query,
        "why": None,
        "view": None,
        "zone": UTC,
        "problem": None,
        "near_ids": [],
        "beside": [],
        "examples": [] if query.schedule else await _examples(authorized),
    }
    if query.schedule:
        now = authorized.service.clock.now().astimezone(UTC)
        try:
            view = await authorized.schedule(query.schedule)
        except UnknownScheduleError as error:
            near = await authorized.near_ids(query.schedule)
            return page("why.html", request, 404, **{**facts, "problem": str(error), "near_ids": near})
        cron = view.cron
        instant, problem = parse_time(query.at or "today 00:00", cron.zone.tzinfo, now)
        told = (
            Why.refused(query.at, problem)
            if instant is None
            else await why(authorized, view, cron, instant, query.at)
        )
        facts |= {"why": told, "view": view, "zone": cron.zone.tzinfo}
        facts["beside"] = [] if instant is None else beside(cron, instant, now)
    return page("why.html", request, **facts)


async def _examples(authorized: AuthorizedService) -> list[tuple[RunView, str]]:
    """Return up to three ticks that a reader may wonder about: failures first, then skipped ticks."""
    found: list[RunView] = []
    ask = authorized.service.registrar.list_runs
    for status in ("FAILED", "SKIPPED"):
        found += (await ask(status=status, user_id=authorized.tenant, limit=_EXAMPLES)).items
    return [(run, became(run)) for run in found[:_EXAMPLES]]
