"""The ledger of all schedules, and one run: when it was due, launched and done, and why."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field

from dutiful.core.errors import UnknownRunError, UnknownScheduleError
from dutiful.core.policy import Reason
from dutiful.httpd.instants import Instant, rfc_3339
from dutiful.service.types import RunView
from dutiful.web.authorized_service import Reader
from dutiful.web.pages import words
from dutiful.web.pages.ledger import CSS, became, late_by, state_of, tick_href, took
from dutiful.web.pages.rendering import LIVE, page
from dutiful.web.pages.why import why

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

SHOWN = 60
_READ = 1000
STATUSES = ("SUCCESS", "FAILED", "SKIPPED", "STARTED", "ENQUEUED")
_REASONS = tuple(reason.value for reason in Reason)


class RunsQuery(BaseModel):
    """Which entries of the ledger to show."""

    model_config = ConfigDict(extra="forbid")

    status: Literal["", "SUCCESS", "FAILED", "SKIPPED", "STARTED", "ENQUEUED"] = ""
    reason: Annotated[str, Field(pattern=f"^({'|'.join(_REASONS)})?$")] = ""
    since: Instant | None = None
    until: Instant | None = None
    view: Literal["grouped", "each"] = "grouped"


class Group(NamedTuple):
    """Entries with one status, one reason and one first line of detail."""

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


@router.get("/ui/runs", dependencies=[LIVE])
async def runs(request: Request, authorized: Reader, query: Annotated[RunsQuery, Query()]) -> HTMLResponse:
    """Show the entries of all schedules in the ledger, newest first."""
    found = await authorized.service.board.entries(
        _READ,
        status=query.status or None,
        reason=query.reason or None,
        since=query.since,
        until=query.until,
        owner=authorized.tenant,
    )
    return page(
        "runs.html",
        request,
        every=15,
        filter=query,
        statuses=STATUSES,
        reason_names=_REASONS,
        groups=groups_of(found, query),
        runs=[(run, state_of(run), CSS[state_of(run)]) for run in found[:SHOWN]],
        count=len(found),
        most=_READ,
        shown=SHOWN,
        links={view: _link(query, view=view) for view in ("grouped", "each")},
        late_by=late_by,
        took=took,
        first_line=words.first_line,
        tick_href=tick_href,
    )


def _link(query: RunsQuery, **changes: Any) -> str:
    asked: dict[str, Any] = {**query.model_dump(), **changes}
    kept = {
        name: rfc_3339(value) if isinstance(value, datetime) else value
        for name, value in asked.items()
        if value not in (None, "", "grouped")
    }
    return "/ui/runs" + (f"?{urlencode(kept)}" if kept else "")


def groups_of(runs: list[RunView], query: RunsQuery) -> list[Group]:
    """Return the entries of a query grouped by status, reason and first line of detail, trouble first."""
    order = {"FAILED": 0, "SKIPPED": 1, "STARTED": 2, "ENQUEUED": 3, "SUCCESS": 4}

    def kind(run: RunView) -> tuple[int, str, str]:
        return (
            order[run.status],
            run.reason or "",
            "" if run.status == "SUCCESS" else words.first_line(run.detail),
        )

    grouped = []
    for (_, reason, line), members in groupby(sorted(runs, key=kind), kind):
        entries = sorted(members, key=lambda run: run.run_at)
        names = sorted({run.schedule_id for run in entries})
        state = state_of(entries[-1])
        grouped.append(
            Group(
                state,
                CSS[state],
                entries[0].status,
                reason or None,
                line,
                sum(run.ticks for run in entries),
                names,
                entries[-1],
                entries[0],
                _link(query, view="each", status=entries[0].status, reason=reason),
            )
        )
    return grouped


class Moment(NamedTuple):
    """One point in the life of a run."""

    name: str
    at: datetime | None
    note: str
    state: Literal["done", "open", "failed"]


@router.get("/ui/runs/{key}", dependencies=[LIVE])
async def run(
    request: Request, authorized: Reader, key: Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
) -> HTMLResponse:
    """Show one run from its tick to its end."""
    found = await authorized.service.registrar.get_run(key)
    try:
        view = await authorized.schedule(found.schedule_id)
    except UnknownScheduleError:
        # Treat a run of another user like a run that does not exist.
        raise UnknownRunError(key) from None
    cron, now = view.cron, authorized.service.clock.now().astimezone(UTC)
    asked = await why(authorized, view, cron, found.run_at)
    return page(
        "run.html",
        request,
        every=2 if found.ended_at is None else 15,
        run=found,
        view=view,
        zone=cron.zone.tzinfo,
        moments=moments_of(found, now),
        state=state_of(found),
        css=CSS[state_of(found)],
        sentence=asked.sentence,
        setting=asked.setting,
        explain=tick_href(found.schedule_id, found.run_at),
        output=await asyncio.to_thread(authorized.service.output, found.idempotency_key),
        keeps_output=authorized.service.settings.output_dir is not None,
    )


def moments_of(run: RunView, now: datetime) -> list[Moment]:
    """Return the life of a run in order, with the time between its points."""
    who = {"manual": "asked for by hand", "backfill": "asked for by a backfill"}.get(run.trigger, "planned")
    moments = [Moment("Tick", run.run_at, who, "done")]
    if run.fire_at != run.run_at:
        moments.append(Moment("To fire", run.fire_at, "moved by jitter, catch-up or a retry", "done"))
    if run.created_at > run.fire_at:
        moments.append(Moment("Decided", run.created_at, _after(run.fire_at, run.created_at), "done"))
    if run.started_at is not None:
        attempts = f"attempt {run.attempt}"
        moments.append(
            Moment("Launched", run.started_at, f"{attempts}, {_after(run.fire_at, run.started_at)}", "done")
        )
    if run.ended_at is not None and run.started_at is not None:
        end = words.span((run.ended_at - run.started_at).total_seconds())
        failed: Literal["done", "failed"] = "failed" if run.status == "FAILED" else "done"
        moments.append(Moment("Ended", run.ended_at, f"{became(run)}, in {end}", failed))
    elif run.status in {"STARTED", "ENQUEUED"}:
        since = run.started_at or run.created_at
        moments.append(
            Moment("Ends", None, f"not yet, for {words.span((now - since).total_seconds())}", "open")
        )
    else:
        moments.append(Moment("Recorded", run.updated_at, became(run), "done"))
    return moments


def _after(earlier: datetime, later: datetime) -> str:
    return f"{words.span(max(0.0, (later - earlier).total_seconds()))} after its time"
