"""Changes to many schedules at once, by a filter or by selected rows: the effect first, then the change."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import Field

from dutiful.core.cron.zone import epoch_ms, rfc_3339
from dutiful.core.errors import DutifulError
from dutiful.httpd.fields import ID_PATTERN, QueryModel
from dutiful.runtime.ports import PausedUntil
from dutiful.service.board import Matching
from dutiful.service.catalog import State
from dutiful.service.declaration import ScheduleView
from dutiful.service.types import Backfilled
from dutiful.web.authorized_service import Reader, Starter, Writer
from dutiful.web.pages import words
from dutiful.web.pages.actions import RefusedBackfillError, backfill_said, period_of
from dutiful.web.pages.forms import NOTE_MAX, read_form
from dutiful.web.pages.pause_end import asked_end, presets
from dutiful.web.pages.rendering import page
from dutiful.web.pages.schedules import SHOWN, STATES, Filter

if TYPE_CHECKING:
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

# To change more schedules than this at once, their number must be typed.
TYPED_FROM = 100
BACKFILLED_MAX = 100
"""The most schedules whose past ticks are run at once."""
TICKS_MAX = 1000
"""The most past ticks of all of them together."""


class BulkQuery(QueryModel):
    """Which schedules to change: those of a filter, or selected ones by their ids, parted by blanks.

    A resumption with a `pause_note` is only of those that are paused with it. `state` is that of the list
    from which the question was asked, and to which it returns.
    """

    q: Annotated[str, Field(max_length=200)] = ""
    ids: Annotated[str, Field(max_length=10_000)] = ""
    paused: bool = True
    pause_note: Annotated[str, Field(max_length=NOTE_MAX)] = ""
    state: State = "all"

    @staticmethod
    def of(form: dict[str, str]) -> BulkQuery:
        """Return the query that a form asks for."""
        named = [each for each in form.get("ids", "").split() if re.fullmatch(ID_PATTERN, each)]
        state = form.get("state", "all")
        return BulkQuery(
            q=form.get("q", "")[:200],
            ids=" ".join(named[:SHOWN]),
            paused=form.get("paused", "true") == "true" and form.get("do") != "resume",
            pause_note=form.get("pause_note", "")[:NOTE_MAX],
            state=state if state in STATES else "all",
        )

    def list_with(self, **said: str) -> str:
        """Return the address of the list from which the question was asked, with something to say there."""
        kept = {"q": self.q, "state": "" if self.state == "all" else self.state, **said}
        given = urlencode({name: value for name, value in kept.items() if value})
        return f"/ui/schedules?{given}" if given else "/ui/schedules"


def own_facets(authorized: AuthorizedService, wanted: Filter) -> list[tuple[str, str]]:
    """Return a filter's facets, limited to the caller's users; empty for other users or without a filter."""
    if wanted == Filter() or not wanted.may_be_seen(authorized):
        return []
    user = wanted.user_id or authorized.tenant
    return [*([] if user is None else [("user", user)]), *wanted.facets]


async def selected(authorized: AuthorizedService, query: BulkQuery) -> list[ScheduleView]:
    """Return the selected schedules that the caller may change."""
    views = await authorized.service.registrar.some_schedules(query.ids.split())
    own = [view for view in views if authorized.caller.acts_for(view.user_id)]
    return [view for view in own if query.pause_note in ("", view.pause_note)]


async def matching(
    authorized: AuthorizedService, query: BulkQuery, until: datetime | None = None
) -> Matching:
    """Return how many schedules are asked for, how many are paused, and how many fire within an hour.

    Of a pause that is asked for, those count as paused that are paused until the same end.
    """
    if query.ids:
        views, soon = await selected(authorized, query), authorized.service.clock.now() + timedelta(hours=1)
        fire = [view for view in views if not view.paused and view.next_run_at and view.next_run_at <= soon]
        paused = [view for view in views if view.paused and (not query.paused or view.pause_until == until)]
        return Matching(len(views), len(paused), len(fire))
    facets = own_facets(authorized, Filter.read(query.q))
    if not facets:
        return Matching(0, 0, 0)
    same_end = PausedUntil(None if until is None else epoch_ms(until))
    found = await authorized.service.board.matching(facets, same_end if query.paused else True)
    if not query.pause_note:
        return found
    return found._replace(paused=await authorized.service.pauses.noted(facets, query.pause_note))


@router.get("/ui/schedules/pause-many")
async def ask_pause_many(
    request: Request, authorized: Reader, query: Annotated[BulkQuery, Query()]
) -> HTMLResponse:
    """Show what pausing or resuming all schedules of a filter would change."""
    return await _ask_pause(request, authorized, query)


@router.post("/ui/schedules/pause-many")
async def pause_many(request: Request, authorized: Writer) -> Response:
    """Ask about, pause or resume schedules of a filter or a selection."""
    form = await read_form(request)
    query, note = BulkQuery.of(form), form.get("note", "").strip()
    if form.get("do"):
        return await _ask_pause(request, authorized, query)
    until, wrong = _asked_end(authorized, query, form)
    found = await matching(authorized, query, until)
    if problem := _pause_problem(query, found, note, form.get("typed", "")) or wrong:
        return await _ask_pause(request, authorized, query, problem, form)
    change = _pause_selected if query.ids else _pause_matching
    changed = await change(authorized, query, note or None, until)
    done = f"{words.counted(changed, 'schedule')} {'paused' if query.paused else 'resumed'}."
    undo = {"undo": note, "ids": query.ids} if query.paused else {}
    return RedirectResponse(query.list_with(done=done, **undo), 303)


def _asked_end(
    authorized: AuthorizedService, query: BulkQuery, form: dict[str, str]
) -> tuple[datetime | None, str]:
    """Return when the pause of a form ends, and the problem with it or ""; a resumption has no end."""
    now = authorized.service.clock.now().astimezone(UTC)
    return asked_end(form, UTC, now) if query.paused else (None, "")


async def _pause_matching(
    authorized: AuthorizedService, query: BulkQuery, note: str | None, until: datetime | None
) -> int:
    wanted = Filter.read(query.q)
    filters = wanted._replace(user_id=wanted.user_id or authorized.tenant)._asdict()
    if query.pause_note:
        filters["pause_note"] = query.pause_note
    action = authorized.intend_pause(query.paused, until, **filters, note=note, via="page")
    by = authorized.caller.user_id
    changed = await authorized.service.registrar.pause_where(
        query.paused, note, **filters, by=by, until=until
    )
    authorized.record(action, **filters, changed=changed)
    return changed


async def _pause_selected(
    authorized: AuthorizedService, query: BulkQuery, note: str | None, until: datetime | None
) -> int:
    views = await selected(authorized, query)
    asked = query.paused, until
    ids = [view.schedule_id for view in views if (view.paused, view.pause_until) != asked]
    action = "pause" if query.paused else "resume"
    end = {} if until is None else {"until": rfc_3339(until)}
    told = [{"schedule_id": each, "note": note, "via": "page", **end} for each in ids]
    authorized.intend_all(action, told)
    for each in ids:
        by = authorized.caller.user_id
        await authorized.service.registrar.pause_schedule(each, query.paused, note, by, until)
    authorized.record(action, schedule_ids=ids)
    return len(ids)


def _pause_problem(query: BulkQuery, found: Matching, note: str, typed: str) -> str | None:
    """Return the problem that prevents a bulk change, None if there is none."""
    count = changing(query, found)
    if count == 0:
        return "Nothing would change."
    if query.paused and (not note or len(note) > NOTE_MAX or not note.isprintable()):
        return f"Write in one line, of at most {NOTE_MAX} characters, why they are paused: others will ask."
    if count > TYPED_FROM and typed.strip().replace(",", "") != str(count):
        return f"Type {count} to change that many."
    return None


def changing(query: BulkQuery, found: Matching) -> int:
    """Return how many schedules would change."""
    return found.schedules - found.paused if query.paused else found.paused


async def _ask_pause(
    request: Request,
    authorized: AuthorizedService,
    query: BulkQuery,
    problem: str | None = None,
    form: dict[str, str] | None = None,
) -> HTMLResponse:
    until, _ = _asked_end(authorized, query, form or {})
    found = await matching(authorized, query, until)
    return page(
        "pause_many.html",
        request,
        200 if problem is None else 422,
        bulk=query,
        found=found,
        changing=changing(query, found),
        must_type=changing(query, found) > TYPED_FROM,
        problem=problem,
        given=form or {},
        presets=presets("UTC"),
    )


class Range(NamedTuple):
    """The past ticks to run: those in [start, end), and what to do where they would overlap."""

    start: datetime
    end: datetime
    overlap: str | None


@router.get("/ui/schedules/backfill-many")
async def ask_backfill_many(
    request: Request, authorized: Reader, query: Annotated[BulkQuery, Query()]
) -> HTMLResponse:
    """Ask which past ticks of all schedules of a filter to run."""
    return await _ask_backfill(request, authorized, query)


@router.post("/ui/schedules/backfill-many")
async def backfill_many(request: Request, authorized: Starter) -> Response:
    """Ask about, forecast or run past ticks of many schedules."""
    form = await read_form(request)
    query = BulkQuery.of(form)
    if form.get("do") == "ask":
        return await _ask_backfill(request, authorized, query)
    try:
        ids, period = await _backfilled_ids(authorized, query), _period(authorized, form)
        found = await _forecast(authorized, ids, period)
        if form.get("do") != "run":
            return await _ask_backfill(request, authorized, query, form=form, forecast=found)
        done = await _run_backfills(authorized, ids, period)
    except DutifulError as error:
        return await _ask_backfill(request, authorized, query, str(error), form)
    told = f"{words.counted(done.accepted, 'past tick')} of {words.counted(len(ids), 'schedule')} will run"
    said = backfill_said(done, told, "overlap")
    return RedirectResponse(query.list_with(done=said), 303)


def _period(authorized: AuthorizedService, form: dict[str, str]) -> Range:
    """Return the period of a form, in UTC; raises RefusedBackfillError where it is none."""
    now = authorized.service.clock.now().astimezone(UTC)
    return Range(*period_of(form, UTC, now), form.get("overlap_policy") or None)


async def _backfilled_ids(authorized: AuthorizedService, query: BulkQuery) -> list[str]:
    """Return the schedules whose ticks are asked for; raises RefusedBackfillError if too many or none are."""
    if query.ids:
        ids = [view.schedule_id for view in await selected(authorized, query)]
    else:
        ids = await _matching_ids(authorized, Filter.read(query.q))
    if not ids:
        raise RefusedBackfillError("No schedule matches.")
    if len(ids) > BACKFILLED_MAX:
        raise RefusedBackfillError(
            f"Past ticks of at most {BACKFILLED_MAX} schedules are run at once; find fewer."
        )
    return ids


async def _matching_ids(authorized: AuthorizedService, wanted: Filter) -> list[str]:
    """Return the ids that a filter finds, and one more than are taken where there are too many."""
    if not own_facets(authorized, wanted):
        return []
    given = wanted._replace(user_id=wanted.user_id or authorized.tenant)._asdict()
    listed = await authorized.service.registrar.list_schedules(**given, limit=BACKFILLED_MAX + 1)
    return [view.schedule_id for view in listed.items]


async def _forecast(authorized: AuthorizedService, ids: list[str], period: Range) -> Backfilled:
    """Return what a backfill of these schedules would do; raises RefusedBackfillError for too many ticks."""
    found = Backfilled(0, 0, 0, 0)
    for each in ids:
        found = total([found, await authorized.service.registrar.foresee_backfill(each, *period)])
        if found.accepted > TICKS_MAX:
            raise RefusedBackfillError(
                f"More than {TICKS_MAX:,} past ticks would run: find fewer schedules, or choose a shorter"
                " time."
            )
    return found


async def _run_backfills(authorized: AuthorizedService, ids: list[str], period: Range) -> Backfilled:
    asked = {
        "start": period.start.isoformat(),
        "end": period.end.isoformat(),
        "overlap_policy": period.overlap,
    }
    lines = [{"schedule_id": each, "given": asked, "via": "page"} for each in ids]
    authorized.intend_all("backfill", lines)
    done = total([await authorized.service.registrar.backfill(each, *period) for each in ids])
    authorized.record("backfill", schedule_ids=ids, accepted=done.accepted)
    return done


def total(each: list[Backfilled]) -> Backfilled:
    """Return the sums of what becomes of the ticks of several backfills."""
    return Backfilled(*map(sum, zip(*each, strict=True)))


async def _ask_backfill(
    request: Request,
    authorized: AuthorizedService,
    query: BulkQuery,
    problem: str | None = None,
    form: dict[str, str] | None = None,
    forecast: Backfilled | None = None,
) -> HTMLResponse:
    found = await matching(authorized, query)
    would = "" if forecast is None else f"{forecast.accepted:,} would run"
    return page(
        "backfill_many.html",
        request,
        200 if problem is None else 422,
        bulk=query,
        found=found,
        most=BACKFILLED_MAX,
        forecast=forecast,
        said="" if forecast is None else backfill_said(forecast, would, "would overlap"),
        problem=problem,
        given=form or {},
    )
