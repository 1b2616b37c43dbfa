"""The audit log as pages: the changes that match a filter, and one change against the one before it."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import Field

from dutiful.core.errors import DutifulError
from dutiful.httpd.audit_reader import Found, Wanted, line_at, read_back
from dutiful.httpd.fields import QueryModel
from dutiful.web.authorized_service import Reader
from dutiful.web.pages import words
from dutiful.web.pages.rendering import page
from dutiful.web.pages.why import read_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dutiful.httpd.audit import AuditLog, Verified
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

SHOWN = 100
# The file has refused changes too: among this many records, look for one of a change that was made.
_LOOKED_AT = 20
# Up to so many bytes of the file are verified while a page waits: some milliseconds.
_QUICK_BYTES = 131_072


Place: TypeAlias = Annotated[int, Field(ge=0, lt=2**60)]


class AuditQuery(QueryModel):
    """Which changes to show; `before` and `line` are places in the file."""

    who: Annotated[str, Field(max_length=256)] = ""
    action: Annotated[str, Field(max_length=64)] = ""
    schedule: Annotated[str, Field(max_length=128)] = ""
    since: Annotated[str, Field(max_length=64)] = ""
    until: Annotated[str, Field(max_length=64)] = ""
    request: Annotated[str, Field(max_length=64)] = ""
    before: Place | None = None
    line: Place | None = None

    def href(self, **changes: Any) -> str:
        """Return the address of this page with other values."""
        given = {
            name: value for name, value in {**self.__dict__, **changes}.items() if value not in ("", None)
        }
        return f"/ui/audit?{urlencode(given)}" if given else "/ui/audit"


class FieldChange(NamedTuple):
    """A field of a request before and after a change; None where it was left out."""

    name: str
    before: str | None
    after: str | None


@router.get("/ui/audit")
async def audit(request: Request, authorized: Reader, query: Annotated[AuditQuery, Query()]) -> HTMLResponse:
    """Show the changes in the audit log that match, newest first, and whether its chain of hashes holds."""
    authorized.caller.require("admin")
    path = authorized.service.settings.audit_log
    if path is None:
        return page("audit.html", request, file=None)
    if query.line is not None:
        return await _change(request, path, query.line)
    times = read_range(query.since, query.until, authorized.service.clock.now())
    wanted = Wanted(query.who, query.action, query.schedule, query.request, times.since, times.until)
    found, (chain, broken) = Found([], None), await asyncio.to_thread(_chain, authorized.audit)
    if not times.problem:
        found = await asyncio.to_thread(read_back, path, wanted, SHOWN, query.before)
    return page(
        "audit.html",
        request,
        422 if times.problem else 200,
        file=path,
        query=query,
        problem=times.problem,
        wrong=times.field,
        lines=found.lines,
        older=None if found.older is None else query.href(before=found.older),
        chain=chain,
        broken=broken,
        actions=words.ACTED,
    )


async def _change(request: Request, path: str, place: int) -> HTMLResponse:
    """Show one change against the one before it of the same schedule."""
    line = await asyncio.to_thread(line_at, path, place)
    if line is None:
        raise HTTPException(404)
    wanted = Wanted(action=line["action"], schedule_id=line.get("schedule_id", ""))
    older = await asyncio.to_thread(read_back, path, wanted, _LOOKED_AT, place)
    before = next((each for each in older.lines if each["done"] and wanted.schedule_id), None)
    changed, same = compared((before or {}).get("given") or {}, line.get("given") or {})
    return page("audit_line.html", request, line=line, before=before, changed=changed, same=same)


def compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[list[FieldChange], int]:
    """Return the fields in which two requests differ, and the number of those that are the same."""
    names = sorted({*before, *after})
    pairs = [FieldChange(name, _said(before, name), _said(after, name)) for name in names]
    changed = [pair for pair in pairs if pair.before != pair.after]
    return changed, len(pairs) - len(changed)


def _said(given: Mapping[str, Any], name: str) -> str | None:
    if name not in given:
        return None
    value = given[name]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _chain(log: AuditLog) -> tuple[Verified | None, str]:
    """Return the chain of hashes if it holds, else the sentence about its break."""
    try:
        return log.verified(), ""
    except DutifulError as error:
        return None, str(error)


async def quick_chain(authorized: AuthorizedService) -> tuple[Verified | None, str] | None:
    """Return the chain, or the sentence about its break; None where it is not known now, or is not shown."""
    if not _is_shown(authorized):
        return None
    try:
        chain = await asyncio.to_thread(authorized.audit.verified_now, _QUICK_BYTES)
    except DutifulError as error:
        return None, str(error)
    return None if chain is None else (chain, "")


def catch_up(authorized: AuthorizedService) -> None:
    """Verify what is new in the file, so that the next page need not; another thread may do it already."""
    if _is_shown(authorized):
        with suppress(DutifulError):
            authorized.audit.verified_now()


def _is_shown(authorized: AuthorizedService) -> bool:
    return authorized.service.settings.audit_log is not None and authorized.caller.may("admin")
