"""The session of a browser: logging in with a token and out again, who the caller is, theme and zone."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from dutiful.core.cron.zone import zone
from dutiful.core.errors import InvalidArgumentError
from dutiful.httpd.auth import COOKIE, HOST_COOKIE, NOBODY, TOKEN_MAX
from dutiful.httpd.errors import RequestRefusedError, UnauthenticatedError
from dutiful.httpd.limits import network_of
from dutiful.service.settings import is_loopback
from dutiful.web.authorized_service import Reader
from dutiful.web.pages import rendering
from dutiful.web.pages.cron_lab import zone_options
from dutiful.web.pages.forms import PROOF_COOKIES, ForgedFormError, demand_same_origin, fields_of, read_form
from dutiful.web.pages.rendering import KEYS_COOKIE, THEME_COOKIE, THEMES, ZONE_COOKIE, page

if TYPE_CHECKING:
    from dutiful.httpd.limits import Scope
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

_YEAR_S = 31_536_000
# Encoded once more in the body of the login, a form of this length fits into the 16 KiB of its limit.
_KEPT_MAX = 8192
_WHY = {
    "token_missing": "",
    "session_missing": "Your session has ended. Sign in again.",
    "token_expired": "Your session has ended: its token expired. Sign in with a new one.",
    "token_revoked": "Your session has ended: its token was revoked.",
    "token_key_unknown": "Your session has ended: the key of its token is gone.",
}


class LoginQuery(BaseModel):
    """Where to go after the login, and why one is needed."""

    model_config = ConfigDict(extra="ignore")

    next: Annotated[str, Field(max_length=2000)] = "/"
    why: Annotated[str, Field(max_length=64)] = ""


def safe_next(wanted: str) -> str:
    """Return the path if it is one of these pages, else the overview, so that redirects stay on this host."""
    plain = wanted.isprintable() and "\\" not in wanted
    is_own = wanted == "/" or wanted.startswith(("/ui/", "/?"))
    return wanted if plain and is_own and not wanted.startswith(("//", LOGIN)) else "/"


LOGIN, LOGOUT = "/ui/login", "/ui/logout"


async def refusal_page(scope: Scope, error: RequestRefusedError, body: bytes | None) -> Response:
    """Return the page for a refused request; without a login, the login form, which keeps what was sent."""
    request = Request(scope)
    if error.status != 401 or request.app.state.auth.sessions is None:
        return await rendering.refusal_page(scope, error, body)
    if request.url.path == LOGOUT:
        return RedirectResponse(LOGIN, 303)
    request.state.caller = NOBODY
    code = "session_missing" if error.code == "token_missing" else error.code
    kept = _kept(request, body)
    return _form(request, _asked(request), _WHY.get(code, f"{error} ({code})"), 401, kept)


def _kept(request: Request, body: bytes | None) -> str | None:
    """Return the fields that a page of this service sent, for a hidden field; None if they are too long."""
    try:
        demand_same_origin(request)
        fields, _ = fields_of(body or b"")
    except ForgedFormError:
        return ""
    kept = urlencode(fields)
    return None if body is None or len(kept) > _KEPT_MAX else kept


def _asked(request: Request) -> str:
    return f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path


@router.get(LOGIN)
async def ask(request: Request, query: Annotated[LoginQuery, Query()]) -> Response:
    """Show the login form, or redirect if no login is needed."""
    if request.app.state.auth.sessions is None:
        return RedirectResponse("/", 303)
    return _form(request, query.next, _WHY.get(query.why, ""))


@router.post(LOGIN)
async def log_in(request: Request) -> Response:
    """Check a token as the API would, and store it, sealed, in a cookie."""
    form = await read_form(request)
    auth, token = request.app.state.auth, form.get("token", "").strip()
    kept = form.get("kept", "")
    request.app.state.logins.take(network_of(request.client.host if request.client else ""))
    if auth.sessions is None or not _is_private(request):
        return _form(request, form.get("next", "/"), "", 403, kept)
    try:
        if len(token) > TOKEN_MAX:
            raise UnauthenticatedError(
                "token_too_large", f"A token for a login has at most {TOKEN_MAX} bytes"
            )
        caller = auth.tokens.caller(token)
    except RequestRefusedError as error:
        return _form(request, form.get("next", "/"), f"{error} ({error.code})", 401, kept)
    request.state.caller = caller
    answer = _after_login(request, safe_next(form.get("next", "/")), kept)
    secure = request.url.scheme == "https"
    name = HOST_COOKIE if secure else COOKIE
    answer.set_cookie(name, auth.sessions.seal(token), httponly=True, secure=secure, samesite="lax", path="/")
    return answer


def _after_login(request: Request, wanted: str, kept: str) -> Response:
    """Return to the page that was asked for, or show the form that was sent after the end of a session."""
    if not kept:
        return RedirectResponse(wanted, 303)
    fields, _ = fields_of(kept.encode())
    return page("signed_in.html", request, action=wanted, fields=fields)


@router.post(LOGOUT)
async def log_out(request: Request) -> Response:
    """Forget the session of this browser."""
    await read_form(request)
    answer = RedirectResponse(LOGIN, 303, headers={"Clear-Site-Data": '"cache"'})
    for name in (COOKIE, HOST_COOKIE, *PROOF_COOKIES):
        secure = name.startswith("__Host-")
        answer.delete_cookie(name, path="/", secure=secure, httponly=True, samesite="lax")
    return answer


@router.get("/ui/more")
async def more(request: Request, authorized: Reader) -> HTMLResponse:
    """List the pages that a phone has no tab for."""
    del authorized
    return page("more.html", request)


@router.get("/ui/me")
async def me(request: Request, authorized: Reader) -> HTMLResponse:
    """Show who the caller is, what they may do, their theme, zone and keys."""
    return _me(request, authorized)


def _me(
    request: Request, authorized: AuthorizedService, wrong_zone: str = "", problem: str = ""
) -> HTMLResponse:
    return page(
        "me.html",
        request,
        422 if problem else 200,
        scopes=sorted(authorized.caller.scopes),
        how=authorized.caller.how,
        zones=zone_options(),
        wrong_zone=wrong_zone,
        problem=problem,
    )


@router.post("/ui/zone")
async def keep_zone(request: Request, authorized: Reader) -> Response:
    """Store the zone of the reader in a cookie of this browser; an empty name forgets it."""
    name = (await read_form(request)).get("zone", "").strip()
    try:
        if name:
            zone(name)
    except InvalidArgumentError as error:
        return _me(request, authorized, name, str(error))
    return _keep(request, ZONE_COOKIE, name, "/ui/me#zoneh")


@router.post("/ui/theme")
async def theme(request: Request, authorized: Reader) -> RedirectResponse:
    """Store the chosen theme in a cookie of this browser."""
    del authorized
    chosen = (await read_form(request)).get("theme", "")
    return _keep(request, THEME_COOKIE, chosen if chosen in THEMES else "", "/ui/me")


@router.post("/ui/keys")
async def keys(request: Request, authorized: Reader) -> RedirectResponse:
    """Switch keyboard shortcuts off or on in this browser: other programs may need the keys."""
    del authorized
    chosen = (await read_form(request)).get("keys", "")
    return _keep(request, KEYS_COOKIE, chosen if chosen == "off" else "", "/ui/me#keys")


def _keep(request: Request, cookie: str, value: str, back: str) -> RedirectResponse:
    """Store a choice in a cookie for a year, or forget it if it is empty, and go back to its page."""
    answer, secure = RedirectResponse(back, 303), request.url.scheme == "https"
    if value:
        answer.set_cookie(cookie, value, max_age=_YEAR_S, httponly=True, secure=secure, samesite="lax")
    else:
        answer.delete_cookie(cookie)
    return answer


def _is_private(request: Request) -> bool:
    """Return whether the connection to the browser is private: TLS, or on this machine."""
    return request.url.scheme == "https" or is_loopback(request.url.hostname or "")


def _form(
    request: Request, wanted: str, problem: str, status: int = 200, kept: str | None = ""
) -> HTMLResponse:
    private = _is_private(request)
    return page(
        "login.html", request, status, next=safe_next(wanted), problem=problem, private=private, kept=kept
    )
