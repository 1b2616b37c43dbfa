"""One run: when it was due, launched and done, why, and which runs came before and after it."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse

from dutiful.core.errors import UnknownRunError, UnknownScheduleError
from dutiful.service.types import RunView
from dutiful.web.authorized_service import Reader
from dutiful.web.pages import words
from dutiful.web.pages.ledger import CSS, became, state_of, tick_href
from dutiful.web.pages.rendering import LIVE, page
from dutiful.web.pages.why import why

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)


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
