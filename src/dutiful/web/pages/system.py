"""The pages for admins: the leader, its punctuality, the settings in force, and the audit log."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import asyncio
import json
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from dutiful.httpd.audit import AuditFileError, verify
from dutiful.service.board import spread
from dutiful.service.settings import in_force
from dutiful.web.authorized_service import Reader
from dutiful.web.drawing.strip import histogram
from dutiful.web.pages.rendering import page

if TYPE_CHECKING:
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

_LINES_SHOWN = 100
_TAIL_BYTES = 262_144
_LATEST, _LATEST_BYTES = 5, 16_384


@router.get("/ui/system")
async def system(request: Request, authorized: Reader) -> HTMLResponse:
    """Show the leader, whether it is on time, and the settings in force."""
    authorized.caller.require("admin")
    service = authorized.service
    delays = await service.board.delays()
    return page(
        "system.html",
        request,
        health=await service.health(),
        drift=spread(delays),
        histogram=histogram(delays),
        census=await service.board.census(),
        damaged=await authorized.damaged(),
        settings=in_force(service.settings),
    )


@router.get("/ui/audit")
async def audit(request: Request, authorized: Reader) -> HTMLResponse:
    """Show the changes in the audit log, newest first, and whether its chain of hashes holds."""
    authorized.caller.require("admin")
    path = authorized.service.settings.audit_log
    if path is None:
        return page("audit.html", request, file=None, lines=[], chain=None)
    return page(
        "audit.html",
        request,
        file=path,
        lines=await asyncio.to_thread(_tail, File(path), _LINES_SHOWN, _TAIL_BYTES),
        chain=await asyncio.to_thread(_chain, path),
    )


async def latest_changes(
    authorized: AuthorizedService, schedule_id: str | None = None
) -> list[dict[str, Any]] | None:
    """Return the newest changes, of all schedules or of one.

    None where no file is kept or the caller may not read it.
    """
    path = authorized.service.settings.audit_log
    if path is None or not authorized.caller.may("admin"):
        return None
    size = _LATEST_BYTES if schedule_id is None else _TAIL_BYTES
    return await asyncio.to_thread(_tail, File(path), _LATEST, size, schedule_id)


def _tail(path: File, most: int, size: int, schedule_id: str | None = None) -> list[dict[str, Any]]:
    """Return the newest changes in an audit file, newest first, each with whether it was completed.

    With `schedule_id`, only lines with that id are parsed: most lines are about other schedules.
    """
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            lines = file.read().splitlines()
    except OSError:
        return []
    part = b"" if schedule_id is None else json.dumps(schedule_id).encode()
    entries = [entry for line in reversed(lines) if part in line and (entry := _entry(line)) is not None]
    done = {entry.get("request") for entry in entries if entry.get("phase") == "done"}
    asked = [
        entry
        for entry in entries
        if entry.get("phase") == "asked" and schedule_id in (None, entry.get("schedule_id"))
    ]
    return [{**entry, "done": entry.get("request") in done} for entry in asked[:most]]


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and {"at", "who", "action"} <= entry.keys() else None


def _chain(path: str) -> tuple[bool, str]:
    """Return whether the chain of hashes holds, and a sentence about it."""
    try:
        verified = verify([path])
    except (AuditFileError, OSError) as error:
        return False, str(error)
    return True, f"{verified.lines:,} lines, last {verified.last[:8]}…{verified.last[-4:]}"
