"""The ledger of all schedules: filtered, grouped by cause or one by one, page by page.

The schedules of a group of failures can be run again, once each by hand.
"""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import Field

from dutiful.core.cron.zone import rfc_3339
from dutiful.core.errors import InvalidArgumentError, UnknownScheduleError
from dutiful.core.policy import Reason
from dutiful.httpd.fields import ID_PATTERN, QueryModel
from dutiful.service.errors import DamagedScheduleError
from dutiful.service.types import RunView
from dutiful.web.authorized_service import Reader, Starter
from dutiful.web.pages import words
from dutiful.web.pages.find_runs import Found, TooManyError, find, runs_csv
from dutiful.web.pages.forms import read_form
from dutiful.web.pages.ledger_entries import CSS, late_by, state_of, tick_href, took
from dutiful.web.pages.rendering import LIVE, page
from dutiful.web.pages.why import read_range

if TYPE_CHECKING:
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

SHOWN = 60
GROUPS_SHOWN = 40
# Groups are made of the newest entries that match.
GROUPED = 1000
# Most schedules that one request runs again.
AGAIN_MAX = 100
STATUSES = ("SUCCESS", "FAILED", "SKIPPED", "STARTED", "ENQUEUED")
TRIGGERS = {"schedule": "the schedule", "manual": "hand", "backfill": "a backfill"}
# The widest range that is proposed in place of a range without entries.
_WIDEST = timedelta(days=366)
_REASONS = tuple(reason.value for reason in Reason)
# Trouble first.
_ORDER = {"FAILED": 0, "SKIPPED": 1, "STARTED": 2, "ENQUEUED": 3, "SUCCESS": 4}


class RunsQuery(QueryModel):
    """Which entries of the ledger to show."""

    status: Literal["", "SUCCESS", "FAILED", "SKIPPED", "STARTED", "ENQUEUED"] = ""
    reason: Annotated[str, Field(pattern=f"^({'|'.join(_REASONS)})?$")] = ""
    trigger: Literal["", "schedule", "manual", "backfill"] = ""
    schedule: Annotated[str, Field(max_length=128)] = ""
    since: Annotated[str, Field(max_length=64)] = ""
    until: Annotated[str, Field(max_length=64)] = ""
    view: Literal["grouped", "each"] = "grouped"
    cursor: Annotated[str, Field(max_length=1000)] = ""
    format: Literal["", "csv"] = ""
    done: Annotated[str, Field(max_length=200)] = ""


class Filter(NamedTuple):
    """The filter of a query with its times read, or the problem with a field."""

    query: RunsQuery
    since: datetime | None = None
    until: datetime | None = None
    problem: str = ""
    field: str = ""

    @staticmethod
    def read(query: RunsQuery, now: datetime) -> Filter:
        """Return the filter of a query; a time without an offset is UTC."""
        return Filter(query, *read_range(query.since, query.until, now))

    @property
    def asked(self) -> dict[str, Any]:
        """Return the filter as the service takes it."""
        query = self.query
        return {
            "status": query.status or None,
            "reason": query.reason or None,
            "trigger": query.trigger or None,
            "schedule_id": query.schedule.strip() or None,
            "since": self.since,
            "until": self.until,
        }

    @property
    def matches_nothing(self) -> bool:
        """Return whether no entry can match: the filter cannot be read, or no schedule has such an id."""
        schedule_id = self.query.schedule.strip()
        return bool(self.field or (schedule_id and not re.fullmatch(ID_PATTERN, schedule_id)))

    def said(self) -> list[str]:
        """Return the conditions of the filter in words, without its times."""
        query = self.query
        made = f"made by {TRIGGERS[query.trigger]}" if query.trigger else ""
        schedule = f"of {query.schedule.strip()}" if query.schedule.strip() else ""
        return [each for each in (query.status, query.reason, made, schedule) if each]


class Near(NamedTuple):
    """An entry that is nearest to a range without entries, and the address of a range that has it."""

    at: datetime
    href: str


class Group(NamedTuple):
    """Entries with one status, one reason and one main line of detail."""

    shape: str
    css: str
    status: str
    reason: str | None
    line: str
    ticks: int
    schedules: list[str]
    newest: RunView
    oldest: RunView
    each: str
    again: str | None


@router.get("/ui/runs", dependencies=[LIVE])
async def runs(request: Request, authorized: Reader, query: Annotated[RunsQuery, Query()]) -> Response:
    """Show the entries of all schedules in the ledger, newest first, or answer them as a file."""
    wanted = Filter.read(query, authorized.service.clock.now().astimezone(UTC))
    if query.format == "csv" and not wanted.matches_nothing:
        try:
            return await runs_csv(authorized, wanted.asked)
        except TooManyError as error:
            wanted = wanted._replace(problem=str(error))
    facts = await _facts(authorized, wanted)
    return page("runs.html", request, 422 if wanted.problem else 200, every=15, **facts)


async def _facts(authorized: AuthorizedService, wanted: Filter) -> dict[str, Any]:
    """Return all that the page shows."""
    query = wanted.query
    shown = SHOWN if query.view == "each" else GROUPED
    nothing = wanted.matches_nothing
    found = Found([], None) if nothing else await find(authorized, wanted.asked, shown, query.cursor)
    groups = groups_of(found.runs, query) if query.view == "grouped" else []
    return {
        "filter": query,
        "wanted": wanted,
        "statuses": STATUSES,
        "triggers": TRIGGERS,
        "reason_names": _REASONS,
        "found": found,
        "groups": groups[:GROUPS_SHOWN],
        "summed": sum_up(found, len(groups), authorized.service.clock.now()),
        "older": None if found.cursor is None else link(query, cursor=found.cursor),
        "newest": link(query, cursor=""),
        "csv": link(query, cursor="", format="csv"),
        "views": {view: link(query, view=view) for view in ("grouped", "each")},
        "near": [] if nothing or found.runs or found.cursor else await nearest(authorized, wanted),
        "near_ids": await _near_ids(authorized, wanted) if not found.runs else [],
        "late_by": late_by,
        "took": took,
        "main_line": words.main_line,
        "tick_href": tick_href,
        "state_of": state_of,
        "css_of": CSS,
    }


def sum_up(found: Found, groups: int, now: datetime) -> str:
    """Return which part of the ledger a page shows, in words: 60 entries, back to Mon 2 Nov 10:31."""
    said = f"{len(found.runs):,} {'entry' if len(found.runs) == 1 else 'entries'}"
    if groups:
        said = (
            f"Grouped from {said}"
            if groups <= GROUPS_SHOWN
            else f"{GROUPS_SHOWN} of {groups:,} groups, from {said}"
        )
    if found.back_to is not None:
        said += f", back to {words.moment(found.back_to, now)}"
    return f"{said}."


def link(query: RunsQuery, **changes: Any) -> str:
    """Return the address of the page with a query that is changed in some fields."""
    asked = {**query.model_dump(), "format": "", "done": "", **changes}
    kept = {name: value for name, value in asked.items() if value not in (None, "", "grouped")}
    return "/ui/runs" + (f"?{urlencode(kept)}" if kept else "")


async def _near_ids(authorized: AuthorizedService, wanted: Filter) -> list[str]:
    """Return the ids that may have been meant by one that is not known."""
    schedule_id = wanted.query.schedule.strip()
    if not schedule_id or wanted.field:
        return []
    near = await authorized.near_ids(schedule_id) if schedule_id.isprintable() else []
    return [] if schedule_id in near else near


async def nearest(authorized: AuthorizedService, wanted: Filter) -> list[Near]:
    """Return the last entry before a range without entries and the first one after it, where there are any.

    Each is looked for among a bounded number of rows.
    """
    since, until = wanted.since, wanted.until
    if wanted.query.cursor or (since is None and until is None):
        return []
    # The address of a range of thousands of years would leave the calendar.
    width = min(until - since, _WIDEST) if since is not None and until is not None else timedelta(hours=1)
    found, ask = [], authorized.service.registrar.list_runs
    asked = {**wanted.asked, "user_id": authorized.tenant, "limit": 1}
    if since is not None:
        before = await ask(**{**asked, "since": None, "until": since})
        # The end of a range is not part of it.
        found += [
            _near(wanted.query, run, run.run_at + timedelta(seconds=1) - width, width) for run in before.items
        ]
    if until is not None:
        after = await ask(**{**asked, "since": until, "until": None}, oldest_first=True)
        found += [_near(wanted.query, run, run.run_at, width) for run in after.items]
    return found


def _near(query: RunsQuery, run: RunView, start: datetime, width: timedelta) -> Near:
    return Near(run.run_at, link(query, since=rfc_3339(start), until=rfc_3339(start + width)))


def groups_of(runs: list[RunView], query: RunsQuery) -> list[Group]:
    """Return the entries of a query grouped by status, reason and main line of detail, trouble first."""

    def kind(run: RunView) -> tuple[int, str, str]:
        return _ORDER[run.status], run.reason or "", line_of(run)

    return [
        _group(reason, line, sorted(members, key=lambda run: run.run_at), query)
        for (_, reason, line), members in groupby(sorted(runs, key=kind), kind)
    ]


def line_of(run: RunView) -> str:
    """Return the line of detail by which an entry is grouped."""
    return "" if run.status == "SUCCESS" else words.main_line(run.detail)


def _group(reason: str, line: str, entries: list[RunView], query: RunsQuery) -> Group:
    state, status = state_of(entries[-1]), entries[0].status
    names = sorted({run.schedule_id for run in entries})
    return Group(
        state,
        CSS[state],
        status,
        reason or None,
        line,
        sum(run.ticks for run in entries),
        names,
        entries[-1],
        entries[0],
        link(query, view="each", status=status, reason=reason),
        _again(query, reason, line, names) if status == "FAILED" else None,
    )


def _again(query: RunsQuery, reason: str, line: str, names: list[str]) -> str:
    """Return the address of the question whether to run the schedules of a group of failures again."""
    if len(names) == 1:
        return f"/ui/schedules/{names[0]}/run"
    asked = link(query, status="FAILED", reason=reason, view="", line=line)
    return asked.replace("/ui/runs?", "/ui/runs/again?", 1)


class AgainQuery(RunsQuery):
    """A group of failures: the filter of its page, and its first line of detail."""

    line: Annotated[str, Field(max_length=300)] = ""


@router.get("/ui/runs/again")
async def ask_again(
    request: Request, authorized: Reader, query: Annotated[AgainQuery, Query()]
) -> HTMLResponse:
    """Show which schedules would run again."""
    wanted = Filter.read(query, authorized.service.clock.now().astimezone(UTC))
    found = (
        [] if wanted.matches_nothing else (await find(authorized, wanted.asked, GROUPED, query.cursor)).runs
    )
    names = sorted(
        {run.schedule_id for run in found if line_of(run) == query.line and run.status == "FAILED"}
    )
    stored = await authorized.service.registrar.some_schedules(names[:AGAIN_MAX])
    views = [view for view in stored if view.quarantine is None]
    return page(
        "again.html",
        request,
        query=query,
        ids=[view.schedule_id for view in views],
        paused=sum(view.paused for view in views),
        too_many=len(names) if len(names) > AGAIN_MAX else 0,
        most=AGAIN_MAX,
        once=secrets.token_hex(16),
        back=link(RunsQuery(**{name: getattr(query, name) for name in RunsQuery.model_fields})),
    )


@router.post("/ui/runs/again")
async def again(request: Request, authorized: Starter) -> Response:
    """Run each schedule of the form once, in addition to its ticks; the same form sent again runs nothing."""
    form = await read_form(request)
    once = form.get("once", "")[:64]
    ids = [each for each in form.get("schedules", "").split() if re.fullmatch(ID_PATTERN, each)]
    asked = [each for each in dict.fromkeys(ids[:AGAIN_MAX]) if await _run(authorized, each, once)]
    done = f"{words.counted(len(asked), 'run')} by hand asked for."
    if gone := len(ids) - len(asked):
        done += f" {words.counted(gone, 'schedule')} cannot be run."
    return RedirectResponse(f"/ui/runs?{urlencode({'trigger': 'manual', 'view': 'each', 'done': done})}", 303)


async def _run(authorized: AuthorizedService, schedule_id: str, once: str) -> bool:
    """Run a schedule once for this form.

    Return False for one that was deleted, damaged or set aside meanwhile; the others run all the same.
    """
    try:
        await authorized.demand_schedule(schedule_id)
        authorized.intend("trigger", schedule_id=schedule_id, via="page")
        key = f"{once}:{schedule_id}" if once else None
        triggered = await authorized.service.registrar.trigger(schedule_id, idempotency_key=key)
    except (UnknownScheduleError, DamagedScheduleError, InvalidArgumentError):
        return False
    authorized.record("trigger", schedule_id=schedule_id, idempotency_key=triggered.idempotency_key)
    return True
