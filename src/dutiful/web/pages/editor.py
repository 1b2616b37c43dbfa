"""The editor: a schedule as a form that shows which fire times change before anything is saved."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import hashlib
import json
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from dutiful.core.cron.cron import Cron
from dutiful.core.errors import DutifulError, InvalidArgumentError
from dutiful.httpd.instants import rfc_3339
from dutiful.service.types import ScheduleInput
from dutiful.web import requests
from dutiful.web.authorized_service import Reader, Writer
from dutiful.web.drawing.matrix import Became, Year, year
from dutiful.web.pages import words
from dutiful.web.pages.actions import back
from dutiful.web.pages.cron_lab import PRESETS, Meaning, meaning
from dutiful.web.pages.forms import read_form
from dutiful.web.pages.ledger import clock_changes
from dutiful.web.pages.rendering import page
from dutiful.web.pages.words import CATCHUPS, FOLDS, GAPS, OVERLAPS

if TYPE_CHECKING:
    from dutiful.service.types import ScheduleView
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

_DIFF_TICKS_MAX = 10_000
_HORIZONS = (*(timedelta(days=days) for days in (365, 30, 7, 1)), timedelta(hours=1))
_DIFF_ROWS = 8
_MINUTE, _NEAR = 60_000, 1_800_000
_TEXTS = ("workflow_id", "user_id", "cron_expr", "timezone")
_CHOICES = ("dialect", "gap", "fold", "overlap_policy", "catchup_policy", "delivery")
_NUMBERS = {"version": int, "jitter_ms": int, "grace_s": float, "run_timeout_s": float, "queue_limit": int}
NEW = {
    "schedule_id": "", "workflow_id": "", "version": "1", "user_id": "", "labels": "",
    "cron_expr": "30 2 * * *", "timezone": "UTC", "dialect": "standard", "gap": "run_after", "fold": "first",
    "overlap_policy": "skip", "catchup_policy": "none", "delivery": "at_least_once", "jitter_ms": "0",
    "grace_s": "60", "run_timeout_s": "3600", "queue_limit": "1000",
}  # fmt: skip


class Row(NamedTuple):
    """One day of the comparison: the old fire time, the new one, and the change in words."""

    day: date
    old: str
    new: str
    change: str


class Changes(NamedTuple):
    """The effect of an edit on the fire times `within` a time from now; `rows` has the first changed days."""

    within: timedelta
    before: int
    after: int
    moved: int
    added: int
    removed: int
    rows: list[Row]
    year_wide: str
    year_narrow: str

    @property
    def said(self) -> str:
        """Return the numbers in one line."""
        parts = [(self.moved, "move"), (self.removed, "go"), (self.added, "are new")]
        told = [f"{count:,} {verb}" for count, verb in parts if count]
        return f"Fire times: {', '.join(told)}." if told else "No fire time changes."


class Load(NamedTuple):
    """The ticks of the stored schedules in the minute `at`, and in the fullest minute near it."""

    at: datetime
    ticks: int
    fullest: datetime
    most: int


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
async def save_new(request: Request, authorized: Writer) -> Response:
    """Preview or store a new schedule."""
    given = {**NEW, **await read_form(request)}
    return await _answer(request, authorized, given, None)


@router.get("/ui/schedules/{schedule_id}/edit")
async def ask_edit(request: Request, authorized: Reader, schedule_id: requests.ScheduleId) -> HTMLResponse:
    """Show the form of a schedule as it is stored."""
    view = await authorized.schedule(schedule_id)
    return await _form(request, authorized, _given(view), view)


@router.post("/ui/schedules/{schedule_id}/edit")
async def save_edit(request: Request, authorized: Writer, schedule_id: requests.ScheduleId) -> Response:
    """Preview or store an edit."""
    view = await authorized.schedule(schedule_id)
    given = {**_given(view), **await read_form(request), "schedule_id": schedule_id}
    return await _answer(request, authorized, given, view)


async def _answer(
    request: Request, authorized: AuthorizedService, given: dict[str, str], view: ScheduleView | None
) -> Response:
    if given.get("do") != "save":
        return await _form(request, authorized, given, view)
    if view is not None and given.get("seen", _seen(view)) != _seen(view):
        return await _form(request, authorized, given, view, overtaken=_differing(given, view))
    try:
        wanted = _input(given, view)
        authorized.intend("upsert", schedule_id=wanted.schedule_id, given=_plain(wanted), via="page")
        [stored] = await authorized.upsert({"": wanted})
    except DutifulError as error:
        return await _form(request, authorized, given, view, problem=error)
    authorized.record("upsert", schedule_id=stored.schedule_id)
    return back(stored.schedule_id, "The schedule is stored. Nothing of the past became due.")


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
    texts = {name: getattr(view, name) for name in (*_TEXTS, *_CHOICES, *_NUMBERS)}
    shown = {
        name: "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in texts.items()
    }
    labels = ", ".join(f"{name}={value}" for name, value in view.labels.items())
    return {**shown, "schedule_id": view.schedule_id, "labels": labels}


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
    wanted |= {"labels": _labels(given["labels"]), "paused": None, "dst": None}
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


def _labels(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
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
    dst = {"gap": given["gap"], "fold": given["fold"]}
    old = None if view is None else view.cron
    # The comparison with the stored cron has a drawing of its own.
    told = meaning(given["cron_expr"], given["timezone"], now, given["dialect"], draws=old is None, **dst)
    return page(
        "editor.html",
        request,
        409 if overtaken is not None else 200 if problem is None else 422,
        given=given,
        # A preview shows what is stored by now, but the form was filled in from what was seen before.
        seen="" if view is None else given.get("seen", _seen(view)) if overtaken is None else _seen(view),
        overtaken=overtaken,
        body=_body(given, view),
        base=str(request.base_url).rstrip("/"),
        load=None if told.cron is None else await _load(authorized, told.fires),
        view=view,
        meaning=told,
        changes=_compared(old, told, now),
        problem=None if problem is None else str(problem),
        was=None if old is None or told.cron == old else words.when(old),
        presets=PRESETS,
        overlaps=OVERLAPS,
        catchups=CATCHUPS,
        gaps=GAPS,
        folds=FOLDS,
    )


def _body(given: dict[str, str], view: ScheduleView | None) -> str:
    """Return the JSON with which the API stores the same; nothing where the form cannot be stored."""
    try:
        wanted = _plain(_input(given, view))
    except DutifulError:
        return ""
    return json.dumps(wanted, indent=2)


async def _load(authorized: AuthorizedService, fires: list[datetime]) -> Load | None:
    """Return how many ticks of all schedules fall in the minute of the next fire time, and near it."""
    if not fires:
        return None
    at = int(fires[0].timestamp()) // 60 * 60_000
    near = await authorized.service.board.forecast(at - _NEAR, at + _NEAR, _MINUTE, authorized.tenant)
    fullest = max(near, key=lambda begin: near[begin], default=at)
    zone = fires[0].tzinfo
    return Load(fires[0], near.get(at, 0), datetime.fromtimestamp(fullest / 1000, zone), near.get(fullest, 0))


def _compared(old: Cron | None, told: Meaning, now: datetime) -> Changes | None:
    return None if old is None or told.cron is None else compare(old, told.cron, now)


def compare(old: Cron, new: Cron, now: datetime) -> Changes:
    """Return the fire times that an edit moves, adds and removes, within a year or as far as listed."""
    within = _comparable(old, new, now)
    end = now + within
    before = {at.astimezone(UTC): at for at in old.between(now + timedelta(seconds=1), end)}
    after = before
    if new != old:
        after = {at.astimezone(UTC): at for at in new.between(now + timedelta(seconds=1), end)}
    gone = _by_day(at for instant, at in before.items() if instant not in after)
    come = _by_day(at for instant, at in after.items() if instant not in before)
    moved = sum(min(len(gone[day]), len(come.get(day, ()))) for day in gone)
    removed, added = sum(map(len, gone.values())) - moved, sum(map(len, come.values())) - moved
    days = _days(before.values(), after.values(), gone, come)
    today = now.astimezone(new.zone.tzinfo).date()
    ringed = frozenset(
        change.at.astimezone(new.zone.tzinfo).date() for change in clock_changes(new.zone, now, end)
    )
    rows = [_row(day, gone.get(day, []), come.get(day, [])) for day in sorted({*gone, *come})[:_DIFF_ROWS]]
    drawn = Year(today, days, ringed)
    pictures = year(drawn), year(drawn._replace(weeks=22), "narrow")
    return Changes(within, len(before), len(after), moved, added, removed, rows, *pictures)


def _comparable(old: Cron, new: Cron, now: datetime) -> timedelta:
    """Return the longest of a few periods in which neither cron has too many ticks to compare."""
    begin = int(now.timestamp())
    for within in _HORIZONS:
        end = begin + int(within.total_seconds())
        if max(old.count_epoch(begin, end), new.count_epoch(begin, end)) <= _DIFF_TICKS_MAX:
            return within
    return _HORIZONS[-1]


def _by_day(instants: Any) -> dict[date, list[datetime]]:
    days: dict[date, list[datetime]] = {}
    for at in instants:
        days.setdefault(at.date(), []).append(at)
    return days


def _days(before: Any, after: Any, gone: dict[date, Any], come: dict[date, Any]) -> dict[date, Became]:
    days: dict[date, Became] = {at.date(): "same" for at in (*before, *after)}
    for day in {*gone, *come}:
        days[day] = "moved" if day in gone and day in come else "removed" if day in gone else "added"
    return days


def _row(day: date, gone: list[datetime], come: list[datetime]) -> Row:
    old, new = (", ".join(words.clock(at) for at in found[:3]) for found in (gone, come))
    if len(gone) == len(come) == 1:
        seconds = (come[0] - gone[0]).total_seconds()
        change = f"{'+' if seconds > 0 else '−'}{words.span(abs(seconds))}"
    else:
        change = "removed" if not come else "new" if not gone else f"{len(gone)} become {len(come)}"
    return Row(day, old, new, change)
