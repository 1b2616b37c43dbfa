"""Routes whose bodies are read as strict JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.routing import APIRoute

from dutiful.web.problems import NotJsonError
from dutiful.web.strict_json import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fastapi import Response


class StrictRequest(Request):
    """A request whose JSON has no duplicate keys, no NaN, and not too much depth."""

    async def json(self) -> Any:
        """Return the body; raises InvalidJsonError."""
        if not hasattr(self, "_json"):
            self._json = decode(await self.body())
        return self._json


class StrictRoute(APIRoute):
    """A route that reads its body strictly, and refuses a body that does not say it is JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the framework, given a stricter request."""
        handle = super().get_route_handler()
        takes_body = self.body_field is not None

        async def strictly(request: Request) -> Response:
            strict = StrictRequest(request.scope, request.receive)
            # A form of a foreign page can send any text, but not with this type.
            if takes_body and not _says_json(request):
                raise NotJsonError
            if takes_body:
                # Before the framework does, which would hide what is wrong with it.
                await strict.json()
            return await handle(strict)

        return strictly


def _says_json(request: Request) -> bool:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type == "application/json" or (
        media_type.startswith("application/") and media_type.endswith("+json")
    )
