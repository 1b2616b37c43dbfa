"""Run the schedules of a group of failures again: which they are, and one run by hand of each."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import re
import secrets
from datetime import UTC
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import Field

from dutiful.core.errors import InvalidArgumentError, UnknownScheduleError
from dutiful.httpd.fields import ID_PATTERN
from dutiful.service.errors import DamagedScheduleError
from dutiful.web.authorized_service import Reader, Starter
from dutiful.web.pages import words
from dutiful.web.pages.find_runs import find
from dutiful.web.pages.forms import read_form
from dutiful.web.pages.rendering import page
from dutiful.web.pages.runs import GROUPED, Filter, RunsQuery, line_of, link

if TYPE_CHECKING:
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

# Most schedules that one request runs again.
MOST = 100


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
    stored = await authorized.service.registrar.some_schedules(names[:MOST])
    views = [view for view in stored if view.quarantine is None]
    return page(
        "again.html",
        request,
        query=query,
        ids=[view.schedule_id for view in views],
        paused=sum(view.paused for view in views),
        too_many=len(names) if len(names) > MOST else 0,
        most=MOST,
        once=secrets.token_hex(16),
        back=link(RunsQuery(**{name: getattr(query, name) for name in RunsQuery.model_fields})),
    )


@router.post("/ui/runs/again")
async def again(request: Request, authorized: Starter) -> Response:
    """Run each schedule of the form once, in addition to its ticks; the same form sent again runs nothing."""
    form = await read_form(request)
    once = form.get("once", "")[:64]
    ids = [each for each in form.get("schedules", "").split() if re.fullmatch(ID_PATTERN, each)]
    asked = [each for each in dict.fromkeys(ids[:MOST]) if await _run(authorized, each, once)]
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
