"""Every error in one shape: `{"error": {"code", "message", "details"}}`, without traces, SQL or paths."""

from __future__ import annotations

import logging
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from dutiful.core.errors import CodecError, DutifulError, OvertakenError, StoreError, quoted
from dutiful.httpd.errors import RequestRefusedError, error_body

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI, Request


logger = logging.getLogger("dutiful.web")

# A bulk request can have ten thousand problems; an answer lists the first ones.
_PROBLEMS_MAX = 20


class InvalidRequestError(RequestRefusedError):
    """A request is well-formed JSON with invalid values; `problems` says where and why."""

    status = 422
    code = "invalid_request"

    def __init__(self, problems: list[dict[str, str]]) -> None:
        first = "; ".join(f"{item['at']}: {item['problem']}" for item in problems[:3])
        super().__init__(f"Invalid request: {first}", problems=problems)


class NotJsonError(RequestRefusedError):
    """The content type of a body is not JSON."""

    status = 415
    code = "unsupported_media_type"

    def __init__(self) -> None:
        super().__init__("Send the body as JSON, with the header Content-Type: application/json")


def install_problems(app: FastAPI) -> None:
    """Make the app answer every error in the one JSON shape."""
    app.add_exception_handler(HTTPException, _of_framework)
    app.add_exception_handler(RequestValidationError, _of_model)
    app.add_exception_handler(DutifulError, _of_dutiful)


def _answer(status: int, code: str, message: str, details: Mapping[str, Any]) -> JSONResponse:
    shown = {key: _plain(value) for key, value in details.items()}
    return JSONResponse(error_body(code, message, shown), status)


def _plain(value: Any) -> Any:
    """Return a detail of an error as short, plain JSON."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value[:_PROBLEMS_MAX]]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return quoted(str(value), limit=300)


async def _of_framework(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    answer = _answer(status, status.phrase.lower().replace(" ", "_"), status.phrase, {})
    answer.headers.update(error.headers or {})
    return answer


async def _of_model(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = [problem_of(item, prefix=item["loc"][1:]) for item in error.errors()]
    return await _of_dutiful(request, InvalidRequestError(problems))


def problem_of(item: Any, prefix: tuple[int | str, ...]) -> dict[str, str]:
    """Return where and why a model refused a value."""
    at = ".".join(map(str, prefix)) or str(item["loc"][0])
    return {
        "at": quoted(at, limit=200),
        "problem": quoted(item["msg"].removeprefix("Value error, "), limit=300),
    }


async def _of_dutiful(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, DutifulError)
    # For requests with several items, prefix the path of the wrong one. (In errors of JSON, `at` is a number:
    # the position of a character.)
    place = error.details.get("at")
    message = f"{place}: {error}" if isinstance(place, str) else str(error)
    if isinstance(error, RequestRefusedError):
        answer = _answer(error.status, error.code, message, error.details)
        answer.headers.update(error.headers)
        return answer
    if isinstance(error, LookupError):
        return _answer(404, _code(error), message, error.details)
    if isinstance(error, OvertakenError):
        return _answer(409, _code(error), message, error.details)
    if isinstance(error, StoreError | CodecError):
        # The message of a store may hold paths and SQL, so only the log has it.
        logger.warning("the store failed: %s", error)
        advice = "The store cannot be used at the moment; nothing was changed. Try again."
        return _answer(503, "store_unavailable", advice, {})
    return _answer(422, _code(error), message, error.details)


def _code(error: DutifulError) -> str:
    name = type(error).__name__.removesuffix("Error")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
