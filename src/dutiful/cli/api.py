"""How commands ask a running service: DUTIFUL_URL says where it is, DUTIFUL_TOKEN who asks."""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import click

from dutiful.core.errors import quoted

if TYPE_CHECKING:
    import httpx2

DEFAULT_URL = "http://127.0.0.1:8787"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TIMEOUT_SECONDS = 30.0


class Refused(click.ClickException):
    """The service said no, under this code: bad usage of it."""

    exit_code = 2

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def ask(method: str, path: str, query: dict[str, Any] | None = None, body: Any = None) -> Any:
    """Return what the service answers.

    Raises Refused if it says no, and a ClickException if it cannot be reached or has failed.
    """
    import httpx2

    url = os.environ.get("DUTIFUL_URL") or DEFAULT_URL
    given = {key: value for key, value in (query or {}).items() if value is not None}
    try:
        with httpx2.Client(
            base_url=url, headers=_headers(), timeout=_TIMEOUT_SECONDS, trust_env=_is_far(url)
        ) as client:
            answer = client.request(method, path, params=given, json=body)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        advice = "start it with `dutiful serve`, or set DUTIFUL_URL"
        raise click.ClickException(f"No service answers at {quoted(url)} ({error}): {advice}") from error
    return _content(answer, url)


def path_of(schedule_id: str, *rest: str) -> str:
    """Return the path of a schedule; the id is a part of it, whatever it holds."""
    return "/".join(["", "schedules", quote(schedule_id, safe=""), *rest])


def ask_about(method: str, schedule_id: str, *rest: str, **asked: Any) -> Any:
    """Return what the service answers about one schedule; an unknown id is told with its like."""
    try:
        return ask(method, path_of(schedule_id, *rest), **asked)
    except Refused as error:
        raise with_near_names(error, schedule_id) from error


def with_near_names(error: Refused, schedule_id: str) -> Refused:
    """Return the error; of an unknown schedule, with the ids that look like it."""
    if error.code != "unknown_schedule":
        return error
    known = [view["schedule_id"] for view in ask("GET", "/schedules", {"limit": 1000})["schedules"]]
    near = get_close_matches(schedule_id, known, n=3)
    hint = (
        f"; did you mean {' or '.join(near)}?" if near else "; `dutiful schedules list` shows what there is"
    )
    return Refused(error.code, f"{error.message}{hint}")


def _headers() -> dict[str, str]:
    token = os.environ.get("DUTIFUL_TOKEN")
    return {"authorization": f"Bearer {token}"} if token else {}


def _is_far(url: str) -> bool:
    # Proxies that the environment names lead away from this machine.
    return urlsplit(url).hostname not in _LOOPBACK


def _content(answer: httpx2.Response, url: str) -> Any:
    if answer.is_success:
        return answer.json() if answer.content else None
    try:
        error = answer.json()["error"]
        code, message = error["code"], error["message"]
    except (ValueError, KeyError, TypeError):
        raise click.ClickException(
            f"{quoted(url)} answers {answer.status_code}, and not as dutiful does"
        ) from None
    if answer.status_code >= 500:
        raise click.ClickException(message)
    if answer.status_code == 401:
        message = f"{message} (DUTIFUL_TOKEN is what this command sends)"
    raise Refused(code, message)
