"""The list of schedules: find one among many, and see which of them are in trouble."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import Field

from dutiful.core.cron.zone import epoch_ms, rfc_3339
from dutiful.httpd.fields import Instant, QueryModel
from dutiful.runtime.ports import PART_OF_ID
from dutiful.service.catalog import READ_MAX, Listed, Order, State, Wanted
from dutiful.service.declaration import ScheduleView
from dutiful.service.views import view_run
from dutiful.web.authorized_service import Reader
from dutiful.web.drawing.marks import mini
from dutiful.web.pages import words
from dutiful.web.pages.forms import NOTE_MAX
from dutiful.web.pages.ledger_entries import beads
from dutiful.web.pages.rendering import LIVE, page
from dutiful.web.pages.schedule import standing

if TYPE_CHECKING:
    from dutiful.core.run import Run
    from dutiful.service.types import RunView
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

SHOWN = 50
# A row names so many labels, because a page has fifty rows; the page of the schedule names all of them.
LABELS_SHOWN = 2
STATES: dict[State, str] = {
    "all": "all",
    "trouble": "in trouble",
    "failed": "failed",
    "skipping": "skipping",
    "running": "running",
    "paused": "paused",
    "aside": "set aside",
}
# The states whose lists begin with the schedules that cannot be read; no other list has them.
_WITH_DAMAGED = {"all", "trouble", "aside"}
ORDERS: dict[Order, str] = {"id": "by id", "next": "soonest first", "trouble": "worst first"}


class SchedulesQuery(QueryModel):
    """The text to find, the state of the schedules, when they are due, their order, and the page."""

    q: Annotated[str, Field(max_length=200)] = ""
    state: State = "all"
    sort: Order = "id"
    since: Instant | None = None
    until: Instant | None = None
    # Only those that have been paused for longer than this.
    older: Literal["30d"] | None = None
    cursor: Annotated[str, Field(max_length=1000)] | None = None
    done: Annotated[str, Field(max_length=200)] | None = None
    # The note and the ids of a pause of many that was just made, by which it can be undone.
    undo: Annotated[str, Field(max_length=NOTE_MAX)] | None = None
    ids: Annotated[str, Field(max_length=10_000)] | None = None

    @property
    def is_timed(self) -> bool:
        """Return whether only schedules with a next tick in some time are asked for."""
        return self.since is not None or self.until is not None


class Filter(NamedTuple):
    """A filter as a text: part of an id, `name=value`, `workflow:NAME` or `user:NAME`."""

    part: str | None = None
    label: str | None = None
    workflow_id: str | None = None
    user_id: str | None = None

    @staticmethod
    def read(text: str) -> Filter:
        """Return the filter that a text means; characters that no store can search for are left out."""
        given = "".join(each for each in text if each.isprintable()).strip()
        name, colon, value = given.partition(":")
        if colon and value and name in {"workflow", "user", "label"}:
            key = {"workflow": "workflow_id", "user": "user_id"}.get(name, name)
            return Filter(**{key: value.strip()})
        if "=" in given:
            return Filter(label=given)
        return Filter(part=given or None)

    @property
    def facets(self) -> list[tuple[str, str]]:
        """Return the facets that schedules must have, but for that of the user."""
        wanted = (("workflow", self.workflow_id), ("label", self.label), (PART_OF_ID, self.part))
        return [(name, value) for name, value in wanted if value is not None]

    def may_be_seen(self, authorized: AuthorizedService) -> bool:
        """Return whether the caller may see schedules of the user that the filter names."""
        return self.user_id is None or authorized.caller.acts_for(self.user_id)


class Line(NamedTuple):
    """One schedule of the list."""

    view: ScheduleView
    standing: tuple[str, str, str]
    when: str
    mini: str
    last: RunView | None
    # The labels that the row shows, and how many more there are.
    labels: list[tuple[str, str]]
    more_labels: int


@router.get("/ui/schedules", dependencies=[LIVE])
async def schedules(
    request: Request, authorized: Reader, query: Annotated[SchedulesQuery, Query()]
) -> HTMLResponse:
    """Show schedules, a page at a time."""
    return page("schedules.html", request, every=15, **await facts(authorized, query))


async def facts(authorized: AuthorizedService, query: SchedulesQuery) -> dict[str, Any]:
    """Return all that the list shows."""
    found, counts = await _found(authorized, query)
    damaged = await authorized.damaged() if _is_whole(query) else []
    views, latest = await asyncio.gather(
        authorized.service.registrar.views(found.schedules),
        authorized.service.board.latest([due.schedule.id for due in found.schedules]),
    )
    no_such = bool(query.q) and not counts["all"]
    return {
        "query": query,
        "states": STATES,
        "orders": ORDERS,
        "counts": with_damaged(counts, len(damaged)),
        "lines": [_line(view, latest.get(view.schedule_id, [])) for view in views],
        "more": None if found.cursor is None else _link(query, cursor=found.cursor),
        "cut": READ_MAX if found.cut and found.cursor is None else None,
        "links": {state: _link(query, state=state, older=None, cursor=None) for state in STATES},
        "sorts": {order: _link(query, sort=order, cursor=None) for order in ORDERS},
        "any_time": _link(query, since=None, until=None, cursor=None),
        "any_age": _link(query, older=None, cursor=None) if query.older else None,
        "bulk": not query.older
        and bool(Filter.read(query.q) != Filter())
        and query.state in {"all", "paused"},
        "json": _json(query),
        "undo": _undo(query),
        "near": await authorized.near_ids(query.q.strip()) if no_such else [],
        "filtered": bool(query.q) or query.state != "all" or query.is_timed,
        "damaged": damaged if query.cursor is None and query.state in _WITH_DAMAGED else [],
    }


def _is_whole(query: SchedulesQuery) -> bool:
    """Return whether the list is of all schedules, so that those that cannot be read belong to it."""
    return not query.q and not query.is_timed


def with_damaged(counts: dict[State, int], damaged: int) -> dict[State, int]:
    """Return how many schedules are in each state, with those that cannot be read."""
    return {state: number + damaged * (state in _WITH_DAMAGED) for state, number in counts.items()}


async def _found(authorized: AuthorizedService, query: SchedulesQuery) -> tuple[Listed, dict[State, int]]:
    """Return the schedules of this page, and how many of the filter are in each state."""
    wanted = Filter.read(query.q)
    if not wanted.may_be_seen(authorized):
        return Listed([], None), dict.fromkeys(STATES, 0)
    owner = wanted.user_id or authorized.tenant
    listed, counts = await authorized.service.catalog.find(
        Wanted(
            wanted.facets,
            owner,
            query.state,
            query.sort,
            None if query.since is None else epoch_ms(query.since),
            None if query.until is None else epoch_ms(query.until),
        ),
        query.cursor,
        SHOWN,
    )
    if query.older and query.state == "paused":
        listed = Listed(await authorized.service.pauses.old_ones(wanted.facets, owner, SHOWN), None)
    return listed, counts


def _json(query: SchedulesQuery) -> str | None:
    """Return the address of the same list in the API; None where the API has no such filter."""
    wanted = Filter.read(query.q)
    if query.state not in {"all", "paused"} or query.is_timed or query.older:
        return None
    given = {**wanted._asdict(), "paused": "true" if query.state == "paused" else None}
    given["find"] = given.pop("part")
    kept = {name: value for name, value in given.items() if value is not None}
    return "/schedules" + (f"?{urlencode(kept)}" if kept else "")


def _undo(query: SchedulesQuery) -> str | None:
    """Return the address of the question that undoes the pause of many that was just made."""
    if not query.undo:
        return None
    asked = {
        "q": query.q,
        "ids": query.ids,
        "paused": "false",
        "pause_note": query.undo,
        "state": query.state,
    }
    return f"/ui/schedules/pause-many?{urlencode({name: value for name, value in asked.items() if value})}"


def _link(query: SchedulesQuery, **changes: Any) -> str:
    asked = {**query.model_dump(), "done": None, "undo": None, "ids": None, **changes}
    usual = SchedulesQuery().model_dump()
    kept = {
        name: rfc_3339(value) if isinstance(value, datetime) else value
        for name, value in asked.items()
        if value is not None and value != usual[name]
    }
    return "/ui/schedules" + (f"?{urlencode(kept)}" if kept else "")


def _line(view: ScheduleView, rows: list[Run]) -> Line:
    to_come = 0 if view.paused or view.quarantine else min(3, len(view.preview))
    last = view_run(rows[0]) if rows else None
    drawn, labels = mini(beads(rows), to_come, "plot mini"), [*view.labels.items()]
    shown = labels[:LABELS_SHOWN]
    more = len(labels) - len(shown)
    return Line(view, standing(view, last), words.when(view.cron), drawn, last, shown, more)
