"""What a fleet can be asked and told from outside, whether it runs or not."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from dutiful.core.errors import InvalidArgumentError, SchedulerError

if TYPE_CHECKING:
    from dutiful.fleet.control.documents import Document

HISTORY_MAX = 1000


class Answering(Protocol):
    """A fleet that answers. All raise what is wrong as errors of the fleet."""

    async def status(self) -> Document:
        """Return what the fleet does."""

    async def schedules(self) -> list[Document]:
        """Return every schedule, ordered by agent and name."""

    async def switch(self, agent: str, schedule: str, *, enabled: bool) -> Document:
        """Enable or disable a schedule and return it."""

    async def run(self, agent: str, schedule: str, prompt: str | None) -> Document:
        """Have a schedule run with the next pass, and return it."""

    async def history(self, agent: str, schedule: str, limit: int) -> list[Document]:
        """Return what became of the last occurrences, newest first."""

    async def explain(self, agent: str, schedule: str, at: datetime) -> Document:
        """Return why a schedule ran at an instant, did not, or will."""


async def answer(fleet: Answering, request: object) -> Document | list[Document]:
    """Return the answer to a request, or raise the DutifulError that speaks against it."""
    match request:
        case {"ask": "status"}:
            return await fleet.status()
        case {"ask": "schedules"}:
            return await fleet.schedules()
        case {"ask": str(ask), "agent": str(agent), "schedule": str(schedule), **rest}:
            return await _answer_on_schedule(fleet, ask, agent, schedule, rest)
    raise SchedulerError("The request is not one that the fleet knows")


async def _answer_on_schedule(
    fleet: Answering, ask: str, agent: str, schedule: str, rest: dict[object, object]
) -> Document | list[Document]:
    match ask, rest:
        case "enable" | "disable", _:
            return await fleet.switch(agent, schedule, enabled=ask == "enable")
        case "run", {"prompt": str() | None as prompt}:
            return await fleet.run(agent, schedule, prompt)
        case "history", {"limit": int(limit)} if 1 <= limit <= HISTORY_MAX:
            return await fleet.history(agent, schedule, limit)
        case "explain", {"at": str(at)}:
            return await fleet.explain(agent, schedule, _instant(at))
    raise SchedulerError("The request is not one that the fleet knows")


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise InvalidArgumentError("at", text, "write ISO 8601 with an offset, such as 2026-03-08T06:30:00Z")
    return at
