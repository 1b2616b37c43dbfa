"""The machine room: the leader, its punctuality, the settings in force, and the latest changes."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from dutiful.httpd.audit_lines import READ_MAX, Wanted, read_back
from dutiful.service.board import spread
from dutiful.service.settings import in_force
from dutiful.web.authorized_service import Reader
from dutiful.web.drawing.strip import histogram
from dutiful.web.pages.rendering import page

if TYPE_CHECKING:
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

_LATEST, _LATEST_BYTES = 5, 65_536


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


async def latest_changes(
    authorized: AuthorizedService, schedule_id: str | None = None
) -> list[dict[str, Any]] | None:
    """Return the newest changes, of all schedules or of one.

    None where no file is kept or the caller may not read it.
    """
    path = authorized.service.settings.audit_log
    if path is None or not authorized.caller.may("admin"):
        return None
    size = _LATEST_BYTES if schedule_id is None else READ_MAX
    wanted = Wanted(schedule_id=schedule_id or "")
    return (await asyncio.to_thread(read_back, path, wanted, _LATEST, None, size)).lines
