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
    """A request whose JSON has no duplicate keys, no NaN, and not too much depth."""

    async def json(self) -> Any:
        """Return the body; raises InvalidJsonError."""
        if not hasattr(self, "_json"):
            self._json = decode(await self.body())
        return self._json


class StrictRoute(APIRoute):
    """A route that reads its body strictly, and refuses a body that is said to be no JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the framework, given a stricter request."""
        handle = super().get_route_handler()
        takes_body = self.body_field is not None

        async def strictly(request: Request) -> Response:
            strict = StrictRequest(_as_json(request.scope) if takes_body else request.scope, request.receive)
            if takes_body:
                # Before the framework does, which would hide what is wrong with it.
                await strict.json()
            return await handle(strict)

        return strictly


def _as_json(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return the scope of a body that is JSON, said or unsaid; else raise NotJsonError."""
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
