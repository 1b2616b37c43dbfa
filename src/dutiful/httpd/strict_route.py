"""Routes that read the query strictly, and the body as strict JSON."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.datastructures import Headers

from dutiful.httpd.problems import InvalidRequestError, NotJsonError, unknown_key
from dutiful.httpd.strict_json import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, MutableMapping

    from fastapi import Response


class StrictRequest(Request):
    """A request whose body is parsed as strict JSON."""

    async def json(self) -> Any:
        """Return the body; raises InvalidJsonError."""
        if not hasattr(self, "_json"):
            self._json = decode(await self.body())
        return self._json


class StrictRoute(APIRoute):
    """A route that parses its body strictly, and refuses a body of another content type.

    A key that the query has twice, or that the route does not take, is refused as well.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the framework's handler, called with a StrictRequest."""
        handle = super().get_route_handler()
        field = self.body_field
        takes_body, needs_body = field is not None, field is not None and field.field_info.is_required()

        takes_query = bool(self.dependant.query_params)

        async def strictly(request: Request) -> Response:
            if request.scope["query_string"]:
                _check_query(request, takes_query)
            strict = StrictRequest(request.scope, request.receive)
            # A client may send any content type with an empty body, where the body can be left out.
            if takes_body and (needs_body or await strict.body()):
                strict.scope = _as_json(request.scope)
                # Parse before the framework does: its error would not say what is wrong.
                await strict.json()
            return await handle(strict)

        return strictly


def _check_query(request: Request, takes_query: bool) -> None:
    """Raise InvalidRequestError for a key that is given twice, or at all if the route takes none.

    The model of a query refuses its unknown keys itself, and would take the last of two values.
    """
    given = Counter(name for name, _ in request.query_params.multi_items())
    problems = [{"at": name[:80], "problem": "is given twice"} for name, times in given.items() if times > 1]
    if not takes_query:
        problems += [{"at": name[:80], "problem": unknown_key(name, ())} for name in given]
    if problems:
        raise InvalidRequestError(problems)


def _as_json(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return the scope with a JSON content type, which is assumed if none is given; or raise NotJsonError."""
    said = Headers(scope=scope).get("content-type")
    if said is None:
        return {**scope, "headers": [*scope["headers"], (b"content-type", b"application/json")]}
    if not _is_json(said.partition(";")[0].strip().lower()):
        raise NotJsonError
    return scope


def _is_json(media_type: str) -> bool:
    return media_type == "application/json" or (
        media_type.startswith("application/") and media_type.endswith("+json")
    )
