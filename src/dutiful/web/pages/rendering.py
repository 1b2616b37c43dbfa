"""Pages made from templates, and errors of pages shown as pages."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import hashlib
import json
from datetime import UTC, timedelta
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from dutiful.core.cron.zone import rfc_3339, zone
from dutiful.core.errors import DutifulError, InvalidArgumentError
from dutiful.httpd.auth import NOBODY, is_page
from dutiful.web.authorized_service import Reader
from dutiful.web.drawing import marks
from dutiful.web.pages import words
from dutiful.web.pages.forms import field_value, keep_secret
from dutiful.web.pages.ledger_entries import became
from dutiful.web.pages.needs import note_needs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from fastapi import FastAPI

    from dutiful.core.cron.zone import Zone
    from dutiful.httpd.errors import RequestRefusedError
    from dutiful.httpd.limits import Scope

_HERE = Path(__file__).parents[1]
THEME_COOKIE, KEYS_COOKIE, ZONE_COOKIE = "dutiful-theme", "dutiful-keys", "dutiful-zone"
THEMES = ("light", "dark")
_LAST_MINUTES = timedelta(minutes=5)
# Pages need a referrer policy: under the API's no-referrer, browsers post forms with the origin "null", which
# is refused.
_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "same-origin"}


@cache
def static_url(name: str) -> str:
    """Return the address of a static file with the hash of its bytes, so that browsers may cache it."""
    digest = hashlib.sha256((_HERE / "static" / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


class HashedFiles(StaticFiles):
    """Files whose addresses change with their bytes, so that a browser requests each of them once."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """Return a file that may be cached for a year."""
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


class UnchangedError(Exception):
    """A page is requested again, and nothing was written since the browser got it."""


async def live(request: Request, authorized: Reader) -> None:
    """Note the store's revision for a page that refreshes itself; raise UnchangedError if the browser has it.

    The revision is read before the facts of the page, so a write in between shows at the next refresh.
    """
    revision = await authorized.service.board.revision()
    if request.headers.get("dutiful-revision") == revision:
        raise UnchangedError
    request.state.revision = revision
    await note_needs(request)


LIVE = Depends(live)


def page(
    template: str, request: Request, status: int = 200, *, every: int | None = None, **facts: Any
) -> HTMLResponse:
    """Return a whole page; a page with the dependency `LIVE` is requested again `every` so many seconds."""
    now = request.app.state.clock.now().astimezone(UTC)
    theme = request.cookies.get(THEME_COOKIE)
    frame = {
        "now": now,
        "caller": request.state.caller,
        # The API ignores cookies, so it would refuse the links of a session.
        "reads_api": request.state.caller.how not in {"session", "nobody"},
        "theme": theme if theme in THEMES else None,
        "keys": request.cookies.get(KEYS_COOKIE) != "off",
        "own_zone": _own_zone(request.cookies.get(ZONE_COOKIE, "")),
        "live": every,
        "site": getattr(request.app.state, "site", "service"),
        "revision": getattr(request.state, "revision", ""),
        "path": request.url.path,
        "query": request.url.query,
        "session_ends": _ends_soon(request.state.caller.ends_at, now),
        "needs_count": getattr(request.state, "needs_count", None),
        "csrf": lambda: field_value(request),
    }
    html = _PAGES.get_template(template).render({**frame, **facts})
    answer = HTMLResponse(html, status, headers=_HEADERS)
    keep_secret(request, answer)
    return answer


def _own_zone(name: str) -> Zone | None:
    """Return the zone that the reader chose, None without a choice or for a name that is not known here."""
    try:
        return zone(name) if name else None
    except InvalidArgumentError:
        return None


def _ends_soon(ends_at: datetime | None, now: datetime) -> datetime | None:
    return ends_at if ends_at is not None and ends_at - now <= _LAST_MINUTES else None


def _time(at: datetime, said: str) -> Markup:
    """Return an instant as a time element, whose title has the whole instant."""
    iso = rfc_3339(at)
    # Not Markup.format, which is slow: a list has a hundred of these elements.
    return Markup(f'<time datetime="{iso}" title="{iso}">{escape(said)}</time>')  # noqa: S704


def _countdown(at: datetime, now: datetime) -> Markup:
    """Return the attribute by which a script may count down a distance of less than a minute."""
    seconds = round((at - now).total_seconds())
    return Markup(f' data-in="{seconds}"' if 0 < seconds < 60 else "")  # noqa: S704


def _drawn(drawing: str) -> Markup:
    """Return a drawing without escaping it; `dutiful.web.drawing` has escaped every text in it."""
    return Markup(drawing)  # noqa: S704


def _shape(state: str, size: int = 14) -> Markup:
    return _drawn(marks.shape(state, size))


_PAGES = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_PAGES.filters.update(
    drawn=_drawn,
    rfc_3339=rfc_3339,
    foreign=words.foreign,
    place=words.place,
    span=words.span,
    offset=words.offset,
    clock=words.clock,
    logged=words.logged,
    acted=words.acted,
)
_PAGES.globals.update(
    time=_time,
    countdown=_countdown,
    distance=words.distance,
    roughly=words.roughly,
    near_clock=words.near_clock,
    counted=words.counted,
    moment=words.moment,
    near=words.near,
    begin=words.begin,
    day=words.day,
    utc=words.utc,
    in_zone=words.in_zone,
    shape=_shape,
    places=lambda taken, of: _drawn(marks.places(taken, of)),
    sign=lambda state: _drawn(marks.sign(state)),
    sprite=_drawn(marks.sprite()),
    static=static_url,
    version=version("dutiful"),
    reasons=words.REASONS,
    became=became,
)


_TITLES = {
    401: "Say who you are",
    403: "You may not do this",
    404: "There is no such thing",
    409: "Another request changed it first",
    422: "This is not valid",
    421: "The pages are not at this address",
    429: "Too many tries",
    503: "The store cannot be used",
}


def install_problem_pages(app: FastAPI) -> None:
    """Answer errors of pages as pages, with the code and the sentence that the API would answer."""
    app.add_exception_handler(UnchangedError, _no_content)
    for kind in (HTTPException, RequestValidationError, DutifulError):
        app.add_exception_handler(kind, _as_page(app.exception_handlers[kind]))


async def _no_content(_: Request, __: Exception) -> Response:
    return Response(status_code=204, headers=_HEADERS)


def _as_page(answer: Callable[..., Any]) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def handle(request: Request, error: Exception) -> Response:
        response: Response = await answer(request, error)
        if not is_page(request.url.path):
            return response
        request.state.caller = getattr(request.state, "caller", NOBODY)
        problem = json.loads(bytes(response.body))["error"]
        kept = getattr(request.state, "kept", {})
        facts = {
            "title": "Send it again?" if kept else _TITLES.get(response.status_code, "Something is wrong"),
            "problem": problem,
            "near_ids": getattr(request.state, "near_ids", []),
            "refused": getattr(request.state, "refused", None),
            "kept": kept,
        }
        template = "damaged.html" if problem["code"] == "damaged_schedule" else "problem.html"
        told = page(template, request, response.status_code, **facts)
        said = response.headers.items()
        told.headers.update({name: value for name, value in said if not name.startswith("content-")})
        return told

    return handle


async def refusal_page(scope: Scope, error: RequestRefusedError, body: bytes | None) -> Response:
    """Return the page for a request that was refused before any route was asked."""
    del body
    request = Request(scope)
    answer: Response = await request.app.exception_handlers[DutifulError](request, error)
    return answer
