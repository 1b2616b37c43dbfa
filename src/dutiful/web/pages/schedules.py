"""The list of schedules: find one among many, and see which of them are in trouble."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from dutiful.service.board import Matching
from dutiful.service.types import ScheduleView
from dutiful.web.authorized_service import Reader, Writer
from dutiful.web.drawing.marks import mini
from dutiful.web.pages import words
from dutiful.web.pages.forms import NOTE_MAX, read_form
from dutiful.web.pages.ledger import one_by_one
from dutiful.web.pages.rendering import LIVE, page
from dutiful.web.pages.schedule import standing

if TYPE_CHECKING:
    from dutiful.service.types import RunView
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

SHOWN = 50
# To change more schedules than this at once, their number must be typed.
TYPED_FROM = 100
STATES = {
    "all": "all",
    "trouble": "in trouble",
    "failed": "failed",
    "skipping": "skipping",
    "running": "running",
    "paused": "paused",
    "aside": "set aside",
}


class SchedulesQuery(BaseModel):
    """The text to find, the state of the schedules, and the cursor of the page."""

    model_config = ConfigDict(extra="forbid")

    q: Annotated[str, Field(max_length=200)] = ""
    state: Literal["all", "trouble", "failed", "skipping", "running", "paused", "aside"] = "all"
    sort: Literal["id", "next"] = "id"
    until: Annotated[str, Field(max_length=64)] | None = None
    cursor: Annotated[str, Field(max_length=1000)] | None = None
    done: Annotated[str, Field(max_length=200)] | None = None


class Filter(NamedTuple):
    """A filter as a text: part of an id, `name=value`, `workflow:NAME` or `user:NAME`."""

    part: str | None = None
    label: str | None = None
    workflow_id: str | None = None
    user_id: str | None = None

    @staticmethod
    def read(text: str) -> Filter:
        """Return the filter that a text means."""
        given = text.strip()
        name, colon, value = given.partition(":")
        if colon and value and name in {"workflow", "user", "label"}:
            key = {"workflow": "workflow_id", "user": "user_id"}.get(name, name)
            return Filter(**{key: value.strip()})
        if "=" in given:
            return Filter(label=given)
        return Filter(part=given or None)

    @property
    def facets(self) -> list[tuple[str, str]]:
        """Return the facets that schedules must have; empty for part of an id, which no index covers."""
        wanted = (("user", self.user_id), ("workflow", self.workflow_id), ("label", self.label))
        return [(name, value) for name, value in wanted if value is not None]


class Line(NamedTuple):
    """One schedule of the list."""

    view: ScheduleView
    standing: tuple[str, str, str]
    when: str
    mini: str
    last: RunView | None


@router.get("/ui/schedules", dependencies=[LIVE])
async def schedules(
    request: Request, authorized: Reader, query: Annotated[SchedulesQuery, Query()]
) -> HTMLResponse:
    """Show schedules, a page at a time."""
    return page("schedules.html", request, every=15, **await facts(authorized, query))


async def facts(authorized: AuthorizedService, query: SchedulesQuery) -> dict[str, Any]:
    """Return all that the list shows."""
    board, owner = authorized.service.board, authorized.tenant
    views, more = await _found(authorized, query)
    latest = await board.latest([view.schedule_id for view in views])
    census = await board.census(owner)
    kinds = [*(await board.trouble_kinds(owner)).values()]
    counts = {
        "all": census.schedules,
        "trouble": len(kinds),
        "failed": kinds.count("failed"),
        "skipping": kinds.count("skipping"),
        "running": len(await board.running_ids(owner)),
        "paused": census.paused,
        "aside": kinds.count("quarantined"),
    }
    return {
        "query": query,
        "states": STATES,
        "counts": counts,
        "lines": [_line(view, latest.get(view.schedule_id, [])) for view in views],
        "more": None if more is None else _link(query, cursor=more),
        "links": {state: _link(query, state=state, cursor=None) for state in STATES},
        "bulk": await _bulk(authorized, query),
        "filtered": bool(query.q) or query.state != "all",
    }


async def _bulk(authorized: AuthorizedService, query: SchedulesQuery) -> Matching | None:
    """Return how many schedules a bulk change would affect; None if the filter allows no bulk change."""
    facets = _own_facets(authorized, Filter.read(query.q))
    if not facets or query.state not in {"all", "paused"}:
        return None
    return await authorized.service.board.matching(facets)


def _own_facets(authorized: AuthorizedService, wanted: Filter) -> list[tuple[str, str]]:
    """Return a filter's facets, limited to the caller's users; empty for other users or without facets."""
    if not wanted.facets or (wanted.user_id is not None and not authorized.caller.acts_for(wanted.user_id)):
        return []
    return wanted._replace(user_id=wanted.user_id or authorized.tenant).facets


class BulkQuery(BaseModel):
    """Which schedules to pause or resume: the text of the filter."""

    model_config = ConfigDict(extra="forbid")

    q: Annotated[str, Field(max_length=200)] = ""
    paused: bool = True


@router.get("/ui/schedules/pause-many")
async def ask_pause_many(
    request: Request, authorized: Reader, query: Annotated[BulkQuery, Query()]
) -> HTMLResponse:
    """Show what pausing or resuming all schedules of a filter would change."""
    return await _ask_many(request, authorized, query)


@router.post("/ui/schedules/pause-many")
async def pause_many(request: Request, authorized: Writer) -> Response:
    """Pause or resume all schedules of a filter."""
    form = await read_form(request)
    query = BulkQuery(q=form.get("q", "")[:200], paused=form.get("paused") == "true")
    wanted, note = Filter.read(query.q), form.get("note", "").strip()
    found = await authorized.service.board.matching(_own_facets(authorized, wanted) or [("user", "")])
    if (problem := _bulk_problem(query, found, note, form.get("typed", ""))) is not None:
        return await _ask_many(request, authorized, query, problem, form)
    given = wanted._replace(user_id=wanted.user_id or authorized.tenant)._asdict()
    filters = {name: value for name, value in given.items() if name != "part"}
    action = "pause" if query.paused else "resume"
    authorized.intend(action, **filters, note=note or None, via="page")
    changed = await authorized.service.registrar.pause_where(query.paused, note or None, **filters)
    authorized.record(action, **filters, changed=changed)
    done = f"{words.counted(changed, 'schedule')} {'paused' if query.paused else 'resumed'}."
    return RedirectResponse(f"/ui/schedules?{urlencode({'q': query.q, 'done': done})}", 303)


def _bulk_problem(query: BulkQuery, found: Matching, note: str, typed: str) -> str | None:
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


async def _ask_many(
    request: Request,
    authorized: AuthorizedService,
    query: BulkQuery,
    problem: str | None = None,
    form: dict[str, str] | None = None,
) -> HTMLResponse:
    facets = _own_facets(authorized, Filter.read(query.q))
    found = await authorized.service.board.matching(facets) if facets else Matching(0, 0, 0)
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
    )


def _link(query: SchedulesQuery, **changes: Any) -> str:
    asked = {**query.model_dump(), **changes}
    usual = SchedulesQuery().model_dump()
    kept = {name: value for name, value in asked.items() if value is not None and value != usual[name]}
    return "/ui/schedules" + (f"?{urlencode(kept)}" if kept else "")


async def _found(
    authorized: AuthorizedService, query: SchedulesQuery
) -> tuple[list[ScheduleView], str | None]:
    """Return the schedules of this page, and the cursor of the next page."""
    registrar, wanted = authorized.service.registrar, Filter.read(query.q)
    if query.state in {"all", "paused"} and wanted.part is None and query.sort == "id":
        owner = authorized.tenant
        if owner is not None and wanted.user_id not in (None, owner):
            return [], None
        listed = await registrar.list_schedules(
            workflow_id=wanted.workflow_id,
            user_id=owner or wanted.user_id,
            paused=True if query.state == "paused" else None,
            label=wanted.label,
            limit=SHOWN,
            cursor=query.cursor,
        )
        return listed.items, listed.next_cursor
    ids, more = await _ids(authorized, query, wanted)
    return await registrar.some_schedules(ids), more


async def _ids(
    authorized: AuthorizedService, query: SchedulesQuery, wanted: Filter
) -> tuple[list[str], str | None]:
    board, owner, after = authorized.service.board, authorized.tenant, query.cursor or ""
    if query.state == "running":
        found = await board.running_ids(owner)
    elif query.state in {"failed", "skipping", "aside", "trouble"}:
        kind = {"aside": "quarantined"}.get(query.state, query.state)
        kinds = await board.trouble_kinds(owner)
        found = sorted(one for one in kinds if kind in {kinds[one], "trouble"})
    elif query.sort == "next":
        groups = await board.soonest(SHOWN, owner)
        return [due.schedule.id for group in groups for due in group.schedules][:SHOWN], None
    else:
        found = await board.find_ids(wanted.part or "", after, SHOWN + 1, owner)
        return found[:SHOWN], found[SHOWN - 1] if len(found) > SHOWN else None
    matching = [one for one in found if one > after and (wanted.part or "") in one]
    return matching[:SHOWN], matching[SHOWN - 1] if len(matching) > SHOWN else None


def _line(view: ScheduleView, runs: list[RunView]) -> Line:
    ticks = [tick for run in reversed(runs) for tick in one_by_one(run)]
    to_come = 0 if view.paused or view.quarantine else min(3, len(view.preview))
    last = runs[0] if runs else None
    return Line(view, standing(view, runs), words.when(view.cron), mini(ticks, to_come), last)
