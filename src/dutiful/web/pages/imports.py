"""Many schedules at once: pasted as JSON, their effect first; and three examples to try."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import TypeAdapter, ValidationError

from dutiful.core.errors import DutifulError
from dutiful.httpd.problems import InvalidRequestError, problems_of
from dutiful.httpd.strict_json import decode
from dutiful.service.declaration import ScheduleInput
from dutiful.service.workflows import WorkflowInput
from dutiful.web.authorized_service import Reader, Writer
from dutiful.web.pages import words
from dutiful.web.pages.forms import read_form
from dutiful.web.pages.rendering import page
from dutiful.web.requests import BulkBody, BulkRequest, ScheduleRequest

if TYPE_CHECKING:
    from datetime import datetime

    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

MOST = 100
"""The most schedules of one import; the effect of each is shown."""
_BULK: TypeAdapter[BulkBody] = TypeAdapter(BulkRequest)
_EXAMPLE = "example"
_EXAMPLES = {
    "heartbeat": ("*/5 * * * *", "UTC"),
    "nightly": ("30 2 * * *", "America/New_York"),
    "weekdays": ("0 9 * * 1-5", "Europe/Berlin"),
}


class Effect(NamedTuple):
    """What storing one schedule would do: whether it is new, which of its settings change, its next tick."""

    schedule_id: str | None
    meaning: str
    is_new: bool
    changed: list[str]
    next_at: datetime | None


def schedules_in(text: str) -> list[ScheduleRequest]:
    """Return the schedules of a JSON text: one object, a list, or a list under `schedules`.

    Raises InvalidJsonError, or InvalidRequestError with every place that is wrong.
    """
    found = decode(text.encode("utf-8", "surrogatepass"))
    given = [found] if isinstance(found, dict) and "schedules" not in found else found
    try:
        schedules = _BULK.validate_python(given).schedules
    except ValidationError as error:
        raise InvalidRequestError(problems_of(error.errors(), BulkBody)) from None
    if len(schedules) > MOST:
        problem = f"{len(schedules):,} are too many to show; `dutiful schedules upsert FILE` takes 10,000"
        raise InvalidRequestError([{"at": "schedules", "problem": problem}])
    return schedules


@router.get("/ui/schedules/import")
async def ask_import(request: Request, authorized: Reader) -> HTMLResponse:
    """Show the form for a text of schedules."""
    del authorized
    return _form(request, "")


@router.post("/ui/schedules/import")
async def take(request: Request, authorized: Reader) -> Response:
    """Show what storing the schedules would do, or store them, which needs the scope `write`."""
    form = await read_form(request)
    text = form.get("text", "")
    if form.get("do") == "store":
        authorized.caller.require("write")
    try:
        schedules = schedules_in(text)
        effects = [await _effect(authorized, place, one.as_input()) for place, one in enumerate(schedules)]
        if form.get("do") != "store":
            return _form(request, text, effects)
        return await _stored(authorized, schedules)
    except DutifulError as error:
        place = error.details.get("at")
        return _form(request, text, problem=f"{place}: {error}" if isinstance(place, str) else str(error))


async def _effect(authorized: AuthorizedService, place: int, given: ScheduleInput) -> Effect:
    found = await authorized.preview(f"schedules.{place}", given)
    next_at = found.preview[0] if found.preview else None
    return Effect(found.schedule_id, found.meaning, found.created, [*found.changed], next_at)


async def _stored(authorized: AuthorizedService, schedules: list[ScheduleRequest]) -> Response:
    given = [{"schedule_id": one.schedule_id, "given": one.as_json(), "via": "page"} for one in schedules]
    authorized.intend_all("upsert", given)
    stored = await authorized.upsert(
        {f"schedules.{place}": one.as_input() for place, one in enumerate(schedules)}
    )
    authorized.record("upsert", schedule_ids=[one.schedule_id for one in stored])
    new = sum(one.created for one in stored)
    told = f"{words.counted(len(stored), 'schedule')} stored, {new:,} of them new."
    done = f"{told} Nothing of the past became due."
    return RedirectResponse(f"/ui/schedules?{urlencode({'done': done})}", 303)


def _form(
    request: Request, text: str, effects: list[Effect] | None = None, problem: str | None = None
) -> HTMLResponse:
    return page(
        "import.html",
        request,
        200 if problem is None else 422,
        text=text,
        effects=effects or [],
        problem=problem,
        most=MOST,
        new=sum(each.is_new for each in effects or []),
        changed=sum(bool(each.changed) for each in effects or []),
    )


@router.post("/ui/examples")
async def store_examples(request: Request, authorized: Writer) -> Response:
    """Store an empty workflow and three schedules of it, on a service that only this machine can reach."""
    await read_form(request)
    if not authorized.service.settings.is_loopback:
        raise HTTPException(404)
    owner = authorized.caller.user_id
    workflow = WorkflowInput(_EXAMPLE, 1, {}, owner)
    authorized.intend("save_workflow", workflow_id=_EXAMPLE, version=1, via="page")
    stored = await authorized.deploy(workflow, {name: _example(name, owner) for name in _EXAMPLES})
    ids = [one.schedule_id for one in stored]
    authorized.record("save_workflow", workflow_id=_EXAMPLE, version=1, schedules=ids)
    done = "Three examples are stored. Edit them, run them now, or delete them."
    return RedirectResponse(f"/ui/schedules?{urlencode({'q': f'workflow:{_EXAMPLE}', 'done': done})}", 303)


def _example(name: str, owner: str) -> ScheduleInput:
    cron, zone = _EXAMPLES[name]
    return ScheduleInput(_EXAMPLE, 1, owner, cron, f"{_EXAMPLE}.{name}", zone)
