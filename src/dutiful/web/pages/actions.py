"""Actions on one schedule: run now, pause, resume, backfill, delete. Each asks for confirmation first."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from contextlib import suppress
from datetime import UTC
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from dutiful.core.errors import DutifulError
from dutiful.service.errors import DamagedScheduleError
from dutiful.web import requests
from dutiful.web.authorized_service import Reader, Starter, Writer
from dutiful.web.pages import words
from dutiful.web.pages.forms import NOTE_MAX, read_form
from dutiful.web.pages.pause_end import asked_end, presets
from dutiful.web.pages.rendering import page
from dutiful.web.pages.why import parse_time

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from dutiful.service.types import Backfilled
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)


def back(schedule_id: str, done: str) -> RedirectResponse:
    """Return a redirect to the page of a schedule, which shows the sentence `done`."""
    return RedirectResponse(f"/ui/schedules/{schedule_id}?{urlencode({'done': done})}", 303)


async def _question(
    request: Request,
    authorized: AuthorizedService,
    schedule_id: str,
    action: str,
    status: int = 200,
    **facts: Any,
) -> HTMLResponse:
    view = await authorized.schedule(schedule_id)
    open_runs = [
        run
        for run in (await authorized.service.registrar.runs(schedule_id, 20)).items
        if run.status in {"STARTED", "ENQUEUED"}
    ]
    given = {"problem": None, "given": {}, "forecast": None, **facts}
    return page(
        "action.html",
        request,
        status,
        view=view,
        action=action,
        open_runs=open_runs,
        when=words.when(view.cron),
        presets=presets(view.timezone),
        **given,
    )


@router.get("/ui/schedules/{schedule_id}/run")
@router.get("/ui/schedules/{schedule_id}/pause")
@router.get("/ui/schedules/{schedule_id}/backfill")
@router.get("/ui/schedules/{schedule_id}/delete")
async def ask(request: Request, authorized: Reader, schedule_id: requests.ScheduleId) -> HTMLResponse:
    """Ask whether to run a schedule now, to pause or resume it, to run past ticks, or to delete it."""
    return await _question(request, authorized, schedule_id, request.url.path.rpartition("/")[2])


@router.post("/ui/schedules/{schedule_id}/run")
async def run(request: Request, authorized: Starter, schedule_id: requests.ScheduleId) -> Response:
    """Run a schedule now, in addition to its ticks."""
    await read_form(request)
    await authorized.schedule(schedule_id)
    authorized.intend("trigger", schedule_id=schedule_id, via="page")
    triggered = await authorized.service.registrar.trigger(schedule_id)
    authorized.record("trigger", schedule_id=schedule_id, idempotency_key=triggered.idempotency_key)
    return back(schedule_id, "A run by hand was asked for; it starts beside the ticks of the schedule.")


@router.post("/ui/schedules/{schedule_id}/pause")
async def pause(request: Request, authorized: Writer, schedule_id: requests.ScheduleId) -> Response:
    """Pause a schedule with a note and perhaps an end, or resume it."""
    form = await read_form(request)
    view, paused = await authorized.schedule(schedule_id), form.get("paused") == "true"
    note = form.get("note", "").strip() if paused else ""
    now = authorized.service.clock.now().astimezone(UTC)
    until, problem = asked_end(form, view.cron.zone.tzinfo, now) if paused else (None, "")
    if paused and (not note or len(note) > NOTE_MAX or not note.isprintable()):
        problem = f"Write in one line, of at most {NOTE_MAX} characters, why it is paused: others will ask."
    if problem:
        return await _question(request, authorized, schedule_id, "pause", 422, problem=problem, given=form)
    if (view.paused, view.pause_until, view.pause_note) != (paused, until, note or None):
        asked = {"schedule_id": schedule_id, "note": note or None, "via": "page"}
        action, by = authorized.intend_pause(paused, until, **asked), authorized.caller.user_id
        await authorized.service.registrar.pause_schedule(schedule_id, paused, note or None, by, until)
        authorized.record(action, schedule_id=schedule_id)
    return back(schedule_id, "The schedule is paused." if paused else "The schedule runs again.")


@router.post("/ui/schedules/{schedule_id}/backfill")
async def backfill(request: Request, authorized: Starter, schedule_id: requests.ScheduleId) -> Response:
    """Forecast a backfill, or run it."""
    form = await read_form(request)
    view = await authorized.schedule(schedule_id)
    now = authorized.service.clock.now().astimezone(UTC)
    policy = form.get("overlap_policy") or None
    registrar = authorized.service.registrar
    try:
        start, end = period_of(form, view.cron.zone.tzinfo, now)
        if form.get("do") != "run":
            found = await registrar.foresee_backfill(schedule_id, start, end, policy)
            said = backfill_said(found, f"{found.accepted:,} would run", "would overlap")
            forecast = {"ticks": sum(found), "said": said}
            return await _question(
                request, authorized, schedule_id, "backfill", given=form, forecast=forecast
            )
        asked = {"start": start.isoformat(), "end": end.isoformat(), "overlap_policy": policy}
        authorized.intend("backfill", schedule_id=schedule_id, given=asked, via="page")
        done = await registrar.backfill(schedule_id, start, end, policy)
    except DutifulError as error:
        return await _question(
            request, authorized, schedule_id, "backfill", 422, problem=str(error), given=form
        )
    authorized.record("backfill", schedule_id=schedule_id, accepted=done.accepted)
    runs = f"{words.counted(done.accepted, 'past tick')} will run"
    return back(schedule_id, backfill_said(done, runs, "overlap"))


class RefusedBackfillError(DutifulError):
    """Past ticks are asked for in a way that cannot be meant."""


def period_of(form: dict[str, str], zone: tzinfo, now: datetime) -> tuple[datetime, datetime]:
    """Return the start and the end in a form; raises RefusedBackfillError where they are no period."""
    start, wrong_start = parse_time(form.get("start", ""), zone, now)
    end, wrong_end = parse_time(form.get("end", ""), zone, now)
    if start is None or end is None:
        raise RefusedBackfillError(wrong_start or wrong_end)
    if end.astimezone(UTC) <= start.astimezone(UTC):
        raise RefusedBackfillError("The end must be after the start.")
    return start, end


def backfill_said(done: Backfilled, runs: str, overlaps: str) -> str:
    """Return what becomes of the ticks of a backfill, in one line."""
    others = [
        (done.overlapping, overlaps),
        (done.unknown, "may have run: their entries are pruned"),
    ]
    parts = [runs, f"{done.already_recorded:,} ran already"]
    return ", ".join(parts + [f"{count:,} {verb}" for count, verb in others if count]) + "."


@router.post("/ui/schedules/{schedule_id}/delete")
async def delete(request: Request, authorized: Writer, schedule_id: requests.ScheduleId) -> Response:
    """Delete a schedule if its id was typed as confirmation."""
    form = await read_form(request)
    with suppress(DamagedScheduleError):
        await authorized.demand_schedule(schedule_id)
    if form.get("typed", "").strip() != schedule_id:
        problem = f"Type {schedule_id} to delete it: its history goes with it."
        # The question about a schedule that cannot be read is on the page of that error.
        request.state.refused = problem
        return await _question(request, authorized, schedule_id, "delete", 422, problem=problem, given=form)
    authorized.intend("delete", schedule_id=schedule_id, via="page")
    await authorized.service.registrar.delete_schedule(schedule_id)
    authorized.record("delete", schedule_id=schedule_id)
    return RedirectResponse("/ui/schedules", 303)
