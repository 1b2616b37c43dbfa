"""What a work source hands out, and what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dutiful.core.errors import SchedulerError

if TYPE_CHECKING:
    from dutiful.fleet.types import JobResult, WorkItem


class WorkSourceError(SchedulerError):
    """A work source cannot be used; the message says why and what to do."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}", source=source, problem=problem)


class Claim(NamedTuple):
    """An item that is ours until it is reported or released; `token` is how its source knows it again."""

    item: WorkItem
    token: Any = None


class WorkSource(Protocol):
    """One place where work comes from."""

    async def claim(self, agent_name: str) -> Claim | str:
        """Return an item that nobody else has, or why there is none."""

    async def report(self, claim: Claim, result: JobResult) -> None:
        """Record how the work on it went; it never comes back."""

    async def release(self, claim: Claim, reason: str) -> None:
        """Give it back, for whoever asks next."""
