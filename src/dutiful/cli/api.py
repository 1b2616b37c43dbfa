"""Requests of commands to a running service.

DUTIFUL_URL is its address. DUTIFUL_TOKEN, or DUTIFUL_CLIENT_CERT and DUTIFUL_CLIENT_KEY, authenticate the
caller.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from difflib import get_close_matches
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import click

from dutiful.core.errors import quoted
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_URL = "http://127.0.0.1:8787"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TIMEOUT_SECONDS = 30.0
# A command that sends hundreds of requests may exceed the rate of its token, but not for long.
_WAIT_SECONDS_MAX = 60


class Refused(click.ClickException):
    """The service refused the request under this code, so the command was used wrongly."""

    exit_code = 2

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def ask(
    method: str,
    path: str,
    query: dict[str, Any] | None = None,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> Any:
    """Return the answer of the service; while it says that there were too many requests, ask again.

    Raises Refused if the service refuses, and a ClickException if it cannot be reached or has failed.
    """
    waited = 0
    while True:
        status, said, content = _asked(method, path + _query(query or {}), body, headers or {})
        pause = int(said.get("retry-after", "1"))
        if status != HTTPStatus.TOO_MANY_REQUESTS or waited + pause > _WAIT_SECONDS_MAX:
            return _content(status, content, _service_url())
        asyncio.run(SystemClock().sleep(pause))
        waited += pause


def ask_if_changed(path: str, revision: str | None) -> tuple[Any, Mapping[str, str]]:
    """Return the answer to a GET and its headers; the answer is None if nothing was written since a revision.

    Raises as `ask` does.
    """
    sent = {} if revision is None else {"dutiful-revision": revision}
    status, headers, content = _asked("GET", path, None, sent)
    return _content(status, content, _service_url()), headers


def _asked(
    method: str, path: str, body: Any, headers: dict[str, str]
) -> tuple[int, Mapping[str, str], bytes]:
    # Imported late: most commands send no request, and this is slow to import.
    import aiohttp

    url = _service_url()
    try:
        return asyncio.run(_exchange(url, method, path, body, headers))
    except (aiohttp.ClientError, OSError) as error:
        from dutiful.outbound.client import reason_of

        advice = "start it with `dutiful serve`, or set DUTIFUL_URL"
        reason = reason_of(error, _TIMEOUT_SECONDS)
        raise click.ClickException(f"No service answers at {quoted(url)} ({reason}): {advice}") from error


def _service_url() -> str:
    url = os.environ.get("DUTIFUL_URL") or DEFAULT_URL
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise click.UsageError(f"DUTIFUL_URL is {quoted(url)!r}: write http://HOST:PORT")
    return url


async def _exchange(
    url: str, method: str, path: str, body: Any, headers: dict[str, str]
) -> tuple[int, Mapping[str, str], bytes]:
    import aiohttp
    from yarl import URL

    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
    tls = _tls() if url.lower().startswith("https:") else False
    # The environment may name proxies, which must not be used for this machine.
    async with (
        aiohttp.ClientSession(trust_env=_is_far(url), timeout=timeout) as session,
        session.request(
            method,
            # Already encoded: the client must not normalise an id such as `..`.
            URL(url.rstrip("/") + path, encoded=True),
            headers={**_headers(), **headers},
            json=body,
            ssl=tls,
            allow_redirects=False,
        ) as answer,
    ):
        return answer.status, answer.headers, await answer.read()


def _query(given: dict[str, Any]) -> str:
    shown = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
        if value is not None
    }
    return f"?{urlencode(shown, errors='surrogateescape')}" if shown else ""


def _tls() -> ssl.SSLContext:
    """Return a TLS context with the system's authorities, or SSL_CERT_FILE, and the client certificate."""
    context = ssl.create_default_context()
    cert, key = os.environ.get("DUTIFUL_CLIENT_CERT"), os.environ.get("DUTIFUL_CLIENT_KEY")
    if cert:
        try:
            context.load_cert_chain(cert, key or None)
        except OSError as error:
            said = getattr(error, "reason", None) or error.strerror
            raise click.UsageError(
                f"DUTIFUL_CLIENT_CERT is {quoted(cert, 4096)!r}: no certificate and key can be read from it"
                f" and DUTIFUL_CLIENT_KEY ({said})"
            ) from error
    return context


def path_of(schedule_id: str, *rest: str) -> str:
    """Return the path of a schedule, with the id encoded as one segment."""
    # An argument in another encoding than the terminal's holds surrogates.
    return "/".join(["", "schedules", quote(schedule_id, safe="", errors="surrogateescape"), *rest])


def ask_about(method: str, schedule_id: str, *rest: str, **asked: Any) -> Any:
    """Return the service's answer about one schedule; the error for an unknown id names similar ids."""
    try:
        return ask(method, path_of(schedule_id, *rest), **asked)
    except Refused as error:
        raise with_near_names(error, schedule_id) from error


def with_near_names(error: Refused, schedule_id: str) -> Refused:
    """Return the error; for an unknown schedule, with similar ids added to its message."""
    if error.code != "unknown_schedule":
        return error
    known = [view["schedule_id"] for view in ask("GET", "/schedules", {"limit": 1000})["schedules"]]
    near = get_close_matches(schedule_id, known, n=3)
    hint = (
        f"; did you mean {' or '.join(near)}?" if near else "; `dutiful schedules list` shows what there is"
    )
    return Refused(error.code, f"{error.message}{hint}")


def token() -> str | None:
    """Return the token in DUTIFUL_TOKEN, None if it is not set; raises click.UsageError."""
    # Files and secrets of other systems often end with a line end, which is not part of the token.
    found = os.environ.get("DUTIFUL_TOKEN", "").strip()
    if not found.isprintable():
        raise click.UsageError("DUTIFUL_TOKEN has several lines or control characters: write the token alone")
    return found or None


def _headers() -> dict[str, str]:
    found = token()
    return {} if found is None else {"authorization": f"Bearer {found}"}


def _is_far(url: str) -> bool:
    return urlsplit(url).hostname not in _LOOPBACK


def _content(status: int, content: bytes, url: str) -> Any:
    try:
        answer: Any = json.loads(content) if content else None
        if 200 <= status < 300:
            return answer
        code, message = answer["error"]["code"], answer["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = (
            f"{quoted(url)} answers {status}, and not as dutiful does: another program may listen there; "
            "set DUTIFUL_URL to the address of the service"
        )
        raise click.ClickException(message) from None
    if status >= 500:
        raise click.ClickException(message)
    if status == 401:
        message = f"{message} (this command sends DUTIFUL_TOKEN, or the certificate in DUTIFUL_CLIENT_CERT)"
    raise Refused(code, message)
