"""Errors as pages: under `/` and `/ui/` people read them, so the frame of the pages stays around them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from dutiful.core.errors import DutifulError
from dutiful.httpd.auth import NOBODY
from dutiful.httpd.sessions import is_page
from dutiful.web.pages.rendering import page

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import FastAPI, Request, Response

_TITLES = {
    403: "You may not do this",
    404: "There is no such thing",
    409: "Somebody was faster",
    422: "This cannot be meant",
    503: "The store cannot be used",
}


def install_problem_pages(app: FastAPI) -> None:
    """Answer errors of pages as pages, with the code and the sentence that the API would answer."""
    for kind in (HTTPException, RequestValidationError, DutifulError):
        app.add_exception_handler(kind, _as_page(app.exception_handlers[kind]))


def _as_page(answer: Callable[..., Any]) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def handle(request: Request, error: Exception) -> Response:
        response: Response = await answer(request, error)
        if not is_page(request.url.path):
            return response
        request.state.caller = getattr(request.state, "caller", NOBODY)
        problem = json.loads(bytes(response.body))["error"]
        title = _TITLES.get(response.status_code, "Something is wrong")
        return page("problem.html", request, response.status_code, title=title, problem=problem)

    return handle
