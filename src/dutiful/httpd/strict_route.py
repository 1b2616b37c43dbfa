"""Routes whose bodies are read as strict JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.datastructures import Headers

from dutiful.httpd.problems import NotJsonError
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
    """A route that parses its body strictly, and refuses a body of another content type."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the framework's handler, called with a StrictRequest."""
        handle = super().get_route_handler()
        field = self.body_field
        takes_body, needs_body = field is not None, field is not None and field.field_info.is_required()

        async def strictly(request: Request) -> Response:
            strict = StrictRequest(request.scope, request.receive)
            # A client may send any content type with an empty body, where the body can be left out.
            if takes_body and (needs_body or await strict.body()):
                strict.scope = _as_json(request.scope)
                # Parse before the framework does: its error would not say what is wrong.
                await strict.json()
            return await handle(strict)

        return strictly


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
