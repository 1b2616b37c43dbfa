"""Pages about the service itself and its user: why, more, theme, system, audit."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC
from pathlib import Path as File
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, ConfigDict, Field

from dutiful.core.errors import UnknownScheduleError
from dutiful.httpd.audit_chain import AuditFileError, verify
from dutiful.service.settings import effective
from dutiful.web.authorized_service import Reader
from dutiful.web.pages.forms import read_form
from dutiful.web.pages.rendering import THEME_COOKIE, THEMES, page
from dutiful.web.pages.schedule import cron_of, stored_view
from dutiful.web.pages.why import Why, parse_asked, why

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

_YEAR_S = 31_536_000
_LINES_SHOWN = 100
_TAIL_BYTES = 262_144


class WhyQuery(BaseModel):
    """Which schedule, and which time."""

    model_config = ConfigDict(extra="forbid")

    schedule: Annotated[str, Field(max_length=128)] = ""
    at: Annotated[str, Field(max_length=64)] = ""


@router.get("/ui/why")
async def explain(request: Request, authorized: Reader, query: Annotated[WhyQuery, Query()]) -> HTMLResponse:
    """Explain any tick of any schedule."""
    facts: dict[str, Any] = {
        "asked": query,
        "why": None,
        "view": None,
        "zone": UTC,
        "problem": None,
        "near_ids": [],
    }
    if query.schedule:
        now = authorized.service.clock.now().astimezone(UTC)
        try:
            view = await stored_view(authorized, query.schedule)
        except UnknownScheduleError as error:
            near = await authorized.service.board.find_ids(query.schedule[:4], "", 5, authorized.tenant)
            return page("why.html", request, 404, **{**facts, "problem": str(error), "near_ids": near})
        cron = cron_of(view)
        instant, problem = parse_asked(query.at or "today 00:00", cron, now)
        told = (
            Why.refused(query.at, problem)
            if instant is None
            else await why(authorized, view, cron, instant, query.at)
        )
        facts |= {"why": told, "view": view, "zone": cron.zone.tzinfo}
    return page("why.html", request, **facts)


@router.get("/ui/more")
async def more(request: Request, authorized: Reader) -> HTMLResponse:
    """List the pages that a phone has no tab for."""
    del authorized
    return page("more.html", request)


@router.get("/ui/me")
async def me(request: Request, authorized: Reader) -> HTMLResponse:
    """Show who the caller is, what they may do, and the theme."""
    return page("me.html", request, scopes=sorted(authorized.caller.scopes), how=authorized.caller.how)


@router.post("/ui/theme")
async def theme(request: Request, authorized: Reader) -> RedirectResponse:
    """Keep the theme that was chosen in a cookie of this browser."""
    del authorized
    form = await read_form(request)
    answer = RedirectResponse("/ui/me", 303)
    if form.get("theme") in THEMES:
        answer.set_cookie(THEME_COOKIE, form["theme"], max_age=_YEAR_S, httponly=True, samesite="lax")
    else:
        answer.delete_cookie(THEME_COOKIE)
    return answer


@router.get("/ui/system")
async def system(request: Request, authorized: Reader) -> HTMLResponse:
    """Show who leads, whether it is in time, and which settings are in force."""
    authorized.caller.require("admin")
    service = authorized.service
    day = await service.board.day()
    return page(
        "system.html",
        request,
        health=await service.health(),
        drift=day.drift,
        census=await service.board.census(),
        damaged=await authorized.damaged(),
        settings=[each for each in effective(os.environ) if each.value is not None],
    )


@router.get("/ui/audit")
async def audit(request: Request, authorized: Reader) -> HTMLResponse:
    """Show who changed what, newest first, and whether the chain of the file holds."""
    authorized.caller.require("admin")
    path = authorized.service.settings.audit_log
    if path is None:
        return page("audit.html", request, file=None, lines=[], chain=None)
    return page(
        "audit.html",
        request,
        file=path,
        lines=await asyncio.to_thread(_tail, File(path)),
        chain=await asyncio.to_thread(_chain, path),
    )


def _tail(path: File) -> list[dict[str, Any]]:
    """Return the newest changes in an audit file, newest first, each with whether it was done."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return []
    entries = [entry for line in reversed(lines) if (entry := _entry(line)) is not None]
    done = {entry.get("request") for entry in entries if entry.get("phase") == "done"}
    asked = [entry for entry in entries if entry.get("phase") == "asked"][:_LINES_SHOWN]
    return [{**entry, "done": entry.get("request") in done} for entry in asked]


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and {"at", "who", "action"} <= entry.keys() else None


def _chain(path: str) -> tuple[bool, str]:
    """Return whether the chain of hashes holds, and what there is to say about it."""
    try:
        verified = verify([path])
    except (AuditFileError, OSError) as error:
        return False, str(error)
    return True, f"{verified.lines:,} lines, last {verified.last[:8]}…{verified.last[-4:]}"
