"""A web service as work source, which stores the items and their claims.

    GET  URL/next?agent=NAME       200 {"id", "title", "description", "priority", "labels", "url"}, or 204
    POST URL/items/ID/outcome      {"success", "summary", "error"}
    POST URL/items/ID/release      {"reason"}

Every 2xx is agreement. The service itself releases items for which no report comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dutiful.core.errors import DutifulError
from dutiful.fleet.config_keys import Key, allowed, headers, seconds, url
from dutiful.fleet.errors import WorkSourceError
from dutiful.fleet.types import Claim, WorkItem
from dutiful.outbound import Allowed, Outbound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dutiful.fleet.types import JobResult
    from dutiful.outbound import Answer
    from dutiful.runtime.ports import Clock


def address(value: object) -> str:
    """Read a URL to which paths can be appended."""
    plain = url(value)
    if "?" in plain:
        raise ValueError("must have no query: /next and the like are put behind it")
    return plain.rstrip("/")


KEYS = {
    "url": Key(address, required=True, secret=True),
    "headers": Key(headers, {}, secret=True),
    "timeout": Key(seconds, 10.0),
    "allow": Key(allowed, Allowed()),
}
_TEXT_MAX = 20_000


class HttpSource:
    """Gets items from a web service."""

    def __init__(self, settings: Mapping[str, Any], clock: Clock) -> None:
        self._url, self._clock = settings["url"], clock
        self._outbound = Outbound(settings["headers"], settings["allow"], settings["timeout"])

    async def claim(self, agent_name: str) -> Claim | str:
        """Request the next item."""
        answer = await self._ask("GET", f"/next?agent={quote(agent_name, safe='')}")
        if answer.status == 204:
            return f"{answer.origin} has no work"
        said = answer.json()
        if not isinstance(said, dict) or not said.get("id") or not isinstance(said.get("title"), str):
            problem = f"{answer.origin} answered something that is no item: it needs `id` and `title`"
            raise WorkSourceError("work source `http`", problem)
        return Claim(_item(said))

    async def report(self, claim: Claim, result: JobResult) -> None:
        """Send the result."""
        await self._ask("POST", f"{_place(claim)}/outcome", result._asdict())

    async def release(self, claim: Claim, reason: str) -> None:
        """Release the item."""
        await self._ask("POST", f"{_place(claim)}/release", {"reason": reason})

    async def _ask(self, method: str, path: str, content: object = None) -> Answer:
        try:
            with self._clock.hold():
                answer = await self._outbound.send(method, self._url + path, content)
        except DutifulError as error:
            raise WorkSourceError("work source `http`", str(error)) from None
        if not answer.is_success:
            raise WorkSourceError("work source `http`", answer.problem())
        return answer


def _place(claim: Claim) -> str:
    return f"/items/{quote(claim.item.external_id, safe='')}"


def _item(said: dict[str, Any]) -> WorkItem:
    labels = said.get("labels")
    return WorkItem(
        id=str(said["id"]),
        source="http",
        external_id=str(said["id"]),
        title=said["title"][:_TEXT_MAX],
        description=_text(said.get("description")) or "",
        priority=_text(said.get("priority")),
        labels=tuple(map(str, labels)) if isinstance(labels, list) else (),
        url=_text(said.get("url")),
    )


def _text(value: object) -> str | None:
    return str(value)[:_TEXT_MAX] if isinstance(value, str | int) and value != "" else None
