"""The editor: a schedule as a form that shows which fire times change before anything is saved."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from dutiful.core.cron.zone import read_instant, rfc_3339
from dutiful.core.errors import DutifulError, InvalidArgumentError, InvalidCronExpressionError
from dutiful.service.declaration import ScheduleInput
from dutiful.service.errors import OutdatedPlanError
from dutiful.web import requests
from dutiful.web.authorized_service import Reader
from dutiful.web.pages import words
from dutiful.web.pages.actions import back
from dutiful.web.pages.cron_lab import PRESETS, Meaning, load_near, meaning, with_year, zone_options
from dutiful.web.pages.fire_time_changes import Changes, compare
from dutiful.web.pages.forms import read_form
from dutiful.web.pages.rendering import page
from dutiful.web.pages.words import CATCHUPS, FOLDS, GAPS, OVERLAPS

if TYPE_CHECKING:
    from dutiful.service.declaration import ScheduleView
    from dutiful.service.types import Upserted
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

_TEXTS = ("workflow_id", "user_id", "cron_expr", "timezone")
_CHOICES = ("dialect", "gap", "fold", "overlap_policy", "catchup_policy", "delivery")
_NUMBERS = {
    "version": int, "jitter_ms": int, "grace_s": float, "run_timeout_s": float, "queue_limit": int,
    "retry_limit": int, "retry_delay_s": float, "retry_backoff": int,
}  # fmt: skip
_TIMES = ("start_at", "end_at")
# A comma or the end of a label, and the backslashes before it: commas separate labels.
_COMMA_OR_END = re.compile(r"(\\*)(,|$)")
NEW = {
    "schedule_id": "", "workflow_id": "", "version": "1", "user_id": "", "labels": "",
    "cron_expr": "30 2 * * *", "timezone": "UTC", "dialect": "standard", "gap": "run_after", "fold": "first",
    "overlap_policy": "skip", "catchup_policy": "none", "delivery": "at_least_once", "jitter_ms": "0",
    "grace_s": "60", "run_timeout_s": "3600", "queue_limit": "1000",
    "retry_limit": "0", "retry_delay_s": "0", "retry_backoff": "1", "start_at": "", "end_at": "",
    "calendar": "",
}  # fmt: skip


@router.get("/ui/schedules/new")
async def ask_new(
    request: Request,
    authorized: Reader,
    e: Annotated[str, Query(max_length=256)] = NEW["cron_expr"],
    id: Annotated[str, Query(max_length=128)] = "",  # noqa: A002
) -> HTMLResponse:
    """Show an empty form, with a cron text to start from, and the id of a schedule to store again."""
    given = {**NEW, "user_id": authorized.caller.user_id, "cron_expr": e, "schedule_id": id}
    return await _form(request, authorized, given, None)


@router.post("/ui/schedules/new")
async def save_new(request: Request, authorized: Reader) -> Response:
    """Preview a new schedule, or store it, which needs the scope `write`."""
    given = {**NEW, **await read_form(request)}
    return await _answer(request, authorized, given, None)


@router.get("/ui/schedules/{schedule_id}/edit")
async def ask_edit(
    request: Request,
    authorized: Reader,
    schedule_id: requests.ScheduleId,
    e: Annotated[str | None, Query(max_length=256)] = None,
) -> HTMLResponse:
    """Show the form of a schedule as it is stored, or with another cron text to start from."""
    view = await authorized.schedule(schedule_id)
    given = _given(view) if e is None else {**_given(view), "cron_expr": e}
    return await _form(request, authorized, given, view)


@router.post("/ui/schedules/{schedule_id}/edit")
async def save_edit(request: Request, authorized: Reader, schedule_id: requests.ScheduleId) -> Response:
    """Preview an edit, or store it, which needs the scope `write`."""
    view = await authorized.schedule(schedule_id)
    given = {**_given(view), **await read_form(request), "schedule_id": schedule_id}
    return await _answer(request, authorized, given, view)


async def _answer(
    request: Request, authorized: AuthorizedService, given: dict[str, str], view: ScheduleView | None
) -> Response:
    given["dialect"] = given.pop("use_dialect", given["dialect"])
    if given.get("do") != "save":
        return await _form(request, authorized, given, view)
    authorized.caller.require("write")
    if view is not None and given.get("seen", _seen(view)) != _seen(view):
        return await _form(request, authorized, given, view, overtaken=_differing(given, view))
    try:
        wanted = _input(given, view)
        authorized.intend("upsert", schedule_id=wanted.schedule_id, given=_plain(wanted), via="page")
        [stored] = await _stored(authorized, wanted, is_new=view is None)
    except DutifulError as error:
        return await _form(request, authorized, given, view, problem=error)
    authorized.record("upsert", schedule_id=stored.schedule_id)
    return back(stored.schedule_id, "The schedule is stored. Nothing of the past became due.")


async def _stored(authorized: AuthorizedService, wanted: ScheduleInput, *, is_new: bool) -> list[Upserted]:
    """Store the schedule; raises InvalidArgumentError for a new one whose id is taken."""
    # A revision of None stands for a schedule that is not stored.
    revisions = {str(wanted.schedule_id): None} if is_new else {}
    try:
        return await authorized.upsert({"": wanted}, revisions)
    except OutdatedPlanError:
        advice = "is taken; edit that schedule, or choose another id"
        raise InvalidArgumentError("schedule_id", wanted.schedule_id, advice) from None


def _plain(wanted: ScheduleInput) -> dict[str, Any]:
    """Return the requested schedule in values that JSON can hold."""
    told = {name: value for name, value in wanted._asdict().items() if value is not None}
    return {name: _as_json(value) for name, value in told.items()}


def _as_json(value: object) -> object:
    if isinstance(value, (int, float, bool, dict)):
        return value
    if isinstance(value, datetime):
        return rfc_3339(value)
    return [*value] if isinstance(value, (list, tuple)) else str(value)


def _given(view: ScheduleView) -> dict[str, str]:
    """Return a stored schedule as the fields of the form."""
    shown = {
        name: _written(getattr(view, name))
        for name in (*_TEXTS, *_CHOICES, *_NUMBERS, *_TIMES, "calendar", "labels")
    }
    return {**shown, "schedule_id": view.schedule_id}


def _written(value: object) -> str:
    """Return a stored value as the text of its field."""
    match value:
        case None:
            return ""
        case datetime():
            return rfc_3339(value)
        case float():
            # With all digits: a rounded number would be stored by an edit of another field.
            return repr(value).removesuffix(".0")
        case Mapping():
            return ", ".join(f"{name}={_escaped(text)}" for name, text in value.items())
        case list() | tuple():
            return ", ".join(value)
        case _:
            return str(value)


def _seen(view: ScheduleView) -> str:
    """Return a short text that differs for every other state of the fields that the form shows."""
    return hashlib.sha256(json.dumps(_given(view), sort_keys=True).encode()).hexdigest()[:16]


def _differing(given: dict[str, str], view: ScheduleView) -> list[tuple[str, str, str]]:
    """Return the fields in which the form differs from the stored schedule: name, stored, in the form."""
    return [(name, stored, given[name]) for name, stored in _given(view).items() if given[name] != stored]


def _input(given: dict[str, str], view: ScheduleView | None) -> ScheduleInput:
    """Return the schedule to store: the stored one, with the values of the form in place of its own.

    An upsert declares the whole schedule, so settings that the form does not show are carried over.
    """
    known: dict[str, Any] = (
        {}
        if view is None
        else {name: getattr(view, name) for name in ScheduleInput._fields if hasattr(view, name)}
    )
    wanted = {**known, **{name: given[name].strip() for name in (*_TEXTS, *_CHOICES)}}
    wanted |= {name: _number(name, given[name], kind) for name, kind in _NUMBERS.items()}
    wanted |= {name: read_instant(name, given[name]) if given[name].strip() else None for name in _TIMES}
    wanted |= {"labels": _labels(given["labels"]), "calendar": _days(given["calendar"]) or None, "dst": None}
    if view is not None and given["labels"] == _written(view.labels):
        # The text loses blanks at the ends of a label.
        wanted["labels"] = view.labels
    # An upsert without `paused` leaves the pause as it is: pausing is for operators.
    wanted |= {"paused": None, "pause_until": None}
    if view is None:
        wanted["schedule_id"] = given["schedule_id"].strip() or None
    return ScheduleInput(**wanted)


def _number(name: str, text: str, kind: type) -> Any:
    if name == "run_timeout_s" and not text.strip():
        return None
    try:
        return kind(text)
    except ValueError:
        raise InvalidArgumentError(name, text, "write a number") from None


def _days(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _escaped(text: str) -> str:
    """Return the text of a label with a backslash before commas, and before backslashes that lead to one."""
    return _COMMA_OR_END.sub(lambda found: 2 * found[1] + ("\\," if found[2] else ""), text)


def _unescaped(text: str) -> list[str]:
    """Return the labels in a text, which commas without a backslash separate."""
    found, last = [""], 0
    for mark in _COMMA_OR_END.finditer(text):
        pairs, single = divmod(len(mark[1]), 2)
        found[-1] += text[last : mark.start()] + "\\" * pairs
        if mark[2] and not single:
            found.append("")
        elif single:
            found[-1] += mark[2] or "\\"
        last = mark.end()
    return found


def _labels(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in _unescaped(text) if part.strip()]
    for name, equals, _ in pairs:
        if not equals:
            raise InvalidArgumentError("labels", name.strip(), "write name=value, with commas between them")
    return {name.strip(): value.strip() for name, _, value in pairs}


async def _form(
    request: Request,
    authorized: AuthorizedService,
    given: dict[str, str],
    view: ScheduleView | None,
    problem: DutifulError | None = None,
    overtaken: list[tuple[str, str, str]] | None = None,
) -> HTMLResponse:
    now = authorized.service.clock.now().astimezone(UTC)
    told, changes = _effect(given, view, now)
    wanted, errors = _checked(given, view)
    if told.problem is not None:
        errors[told.blames] = told.problem
    if problem is not None:
        errors[blamed(problem)] = str(problem)
    return page(
        "editor.html",
        request,
        409 if overtaken is not None else 200 if problem is None else 422,
        given=given,
        # A preview shows what is stored by now, but the form was filled in from what was seen before.
        seen="" if view is None else given.get("seen", _seen(view)) if overtaken is None else _seen(view),
        overtaken=overtaken,
        body=None if wanted is None else json.dumps(_plain(wanted), indent=2),
        # Without a workflow the form is still being filled in.
        obstacles=await authorized.obstacles(wanted) if wanted is not None and wanted.workflow_id else [],
        base=str(request.base_url).rstrip("/"),
        load=None if told.cron is None else await load_near(authorized, told.fires),
        view=view,
        meaning=told,
        changes=changes,
        problem=problem,
        blamed=None if problem is None else blamed(problem),
        errors=errors,
        before={} if view is None else {name: stored for name, stored, _ in _differing(given, view)},
        was=None if view is None or told.cron == view.cron else words.when(view.cron),
        presets=PRESETS,
        zones=zone_options(),
        overlaps=OVERLAPS,
        catchups=CATCHUPS,
        gaps=GAPS,
        folds=FOLDS,
    )


def _effect(
    given: dict[str, str], view: ScheduleView | None, now: datetime
) -> tuple[Meaning, Changes | None]:
    """Return the meaning of the cron in the form, and the difference from the stored one."""
    told = meaning(
        given["cron_expr"],
        given["timezone"],
        now,
        given["dialect"],
        gap=given["gap"],
        fold=given["fold"],
        calendar=_days(given["calendar"]),
    )
    changes = None if view is None or told.cron is None else compare(view.cron, told.cron, now)
    # A comparison of a year has a drawing of its own.
    drawn = changes is not None and changes.is_whole_year
    return told if drawn else with_year(told, now), changes


def blamed(error: DutifulError) -> str:
    """Return the field of the form that an error is about; nothing if it is about none."""
    if isinstance(error, InvalidCronExpressionError):
        return "cron_expr"
    named = str(error.details.get("argument", "")).partition(".")[0]
    return next((name for name in (named, *error.details) if name in NEW), "")


def _checked(given: dict[str, str], view: ScheduleView | None) -> tuple[ScheduleInput | None, dict[str, str]]:
    """Return the schedule that the form describes, or the field that prevents it, and why."""
    try:
        return _input(given, view), {}
    except DutifulError as error:
        return None, {blamed(error): str(error)}
