"""Which runs a consumer has done: the question that a delivery asks first, and the rule that answers it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from dutiful.core.errors import DutifulError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

# At least as long as a service keeps its ledger: 30 days, and a day for late messages.
KEEP_S = 31 * 86_400.0
LEASE_S = 60.0


class Answer(StrEnum):
    """What to do with a delivery."""

    NEW = "new"
    """Do the work now."""
    DONE = "done"
    """The work has ended: report that again, and acknowledge the message."""
    BUSY = "busy"
    """Another consumer is at work: leave the message and look again later."""
    OLDER = "older"
    """A later attempt has been seen: acknowledge the message and do nothing."""


class Claim(NamedTuple):
    """The answer for one delivery; `error` says why an attempt that is done had failed."""

    answer: Answer
    error: str | None = None
    connection: Any = None


class TaskFailedError(DutifulError):
    """The consumer's own code raised; its text is what is reported."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, problem=problem)


class Seen(Protocol):
    """Durable memory of a consumer."""

    async def prepare(self) -> None:
        """Make ready for use; may be called again."""

    def once(self, key: str, attempt: int) -> AbstractAsyncContextManager[Claim]:
        """Claim a delivery for as long as the block runs.

        When the block of a NEW delivery ends, the key is recorded as done. When the block raises
        TaskFailedError, the attempt is recorded as failed, so that only a higher attempt is NEW. When it
        raises anything else, nothing is recorded. The exception goes on in both cases.
        """

    async def close(self) -> None:
        """Close the connections."""


class Record(NamedTuple):
    """What is remembered of a key."""

    state: Literal["busy", "done", "failed"]
    attempt: int
    until: int = 0
    """When the lease of a busy consumer ends, in epoch milliseconds."""
    error: str | None = None


def judge(record: Record | None, attempt: int, now: int) -> Claim:
    """Return the answer for a delivery of this attempt."""
    if record is None:
        return Claim(Answer.NEW)
    if record.state == "done":
        return Claim(Answer.DONE)
    if attempt < record.attempt:
        return Claim(Answer.OLDER)
    if record.state == "failed":
        return Claim(Answer.DONE, record.error) if attempt == record.attempt else Claim(Answer.NEW)
    return Claim(Answer.BUSY if now < record.until else Answer.NEW)
