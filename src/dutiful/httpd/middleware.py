"""ASGI middleware: checks every request before the app sees it, and adds headers to every answer."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlencode

from dutiful.core.errors import quoted
from dutiful.httpd.auth import NOBODY, Auth, is_page
from dutiful.httpd.errors import ForeignOriginError, RequestRefusedError, UnforeseenError
from dutiful.httpd.limits import Limits, check_host, check_origin, check_sizes, host_of, network_of, read_body

if TYPE_CHECKING:
    from dutiful.httpd.limits import App, Message, Rates, Receive, Scope, Send

_LOGGER = logging.getLogger("dutiful.web")
_NOT_LET_IN = frozenset({401, 403, 421})
# Open to every caller, so that probes need no credentials.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
# Open to every caller too, but rate-limited: the login page and the files that it needs.
LOGIN_PATH, _STATIC = "/ui/login", "/static/"
_CSP = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'"
SECURITY_HEADERS = (
    (b"content-security-policy", _CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class PageAddress(NamedTuple):
    """Where browsers reach the pages: at `url`; without one, at any name of this machine alone."""

    url: str | None = None
    is_loopback: bool = True

    def check(self, scope: Scope) -> None:
        """Raise ForeignOriginError unless a page may be answered at the Host of this request.

        The scheme becomes that of the URL: behind a proxy, cookies and origins go by what browsers use.
        """
        if self.url is None and not self.is_loopback:
            raise ForeignOriginError(
                "foreign_host",
                "Set DUTIFUL_PUBLIC_URL to the address that browsers use, such as https://cron.example.com:"
                " beyond this machine the pages are answered there and nowhere else",
            )
        if self.url is not None:
            scheme, _, host = self.url.partition("://")
            if host_of(scope) != host:
                raise ForeignOriginError(
                    "foreign_host", f"The pages are at {self.url}, by DUTIFUL_PUBLIC_URL"
                )
            scope["scheme"] = scheme


class MiddlewareSettings(NamedTuple):
    """The checks of a request. `rates` is None where requests are not limited."""

    host: str
    auth: Auth = Auth()
    limits: Limits = Limits()
    rates: Rates | None = None
    open_paths: frozenset[str] = OPEN_PATHS
    pages: PageAddress = PageAddress()


class RefusalPage(Protocol):
    """Makes a page for people of a request for a page that was refused."""

    async def __call__(self, scope: Scope, error: RequestRefusedError, body: bytes | None, /) -> App:
        """Return the answer; `body` is the form of a caller without a login, None if it is too long."""


class RequestMiddleware:
    """Checks requests. The app gets the caller in `scope["state"]["caller"]`, and the body in one message.

    Refusals are answered as JSON; those of pages by `refusal_page`, if one is given.
    """

    def __init__(
        self, app: App, settings: MiddlewareSettings, refusal_page: RefusalPage | None = None
    ) -> None:
        self._app, self._settings, self._refusal_page = app, settings, refusal_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer refused requests, and pass the others to the app."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = _Answering(send)
        try:
            await self._handle(scope, receive, answer)
        except Exception as error:
            _LOGGER.exception("a request failed", exc_info=error)
            if answer.has_begun:
                # The server then cuts the connection, so that the peer does not take half an answer for
                # a whole one.
                raise
            await self._refuse(scope, receive, answer, UnforeseenError())

    async def _handle(self, scope: Scope, receive: Receive, answer: _Answering) -> None:
        try:
            self._admit(scope)
            body = await read_body(scope, receive, self._settings.limits)
        except RequestRefusedError as error:
            _log(scope, error)
            if self._can_log_in(scope, error):
                await _redirect(
                    answer, f"{LOGIN_PATH}?{urlencode({'next': _asked(scope), 'why': error.code})}"
                )
                return
            await self._refuse(scope, receive, answer, error)
        except ConnectionResetError:
            return
        else:
            await self._app(_as_get(scope), _replay(body, receive), answer)

    async def _refuse(
        self, scope: Scope, receive: Receive, answer: _Answering, error: RequestRefusedError
    ) -> None:
        if self._refusal_page is not None and is_page(scope["path"]):
            try:
                body = await self._form(scope, receive, error)
                page = await self._refusal_page(scope, error, body)
                await page(scope, receive, answer)
            except ConnectionResetError:
                return
            except Exception as failure:
                _LOGGER.exception("the page of a refusal failed", exc_info=failure)
        if not answer.has_begun:
            await _answer(answer, error)

    async def _form(self, scope: Scope, receive: Receive, error: RequestRefusedError) -> bytes | None:
        """Return the form that a browser sent whose session has ended; None if it is too long to read."""
        if error.status != 401 or scope["method"] != "POST":
            return b""
        with suppress(RequestRefusedError):
            return await read_body(scope, receive, self._settings.limits)
        return None

    def _can_log_in(self, scope: Scope, error: RequestRefusedError) -> bool:
        """Return whether a browser without a login asked for a page."""
        is_read = scope["method"] in {"GET", "HEAD"} and is_page(scope["path"])
        return is_read and error.status == 401 and self._settings.auth.sessions is not None

    def _admit(self, scope: Scope) -> None:
        """Check the head and find the caller, before the body is read; raises RequestRefusedError."""
        settings = self._settings
        check_sizes(scope, settings.limits)
        if not settings.auth.is_on:
            check_host(scope, settings.host)
        if not settings.auth.is_on or settings.auth.clients is not None:
            # Any site can make a browser send a request that its machine or its certificate authorises.
            check_origin(scope)
        if is_page(scope["path"]):
            settings.pages.check(scope)
        is_open = scope["path"] in settings.open_paths
        # Probes are not limited: a caller that has used up its rate must not make the service look dead.
        if settings.rates is not None and not is_open:
            settings.rates.take(f"address {network_of((scope.get('client') or ('', 0))[0])}")
        public = is_open or (settings.auth.sessions is not None and _is_public(scope["path"]))
        caller = NOBODY if public else settings.auth.caller(scope)
        if settings.rates is not None and caller is not NOBODY:
            settings.rates.take(f"caller {caller.user_id}")
        scope["state"] = {**scope.get("state", {}), "caller": caller}


def _is_public(path: str) -> bool:
    return path == LOGIN_PATH or path.startswith(_STATIC)


def _asked(scope: Scope) -> str:
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{scope['path']}?{query}" if query else str(scope["path"])


async def _redirect(send: Send, location: str) -> None:
    headers = [
        (b"location", location.encode("latin-1")),
        (b"content-length", b"0"),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _log(scope: Scope, error: RequestRefusedError) -> None:
    """Log a refused request, without its headers and query, which hold secrets."""
    level = logging.WARNING if error.status in _NOT_LET_IN else logging.DEBUG
    asked = f"{scope['method']} {quoted(scope['path'])}"
    _LOGGER.log(level, "refused %s from %s: %s", asked, (scope.get("client") or ("?",))[0], error.code)


class _Answering:
    """Sends an answer with the security headers; `has_begun` says whether its head was sent."""

    def __init__(self, send: Send) -> None:
        self._send, self.has_begun = send, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            given = [*message.get("headers", ())]
            names = {name.lower() for name, _ in given}
            added = [header for header in SECURITY_HEADERS if header[0] not in names]
            message = {**message, "headers": [*given, *added]}
        await self._send(message)


def _as_get(scope: Scope) -> Scope:
    """Return the scope of a HEAD as that of a GET; the server leaves out the body of the answer."""
    return {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def _answer(send: Send, error: RequestRefusedError) -> None:
    body = json.dumps(error.body()).encode()
    headers: dict[str, Any] = {
        "content-type": "application/json",
        "content-length": len(body),
        "cache-control": "no-store",
        **error.headers,
    }
    encoded = [(name.encode(), str(value).encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
