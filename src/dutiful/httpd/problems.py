"""Every error in one shape: `{"error": {"code", "message", "details"}}`, without traces, SQL or paths."""

from __future__ import annotations

import logging
import re
from difflib import get_close_matches
from functools import lru_cache
from http import HTTPStatus
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, get_args

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match

from dutiful.core.errors import CodecError, DutifulError, OvertakenError, StoreError, quoted
from dutiful.httpd.errors import RequestRefusedError, error_body
from dutiful.httpd.fields import ADVICE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fastapi import FastAPI, Request


logger = logging.getLogger("dutiful.web")

# A bulk request can have ten thousand problems; an answer lists the first ones.
_PROBLEMS_MAX = 20
# For an unknown key that resembles no known one, list all keys of a model that has at most this many.
_KEYS_LISTED = 12
# Characters of an unknown key that are compared with the known ones.
_COMPARED = 64
# The types of problems under which the validator refuses a value that is no object. Their messages would name
# classes.
_NO_OBJECT = ("model_type", "model_attributes_type", "dict_type")
# What to write where the validator refuses a value, by the validator's type of the problem.
_DEMANDS = {
    "missing": "is missing",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "string_type": "must be a text",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be {ge:.17g} or more",
    "less_than_equal": "must be {le:.17g} or less",
    **dict.fromkeys(("string_too_short", "too_short"), "must not be empty"),
    "string_too_long": "must have at most {max_length} characters",
    "too_long": "must have at most {max_length} items",
}
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


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


async def _of_framework(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    message, headers = status.phrase, dict(error.headers or {})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        # The framework names the methods of the first route of a path; another route may have others.
        headers["allow"] = ", ".join(_allowed(request))
        message = f"{request.method} is not answered here; use {headers['allow']}"
    elif status is HTTPStatus.NOT_FOUND and "endpoint" not in request.scope:
        message = f"There is nothing at {quoted(request.url.path, limit=100)}{_advice(request)}"
    answer = _answer(status, status.phrase.lower().replace(" ", "_"), message, {})
    answer.headers.update(headers)
    return answer


def _allowed(request: Request) -> list[str]:
    """Return the methods that the path of a request takes."""
    routes = request.app.router.routes
    found = [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return [*found, *(["HEAD"] if "GET" in found else [])]


def _advice(request: Request) -> str:
    """Return which paths the caller may have meant, or where the app lists its paths, if it does."""
    if request.app.openapi_url is None:
        return ""
    asked = request.url.path[:_COMPARED]
    paths = {_filled(path, asked) for path in request.app.openapi()["paths"]}
    near = get_close_matches(asked, sorted(paths - {asked}), n=2, cutoff=0.7)
    if near:
        return f"; did you mean {' or '.join(quoted(path, limit=100) for path in near)}?"
    return f"; GET {request.app.openapi_url} lists the paths"


def _filled(template: str, asked: str) -> str:
    """Return the path of a route with the variables that another path has at the same places."""
    parts = zip_longest(template.split("/"), asked.split("/")[: template.count("/") + 1], fillvalue="")
    return "/".join((here or part) if part.startswith("{") else part for part, here in parts)


async def _of_model(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    route = request.scope["route"]
    taken = {"query": [field.field_info.annotation for field in route.dependant.query_params]}
    if route.body_field is not None:
        taken["body"] = [route.body_field.field_info.annotation]
    problems = [
        _problem(
            item, item["loc"][1:] or item["loc"], _keys_at(item["loc"][1:], taken.get(item["loc"][0], ()))
        )
        for item in _first(error.errors())
    ]
    return await _of_dutiful(request, InvalidRequestError(problems))


def problems_of(errors: Sequence[Any], model: type[BaseModel], *place: str | int) -> list[dict[str, str]]:
    """Return where in the value at `place` the model found the first problems, and what they are."""
    return [
        _problem(item, (*place, *item["loc"]) or ("body",), _keys_at(item["loc"], [model]))
        for item in _first(errors)
    ]


def _first(errors: Sequence[Any]) -> list[Any]:
    """Return the problems that are shown; an unknown key is often why another one is missing."""
    return sorted(errors, key=lambda item: item["type"] != "extra_forbidden")[:_PROBLEMS_MAX]


def _problem(item: Any, loc: Sequence[str | int], known: Sequence[str]) -> dict[str, str]:
    if item["type"] == "extra_forbidden":
        said = unknown_key(str(loc[-1]), known)
    elif item["type"] in _NO_OBJECT:
        said = "must be a JSON object"
    elif item["type"] == "string_pattern_mismatch":
        said = ADVICE.get(item["ctx"]["pattern"], item["msg"])
    elif item["type"] in _DEMANDS:
        said = _DEMANDS[item["type"]].format_map(item.get("ctx", {}))
    else:
        said = item["msg"].removeprefix("Value error, ")
    # The framework marks a key of a mapping that is wrong itself.
    at = ".".join(str(part) for part in loc if part != "[key]")
    return {"at": quoted(at, limit=200), "problem": quoted(said, limit=300)}


def unknown_key(name: str, known: Sequence[str]) -> str:
    """Return what is wrong with a key that is not one of the known ones."""
    near = get_close_matches(name[:_COMPARED].lower(), known, n=1)
    if near:
        return f"there is no such key; did you mean {near[0]!r}?"
    if not 0 < len(known) <= _KEYS_LISTED:
        return "there is no such key"
    return f"there is no such key; there {'are' if len(known) > 1 else 'is'} {', '.join(known)}"


def _keys_at(loc: Sequence[str | int], kinds: Sequence[Any]) -> tuple[str, ...]:
    """Return the keys that the models in these types have at the place of the last part of `loc`."""
    for part in loc[:-1]:
        inner = [model.model_fields[part] for model in _models(*kinds) if part in model.model_fields]
        # The number of an item of a list, or a key of a mapping, leads to no other model.
        kinds = [field.annotation for field in inner] or kinds
    return keys_of(*kinds)


@lru_cache(maxsize=256)
def keys_of(*kinds: Any) -> tuple[str, ...]:
    """Return the keys of the models in these types."""
    fields = [item for model in _models(*kinds) for item in model.model_fields.items()]
    return tuple(field.alias or name for name, field in fields)


def _models(*kinds: Any) -> Iterator[type[BaseModel]]:
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield kind
        else:
            yield from _models(*get_args(kind))


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
